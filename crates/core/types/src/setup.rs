//! What is guarded, on what machine, with which knobs: fixed between two reloads.

use crate::{BytesPerSecond, CpuSet, Knob, KnobRange, Link, Tenant, Topology};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A service level objective: a percentile of sojourn time that shall stay under a target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slo {
    /// 0..1, as 0.99.
    pub percentile_frac: f64,
    /// The target in seconds.
    pub target_s: f64,
}

impl Slo {
    /// The target as a span.
    #[must_use]
    pub fn target(&self) -> Duration {
        Duration::from_secs_f64(self.target_s)
    }

    /// (target − latency) / target: negative when the objective is missed.
    #[must_use]
    pub fn slack(&self, latency_s: f64) -> f64 {
        (self.target_s - latency_s) / self.target_s
    }
}

/// A latency-critical service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceSpec {
    /// Its name.
    pub name: Tenant,
    /// Its objective.
    pub slo: Slo,
    /// The highest rate it sustains; without it load is judged by CPU use alone.
    pub peak_qps: Option<f64>,
    /// Links that it sends on.
    pub links: Vec<Link>,
}

/// A group of best-effort work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchSpec {
    /// Its name.
    pub name: Tenant,
    /// Links that it sends on.
    pub links: Vec<Link>,
    /// Whether tasks of the queue are started in it.
    pub takes_tasks: bool,
    /// How many tasks may run in it at once.
    pub max_tasks: u32,
}

/// A network link whose egress is shaped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkSpec {
    /// Its interface.
    pub name: Link,
    /// What it carries.
    pub capacity: BytesPerSecond,
}

/// Everything a policy may know that does not change from sample to sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The machine.
    pub topology: Topology,
    /// CPUs that services and batch share; the others are left alone.
    pub managed_cpus: CpuSet,
    /// Services, in the order of the configuration.
    pub services: Vec<ServiceSpec>,
    /// Batch groups, in the order of the configuration.
    pub batch: Vec<BatchSpec>,
    /// Shaped links.
    pub links: Vec<LinkSpec>,
    /// What can be set here, and within what range.
    #[serde(with = "crate::pairs")]
    pub knobs: BTreeMap<Knob, KnobRange>,
}

impl Setup {
    /// The service of this name.
    #[must_use]
    pub fn service(&self, name: &Tenant) -> Option<&ServiceSpec> {
        self.services.iter().find(|s| &s.name == name)
    }

    /// Tenants that have no cache ways of their own where others have: classes of service are few.
    #[must_use]
    pub fn without_ways(&self) -> Vec<&Tenant> {
        let ways = |knob: &Knob| matches!(knob, Knob::LlcWays { .. });
        let with: BTreeSet<&Tenant> =
            self.knobs.keys().filter(|knob| ways(knob)).filter_map(Knob::tenant).collect();
        let all = self.services.iter().map(|s| &s.name).chain(self.batch.iter().map(|b| &b.name));
        all.filter(|tenant| !with.is_empty() && !with.contains(tenant)).collect()
    }

    /// Whether `knob` can be set on this machine.
    #[must_use]
    pub fn controls(&self, knob: &Knob) -> bool {
        self.knobs.contains_key(knob)
    }
}
