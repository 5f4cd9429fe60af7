//! What a profile is, as JSON.

use super::{Class, ProfileOptions, Witness};
use crate::stats::Estimate;
use crate::{BandwidthModel, Machine, Metric, Subject, Watched};
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
    /// What was asked of it, in requests per second, if it is a service under load.
    #[serde(default)]
    pub requests_per_s: Option<f64>,
}

/// A point of a sensitivity curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// The pressure's intensity.
    pub intensity_percent: f64,
    /// The workload's speed as a share of that alone.
    pub speed_frac: Estimate,
    /// From so many pairs of windows; 0 in profiles that do not tell.
    #[serde(default)]
    pub pairs: usize,
}

/// A tolerated intensity that was found while the service was guarded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToleratedAt {
    /// The intensity, 0..100, and between which intensities it lies.
    pub tolerated: Estimate,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
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
    /// What a kernel at full intensity loses of its own work beside the workload, in percent. A
    /// workload that was not stopped is compared with its own idle moments; absent where it had none.
    pub caused: BTreeMap<Resource, Estimate>,
    /// Speed against intensity.
    pub curves: BTreeMap<Resource, Vec<CurvePoint>>,
    /// Speed of the kernel itself, as a reporter, against the intensity of another one like it: what
    /// turns a loss caused into an intensity.
    pub yardsticks: BTreeMap<Resource, Vec<CurvePoint>>,
    /// The speed that witnesses keep beside the workload, as a share of that alone.
    #[serde(default)]
    pub witnesses: BTreeMap<Witness, Estimate>,
    /// The same beside each kernel, against its intensity: what turns what witnesses lose into a mixture
    /// of kernels.
    #[serde(default)]
    pub bubbles: BTreeMap<Resource, BTreeMap<Witness, Vec<CurvePoint>>>,
    /// When a tolerated intensity was found anew while the service was guarded, in milliseconds since
    /// 1970; the others are as first measured.
    #[serde(default)]
    pub refreshed_unix_ms: BTreeMap<Resource, u64>,
    /// Memory traffic by load, of a service on a machine that counts it.
    #[serde(default)]
    pub bandwidth: Option<BandwidthModel>,
    /// Why there is no such model; null where there is one, and of what is no service.
    #[serde(default)]
    pub bandwidth_absent: Option<String>,
    /// Resources that were not measured, and why.
    pub absent: BTreeMap<Resource, String>,
    /// What kind of neighbour it is, as far as the signals tell.
    pub class: Class,
    /// What the host was seen to do meanwhile; null where that could not be looked at: beside a
    /// workload that was not stopped, or where workload and pressure share a core anyway.
    #[serde(default)]
    pub host: Option<Watched>,
    /// What else a reader should know.
    pub notes: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

impl Profile {
    /// A profile in which nothing was measured yet, for what is found of a service in use.
    #[must_use]
    pub fn begun(name: &str, machine: &Machine) -> Profile {
        let workload = Workload {
            name: name.to_owned(),
            metric: Metric::Requests,
            cpus: CpuSet::new(),
            requests_per_s: None,
        };
        Profile {
            schema: PROFILE_SCHEMA.to_owned(),
            machine: machine.clone(),
            workload,
            pressure_cpus: CpuSet::new(),
            same_core: false,
            quick: false,
            threshold_frac: 0.95,
            tolerated: BTreeMap::new(),
            caused: BTreeMap::new(),
            curves: BTreeMap::new(),
            yardsticks: BTreeMap::new(),
            witnesses: BTreeMap::new(),
            bubbles: BTreeMap::new(),
            refreshed_unix_ms: BTreeMap::new(),
            bandwidth: None,
            bandwidth_absent: None,
            absent: BTreeMap::new(),
            class: Class::default(),
            host: None,
            notes: Vec::new(),
            seconds: 0.0,
        }
    }

    pub(super) fn new(
        subject: &dyn Subject,
        options: &ProfileOptions,
        machine: Machine,
        absent: BTreeMap<Resource, String>,
    ) -> Profile {
        let mut profile = Profile::begun(subject.name(), &machine);
        profile.workload.metric = subject.metric();
        profile.workload.cpus = options.seats.workload.clone();
        profile.workload.requests_per_s = subject.requests_per_s();
        profile.pressure_cpus = options.seats.pressure.clone();
        profile.same_core = options.seats.same_core;
        profile.quick = options.quick;
        profile.threshold_frac = options.threshold;
        profile.absent = absent;
        profile
    }
}
