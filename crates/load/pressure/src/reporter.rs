//! A reporter: short bursts of timed accesses, which neighbours slow as they slow a service.
//!
//! It takes what the kernels measure of themselves, and presses on nothing: dependent accesses, one
//! at a time. A thread that has just been woken sees mostly that it slept: a slow clock, cold caches
//! (measured: whatever runs beside it). So a burst works until it is warm before it times anything,
//! and tells the median of many slices, so that interruptions do not count.

use crate::chase::Chase;
use crate::registers::{Registers, cpu_time, median, mostly};
use crate::{PressureError, bind_all};
use quell_types::{AccessTimes, BurstReport, CpuSet, Gap, Reading, Topology};
use rustix::time::ClockId;
use std::time::{Duration, Instant};

/// Shared hits are looked for in so many times what the core's own caches hold...
const OVER_PRIVATE: u64 = 3;
/// ... but at most in this part of the shared one.
const OF_SHARED: u64 = 4;
/// What is flushed anyway needs only to be more than a page.
const FLUSHED_BYTES: u64 = 2 << 20;
/// Where nothing can be flushed, memory is what is this many times as large as the shared cache...
const OVER_SHARED: u64 = 2;
/// ... within these bounds, since it stays in memory.
const FAR_BYTES: (u64, u64) = (64 << 20, 256 << 20);

/// How much memory each pattern goes through, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReporterSizes {
    /// Half of a core's first cache.
    pub private: u64,
    /// More than its own caches hold, and little enough to stay in the shared one.
    pub shared: u64,
    /// Far.
    pub memory: u64,
}

impl ReporterSizes {
    /// As a machine's caches want it.
    ///
    /// # Errors
    /// A gap if the kernel does not tell of the caches of its first CPU, or if they are one.
    pub fn of(topology: &Topology) -> Reading<Self> {
        let first = topology.cpus.first().ok_or_else(|| Gap::absent("no CPU is known"))?;
        let own = topology.cache(first.id, 1)?.size_bytes;
        let second = topology.cache(first.id, 2).map_or(own, |cache| cache.size_bytes);
        let all = topology.llc_of(first.id).map(|llc| llc.size_bytes);
        let all = all.ok_or_else(|| Gap::absent("no last-level cache is known"))?;
        if all < 2 * second {
            return Err(Gap::absent("the last-level cache is hardly larger than the core's own"));
        }
        let far = (OVER_SHARED * all).clamp(FAR_BYTES.0, FAR_BYTES.1);
        Ok(Self {
            private: own / 2,
            shared: (OVER_PRIVATE * second).min((all / OF_SHARED).max(second + second / 2)),
            memory: if Chase::FLUSHES { FLUSHED_BYTES } else { far },
        })
    }
}

/// How a burst is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// So long it works before anything is timed.
    pub warm: Duration,
    /// Length of a slice.
    pub slice: Duration,
    /// Slices of each pattern.
    pub rounds: u32,
}

/// The memory of all patterns, and what was used so far.
pub struct Reporter {
    registers: Registers,
    private: Chase,
    shared: Chase,
    memory: Chase,
    /// CPU time of the process at the last report.
    told: Duration,
}

impl Reporter {
    /// Maps and touches everything.
    ///
    /// # Errors
    /// The memory is not to be had.
    pub fn new(sizes: &ReporterSizes) -> Result<Self, PressureError> {
        let chase = |bytes: u64| Chase::new(usize::try_from(bytes).unwrap_or(usize::MAX / 4));
        Ok(Self {
            registers: Registers::new(),
            private: chase(sizes.private)?,
            shared: chase(sizes.shared)?,
            memory: chase(sizes.memory)?,
            told: Duration::ZERO,
        })
    }

    /// Plays a burst on a CPU. The thread stays bound to it.
    pub fn burst(&mut self, cpu: u32, pace: &Pace) -> BurstReport {
        let bound = bind_all(&CpuSet::of(cpu)).map_err(Gap::failed);
        let times = bound.and_then(|()| self.times(pace));
        let used = cpu_time(ClockId::ProcessCPUTime);
        let took = used.saturating_sub(std::mem::replace(&mut self.told, used));
        BurstReport { cpu_ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), times }
    }

    fn times(&mut self, pace: &Pace) -> Reading<AccessTimes> {
        self.warm_up(pace.warm);
        let mut seen: [Vec<f64>; 4] = Default::default();
        for _ in 0..pace.rounds {
            for (pattern, slices) in seen.iter_mut().enumerate() {
                slices.extend(self.slice(pattern, pace.slice));
            }
        }
        let least = pace.rounds.div_ceil(2).max(1) as usize;
        if seen.iter().any(|slices| slices.len() < least) {
            return Err(Gap::not_yet("others wanted the CPU of the burst"));
        }
        let [arithmetic_ns, private_ns, shared_ns, memory_ns] = seen.map(median);
        Ok(AccessTimes { arithmetic_ns, private_ns, shared_ns, memory_ns })
    }

    /// Works for so long: registers first, for the clock, then the lines that are to be hit.
    fn warm_up(&mut self, span: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < span / 2 {
            self.registers.work();
        }
        loop {
            self.shared.touch();
            self.private.touch();
            if begun.elapsed() >= span {
                return;
            }
        }
    }

    /// One slice of a pattern, in nanoseconds an access; none if others had the CPU for much of it.
    fn slice(&mut self, pattern: usize, span: Duration) -> Option<f64> {
        mostly(|| match pattern {
            0 => self.registers.operation_ns(span),
            1 => self.private.access_ns(span),
            2 => self.shared.access_ns(span),
            _ => self.memory.far_access_ns(span),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowed_cpus;
    use quell_types::{Cache, CacheKind, Cpu, LlcDomain};

    fn topology(l1: u64, l2: u64, llc: u64) -> Topology {
        let cpus = CpuSet::of(0);
        let cache = |level, size_bytes| Cache {
            level,
            kind: CacheKind::Data,
            size_bytes,
            line_bytes: 64,
            ways: None,
            cpus: cpus.clone(),
        };
        Topology {
            cpus: vec![Cpu { id: 0, socket: 0, core: 0, node: 0 }],
            caches: vec![cache(1, l1), cache(2, l2)],
            llc: vec![LlcDomain { id: 0, cpus: cpus.clone(), size_bytes: llc, ways: None }],
            ..Topology::default()
        }
    }

    #[test]
    fn sizes_are_those_of_the_machines_caches() {
        let sizes = ReporterSizes::of(&topology(48 << 10, 2 << 20, 480 << 20)).unwrap();
        assert_eq!((sizes.private, sizes.shared), (24 << 10, 6 << 20));
        let small = ReporterSizes::of(&topology(32 << 10, 1 << 20, 8 << 20)).unwrap();
        assert_eq!(small.shared, 2 << 20, "a quarter of what is shared");
        assert!(ReporterSizes::of(&topology(32 << 10, 4 << 20, 4 << 20)).is_err());
        assert!(ReporterSizes::of(&Topology::default()).is_err());
        let unknown = Topology { caches: Vec::new(), ..topology(1, 1, 1) };
        assert!(ReporterSizes::of(&unknown).unwrap_err().to_string().contains("level 1"));
    }

    /// What is far takes longer than what is near, and a burst about as long as it is asked to.
    #[test]
    fn a_burst_tells_near_from_far_and_what_it_took() {
        let topology = quell_topology::Machine::new("/").topology();
        // A machine that does not tell is played with caches of usual sizes.
        let usual = || ReporterSizes { private: 16 << 10, shared: 6 << 20, memory: 64 << 20 };
        let sizes = ReporterSizes::of(&topology).unwrap_or_else(|_| usual());
        let mut reporter = Reporter::new(&sizes).unwrap();
        let pace =
            Pace { warm: Duration::from_millis(2), slice: Duration::from_micros(250), rounds: 5 };
        let cpu = allowed_cpus().unwrap().iter().next().unwrap();
        let mut bursts: Vec<BurstReport> = (0..9).map(|_| reporter.burst(cpu, &pace)).collect();
        // The first pays for the memory as well.
        bursts.remove(0);
        let all: Vec<AccessTimes> =
            bursts.iter().filter_map(|burst| burst.times.as_ref().ok().copied()).collect();
        // Others may want the CPU all the time; then there is nothing to say, and it is not said.
        if all.is_empty() {
            assert!(
                bursts.iter().all(|b| b.times.as_ref().unwrap_err().to_string().contains("others"))
            );
            return;
        }
        let of = |pick: fn(&AccessTimes) -> f64| median(all.iter().map(pick).collect());
        assert!(of(|t| t.shared_ns) > of(|t| t.private_ns), "{all:?}");
        assert!(of(|t| t.private_ns) > of(|t| t.arithmetic_ns), "{all:?}");
        assert!(!Chase::FLUSHES || of(|t| t.memory_ns) > of(|t| t.private_ns), "{all:?}");
        assert!(bursts.iter().all(|burst| burst.cpu_ns > 0));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_a_gap() {
        let sizes = ReporterSizes { private: 1 << 14, shared: 1 << 16, memory: 1 << 20 };
        let pace = Pace { warm: Duration::ZERO, slice: Duration::from_micros(50), rounds: 1 };
        let report = Reporter::new(&sizes).unwrap().burst(60_000, &pace);
        assert!(report.times.is_err() && report.cpu_ns > 0);
    }
}
