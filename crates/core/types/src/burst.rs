//! A reporter: short bursts of timed accesses on an idle CPU, which neighbours slow as they slow a
//! service (B-1, A-2).

use crate::{CpuSet, Reading, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is timed in turns: registers, the private cache, the shared cache, memory.
pub const BURST_PATTERNS: u32 = 4;

/// One burst, played by the platform on a CPU that it finds idle: it works until clock and caches
/// are warm, then times slices of each pattern in turns. Where no CPU is idle there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Burst {
    /// Tells traces apart.
    pub id: u64,
    /// It begins so many microseconds after it was asked for: within a hold, for one.
    pub delay_us: u64,
    /// It works for so long before anything is timed, in microseconds.
    pub warm_us: u64,
    /// Length of a slice in microseconds.
    pub slice_us: u64,
    /// Slices of each pattern.
    pub rounds: u32,
    /// CPUs that it must not use, idle or not.
    pub not_on: CpuSet,
}

impl Burst {
    /// How long it works.
    #[must_use]
    pub fn duration(&self) -> Duration {
        let slices = u64::from(BURST_PATTERNS) * u64::from(self.rounds);
        Duration::from_micros(self.warm_us.saturating_add(self.slice_us.saturating_mul(slices)))
    }
}

/// How long one of its own accesses takes in each pattern, in nanoseconds: medians over slices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessTimes {
    /// An operation on registers: it waits for nothing but the clock.
    pub arithmetic_ns: f64,
    /// A hit in the core's own cache.
    pub private_ns: f64,
    /// An access to what the core's own caches cannot hold and the shared one can.
    pub shared_ns: f64,
    /// An access to what no cache holds.
    pub memory_ns: f64,
}

impl AccessTimes {
    /// In the order of the patterns.
    #[must_use]
    pub fn all(&self) -> [f64; BURST_PATTERNS as usize] {
        [self.arithmetic_ns, self.private_ns, self.shared_ns, self.memory_ns]
    }
}

/// What a reporter says of one burst.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurstReport {
    /// CPU time that it took, in nanoseconds, with everything around it since the last report.
    pub cpu_ns: u64,
    /// What was timed; a gap if others wanted its CPU meanwhile.
    pub times: Reading<AccessTimes>,
}

/// A burst that ended since the last sample, or that was not played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurstTrace {
    /// The burst's number.
    pub id: u64,
    /// Where it was played; none if no CPU was idle.
    pub cpu: Option<u32>,
    /// When it was over.
    pub time: Time,
    /// What it said; a gap in `times` says why there is nothing.
    pub report: BurstReport,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_lasts_as_long_as_its_warmth_and_its_slices() {
        let burst = Burst {
            id: 1,
            delay_us: 6_000,
            warm_us: 2_000,
            slice_us: 250,
            rounds: 5,
            not_on: CpuSet::new(),
        };
        assert_eq!(burst.duration(), Duration::from_millis(7));
        let text = serde_json::to_string(&burst).unwrap();
        assert_eq!(serde_json::from_str::<Burst>(&text).unwrap(), burst);
    }
}
