//! The control of the harm's estimate: turns in which nobody is stopped.

use super::outcome::Trial;
use super::turns::Ratios;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much harm is measured where there is none to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HarmControl {
    /// The harm of each trial: the greatest of three ratios, so on average a little above 1.
    pub harm: Ratios,
    /// The latency ratio of each trial.
    pub latency: Ratios,
    /// Root of the mean square of the harms in ln: how far one is off.
    pub harm_deviation_ln: f64,
    /// Half the width of the intervals in ln, the mean over trials: how far it is said to be off.
    pub half_width_ln: f64,
}

impl HarmControl {
    /// None if none was measured.
    pub(super) fn of(trials: &[Trial]) -> Option<Self> {
        let all = |of: fn(&Trial) -> Option<f64>| trials.iter().filter_map(of);
        let harm = Ratios::of(all(|trial| trial.harm_ratio))?;
        let latency = Ratios::of(all(|trial| trial.latency_ratio))?;
        let count = f64::from(harm.pairs);
        // Of the harm, as the intervals are: whichever factor was greatest.
        let squares: f64 = all(|trial| trial.harm_ratio).map(|ratio| ratio.ln().powi(2)).sum();
        let widths: f64 = all(|trial| Some(0.5 * (trial.harm_high? / trial.harm_low?).ln())).sum();
        let harm_deviation_ln = (squares / count).sqrt();
        Some(Self { harm, latency, harm_deviation_ln, half_width_ln: widths / count })
    }

    /// In a line.
    pub(super) fn in_words(self) -> String {
        let (harm, latency) = (self.harm.in_words(), self.latency.in_words());
        format!(
            "control: harm {harm}, latency {latency}; a harm is off by {:.3} in ln, its interval \
             is half {:.3} wide\n",
            self.harm_deviation_ln, self.half_width_ln
        )
    }
}
