//! Behind whom watched cgroups stand for a CPU.

use crate::error::{EbpfError, chain};
use crate::objects;
use crate::packets::{in_range, per_cpu};
use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};
use std::collections::BTreeMap;

/// Most slots that can be watched at once.
pub const MAX_VICTIMS: usize = 8;

/// Programs and where they are attached. The switch comes last: until then nobody who stands is
/// put down to anybody.
const PROGRAMS: [(&str, &str); 4] = [
    ("quell_wait_wake", "sched_wakeup"),
    ("quell_wait_new", "sched_wakeup_new"),
    ("quell_wait_move", "sched_migrate_task"),
    ("quell_wait_run", "sched_switch"),
];
/// Rows of the map of blame before those of the slots.
const OTHERS: u32 = 0;
const NOBODY: u32 = 1;
const SLOT_0: u32 = 2;
/// Of a group's value in the kernel: its slot below, one more than its number as a victim above.
const SLOT_BITS: u32 = 16;
const MOST_SLOTS: u32 = (1 << SLOT_BITS) - SLOT_0;

/// How long the tasks of a watched slot stood ready to run behind whom, in nanoseconds since they
/// were watched, summed over tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stood {
    /// By the slot of who ran, itself among them; only those that are not 0.
    pub behind_ns: BTreeMap<u32, u64>,
    /// While a task ran that is in no tracked group: kernel threads, everybody else.
    pub others_ns: u64,
    /// While nobody ran: the CPU was on its way from idleness.
    pub nobody_ns: u64,
}

pub(crate) struct Contention {
    ebpf: Ebpf,
    slots: u32,
    generation: u32,
    config: Array<MapData, [u32; 2]>,
    group_map: HashMap<MapData, u64, u32>,
    blame: PerCpuArray<MapData, [u64; MAX_VICTIMS]>,
    groups: BTreeMap<u64, u32>,
    /// Watched slots, by their numbers as victims.
    victims: Vec<u32>,
}

impl Contention {
    pub(crate) fn load(slots: u32, v1_cpu: bool) -> Result<Self, EbpfError> {
        in_range("number of slots", slots, MOST_SLOTS)?;
        let failed = |why: String| EbpfError::Object { object: "contention", why };
        let btf = Btf::from_sys_fs().map_err(|error| failed(chain(&error)))?;
        let cpus =
            aya::util::nr_cpus().map_err(|(file, error)| failed(format!("{file}: {error}")))?;
        let mut loader = EbpfLoader::new();
        let v1_cpu = u32::from(v1_cpu);
        loader.override_global("v1_cpu", &v1_cpu, true);
        loader.map_max_entries("rq_cpus", cpus as u32);
        loader.map_max_entries("rq_blame", slots + SLOT_0);
        loader.map_max_entries("rq_groups", slots.max(64));
        let mut ebpf = objects::load("contention", objects::CONTENTION, &mut loader)?;
        for (name, tracepoint) in PROGRAMS {
            let program: &mut BtfTracePoint = objects::program(&mut ebpf, name)?;
            program.load(tracepoint, &btf).map_err(EbpfError::program(name))?;
        }
        Ok(Self {
            slots,
            generation: 0,
            config: objects::take(&mut ebpf, "rq_config")?,
            group_map: objects::take(&mut ebpf, "rq_groups")?,
            blame: objects::take(&mut ebpf, "rq_blame")?,
            groups: BTreeMap::new(),
            victims: Vec::new(),
            ebpf,
        })
    }

    pub(crate) fn ebpf(&self) -> &Ebpf {
        &self.ebpf
    }

    /// What a group ran others stood behind; a slot's sums begin at 0 with its first group.
    pub(crate) fn track(&mut self, cgroup: u64, slot: u32) -> Result<(), EbpfError> {
        in_range("slot", slot, self.slots)?;
        if self.groups.get(&cgroup) == Some(&slot) {
            return Ok(());
        }
        if !self.groups.values().any(|&used| used == slot) {
            let zero = per_cpu([0; MAX_VICTIMS], "rq_blame")?;
            self.blame.set(slot + SLOT_0, zero, 0).map_err(EbpfError::map("rq_blame"))?;
        }
        self.groups.insert(cgroup, slot);
        self.tell(cgroup, slot)?;
        self.publish()
    }

    pub(crate) fn untrack(&mut self, cgroup: u64) -> Result<(), EbpfError> {
        if self.groups.remove(&cgroup).is_none() {
            return Ok(());
        }
        self.group_map.remove(&cgroup).map_err(EbpfError::map("rq_groups"))?;
        self.publish()
    }

    /// The groups of this slot are a victim from now on. The programs are attached with the first,
    /// so that they cost nothing before.
    pub(crate) fn watch(&mut self, slot: u32) -> Result<(), EbpfError> {
        in_range("slot", slot, self.slots)?;
        if self.victims.contains(&slot) {
            return Ok(());
        }
        in_range("number of watched slots", self.victims.len() as u32, MAX_VICTIMS as u32)?;
        self.victims.push(slot);
        let of_slot = self.groups.iter().filter(|(_, of)| **of == slot);
        let cgroups: Vec<u64> = of_slot.map(|(cgroup, _)| *cgroup).collect();
        cgroups.into_iter().try_for_each(|cgroup| self.tell(cgroup, slot))?;
        self.publish()?;
        if self.victims.len() == 1 { self.attach() } else { Ok(()) }
    }

    fn attach(&mut self) -> Result<(), EbpfError> {
        for (name, tracepoint) in PROGRAMS {
            let program: &mut BtfTracePoint = objects::program(&mut self.ebpf, name)?;
            program.attach().map_err(|error| EbpfError::Attach {
                program: name,
                place: tracepoint.into(),
                why: chain(&error),
            })?;
        }
        Ok(())
    }

    /// What the kernel knows of a group.
    fn tell(&mut self, cgroup: u64, slot: u32) -> Result<(), EbpfError> {
        let victim = self.victims.iter().position(|victim| *victim == slot);
        let value = slot | victim.map_or(0, |number| number as u32 + 1) << SLOT_BITS;
        self.group_map.insert(cgroup, value, 0).map_err(EbpfError::map("rq_groups"))
    }

    fn publish(&mut self) -> Result<(), EbpfError> {
        self.generation = self.generation.wrapping_add(1).max(1);
        let words = [self.generation, self.groups.len() as u32];
        self.config.set(0, words, 0).map_err(EbpfError::map("rq_config"))
    }

    pub(crate) fn read(&self, slot: u32) -> Result<Stood, EbpfError> {
        let victim = self.victims.iter().position(|victim| *victim == slot);
        let unwatched = || EbpfError::Unavailable(format!("slot {slot} is not watched"));
        let victim = victim.ok_or_else(unwatched)?;
        let row = |row: u32| -> Result<u64, EbpfError> {
            let values = self.blame.get(&row, 0).map_err(EbpfError::map("rq_blame"))?;
            Ok(values.iter().fold(0, |sum, by_victim| sum.wrapping_add(by_victim[victim])))
        };
        let mut behind_ns = BTreeMap::new();
        for used in self.groups.values() {
            let ns = row(used + SLOT_0)?;
            if ns > 0 {
                behind_ns.insert(*used, ns);
            }
        }
        Ok(Stood { behind_ns, others_ns: row(OTHERS)?, nobody_ns: row(NOBODY)? })
    }
}
