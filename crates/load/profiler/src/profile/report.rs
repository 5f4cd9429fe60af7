//! What a profile is, as JSON.

use super::{Class, ProfileOptions};
use crate::stats::Estimate;
use crate::{Machine, Metric, Subject};
use quell_pressure::Resource;
use quell_types::CpuSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of [`Profile`]'s schema.
pub const PROFILE_SCHEMA: &str = "quell.profile/1";

/// Who was profiled, and by what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// What its speed was counted in.
    pub metric: Metric,
    /// Its CPUs.
    pub cpus: CpuSet,
}

/// A point of a sensitivity curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// The pressure's intensity.
    pub intensity_percent: f64,
    /// The workload's speed as a share of that alone.
    pub speed_frac: Estimate,
}

/// What a workload tolerates and what it causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// `quell.profile/1`.
    pub schema: String,
    /// Where it was measured.
    pub machine: Machine,
    /// Who.
    pub workload: Workload,
    /// The pressure's CPUs.
    pub pressure_cpus: CpuSet,
    /// Whether workload and pressure shared one CPU by time. Such figures are not those of hardware
    /// threads that share a core.
    pub same_core: bool,
    /// Whether only the most shared resources were measured, in short.
    pub quick: bool,
    /// The share of its speed alone that had to be kept.
    pub threshold_frac: f64,
    /// The highest intensity, 0..100, at which that was kept.
    pub tolerated: BTreeMap<Resource, Estimate>,
    /// What a kernel at full intensity loses of its own work beside the workload, in percent; absent
    /// where the workload could not be stopped to compare.
    pub caused: BTreeMap<Resource, Estimate>,
    /// Speed against intensity.
    pub curves: BTreeMap<Resource, Vec<CurvePoint>>,
    /// Speed of the kernel itself, as a reporter, against the intensity of another one like it: what
    /// turns a loss caused into an intensity.
    pub yardsticks: BTreeMap<Resource, Vec<CurvePoint>>,
    /// Resources that were not measured, and why.
    pub absent: BTreeMap<Resource, String>,
    /// What kind of neighbour it is, as far as the signals tell.
    pub class: Class,
    /// What else a reader should know.
    pub notes: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

impl Profile {
    pub(super) fn new(
        subject: &dyn Subject,
        options: &ProfileOptions,
        machine: Machine,
        absent: BTreeMap<Resource, String>,
    ) -> Profile {
        Profile {
            schema: PROFILE_SCHEMA.to_owned(),
            machine,
            workload: Workload {
                name: subject.name().to_owned(),
                metric: subject.metric(),
                cpus: options.seats.workload.clone(),
            },
            pressure_cpus: options.seats.pressure.clone(),
            same_core: options.seats.same_core,
            quick: options.quick,
            threshold_frac: options.threshold,
            tolerated: BTreeMap::new(),
            caused: BTreeMap::new(),
            curves: BTreeMap::new(),
            yardsticks: BTreeMap::new(),
            absent,
            class: Class::default(),
            notes: Vec::new(),
            seconds: 0.0,
        }
    }
}
