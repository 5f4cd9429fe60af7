//! What the gauge counts: how long accesses take, of whom and beside whom (bpf/gauge.h, bpf/kept.h, bpf/passes.h).

use crate::objects;
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf};
use quell_types::{KeptCounts, PassCounts, PauseCounts};
use rustix::time::{ClockId, clock_getres};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Samples in a second on all CPUs together: some hundred in a burst of locks, and about a thousandth of a
/// CPU.
const SAMPLES_PER_S: u64 = 500;
/// The same of those that tell who drives out what lies in caches: some hundred in a second of who never
/// leaves a CPU.
const KEPT_PER_S: u64 = 200;
/// The program at a CPU's timer. Where it cannot be only turns that end are looked at.
const TICK: (&str, &str) = ("quell_wait_tick", "local_timer_entry");
/// What tells by which device a CPU's timer ticks; those of Hyper-V and Xen do not pass that program.
const TIMER: &str = "sys/devices/system/clockevents/clockevent0/current_device";

/// CPUs that have no tick while one task has them: there one that does not come was not missed.
const TICKLESS: &str = "sys/devices/system/cpu/nohz_full";

/// Slots of a count of the gauge.
pub const GAUGE_SLOTS: usize = 32;

/// What samples of the gauge read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// How many times as long as multiplications accesses to a core's second cache took: in eighths, two
    /// slots to each power of two. Counts wrap.
    pub slots: [u32; GAUGE_SLOTS],
    /// What four reads of memory took, in eighths of powers of two above 128 ns, summed over samples.
    pub memory: u64,
    /// The sum of its squares.
    pub memory_squares: u64,
    /// What was left of lines that were read some milliseconds before in the same turn of its own.
    pub kept: KeptCounts,
}

/// Samples of the gauge. Those beside somebody count once for each who had another CPU then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// All samples.
    pub all: Samples,
    /// Those beside each slot that is used, and those of its own turns.
    pub slots: BTreeMap<u32, Samples>,
    /// The same of tasks that are in no tracked group.
    pub others: Samples,
    /// How late CPUs' timers came.
    pub pauses: PauseCounts,
    /// How long lines took from one CPU to another.
    pub passes: PassCounts,
}

/// `struct pauses` of bpf/pauses.h: time between ticks, and what of it was too long.
pub(crate) type Pauses = [u64; 2];

/// `struct passes` of bpf/passes.h: samples by slot.
pub(crate) type Passes = [u32; PASS_SLOTS];

/// Slots of what lines took from one CPU to another.
const PASS_SLOTS: usize = 16;

/// `struct gauge` of bpf/gauge.h: when it was counted last; samples by slot, two in a word; what memory took,
/// and its squares; samples of kept lines, what these took and how long they were left.
pub(crate) type Row = [u64; 1 + GAUGE_SLOTS / 2 + 5];

impl Samples {
    pub(crate) fn from_row(row: &Row) -> Self {
        let slot = |slot: usize| (row[1 + slot / 2] >> (32 * (slot % 2))) as u32;
        let [.., memory, memory_squares, samples, took, ns] = *row;
        Self {
            slots: std::array::from_fn(slot),
            memory,
            memory_squares,
            kept: KeptCounts { samples, took, ns },
        }
    }
}

/// Time between two samples on one of so many CPUs, beside others and of its own; 0 where none are taken.
pub(crate) fn between_ns(cpus: u32) -> [u64; 2] {
    let one = |per_s: u64| u64::from(cpus) * 1_000_000_000 / per_s;
    if why_not(cpus).is_none() { [one(SAMPLES_PER_S), one(KEPT_PER_S)] } else { [0, 0] }
}

/// Time from one tick of a busy CPU to the next; 0 where it may have none, below `root`. A coarse clock goes on
/// with each tick.
pub(crate) fn tick_ns(root: &Path) -> u64 {
    let tickless = fs::read_to_string(root.join(TICKLESS)).unwrap_or_default();
    if tickless.contains(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    let tick = clock_getres(ClockId::MonotonicCoarse);
    tick.tv_sec.unsigned_abs() * 1_000_000_000 + tick.tv_nsec.unsigned_abs()
}

/// Summed over CPUs.
pub(crate) fn pauses(of_cpus: &[Pauses]) -> PauseCounts {
    of_cpus.iter().fold(PauseCounts::default(), |all, [timed_ns, lost_ns]| PauseCounts {
        timed_ns: all.timed_ns.wrapping_add(*timed_ns),
        lost_ns: all.lost_ns.wrapping_add(*lost_ns),
    })
}

/// Summed over CPUs; counts wrap.
pub(crate) fn passes(of_cpus: &[Passes]) -> PassCounts {
    let sum = |slot: usize| of_cpus.iter().fold(0, |all: u32, of| all.wrapping_add(of[slot]));
    PassCounts { slots: (0..PASS_SLOTS).map(sum).collect() }
}

/// Why nothing is gauged where so many CPUs are, if that is so: nobody else than x86-64 has split locks, and
/// other processors' caches were not tried; and a CPU alone has no other beside which it could be slow.
pub(crate) fn why_not(cpus: u32) -> Option<&'static str> {
    match cpus {
        _ if !cfg!(target_arch = "x86_64") => Some("this architecture has no split locks"),
        0 | 1 => Some("there is one CPU, so nobody runs beside anybody"),
        _ => None,
    }
}

/// Why turns that last are not looked at, if so, below `root`; `loaded` if the program at a CPU's timer could be.
pub(crate) fn why_no_tick(root: &Path, loaded: bool) -> Option<String> {
    if !loaded {
        return Some(format!("the kernel has no tracepoint {}", TICK.1));
    }
    let timer = fs::read_to_string(root.join(TIMER)).ok()?;
    let timer = timer.trim();
    (!timer.starts_with("lapic")).then(|| format!("CPUs are timed by {timer:?}, not by their APIC"))
}

/// Loads the program at a CPU's timer; whether the kernel has a place for one.
pub(crate) fn load_tick(ebpf: &mut Ebpf, btf: &Btf) -> bool {
    let (name, tracepoint) = TICK;
    let program: Option<&mut BtfTracePoint> = objects::program(ebpf, name).ok();
    program.is_some_and(|program| program.load(tracepoint, btf).is_ok())
}

/// Attaches it; whether that went well.
pub(crate) fn attach_tick(ebpf: &mut Ebpf) -> bool {
    let program: Option<&mut BtfTracePoint> = objects::program(ebpf, TICK.0).ok();
    program.is_some_and(|program| program.attach().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_that_of_the_kernel_but_where_cpus_may_have_none() {
        let root = tempfile::tempdir().unwrap();
        let ns = tick_ns(root.path());
        assert!((900_000..=11_000_000).contains(&ns), "{ns}");
        let file = root.path().join(TICKLESS);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (text, tickless) in [("  (null)\n", false), ("\n", false), ("1-3\n", true)] {
            fs::write(&file, text).unwrap();
            assert_eq!(tick_ns(root.path()) == 0, tickless, "{text:?}");
        }
    }

    #[test]
    fn what_cpus_lost_adds_up() {
        let all = pauses(&[[10, 1], [20, 0], [u64::MAX, 2]]);
        assert_eq!(all, PauseCounts { timed_ns: 29, lost_ns: 3 });
    }

    #[test]
    fn passes_of_all_cpus_add_up() {
        let mut one = Passes::default();
        (one[2], one[8]) = (5, u32::MAX);
        let all = passes(&[one, one]);
        assert_eq!((all.slots.len(), all.slots[2], all.slots[8]), (PASS_SLOTS, 10, u32::MAX - 1));
    }
}
