//! Short pressure beside a service, to see what it tolerates (B-9, R-2).

use crate::{ChipTrace, Tenant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The group in which a platform keeps what presses; its CPU time is in the traces by this name.
pub const PROBE_GROUP: &str = "quell-probe";

/// What all cores share, and a probe presses on. The names are those of `quell pressure`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SharedResource {
    /// Memory bandwidth.
    MemoryBandwidth,
    /// Capacity of the last-level cache.
    LlcCapacity,
    /// Bandwidth of the last-level cache.
    LlcBandwidth,
}

impl SharedResource {
    /// All of them.
    pub const ALL: [SharedResource; 3] = [
        SharedResource::MemoryBandwidth,
        SharedResource::LlcCapacity,
        SharedResource::LlcBandwidth,
    ];

    /// The name, the same as in `quell pressure` and in profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SharedResource::MemoryBandwidth => "memory-bandwidth",
            SharedResource::LlcCapacity => "llc-capacity",
            SharedResource::LlcBandwidth => "llc-bandwidth",
        }
    }
}

impl fmt::Display for SharedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Windows of quiet and of pressure in turn, played by the platform: it starts what presses in a
/// group of its own, and ends it at the end, whatever happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// Tells traces apart.
    pub id: u64,
    /// Beside whom.
    pub service: Tenant,
    /// On what.
    pub resource: SharedResource,
    /// How hard, 0..100.
    pub intensity_percent: f64,
    /// Length of a window in microseconds.
    pub window_us: u64,
    /// Windows of pressure; between them, before and after are quiet ones.
    pub pressed: u32,
    /// The latest end, in microseconds from the start: until then pressure must be ready, played and
    /// gone.
    pub bound_us: u64,
}

impl Probe {
    /// Whether there is pressure, window by window.
    #[must_use]
    pub fn code(&self) -> Vec<bool> {
        (0..=2 * self.pressed).map(|window| window % 2 == 1).collect()
    }

    /// How long the windows take together.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_micros(self.window_us.saturating_mul(u64::from(2 * self.pressed + 1)))
    }

    /// The latest end after the start.
    #[must_use]
    pub fn bound(&self) -> Duration {
        Duration::from_micros(self.bound_us)
    }
}

/// A probe that ended since the last sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeTrace {
    /// What was asked.
    pub probe: Probe,
    /// Its windows in order; `running` says whether there was pressure.
    pub windows: Vec<ChipTrace>,
    /// Why it was cut short; none if it was played to its end.
    pub aborted: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_window_of_pressure_has_quiet_ones_around_it() {
        let probe = Probe {
            id: 1,
            service: "web".into(),
            resource: SharedResource::LlcCapacity,
            intensity_percent: 20.0,
            window_us: 50_000,
            pressed: 2,
            bound_us: 1_000_000,
        };
        assert_eq!(probe.code(), [false, true, false, true, false]);
        assert_eq!(probe.duration(), Duration::from_millis(250));
        for resource in SharedResource::ALL {
            assert_eq!(serde_json::to_value(resource).unwrap(), resource.name());
        }
    }
}
