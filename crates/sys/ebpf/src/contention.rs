//! Behind whom watched cgroups stand for a CPU, and beside whom they run.

use crate::begun;
use crate::error::{EbpfError, chain};
use crate::gauge::{self, Gauge, Samples};
use crate::objects;
use crate::packets::{in_range, per_cpu};
use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::programs::{BtfTracePoint, FEntry, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use quell_types::Beside;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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
/// Either counts what watched slots send: the tracepoint came with Linux 6.3. Without one of them it is
/// not known beside whom they run.
const SEND: (&str, &str) = ("quell_wait_send", "sock_send_length");
const SEND_ON_TCP: (&str, &str) = ("quell_wait_tcp", "tcp_sendmsg");
/// Rows of the map of blame before those of the slots.
const OTHERS: u32 = 0;
const NOBODY: u32 = 1;
const SLOT_0: u32 = 2;
/// Of a group's value in the kernel: its slot below, one more than its number as a victim above.
const SLOT_BITS: u32 = 16;
const MOST_SLOTS: u32 = (1 << SLOT_BITS) - SLOT_0;

/// How long the tasks of a watched slot stood ready to run behind whom, in nanoseconds since they
/// were watched, summed over tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stood {
    /// By the slot of who ran, itself among them; only those that are not 0.
    pub behind_ns: BTreeMap<u32, u64>,
    /// While a task ran that is in no tracked group: kernel threads, everybody else.
    pub others_ns: u64,
    /// While nobody ran: the CPU was on its way from idleness.
    pub nobody_ns: u64,
    /// Who had the other CPUs while they stood behind others.
    pub elsewhere: Elsewhere,
    /// Beside whom they ran, or why that is not known.
    pub company: Result<Company, String>,
}

/// Who had the other CPUs while the tasks of a watched slot, who may use all, stood behind others: what one
/// of those CPUs had, on average over them, in nanoseconds since it was watched, summed over tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// How many others there are; 0 if nothing is told of them.
    pub cpus: u32,
    /// By the slot of who ran there, itself among them; only those that are not 0.
    pub slots_ns: BTreeMap<u32, u64>,
    /// A task ran there that is in no tracked group.
    pub others_ns: u64,
    /// Nobody ran there.
    pub nobody_ns: u64,
}

/// What the tasks of a watched slot did beside whom since it was watched; sends are those on any socket
/// since Linux 6.3, on TCP before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Company {
    /// By the slot of who ran elsewhere; only those that are not 0.
    pub slots: BTreeMap<u32, Beside>,
    /// Tasks that are in no tracked group.
    pub others: Beside,
    /// CPUs that did nothing.
    pub nobody: Beside,
}

/// `struct blame` of bpf/contention.bpf.c: stood behind, ran beside, sent, stood while it ran elsewhere,
/// each by victim.
type Blame = [[u64; MAX_VICTIMS]; 4];

/// The same of one victim, summed over CPUs.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    behind_ns: u64,
    beside: Beside,
    elsewhere_ns: u64,
}

/// By which program it is counted what is sent.
#[derive(Clone, Copy, Debug)]
enum Sends {
    Any,
    Tcp,
}

pub(crate) struct Contention {
    ebpf: Ebpf,
    slots: u32,
    /// CPUs besides one's own, where it is told who has those.
    other_cpus: u32,
    generation: u32,
    config: Array<MapData, [u32; 2]>,
    group_map: HashMap<MapData, u64, u32>,
    blame: PerCpuArray<MapData, Blame>,
    samples: Array<MapData, gauge::Row>,
    pauses: PerCpuArray<MapData, gauge::Pauses>,
    passes: PerCpuArray<MapData, gauge::Passes>,
    /// Or why it is not known what is sent.
    sends: Result<Sends, String>,
    /// Whether there is a program at each CPU's timer.
    ticks: bool,
    /// Whether it can be seen who stands already.
    begun: bool,
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
        let online = first_online();
        loader.override_global("v1_cpu", &v1_cpu, true);
        loader.override_global("online", &online, true);
        let [gauge_ns, kept_ns] = gauge::between_ns(online);
        loader.override_global("gauge_ns", &gauge_ns, true);
        loader.override_global("kept_ns", &kept_ns, true);
        let tick_ns = gauge::tick_ns(Path::new("/"));
        loader.override_global("tick_ns", &tick_ns, true);
        loader.map_max_entries("rq_lines", cpus as u32);
        loader.map_max_entries("rq_gauge", slots + SLOT_0);
        loader.map_max_entries("rq_passed", cpus as u32);
        loader.map_max_entries("rq_cpus", cpus as u32);
        loader.map_max_entries("rq_blame", slots + SLOT_0);
        loader.map_max_entries("rq_groups", slots.max(64));
        let mut ebpf = objects::load("contention", objects::CONTENTION, &mut loader)?;
        for (name, tracepoint) in PROGRAMS {
            let program: &mut BtfTracePoint = objects::program(&mut ebpf, name)?;
            program.load(tracepoint, &btf).map_err(EbpfError::program(name))?;
        }
        let sends = load_sends(&mut ebpf, &btf).map_err(|error| chain(&error));
        let ticks = gauge::load_tick(&mut ebpf, &btf);
        let begun = begun::load(&mut ebpf, &btf);
        Ok(Self {
            slots,
            other_cpus: online.saturating_sub(1),
            generation: 0,
            config: objects::take(&mut ebpf, "rq_config")?,
            group_map: objects::take(&mut ebpf, "rq_groups")?,
            blame: objects::take(&mut ebpf, "rq_blame")?,
            samples: objects::take(&mut ebpf, "rq_gauge")?,
            pauses: objects::take(&mut ebpf, "rq_pauses")?,
            passes: objects::take(&mut ebpf, "rq_passes")?,
            sends,
            ticks,
            begun,
            groups: BTreeMap::new(),
            victims: Vec::new(),
            ebpf,
        })
    }

    /// Whether there is a program at each CPU's timer.
    pub(crate) fn ticks(&self) -> bool {
        self.ticks
    }

    /// CPUs that are online.
    pub(crate) fn cpus(&self) -> u32 {
        self.other_cpus + 1
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
            let zero = per_cpu([[0; MAX_VICTIMS]; 4], "rq_blame")?;
            self.blame.set(slot + SLOT_0, zero, 0).map_err(EbpfError::map("rq_blame"))?;
        }
        self.groups.insert(cgroup, slot);
        self.tell(cgroup, slot)?;
        self.publish()?;
        if self.victims.contains(&slot) { self.see_begun() } else { Ok(()) }
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
        if self.victims.len() == 1 {
            self.attach()?;
        }
        self.see_begun()
    }

    /// Who stands already is seen from now on.
    fn see_begun(&mut self) -> Result<(), EbpfError> {
        if self.begun { begun::look(&mut self.ebpf) } else { Ok(()) }
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
        self.ticks = self.ticks && gauge::attach_tick(&mut self.ebpf);
        if let Ok(sends) = self.sends
            && let Err(error) = self.attach_sends(sends)
        {
            self.sends = Err(chain(&error));
        }
        Ok(())
    }

    fn attach_sends(&mut self, sends: Sends) -> Result<(), EbpfError> {
        let (name, place) = match sends {
            Sends::Any => SEND,
            Sends::Tcp => SEND_ON_TCP,
        };
        let attached = match sends {
            Sends::Any => {
                let program: &mut BtfTracePoint = objects::program(&mut self.ebpf, name)?;
                program.attach().map(drop)
            }
            Sends::Tcp => {
                let program: &mut FEntry = objects::program(&mut self.ebpf, name)?;
                program.attach().map(drop)
            }
        };
        let why = |error: ProgramError| chain(&error);
        attached.map_err(|e| EbpfError::Attach { program: name, place: place.into(), why: why(e) })
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
        let (others, nobody) = (self.row(OTHERS, victim)?, self.row(NOBODY, victim)?);
        let mut behind_ns = BTreeMap::new();
        let mut elsewhere = Elsewhere {
            cpus: self.other_cpus,
            slots_ns: BTreeMap::new(),
            others_ns: others.elsewhere_ns,
            nobody_ns: nobody.elsewhere_ns,
        };
        let mut company =
            Company { slots: BTreeMap::new(), others: others.beside, nobody: nobody.beside };
        for used in self.groups.values() {
            let row = self.row(used + SLOT_0, victim)?;
            if row.behind_ns > 0 {
                behind_ns.insert(*used, row.behind_ns);
            }
            if row.elsewhere_ns > 0 {
                elsewhere.slots_ns.insert(*used, row.elsewhere_ns);
            }
            if row.beside != Beside::default() {
                company.slots.insert(*used, row.beside);
            }
        }
        let (others_ns, nobody_ns) = (others.behind_ns, nobody.behind_ns);
        let company = self.sends.clone().map(|_| company);
        Ok(Stood { behind_ns, others_ns, nobody_ns, elsewhere, company })
    }

    /// What the gauge has counted since the programs were loaded. Unlike the sums of waits those of a slot go
    /// on with its next group, so that they never fall.
    pub(crate) fn gauge(&self) -> Result<Gauge, EbpfError> {
        let of = |row: u32| {
            let row = self.samples.get(&row, 0).map_err(EbpfError::map("rq_gauge"))?;
            Ok(Samples::from_row(&row))
        };
        let used: BTreeSet<u32> = self.groups.values().copied().collect();
        let one = |slot: u32| Ok((slot, of(slot + SLOT_0)?));
        let slots = used.into_iter().map(one).collect::<Result<_, EbpfError>>()?;
        let pauses = self.pauses.get(&0, 0).map_err(EbpfError::map("rq_pauses"))?;
        let passes = self.passes.get(&0, 0).map_err(EbpfError::map("rq_passes"))?;
        let (pauses, passes) = (gauge::pauses(&pauses), gauge::passes(&passes));
        // Samples go on meanwhile, and each is put down to all first: whoever is read before has no more than all.
        let others = of(OTHERS)?;
        Ok(Gauge { slots, others, all: of(NOBODY)?, pauses, passes })
    }

    fn row(&self, row: u32, victim: usize) -> Result<Row, EbpfError> {
        let values = self.blame.get(&row, 0).map_err(EbpfError::map("rq_blame"))?;
        let add = |sum: u64, more: u64| sum.wrapping_add(more);
        let all = |of: usize| values.iter().map(|blame| blame[of][victim]).fold(0, add);
        let beside = Beside { cpu_ns: all(1), sends: all(2) };
        Ok(Row { behind_ns: all(0), beside, elsewhere_ns: all(3) })
    }
}

/// CPUs that are online, if they are the first ones; else 0.
fn first_online() -> u32 {
    let cpus = aya::util::online_cpus().unwrap_or_default();
    let first = cpus.iter().enumerate().all(|(place, cpu)| *cpu as usize == place);
    if first { cpus.len() as u32 } else { 0 }
}

/// The program that counts what is sent.
fn load_sends(ebpf: &mut Ebpf, btf: &Btf) -> Result<Sends, EbpfError> {
    let (name, place) = SEND;
    let program: &mut BtfTracePoint = objects::program(ebpf, name)?;
    let Err(first) = program.load(place, btf).map_err(EbpfError::program(name)) else {
        return Ok(Sends::Any);
    };
    let (name, place) = SEND_ON_TCP;
    let program: &mut FEntry = objects::program(ebpf, name)?;
    program.load(place, btf).map_err(|_| first)?;
    Ok(Sends::Tcp)
}
