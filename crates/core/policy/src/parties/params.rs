//! Parameters of `parties`.

use crate::parts::{OnDisable, check};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of `parties`: the table `[law.parties]`. The defaults are the authors' own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PartiesParams {
    /// Length of a tick, in seconds.
    pub period_s: f64,
    /// A service whose both slacks lie below this is given more.
    pub upsize_below_slack: f64,
    /// A service whose both slacks lie above this gives something back.
    pub downsize_above_slack: f64,
    /// Ticks for which each change is watched.
    pub watch_ticks_count: u32,
    /// Ticks for which a service is not asked again after a downsizing that did harm.
    pub bar_ticks_count: u32,
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
            watch_ticks_count: 5,
            bar_ticks_count: 100,
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
        check(1.0..=1e7, &[("frequency_step_khz", self.frequency_step_khz as f64)])?;
        let bounds = self.upsize_below_slack..=1.0;
        check(bounds, &[("downsize_above_slack", self.downsize_above_slack)])
    }
}
