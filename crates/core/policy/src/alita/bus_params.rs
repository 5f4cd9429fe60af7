//! What law `bus-lock` can be told.

use super::SparsifyParams;
use crate::parts::check;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How those who make too many bus locks are held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BusActuator {
    /// The clock of cores that a group owns, where it can be set; else the group's CPU bandwidth;
    /// else its freezer.
    #[default]
    Auto,
    /// Clock modulation only.
    Clock,
    /// CPU bandwidth with short periods only.
    Bandwidth,
    /// The freezer's duty only.
    Freezer,
}

/// Parameters of `bus-lock`: the table `[law.bus-lock]`. The defaults are those of A-14.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BusLockParams {
    /// Length of a period, in seconds. Where samples come more seldom, that is the period.
    pub period_s: f64,
    /// Bus locks per second that the machine bears.
    pub quota_per_s: f64,
    /// Share of it that dirty cores share.
    pub shared_frac: f64,
    /// Bus locks per second from which a core or group is dirty.
    pub dirty_per_s: f64,
    /// How many times its share makes a burst.
    pub burst_ratio: f64,
    /// How long a burst is held after its last high period, in seconds.
    pub burst_hold_s: f64,
    /// Lowest start level: sixteenths (or eighths) of the time in which a clock runs.
    pub min_start_parts: u32,
    /// Weight of the past in a count that falls.
    pub past_weight_frac: f64,
    /// Below this share of its share a core gains a step.
    pub relax_frac: f64,
    /// Below this share of the quota, all together, nobody is held back; 0 = A-15 as printed.
    pub quiet_frac: f64,
    /// How those above their share are held back.
    pub actuator: BusActuator,
    /// Period of a limited group's CPU bandwidth, in milliseconds.
    pub quota_period_ms: u64,
    /// Groups, and services by name, that alone may be held back; empty = every batch group.
    pub allow: Vec<String>,
    /// Groups that are never held back.
    pub deny: Vec<String>,
}

impl Default for BusLockParams {
    fn default() -> Self {
        let of = SparsifyParams::default();
        Self {
            period_s: of.period_s,
            quota_per_s: of.quota_per_s,
            shared_frac: of.shared_frac,
            dirty_per_s: of.dirty_per_s,
            burst_ratio: of.burst_ratio,
            burst_hold_s: of.burst_hold_s,
            min_start_parts: of.min_start_parts,
            past_weight_frac: of.past_weight,
            relax_frac: of.relax_frac,
            quiet_frac: of.quiet_frac,
            actuator: BusActuator::default(),
            quota_period_ms: 10,
            allow: Vec::new(),
            deny: Vec::new(),
        }
    }
}

impl BusLockParams {
    /// Checks them.
    ///
    /// # Errors
    /// If one lies out of range.
    pub fn validate(&self) -> Result<(), String> {
        check(0.05..=60.0, &[("period_s", self.period_s)])?;
        check(1.0..=1e9, &[("quota_per_s", self.quota_per_s)])?;
        check(0.01..=1.0, &[("shared_frac", self.shared_frac)])?;
        check(0.0..=1e9, &[("dirty_per_s", self.dirty_per_s)])?;
        check(1.0..=1000.0, &[("burst_ratio", self.burst_ratio)])?;
        check(0.0..=3600.0, &[("burst_hold_s", self.burst_hold_s)])?;
        check(1.0..=7.0, &[("min_start_parts", f64::from(self.min_start_parts))])?;
        check(0.0..=0.99, &[("past_weight_frac", self.past_weight_frac)])?;
        check(0.0..=1.0, &[("relax_frac", self.relax_frac), ("quiet_frac", self.quiet_frac)])?;
        check(1.0..=1000.0, &[("quota_period_ms", self.quota_period_ms as f64)])
    }

    /// Those of the controller.
    pub(super) fn sparsify(&self) -> SparsifyParams {
        SparsifyParams {
            period_s: self.period_s,
            quota_per_s: self.quota_per_s,
            shared_frac: self.shared_frac,
            dirty_per_s: self.dirty_per_s,
            burst_ratio: self.burst_ratio,
            burst_hold_s: self.burst_hold_s,
            min_start_parts: self.min_start_parts,
            past_weight: self.past_weight_frac,
            relax_frac: self.relax_frac,
            quiet_frac: self.quiet_frac,
        }
    }
}
