//! What of law `culprit` can be chosen.

use super::USUAL_WEIGHT;
use crate::parts::check;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of `culprit`: the table `[law.culprit]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CulpritParams {
    /// Factor by which a culprit may still lengthen a victim's CPU time per request. Latency grows by about twice as
    /// much where a service is busy for half of the time.
    pub bearable_ratio: f64,
    /// Who is surely named, and slows a victim by no more than this factor, is not limited: it is told, and
    /// looked at again. The usual one is somewhat more than the tenth that is worth a limit: harm comes and goes, and
    /// is seen while it is there.
    pub least_harm_ratio: f64,
    /// Probability of more from which it is limited.
    pub least_harm_frac: f64,
    /// The least that a culprit keeps, in CPUs; several who slow a service together keep it together, 0.01 each.
    pub least_cpus: f64,
    /// Period of its CPU bandwidth, in milliseconds.
    pub quota_period_ms: u64,
    /// Length of a first term, in seconds.
    pub term_s: f64,
    /// Length of the longest term, in seconds.
    pub longest_term_s: f64,
    /// Share of its time for which a suspect may be held to find out.
    pub held_share_frac: f64,
    /// Groups that are named, but never limited.
    pub spared: Vec<String>,
    /// Weight of a victim while somebody is limited for its sake and CPUs have time left: it is served
    /// first. 100 is the usual weight, and changes nothing.
    pub victim_weight: u32,
    /// Whether batch groups that are not spared are in the idle class meanwhile. Work that comes at
    /// its own pace is done all the same, somewhat later; who sleeps by the clock does less.
    pub batch_idle: bool,
    /// Whether a reporter tells what a culprit takes: short bursts on a CPU that is idle, at most
    /// 1 % of it. For `quell who` too.
    pub reporters: bool,
    /// Whether it weighs how much a service gets done beside whom: that accuses, and tells how much harm
    /// is done, at no cost to anybody. For `quell who` too.
    pub company: bool,
    /// Whether a group of which it is watched what it wants, while others are held, comes before all others
    /// for that sample: its weight is raised. Else fewer are named where a service catches up meanwhile.
    pub watched_first: bool,
}

impl Default for CulpritParams {
    fn default() -> Self {
        Self {
            bearable_ratio: 1.04,
            least_harm_ratio: 1.15,
            least_harm_frac: 0.98,
            least_cpus: 0.05,
            quota_period_ms: 20,
            term_s: 30.0,
            longest_term_s: 600.0,
            held_share_frac: 0.01,
            spared: Vec::new(),
            victim_weight: 10_000,
            batch_idle: true,
            reporters: true,
            company: true,
            watched_first: true,
        }
    }
}

impl CulpritParams {
    /// Checks them.
    ///
    /// # Errors
    /// If one lies out of range, or the longest term is shorter than the first.
    pub fn validate(&self) -> Result<(), String> {
        check(1.01..=10.0, &[("bearable_ratio", self.bearable_ratio)])?;
        check(1.0..=10.0, &[("least_harm_ratio", self.least_harm_ratio)])?;
        check(0.5..=0.999, &[("least_harm_frac", self.least_harm_frac)])?;
        check(f64::from(USUAL_WEIGHT)..=10_000.0, &[("victim_weight", self.victim_weight.into())])?;
        check(0.001..=64.0, &[("least_cpus", self.least_cpus)])?;
        check(1.0..=1000.0, &[("quota_period_ms", self.quota_period_ms as f64)])?;
        check(1.0..=86_400.0, &[("term_s", self.term_s)])?;
        check(self.term_s..=86_400.0, &[("longest_term_s", self.longest_term_s)])?;
        check(0.0..=0.5, &[("held_share_frac", self.held_share_frac)])
    }
}
