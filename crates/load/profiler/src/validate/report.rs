//! What a validation is, as JSON.

use crate::stats::Estimate;
use crate::{Machine, Watched};
use quell_pressure::{CacheRoom, Resource};
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
    /// What was seen: in percent of what was seen right beside at full or at no pressure, where the
    /// observer sees more than the kernel; else in the observer's unit.
    pub value: f64,
}

/// Who looked and saw nothing of a kernel, so that its own work is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unseen {
    /// Who looked, and at what.
    pub observer: String,
    /// Pearson's r of intensity and what was seen; null where nothing changed.
    pub r: Option<f64>,
    /// The change from 0 to 100 over the noise of one level; null where nothing was noise.
    pub effect_over_noise: Option<f64>,
    /// Medians, level by level.
    pub levels: Vec<LevelValue>,
}

/// How straight a kernel's line is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelLinearity {
    /// Pressed on what.
    pub resource: Resource,
    /// Who looked, and at what.
    pub observer: String,
    /// Whether the observer shares nothing with the kernel but the resource, and counts for itself: lines of the
    /// kernel that it finds in a cache are that.
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
    /// What the host did with the two CPUs meanwhile; null where what is seen does not depend on it.
    #[serde(default)]
    pub host: Option<Watched>,
    /// What of the last-level cache was to be had, which was 100 % here; null where that is not known, or was said.
    #[serde(default)]
    pub cache_room: Option<CacheRoom>,
    /// An observer that saw less than its noise, so that all this is told of the kernel's own work; null where it is not.
    #[serde(default)]
    pub unseen: Option<Unseen>,
    /// Medians, level by level.
    pub levels: Vec<LevelValue>,
}

impl KernelLinearity {
    /// Who looked, and at what, with the size of the cache that is told where less of it was to be had.
    #[must_use]
    pub fn seen_by(&self) -> String {
        let told = |room: CacheRoom| format!("; {} KiB are told", room.told_bytes >> 10);
        format!("{}{}", self.observer, self.cache_room.map_or_else(String::new, told))
    }

    /// One line for a terminal.
    #[must_use]
    pub fn words(&self) -> String {
        let or_dash = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let disturbed = self.host.as_ref().and_then(Watched::words);
        format!(
            "{:<18} r {:>7}  off {:>5} points  by {}{}",
            self.resource.name(),
            or_dash(self.r, 4),
            or_dash(self.max_deviation_points, 1),
            self.seen_by(),
            disturbed.map_or(String::new(), |words| format!("; {words}"))
        )
    }
}

/// How fast a kernel comes and goes at full intensity: medians, and the worst of all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelTiming {
    /// Pressed on what.
    pub resource: Resource,
    /// Mapping, touching and connecting everything.
    pub arm_ms: f64,
    /// From the start of the armed kernel until its last thread had done a burst of work; null if
    /// one never did.
    pub start_ms: Option<f64>,
    /// The worst of them.
    pub start_worst_ms: Option<f64>,
    /// From the wish to end until the last thread had stopped pressing.
    pub stop_ms: Option<f64>,
    /// The worst of them.
    pub stop_worst_ms: Option<f64>,
}

impl KernelTiming {
    /// One line for a terminal.
    #[must_use]
    pub fn words(&self) -> String {
        let or_dash = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.2}"));
        format!(
            "{:<18} armed in {:.1} ms, at work after {} ms, stopped after {} ms",
            self.resource.name(),
            self.arm_ms,
            or_dash(self.start_ms),
            or_dash(self.stop_ms)
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
    /// What the host did with the two CPUs meanwhile; null where nothing of that is to be seen.
    #[serde(default)]
    pub host: Option<Watched>,
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
    /// Its lower quartile over rounds.
    #[serde(default)]
    pub loss_low: f64,
    /// Its upper quartile.
    #[serde(default)]
    pub loss_high: f64,
    /// Rounds in which it was looked at: more where it was not clear whether that is too much.
    #[serde(default)]
    pub looks: usize,
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
    /// How fast kernels come and go; empty if not measured.
    #[serde(default)]
    pub timing: Vec<KernelTiming>,
    /// Impact on applications; empty if not measured.
    pub impact: Vec<Impact>,
    /// Cross-talk; empty if not measured.
    pub crosstalk: Vec<Crosstalk>,
    /// Cross-talk: the CPU that answers the disk, whoever asks it: whoever works on the disk sat there. Null where each CPU
    /// is answered for itself, or it is not known.
    #[serde(default)]
    pub disk_cpu: Option<u32>,
    /// Cross-talk: what the host did with the two CPUs meanwhile; null where it was not looked.
    #[serde(default)]
    pub crosstalk_host: Option<Watched>,
    /// What was not validated, and why.
    pub absent: BTreeMap<Resource, String>,
    /// Why it ended before its end; null if it did not. What was measured until then is here.
    #[serde(default)]
    pub ended_early: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

impl Validation {
    pub(super) fn new(machine: Machine) -> Validation {
        Validation {
            schema: VALIDATE_SCHEMA.to_owned(),
            machine,
            kernels: Vec::new(),
            timing: Vec::new(),
            impact: Vec::new(),
            crosstalk: Vec::new(),
            disk_cpu: None,
            crosstalk_host: None,
            absent: BTreeMap::new(),
            ended_early: None,
            seconds: 0.0,
        }
    }

    /// Whether nothing was measured.
    pub(super) fn is_empty(&self) -> bool {
        self.kernels.is_empty()
            && self.timing.is_empty()
            && self.impact.is_empty()
            && self.crosstalk.is_empty()
    }
}
