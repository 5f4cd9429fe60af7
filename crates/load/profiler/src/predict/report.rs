//! What a check of predictions is, as JSON.

use super::{Form, Part};
use crate::stats::Estimate;
use crate::{Machine, Profile, Watched};
use quell_pressure::Resource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of [`PredictReport`]'s schema.
pub const PREDICT_SCHEMA: &str = "quell.predict/1";

/// A predicted loss of speed, in percent.
pub type Prediction = Estimate;

/// One program beside another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// Who is slowed.
    pub a: String,
    /// Who runs beside it.
    pub b: String,
    /// The predicted loss of A's speed, in percent, by a model that saw no pair with A or B.
    pub predicted: f64,
    /// The prediction's interval, lower end.
    pub predicted_low: f64,
    /// The prediction's interval, upper end.
    pub predicted_high: f64,
    /// The measured loss of A's speed, in percent.
    pub measured: f64,
    /// The measurement's interval, lower end.
    pub measured_low: f64,
    /// The measurement's interval, upper end.
    pub measured_high: f64,
    /// The form that was chosen for this pair.
    pub form: Form,
    /// What A would lose by B's pressure on each resource alone, in percent.
    #[serde(default)]
    pub by_resource: BTreeMap<Resource, f64>,
    /// How much B presses on each: the intensity of the bubble that stands for it, in percent.
    #[serde(default)]
    pub scores: BTreeMap<Resource, f64>,
    /// What A would lose beside B as a mixture of kernels, in percent; null without witnesses.
    #[serde(default)]
    pub by_mixture: Option<f64>,
    /// That mixture: what B is like, and for what share of the time.
    #[serde(default)]
    pub mixture: Vec<Part>,
    /// What A's mean loss beside the others would have said.
    pub mean_of_others: f64,
    /// Whether the host ran both CPUs on one core while this was measured, at the last try too.
    #[serde(default)]
    pub disturbed: bool,
    /// How often it was measured: again after the others where it had been disturbed. The last try
    /// counts, whatever it says.
    #[serde(default = "once")]
    pub tries: u32,
    /// The share of time that the host took from the CPUs meanwhile (steal), in percent; null where
    /// that is not told.
    #[serde(default)]
    pub steal_percent: Option<f64>,
}

fn once() -> u32 {
    1
}

fn one_pass() -> usize {
    1
}

impl Pair {
    /// How far the prediction is off, in points.
    #[must_use]
    pub fn error(&self) -> f64 {
        (self.predicted - self.measured).abs()
    }
}

/// What is to be said of the pairs in which the host disturbed neither the measurement nor a profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Undisturbed {
    /// How many.
    pub pairs: usize,
    /// Mean absolute difference of predicted and measured.
    pub mean_abs_error_points: f64,
    /// How many of them lost more than 10 % of their speed.
    pub pairs_above_10_percent: usize,
}

/// How well one form does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FormError {
    /// The form.
    pub form: Form,
    /// Its mean absolute error over all pairs, each left out with its programs.
    pub mean_abs_error_points: f64,
}

/// A check of predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictReport {
    /// `quell.predict/1`.
    pub schema: String,
    /// Where it was measured.
    pub machine: Machine,
    /// All pairs.
    pub pairs: Vec<Pair>,
    /// Mean absolute difference of predicted and measured, over all pairs, disturbed ones included.
    pub mean_abs_error_points: f64,
    /// The same over the pairs that were not disturbed; null if there are none.
    #[serde(default)]
    pub undisturbed: Option<Undisturbed>,
    /// The same over all pairs by the first try of each, as if nobody had looked at the host; null if
    /// none was measured again.
    #[serde(default)]
    pub mean_abs_error_points_first_tries: Option<f64>,
    /// The same for predicting each program's mean loss beside the others.
    pub mean_of_others_error_points: f64,
    /// The mean half-width of the measurements' intervals: no prediction can be better than that.
    pub measurement_half_width_points: f64,
    /// How many pairs lost more than 10 % of their speed.
    pub pairs_above_10_percent: usize,
    /// Each form by itself.
    pub forms: Vec<FormError>,
    /// How often all programs were profiled and all pairs measured; profiles and pairs are means over
    /// these passes.
    #[serde(default = "one_pass")]
    pub passes: usize,
    /// What the host was seen to do while pairs were measured; null where it was not looked at.
    #[serde(default)]
    pub host: Option<Watched>,
    /// What it rests on: the profiles of each pass, in the order of the list.
    #[serde(default)]
    pub profiles: Vec<Vec<Profile>>,
    /// How long it took.
    pub seconds: f64,
}
