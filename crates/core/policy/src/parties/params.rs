//! Parameters of `parties`.

use crate::parts::{OnDisable, check};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of `parties`: the table `[law.parties]`. The defaults are the authors' own but
/// for those of what is ours: calm, use, memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PartiesParams {
    /// Length of a tick, in seconds.
    pub period_s: f64,
    /// A service whose both slacks lie below this is given more.
    pub upsize_below_slack: f64,
    /// A service whose both slacks lie above this gives something back.
    pub downsize_above_slack: f64,
    /// Ticks in a row since the last change of anything in which both slacks of a service must
    /// have lain above `downsize_above_slack` before it gives something back.
    pub calm_ticks_count: u32,
    /// Share of its CPUs that a service may be using once it has given a core or clock away.
    pub use_max_frac: f64,
    /// Ticks for which each change is watched.
    pub watch_ticks_count: u32,
    /// Ticks for which a service is not asked again after a downsizing that did harm.
    pub bar_ticks_count: u32,
    /// Ticks for which a step that did harm is not tried again at most: from `bar_ticks_count`
    /// the time doubles with each failure of that resource.
    pub bar_ticks_max_count: u32,
    /// What failed is forgotten once a service with slack to spare gets less than this share of
    /// the requests per second at which it failed.
    pub forget_below_ratio: f64,
    /// Step of a service's top frequency, in kHz.
    pub frequency_step_khz: u64,
    /// What batch does while no core is free.
    pub on_disable: OnDisable,
}

impl Default for PartiesParams {
    fn default() -> Self {
        Self {
            period_s: 0.1,
            upsize_below_slack: 0.05,
            downsize_above_slack: 0.20,
            calm_ticks_count: 20,
            use_max_frac: 0.8,
            watch_ticks_count: 5,
            bar_ticks_count: 100,
            bar_ticks_max_count: 36_000,
            forget_below_ratio: 0.8,
            frequency_step_khz: 100_000,
            on_disable: OnDisable::Freeze,
        }
    }
}

impl PartiesParams {
    /// Checks them.
    ///
    /// # Errors
    /// If one lies out of range or the two bounds are in the wrong order.
    pub fn validate(&self) -> Result<(), String> {
        check(0.01..=60.0, &[("period_s", self.period_s)])?;
        check(-1.0..=1.0, &[("upsize_below_slack", self.upsize_below_slack)])?;
        check(1.0..=10_000.0, &[("watch_ticks_count", f64::from(self.watch_ticks_count))])?;
        check(0.0..=1e6, &[("bar_ticks_count", f64::from(self.bar_ticks_count))])?;
        check(0.0..=1e9, &[("bar_ticks_max_count", f64::from(self.bar_ticks_max_count))])?;
        check(1.0..=1e6, &[("calm_ticks_count", f64::from(self.calm_ticks_count))])?;
        check(0.01..=1.0, &[("use_max_frac", self.use_max_frac)])?;
        check(0.0..=1.0, &[("forget_below_ratio", self.forget_below_ratio)])?;
        check(1.0..=1e7, &[("frequency_step_khz", self.frequency_step_khz as f64)])?;
        let bounds = self.upsize_below_slack..=1.0;
        check(bounds, &[("downsize_above_slack", self.downsize_above_slack)])
    }
}
