//! From a counter that had the PMU only part of the time to an estimate that never goes back.

use quell_types::{Gap, Reading};

/// One counter as the kernel gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raw {
    /// Events counted.
    pub value: u64,
    /// Nanoseconds in which it should have counted (its task or group was running).
    pub enabled_ns: u64,
    /// Nanoseconds in which it did count.
    pub running_ns: u64,
}

/// Sums up a counter.
///
/// The usual estimate value × enabled / running goes back whenever the share of time changes, so
/// each interval between two readings is scaled by itself and added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    last: Raw,
    sum: u64,
}

impl Tally {
    /// Adds what was counted since the last reading and returns the sum. An interval in which
    /// there was nothing to count adds nothing.
    ///
    /// # Errors
    /// Not yet if the counter should have counted but never had the PMU in this interval: what it
    /// missed is estimated with the next interval in which it has.
    pub fn advance(&mut self, raw: Raw) -> Reading<u64> {
        let value = raw.value.saturating_sub(self.last.value);
        let enabled = raw.enabled_ns.saturating_sub(self.last.enabled_ns);
        let running = raw.running_ns.saturating_sub(self.last.running_ns);
        let scaled = match (enabled, running) {
            (0, 0) => value,
            (_, 0) => {
                return Err(Gap::not_yet(
                    "other counters had the PMU all the time since the last reading",
                ));
            }
            _ => scale(value, enabled, running),
        };
        self.last = raw;
        self.sum = self.sum.saturating_add(scaled);
        Ok(self.sum)
    }
}

fn scale(value: u64, enabled: u64, running: u64) -> u64 {
    // Clocks of leader and sibling may differ by a tick: never scale down.
    let enabled = enabled.max(running);
    let scaled = u128::from(value) * u128::from(enabled) / u128::from(running);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
