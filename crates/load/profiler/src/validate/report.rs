//! What a validation is, as JSON.

use crate::Machine;
use crate::stats::Estimate;
use quell_pressure::Resource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of [`Validation`]'s schema.
pub const VALIDATE_SCHEMA: &str = "quell.validate/1";

/// What an observer saw at one intensity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelValue {
    /// The kernel's intensity.
    pub intensity_percent: f64,
    /// What was seen, in the observer's unit.
    pub value: f64,
}

/// How straight a kernel's line is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelLinearity {
    /// Pressed on what.
    pub resource: Resource,
    /// Who looked, and at what.
    pub observer: String,
    /// Whether the observer shares nothing with the kernel but the resource.
    pub independent: bool,
    /// Pearson's r of intensity and what was seen; null where nothing changed.
    pub r: Option<f64>,
    /// The largest distance from the straight line through 0 and 100, in points.
    pub max_deviation_points: Option<f64>,
    /// The share of the intensity at which half of the effect is there: 0.5 on a straight line.
    pub half_effect_frac: Option<f64>,
    /// The change from 0 to 100 over the noise of one level (its interquartile range): below about
    /// 10 the other figures tell of the noise more than of the kernel.
    pub effect_over_noise: Option<f64>,
    /// Medians, level by level.
    pub levels: Vec<LevelValue>,
}

impl KernelLinearity {
    /// One line for a terminal.
    #[must_use]
    pub fn words(&self) -> String {
        let or_dash = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        format!(
            "{:<18} r {:>7}  off {:>5} points  by {}",
            self.resource.name(),
            or_dash(self.r, 4),
            or_dash(self.max_deviation_points, 1),
            self.observer
        )
    }
}

/// A point of an impact curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImpactPoint {
    /// The kernel's intensity.
    pub intensity_percent: f64,
    /// The application's speed as a share of that alone.
    pub speed_frac: Estimate,
}

/// What pressure does to an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Impact {
    /// Which one.
    pub application: String,
    /// Pressed on what.
    pub resource: Resource,
    /// Its speed at each intensity.
    pub points: Vec<ImpactPoint>,
}

/// What a kernel costs another on the other CPU, both at 40 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crosstalk {
    /// Who presses.
    pub source: Resource,
    /// Whose work is lost.
    pub victim: Resource,
    /// The share of it that is lost, 0..1; below 0 if it did more.
    pub loss_frac_at_40: f64,
    /// Whether both belong to the memory path, where some cross-talk is physics.
    pub same_group: bool,
}

/// A validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Validation {
    /// `quell.validate/1`.
    pub schema: String,
    /// Where it was measured.
    pub machine: Machine,
    /// Linearity.
    pub kernels: Vec<KernelLinearity>,
    /// Impact on applications; empty if not measured.
    pub impact: Vec<Impact>,
    /// Cross-talk; empty if not measured.
    pub crosstalk: Vec<Crosstalk>,
    /// What was not validated, and why.
    pub absent: BTreeMap<Resource, String>,
    /// How long it took.
    pub seconds: f64,
}

impl Validation {
    pub(super) fn new(machine: Machine) -> Validation {
        Validation {
            schema: VALIDATE_SCHEMA.to_owned(),
            machine,
            kernels: Vec::new(),
            impact: Vec::new(),
            crosstalk: Vec::new(),
            absent: BTreeMap::new(),
            seconds: 0.0,
        }
    }
}
