//! The packet programs: request meter, egress accounting, marks.

use crate::error::{EbpfError, chain};
use crate::meter::{self, Judge, MeterCounters, RawService};
use crate::objects;
use crate::services::{RawListener, ServiceKey, Tables};
use aya::maps::{Array, HashMap, MapData, PerCpuArray, PerCpuValues};
use aya::programs::{
    CgroupAttachMode, CgroupSkb, CgroupSkbAttachType, SchedClassifier, TcAttachType,
};
use aya::util::nr_cpus;
use aya::{Ebpf, EbpfLoader};
use quell_types::RequestReading;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

/// How many HTB classes the marks of pods can tell apart.
pub const MAX_CLASSES: u32 = 256;
/// `NO_SLOT` of bpf/packets.h.
const NO_SLOT: u32 = u32::MAX;
/// f_type of a cgroup2 file system.
const CGROUP2_MAGIC: rustix::fs::FsWord = 0x6367_7270;

/// The fields of `struct config` in bpf/packets.h.
#[derive(Clone, Copy, Debug, Default)]
struct Config {
    service_generation: u32,
    services: u32,
    cgroup_services: u32,
    group_generation: u32,
    groups: u32,
    count_loopback: u32,
}

impl Config {
    fn words(self) -> [u32; 6] {
        [
            self.service_generation,
            self.services,
            self.cgroup_services,
            self.group_generation,
            self.groups,
            self.count_loopback,
        ]
    }
}

/// What is done to the packets of one cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Group {
    slot: Option<u32>,
    classid: u32,
}

pub(crate) struct Packets {
    ebpf: Ebpf,
    limits: Limits,
    config: Config,
    config_map: Array<MapData, [u32; 6]>,
    ports: Array<MapData, u64>,
    listeners: HashMap<MapData, RawListener, u32>,
    service_cgroups: HashMap<MapData, u64, u32>,
    service_stats: PerCpuArray<MapData, RawService>,
    group_map: HashMap<MapData, u64, [u32; 4]>,
    group_bytes: PerCpuArray<MapData, u64>,
    veth_marks: HashMap<MapData, u32, u32>,
    mark_classes: Array<MapData, u32>,
    services: BTreeMap<u32, ServiceKey>,
    tables: Tables,
    judges: BTreeMap<u32, Judge>,
    groups: BTreeMap<u64, Group>,
    classes: Vec<u32>,
    attached: BTreeSet<(&'static str, String)>,
}

/// Sizes of the maps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) services: u32,
    pub(crate) groups: u32,
}

impl Packets {
    pub(crate) fn load(limits: Limits, count_loopback: bool) -> Result<Self, EbpfError> {
        let mut loader = EbpfLoader::new();
        loader.map_max_entries("services", limits.services);
        loader.map_max_entries("group_bytes", limits.groups);
        let mut ebpf = objects::load("packets", objects::PACKETS, &mut loader)?;
        for name in ["quell_ingress", "quell_egress"] {
            let program: &mut CgroupSkb = objects::program(&mut ebpf, name)?;
            program.load().map_err(EbpfError::program(name))?;
        }
        let config = Config { count_loopback: count_loopback.into(), ..Config::default() };
        let mut packets = Self {
            limits,
            config,
            config_map: objects::take(&mut ebpf, "config")?,
            ports: objects::take(&mut ebpf, "ports")?,
            listeners: objects::take(&mut ebpf, "listeners")?,
            service_cgroups: objects::take(&mut ebpf, "service_cgroups")?,
            service_stats: objects::take(&mut ebpf, "services")?,
            group_map: objects::take(&mut ebpf, "groups")?,
            group_bytes: objects::take(&mut ebpf, "group_bytes")?,
            veth_marks: objects::take(&mut ebpf, "veth_marks")?,
            mark_classes: objects::take(&mut ebpf, "mark_classes")?,
            services: BTreeMap::new(),
            tables: Tables::default(),
            judges: BTreeMap::new(),
            groups: BTreeMap::new(),
            classes: Vec::new(),
            attached: BTreeSet::new(),
            ebpf,
        };
        packets.publish()?;
        Ok(packets)
    }

    pub(crate) fn ebpf(&self) -> &Ebpf {
        &self.ebpf
    }

    /// Attaches the pair to a cgroup2 directory; again there: nothing to do.
    pub(crate) fn attach(&mut self, directory: &Path) -> Result<(), EbpfError> {
        let not_cgroup2 = |why: String| EbpfError::NotCgroup2 { path: directory.into(), why };
        let file = File::open(directory).map_err(|error| not_cgroup2(error.to_string()))?;
        let system = rustix::fs::fstatfs(&file).map_err(|error| not_cgroup2(error.to_string()))?;
        if system.f_type != CGROUP2_MAGIC {
            return Err(not_cgroup2("it lies on another file system".into()));
        }
        let place = directory.display().to_string();
        for (name, kind) in [
            ("quell_ingress", CgroupSkbAttachType::Ingress),
            ("quell_egress", CgroupSkbAttachType::Egress),
        ] {
            if self.attached.contains(&(name, place.clone())) {
                continue;
            }
            let program: &mut CgroupSkb = objects::program(&mut self.ebpf, name)?;
            // A link always allows others beside it; the flag that says so is refused for links.
            program.attach(&file, kind, CgroupAttachMode::Single).map_err(|error| {
                EbpfError::Attach { program: name, place: place.clone(), why: chain(&error) }
            })?;
            self.attached.insert((name, place.clone()));
        }
        Ok(())
    }

    pub(crate) fn set_service(&mut self, index: u32, key: ServiceKey) -> Result<(), EbpfError> {
        in_range("service", index, self.limits.services)?;
        if self.services.get(&index) == Some(&key) {
            return Ok(());
        }
        let mut services = self.services.clone();
        let is_new = services.insert(index, key).is_none();
        let tables = Tables::of(&services)?;
        if is_new {
            let zero = per_cpu([0; meter::WORDS], "services")?;
            self.service_stats.set(index, zero, 0).map_err(EbpfError::map("services"))?;
            self.judges.insert(index, Judge::default());
        }
        self.services = services;
        self.install(tables)
    }

    pub(crate) fn remove_service(&mut self, index: u32) -> Result<(), EbpfError> {
        if self.services.remove(&index).is_none() {
            return Ok(());
        }
        self.judges.remove(&index);
        self.install(Tables::of(&self.services)?)
    }

    /// Brings the maps to these tables. The generation changes last: until then sockets keep the
    /// answers they have.
    fn install(&mut self, new: Tables) -> Result<(), EbpfError> {
        let old = std::mem::take(&mut self.tables);
        sync(&mut self.listeners, "listeners", &old.listeners, &new.listeners)?;
        sync(&mut self.service_cgroups, "service_cgroups", &old.cgroups, &new.cgroups)?;
        for &word in old.ports.keys().chain(new.ports.keys()).collect::<BTreeSet<_>>() {
            let bits = new.ports.get(&word).copied().unwrap_or(0);
            self.ports.set(word, bits, 0).map_err(EbpfError::map("ports"))?;
        }
        self.config.service_generation = next(self.config.service_generation);
        self.config.services = self.services.len() as u32;
        self.config.cgroup_services = new.cgroups.len() as u32;
        self.tables = new;
        self.publish()
    }

    fn publish(&mut self) -> Result<(), EbpfError> {
        self.config_map.set(0, self.config.words(), 0).map_err(EbpfError::map("config"))
    }

    fn raw_service(&self, index: u32) -> Result<RawService, EbpfError> {
        if !self.services.contains_key(&index) {
            return Err(EbpfError::Unavailable(format!("service {index} is not metered")));
        }
        let values = self.service_stats.get(&index, 0).map_err(EbpfError::map("services"))?;
        Ok(meter::sum(values.iter()))
    }

    pub(crate) fn requests(&mut self, index: u32) -> Result<RequestReading, EbpfError> {
        let raw = self.raw_service(index)?;
        Ok(self.judges.entry(index).or_default().read(&raw))
    }

    pub(crate) fn counters(&self, index: u32) -> Result<MeterCounters, EbpfError> {
        Ok(MeterCounters::of(&self.raw_service(index)?))
    }

    pub(crate) fn track(&mut self, cgroup: u64, slot: u32) -> Result<(), EbpfError> {
        in_range("slot", slot, self.limits.groups)?;
        if !self.groups.values().any(|group| group.slot == Some(slot)) {
            let zero = per_cpu(0, "group_bytes")?;
            self.group_bytes.set(slot, zero, 0).map_err(EbpfError::map("group_bytes"))?;
        }
        let group = self.groups.get(&cgroup).copied().unwrap_or_default();
        self.set_group(cgroup, Group { slot: Some(slot), ..group })
    }

    pub(crate) fn untrack(&mut self, cgroup: u64) -> Result<(), EbpfError> {
        let group = self.groups.get(&cgroup).copied().unwrap_or_default();
        self.set_group(cgroup, Group { slot: None, ..group })
    }

    pub(crate) fn set_class(&mut self, cgroup: u64, class: Option<u32>) -> Result<(), EbpfError> {
        let group = self.groups.get(&cgroup).copied().unwrap_or_default();
        self.set_group(cgroup, Group { classid: class.unwrap_or(0), ..group })
    }

    fn set_group(&mut self, cgroup: u64, group: Group) -> Result<(), EbpfError> {
        if self.groups.get(&cgroup).copied().unwrap_or_default() == group {
            return Ok(());
        }
        if group == Group::default() {
            self.group_map.remove(&cgroup).map_err(EbpfError::map("groups"))?;
            self.groups.remove(&cgroup);
        } else {
            let words = [0, group.slot.unwrap_or(NO_SLOT), group.classid, 0];
            self.group_map.insert(cgroup, words, 0).map_err(EbpfError::map("groups"))?;
            self.groups.insert(cgroup, group);
        }
        self.config.group_generation = next(self.config.group_generation);
        self.config.groups = self.groups.len() as u32;
        self.publish()
    }

    pub(crate) fn egress(&self, slot: u32) -> Result<u64, EbpfError> {
        if !self.groups.values().any(|group| group.slot == Some(slot)) {
            return Err(EbpfError::Unavailable(format!("no cgroup is accounted in slot {slot}")));
        }
        let values = self.group_bytes.get(&slot, 0).map_err(EbpfError::map("group_bytes"))?;
        Ok(values.iter().sum())
    }

    /// Marks what comes out of a pod, seen at the host's end of its veth pair.
    pub(crate) fn mark_veth(&mut self, name: &str, classid: u32) -> Result<(), EbpfError> {
        let ifindex = ifindex(name)?;
        let class = self.class_index(classid)?;
        self.veth_marks.insert(ifindex, class, 0).map_err(EbpfError::map("veth_marks"))?;
        self.attach_classifier("quell_veth", name, TcAttachType::Ingress)
    }

    /// Turns the marks into HTB classes on the way out of this interface.
    pub(crate) fn attach_nic(&mut self, name: &str) -> Result<(), EbpfError> {
        self.attach_classifier("quell_nic", name, TcAttachType::Egress)
    }

    fn class_index(&mut self, classid: u32) -> Result<u32, EbpfError> {
        if let Some(known) = self.classes.iter().position(|&class| class == classid) {
            return Ok(known as u32);
        }
        let index = self.classes.len() as u32;
        in_range("class", index, MAX_CLASSES)?;
        self.mark_classes.set(index, classid, 0).map_err(EbpfError::map("mark_classes"))?;
        self.classes.push(classid);
        Ok(index)
    }

    fn attach_classifier(
        &mut self,
        program: &'static str,
        interface: &str,
        to: TcAttachType,
    ) -> Result<(), EbpfError> {
        // An interface made anew under an old name is another one.
        let place = format!("{interface} ({})", ifindex(interface)?);
        if self.attached.contains(&(program, place.clone())) {
            return Ok(());
        }
        let classifier: &mut SchedClassifier = objects::program(&mut self.ebpf, program)?;
        if classifier.fd().is_err() {
            classifier.load().map_err(EbpfError::program(program))?;
        }
        classifier.attach(interface, to).map_err(|error| EbpfError::Attach {
            program,
            place: place.clone(),
            why: format!("{} (before Linux 6.6 a clsact qdisc must be there first)", chain(&error)),
        })?;
        self.attached.insert((program, place));
        Ok(())
    }
}

fn ifindex(name: &str) -> Result<u32, EbpfError> {
    let unknown = |why: String| EbpfError::Unavailable(format!("interface {name}: {why}"));
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
            .map_err(|error| unknown(error.to_string()))?;
    rustix::net::netdevice::name_to_index(&socket, name).map_err(|error| unknown(error.to_string()))
}

/// Generations skip 0, which means never asked.
fn next(generation: u32) -> u32 {
    generation.wrapping_add(1).max(1)
}

pub(crate) fn in_range(what: &'static str, index: u32, limit: u32) -> Result<(), EbpfError> {
    if index < limit { Ok(()) } else { Err(EbpfError::OutOfRange { what, index, limit }) }
}

/// The same value for every possible CPU.
pub(crate) fn per_cpu<T: aya::Pod>(
    value: T,
    map: &'static str,
) -> Result<PerCpuValues<T>, EbpfError> {
    let failed = |why: String| EbpfError::Map { map, why };
    let cpus = nr_cpus().map_err(|(path, error)| failed(format!("{path}: {error}")))?;
    PerCpuValues::try_from(vec![value; cpus]).map_err(|error| failed(error.to_string()))
}

/// Brings a kernel map from `old` to `new`.
fn sync<K: aya::Pod + Ord, V: aya::Pod + PartialEq>(
    map: &mut HashMap<MapData, K, V>,
    name: &'static str,
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
) -> Result<(), EbpfError> {
    for (key, value) in new.iter().filter(|(key, value)| old.get(key) != Some(value)) {
        map.insert(key, value, 0).map_err(EbpfError::map(name))?;
    }
    for key in old.keys().filter(|key| !new.contains_key(key)) {
        map.remove(key).map_err(EbpfError::map(name))?;
    }
    Ok(())
}
