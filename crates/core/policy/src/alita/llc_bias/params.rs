//! Parameters of law `llc-bias`.

use crate::parts::check;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of `llc-bias`: the table `[law.llc-bias]`. The defaults are those of A-19;
/// `starved_cpu_frac` is Quell's own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LlcBiasParams {
    /// Length of an interval, in seconds.
    pub period_s: f64,
    /// Whether a tenant is confined as A-23 is printed: the division of the cache alone decides,
    /// whoever suffers from it.
    pub literal_fairness: bool,
    /// Share of its CPU time that a tenant may lose by what it lacks of its share of the cache
    /// before somebody is confined for it. Not used with `literal_fairness`.
    pub starved_cpu_frac: f64,
    /// Coefficient at which the cache counts as unfairly divided: acted on with `literal_fairness`;
    /// in any case all are relaxed `relax_guard_ratio` above it.
    pub unfair_ratio: f64,
    /// Traffic of the socket below which that hurts nobody, in gigabytes per second.
    pub least_traffic_gb_per_s: f64,
    /// Share of the cache that must be filled.
    pub least_filled_frac: f64,
    /// How long a slot is kept at least, in seconds.
    pub tenure_s: f64,
    /// How far above `unfair_ratio` culprits are relaxed.
    pub relax_guard_ratio: f64,
    /// Between two steps of relaxing, in seconds.
    pub relax_period_s: f64,
    /// Traffic at which rates are halved, in gigabytes per second.
    pub full_gb_per_s: f64,
    /// How far below it rates are raised.
    pub full_guard_gb_per_s: f64,
    /// Lowest rate in percent.
    pub floor_percent: u32,
    /// Step by which rates are raised, in percent; none where the throttle is not linear.
    pub step_percent: Option<u32>,
}

impl Default for LlcBiasParams {
    fn default() -> Self {
        Self {
            period_s: 5.0,
            literal_fairness: false,
            starved_cpu_frac: 0.05,
            unfair_ratio: 0.95,
            least_traffic_gb_per_s: 3.0,
            least_filled_frac: 0.1,
            tenure_s: 60.0,
            relax_guard_ratio: 0.03,
            relax_period_s: 30.0,
            full_gb_per_s: 50.0,
            full_guard_gb_per_s: 5.0,
            floor_percent: 20,
            step_percent: Some(10),
        }
    }
}

impl LlcBiasParams {
    /// Checks them.
    ///
    /// # Errors
    /// If one lies out of range.
    pub fn validate(&self) -> Result<(), String> {
        check(0.01..=3600.0, &[("period_s", self.period_s)])?;
        check(0.001..=1.0, &[("starved_cpu_frac", self.starved_cpu_frac)])?;
        check(0.0..=1.0, &[("unfair_ratio", self.unfair_ratio)])?;
        check(0.0..=1.0, &[("relax_guard_ratio", self.relax_guard_ratio)])?;
        check(0.0..=1.0, &[("least_filled_frac", self.least_filled_frac)])?;
        check(0.0..=1e6, &[("least_traffic_gb_per_s", self.least_traffic_gb_per_s)])?;
        check(0.0..=1e6, &[("full_gb_per_s", self.full_gb_per_s)])?;
        check(0.0..=self.full_gb_per_s, &[("full_guard_gb_per_s", self.full_guard_gb_per_s)])?;
        check(0.0..=86_400.0, &[("tenure_s", self.tenure_s)])?;
        check(0.0..=86_400.0, &[("relax_period_s", self.relax_period_s)])?;
        check(1.0..=100.0, &[("floor_percent", f64::from(self.floor_percent))])?;
        check(1.0..=100.0, &[("step_percent", f64::from(self.step_percent.unwrap_or(1)))])
    }
}
