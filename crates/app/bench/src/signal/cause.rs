//! What may make a service slower.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Of a turn in which nobody but this machine's tenants is disturbed.
const TURN: Duration = Duration::from_millis(400);
/// Bus locks stop all tenants of the host: never longer than half a second, its start included.
const BURST: Duration = Duration::from_millis(300);
/// Between two bursts of bus locks.
const PAUSE: Duration = Duration::from_secs(5);
/// So many bursts stay under five seconds of bus locks.
const BURSTS: u32 = 10;

/// One cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Its own load, doubled.
    Load,
    /// Integer loops at its own weight: they take CPUs and nothing else.
    Cpu,
    /// A last-level cache polluter on each CPU.
    Llc,
    /// A bandwidth polluter on each CPU.
    Membw,
    /// Split locks on one CPU: harm to all tenants of the host.
    BusLock,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 5] = [Cause::Load, Cause::Cpu, Cause::Llc, Cause::Membw, Cause::BusLock];
    /// Those that hurt nobody outside this machine.
    pub const SAFE: [Cause; 4] = [Cause::Load, Cause::Cpu, Cause::Llc, Cause::Membw];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Load => "load",
            Cause::Cpu => "cpu",
            Cause::Llc => "llc",
            Cause::Membw => "membw",
            Cause::BusLock => "bus-lock",
        }
    }

    pub(super) fn turn(self) -> Duration {
        if self == Cause::BusLock { BURST } else { TURN }
    }

    /// After each turn in which it was on.
    pub(super) fn pause(self) -> Duration {
        if self == Cause::BusLock { PAUSE } else { Duration::ZERO }
    }

    pub(super) fn pairs(self, wanted: u32) -> u32 {
        if self == Cause::BusLock { wanted.min(BURSTS) } else { wanted }
    }

    /// How long so many pairs take, with room for the changes between them.
    pub(super) fn seconds(self, pairs: u32) -> f64 {
        let pair = 2 * (self.turn() + super::turns::EDGE) + self.pause() + TURN;
        (pair * pairs).as_secs_f64()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Cause {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Cause::name).join(", ");
        let found = Self::ALL.into_iter().find(|cause| cause.name() == text);
        found.ok_or_else(|| format!("`{text}` is no cause; there are {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_locks_stay_under_half_a_second_at_a_stretch_and_five_in_all() {
        let lock = Cause::BusLock;
        let stretch = lock.turn() + super::super::turns::EDGE;
        assert!(stretch < Duration::from_millis(500), "{stretch:?}");
        assert!(stretch * lock.pairs(1000) < Duration::from_secs(5));
        assert_eq!(Cause::Llc.pairs(1000), 1000);
    }

    #[test]
    fn names_are_read_back() {
        for cause in Cause::ALL {
            assert_eq!(cause.name().parse(), Ok(cause));
        }
        assert!("noise".parse::<Cause>().unwrap_err().contains("bus-lock"));
    }
}
