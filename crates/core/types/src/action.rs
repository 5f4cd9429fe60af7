//! What a platform is asked to do, and what came of it.

use crate::{Burst, Knob, Probe, Setting, TaskId, Tenant, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One thing to do. An action returns nothing that a policy uses: the next sample shows what
/// really happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Set a knob. The platform saves the old setting on disk before the first write.
    Set {
        /// Which.
        #[serde(flatten)]
        knob: Knob,
        /// To what.
        to: Setting,
    },
    /// Start a task of the queue in its batch group.
    StartTask {
        /// Which.
        task: TaskId,
        /// Where.
        tenant: Tenant,
    },
    /// Stop a running task; it goes back to ready.
    StopTask {
        /// Which.
        task: TaskId,
    },
    /// Play a coded shift of groups' duty, to see who hurts whom.
    Play(Experiment),
    /// Press on one shared resource beside a service for a moment, to see what it tolerates.
    Probe(Probe),
    /// End that pressure at once; what was seen until then is in the next sample.
    EndProbe {
        /// Which.
        id: u64,
    },
    /// Time accesses on an idle CPU for a moment, to see what neighbours do to them.
    Burst(Burst),
}

/// Groups frozen and freed after a code, chip by chip, played by the platform with a dead-man
/// release: whatever happens, all groups run again after `bound`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// Tells traces apart.
    pub id: u64,
    /// Who is shifted.
    pub groups: Vec<Tenant>,
    /// Whose progress is traced.
    pub victims: Vec<Tenant>,
    /// One entry a chip: true = groups run, false = groups are held.
    pub code: Vec<bool>,
    /// Length of a chip in microseconds.
    pub chip_us: u64,
    /// The latest release, in microseconds from the start.
    pub bound_us: u64,
}

impl Experiment {
    /// How long it plays.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_micros(self.chip_us * self.code.len() as u64)
    }
}

/// What became of an action, for the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// What was asked.
    pub action: Action,
    /// When it was done.
    pub time: Time,
    /// Why it failed; none if it was carried out (or is on its way).
    pub error: Option<String>,
}
