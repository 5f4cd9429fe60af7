//! What a policy wants, why, and what became of it. Reasons are data.

use crate::{Burst, Experiment, Knob, Probe, Setting, Tenant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Who wins when two policies want one knob, highest first. A lower one may tighten what a
/// higher one set, never relax it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Precedence {
    /// Admission of new work.
    Admission,
    /// Placement and migration.
    Placement,
    /// Sizing of partitions between service and batch.
    Partition,
    /// Throttling of a polluter.
    Polluter,
    /// The service is in danger.
    Emergency,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "wish", rename_all = "snake_case")]
pub enum Wish {
    /// A knob shall stand at a setting until another wish replaces it.
    Set {
        /// Which.
        #[serde(flatten)]
        knob: Knob,
        /// To what.
        to: Setting,
    },
    /// Quell shall no longer own this knob: its first setting comes back.
    Release {
        /// Which.
        #[serde(flatten)]
        knob: Knob,
    },
    /// Whether tasks of the queue may run in this group.
    RunTasks {
        /// Which group.
        tenant: Tenant,
        /// False: running tasks are stopped and go back to ready.
        allowed: bool,
        /// How many at once.
        at_most: u32,
    },
    /// Play an experiment once.
    Play(Experiment),
    /// Press beside a service for a moment.
    Probe(Probe),
    /// End that at once.
    EndProbe {
        /// Which.
        id: u64,
    },
    /// Time accesses on an idle CPU for a moment.
    Burst(Burst),
}

/// A value that a rule looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Its name with its unit, as `slack_frac`.
    pub name: Cow<'static, str>,
    /// Its value.
    pub value: f64,
}

impl Input {
    /// A named value.
    pub fn new(name: impl Into<Cow<'static, str>>, value: f64) -> Self {
        Self { name: name.into(), value }
    }
}

/// A wish with its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Proposal {
    /// The control law.
    pub policy: Cow<'static, str>,
    /// Its rank.
    pub precedence: Precedence,
    /// What it wants.
    pub wish: Wish,
    /// The rule that fired, as `slack-below-shrink`.
    pub rule: Cow<'static, str>,
    /// What the rule looked at.
    pub inputs: Vec<Input>,
}

/// What arbitration made of a proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It stands.
    Accepted,
    /// It stands, but tightened to what a higher policy allows.
    Tightened {
        /// The setting that stands.
        to: Setting,
    },
    /// A higher policy holds the knob tighter.
    Overruled {
        /// Whose wish stands.
        by: String,
    },
    /// The machine cannot do it.
    NotControllable {
        /// Why.
        why: String,
    },
}
