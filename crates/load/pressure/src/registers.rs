//! Short timed runs of a loop that works on registers alone. What an operation takes depends on the
//! clock of the core and on who shares its units, and on nothing else: a neighbour on another core
//! does not change it, whatever it does to caches and memory.

use crate::kernel::{Integer, Kernel};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Of a span in which the thread ran for less than this share of the time nothing is told.
const LEAST_SHARE: f64 = 0.8;

/// The loop.
pub struct Registers(Integer);

impl Default for Registers {
    fn default() -> Self {
        Registers::new()
    }
}

impl Registers {
    /// It needs no memory.
    #[must_use]
    pub fn new() -> Self {
        Registers(Integer::new())
    }

    /// Works for some microseconds, for the clock.
    pub fn work(&mut self) {
        let _ = self.0.burst();
    }

    /// The time of an operation in nanoseconds: that of the run in the middle of all that fit into
    /// so long, so that interruptions do not count. None if others had the CPU for much of it.
    pub fn operation_ns(&mut self, span: Duration) -> Option<f64> {
        mostly(|| {
            let (begun, mut runs) = (Instant::now(), Vec::with_capacity(512));
            while begun.elapsed() < span {
                let run = self.0.probe()?;
                runs.push(run.took.as_nanos() as f64 / run.accesses as f64);
            }
            (!runs.is_empty()).then(|| median(runs))
        })
    }
}

/// What was found, unless others had the CPU for much of the time.
pub(crate) fn mostly<T>(find: impl FnOnce() -> Option<T>) -> Option<T> {
    let (begun, used) = (Instant::now(), cpu_time(ClockId::ThreadCPUTime));
    let found = find();
    let ran = cpu_time(ClockId::ThreadCPUTime).saturating_sub(used);
    found.filter(|_| ran.as_secs_f64() >= LEAST_SHARE * begun.elapsed().as_secs_f64())
}

/// The value in the middle, of at least one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn cpu_time(of: ClockId) -> Duration {
    let used = clock_gettime(of);
    let (seconds, nanos) = (u64::try_from(used.tv_sec), u32::try_from(used.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_takes_some_time_or_others_had_the_cpu() {
        let mut registers = Registers::new();
        registers.work();
        let looks: Vec<Option<f64>> =
            (0..20).map(|_| registers.operation_ns(Duration::from_micros(200))).collect();
        assert!(looks.iter().flatten().all(|ns| *ns > 0.0 && ns.is_finite()), "{looks:?}");
        assert_eq!(registers.operation_ns(Duration::ZERO), None, "no run fits into no time");
    }

    #[test]
    fn who_slept_tells_nothing() {
        let slept = mostly(|| {
            std::thread::sleep(Duration::from_millis(5));
            Some(1)
        });
        assert_eq!(slept, None);
    }
}
