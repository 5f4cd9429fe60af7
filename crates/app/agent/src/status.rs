//! What the agent shows of itself.

use crate::cost::AgentCost;
use crate::who::{self, VictimReport};
use quell_control::Engine;
use quell_model::blame::Pressing;
use quell_policy::Tolerance;
use quell_types::{
    BatchObservation, Gap, Knob, Observation, Reading, ServiceObservation, ServiceSpec, Setting,
    Setup, SharedResource, Tails, Tenant,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// A number, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Shown {
    /// The number.
    Number(f64),
    /// Why there is none.
    Gap(Gap),
}

impl Shown {
    /// The number, if there is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Shown::Number(number) => Some(*number),
            Shown::Gap(_) => None,
        }
    }

    fn of<T>(reading: &Reading<T>, number: impl FnOnce(&T) -> f64) -> Self {
        match reading.as_ref().map(number) {
            Ok(number) if number.is_finite() => Shown::Number(number),
            Ok(_) => Shown::Gap(Gap::failed("not a finite number")),
            Err(gap) => Shown::Gap(gap.clone()),
        }
    }
}

/// What the agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardState {
    /// It samples, decides and acts.
    Guarding,
    /// It cannot write down what it does: batch is held, services are free.
    FailSafe,
    /// It stopped, and put the knobs back.
    Stopped,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceStatus {
    /// The percentile of its objective, as 99.
    pub slo_percentile: f64,
    /// The objective in milliseconds.
    pub slo_ms: f64,
    /// Latency at the percentile of the objective, in milliseconds, over the last full window.
    pub latency_ms: Shown,
    /// Median in milliseconds.
    pub p50_ms: Shown,
    /// 95th percentile in milliseconds.
    pub p95_ms: Shown,
    /// 99th percentile in milliseconds.
    pub p99_ms: Shown,
    /// 99.9th percentile in milliseconds.
    pub p999_ms: Shown,
    /// Requests in that window.
    pub window_requests: Shown,
    /// Length of that window in seconds.
    pub window_s: Shown,
    /// (objective − latency) / objective.
    pub slack_frac: Shown,
    /// The same over the fast window.
    pub fast_slack_frac: Shown,
    /// Requests per second.
    pub qps: Shown,
    /// Rate over peak rate; without a peak rate CPU use over managed CPUs.
    pub load_frac: Shown,
    /// CPUs in use.
    pub cpu_cpus: Shown,
    /// CPU time per request in microseconds.
    pub cpu_per_request_us: Shown,
    /// CPU time per request beside batch over the same with batch held.
    pub inflation_ratio: Shown,
    /// 99th percentile of the wait for a CPU, in milliseconds.
    pub run_queue_p99_ms: Shown,
    /// What it tolerates of shared resources; empty where no probes are made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tolerates: BTreeMap<SharedResource, ToleratedStatus>,
}

/// What a service tolerates of one shared resource, as probes have told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToleratedStatus {
    /// The highest intensity that it kept its quality under, 0..100.
    pub kept_percent: f64,
    /// The lowest at which it lost it; 100 if it never did.
    pub lost_percent: f64,
    /// Probes that told something.
    pub probes: u32,
}

/// A batch group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchStatus {
    /// CPUs in use.
    pub cpu_cpus: Shown,
    /// The CPUs it may use at most; null without a limit.
    pub budget_cpus: Option<Shown>,
    /// Whether it is in the idle class; null where that is not to be had.
    pub idle: Option<bool>,
    /// Whether it is held; null where that is not to be had.
    pub frozen: Option<bool>,
    /// Share of periods in which it ran out of its budget.
    pub throttled_frac: Shown,
    /// Megabits sent per second.
    pub egress_mbit_per_s: Shown,
    /// Tasks of the queue that run.
    pub running_tasks: u32,
    /// Tasks of the queue that wait.
    pub ready_tasks: u32,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostStatus {
    /// Busy time over all CPU time that was not stolen.
    pub cpu_utilisation_frac: Shown,
    /// Share of time that the hypervisor took away.
    pub steal_frac: Shown,
}

/// A knob that a law has set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KnobStatus {
    /// Which.
    #[serde(flatten)]
    pub knob: Knob,
    /// What is wanted.
    pub wanted: Setting,
    /// By which rule.
    pub rule: String,
}

/// One look at the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// `quell.status/1`.
    pub schema: String,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// How long it has guarded with this configuration, in seconds.
    pub seconds: f64,
    /// The agent's process id.
    pub pid: u32,
    /// What it is doing.
    pub state: GuardState,
    /// Why it is in this state; empty if all is well.
    pub why: String,
    /// The control law.
    pub law: String,
    /// Full samples since the start.
    pub samples: u64,
    /// Services by name.
    pub services: BTreeMap<Tenant, ServiceStatus>,
    /// Batch groups by name.
    pub batch: BTreeMap<Tenant, BatchStatus>,
    /// The machine.
    pub host: HostStatus,
    /// Who slows each service, as far as the law's experiments and chance have shown it.
    pub who: Vec<VictimReport>,
    /// What batch groups press on, whether or not that hurts anybody.
    #[serde(default)]
    pub pressing: Vec<Pressing>,
    /// Knobs that a law has set.
    pub knobs: Vec<KnobStatus>,
    /// Actions since the start, by the rule that wanted them.
    pub actions_total: BTreeMap<String, u64>,
    /// What the agent costs.
    pub agent: AgentCost,
}

impl Status {
    /// What can be seen of an observation and of what stands.
    pub(crate) fn new(setup: &Setup, observation: &Observation, engine: &Engine) -> Self {
        let tolerances = engine.tolerances();
        let services = setup.services.iter().filter_map(|spec| {
            let mut status = service(spec, observation.services.get(&spec.name)?);
            status.tolerates = tolerances.get(&spec.name).map(tolerated).unwrap_or_default();
            Some((spec.name.clone(), status))
        });
        let batch = observation.batch.iter();
        let batch = batch.map(|(name, seen)| (name.clone(), of_batch(name, seen, observation)));
        let knob = |(knob, standing): (&Knob, &quell_control::Standing)| KnobStatus {
            knob: knob.clone(),
            wanted: standing.setting.clone(),
            rule: standing.rule.to_string(),
        };
        Self {
            schema: "quell.status/1".into(),
            unix_ms: crate::state::unix_ms(),
            seconds: 0.0,
            pid: std::process::id(),
            state: GuardState::Guarding,
            why: String::new(),
            law: String::new(),
            samples: 0,
            services: services.collect(),
            batch: batch.collect(),
            host: HostStatus {
                cpu_utilisation_frac: Shown::of(&observation.host.utilisation, |u| u.0),
                steal_frac: Shown::of(&observation.host.steal, |s| s.0),
            },
            who: who::victims(setup, &engine.findings()),
            pressing: who::pressing(setup, engine),
            knobs: engine.standing().iter().map(knob).collect(),
            actions_total: BTreeMap::new(),
            agent: AgentCost::default(),
        }
    }

    /// Writes it so that a reader sees the old one or the new one, never half of it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = path.with_file_name(name);
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(&new, path)
    }
}

fn tolerated(
    found: &BTreeMap<SharedResource, Tolerance>,
) -> BTreeMap<SharedResource, ToleratedStatus> {
    let one = |(resource, t): (&SharedResource, &Tolerance)| {
        let (kept_percent, lost_percent) = (t.kept_percent, t.lost_percent);
        (*resource, ToleratedStatus { kept_percent, lost_percent, probes: t.probes })
    };
    found.iter().map(one).collect()
}

fn service(spec: &ServiceSpec, seen: &ServiceObservation) -> ServiceStatus {
    let ms = |seconds: fn(&Tails) -> f64| Shown::of(&seen.tails, |tails| seconds(tails) * 1e3);
    ServiceStatus {
        slo_percentile: spec.slo.percentile_frac * 100.0,
        slo_ms: spec.slo.target_s * 1e3,
        latency_ms: ms(|t| t.slo_s),
        p50_ms: ms(|t| t.p50_s),
        p95_ms: ms(|t| t.p95_s),
        p99_ms: ms(|t| t.p99_s),
        p999_ms: ms(|t| t.p999_s),
        window_requests: Shown::of(&seen.tails, |t| t.requests as f64),
        window_s: Shown::of(&seen.tails, |t| t.window_s),
        slack_frac: Shown::of(&seen.slack, |s| *s),
        fast_slack_frac: Shown::of(&seen.fast_slack, |s| *s),
        qps: Shown::of(&seen.qps, |q| *q),
        load_frac: Shown::of(&seen.load, |l| l.0),
        cpu_cpus: Shown::of(&seen.cpu, |c| c.0),
        cpu_per_request_us: Shown::of(&seen.cpu_per_request_s, |s| s * 1e6),
        inflation_ratio: Shown::of(&seen.inflation, |i| *i),
        run_queue_p99_ms: Shown::of(&seen.run_queue_p99_s, |s| s * 1e3),
        tolerates: BTreeMap::new(),
    }
}

fn of_batch(name: &Tenant, seen: &BatchObservation, all: &Observation) -> BatchStatus {
    let tenant = || name.clone();
    let flag = |knob: Knob| match all.knobs.get(&knob) {
        Some(Ok(Setting::Flag(flag))) => Some(*flag),
        _ => None,
    };
    let budget = match all.knobs.get(&Knob::CpuBandwidth { tenant: tenant() }) {
        Some(Ok(Setting::Bandwidth(b))) => b.limit_cpus.map(|cpus| Shown::Number(cpus.0)),
        Some(Err(gap)) => Some(Shown::Gap(gap.clone())),
        _ => None,
    };
    BatchStatus {
        cpu_cpus: Shown::of(&seen.cpu, |c| c.0),
        budget_cpus: budget,
        idle: flag(Knob::CpuIdle { tenant: tenant() }),
        frozen: flag(Knob::Frozen { tenant: tenant() }),
        throttled_frac: Shown::of(&seen.throttled, |t| t.0),
        egress_mbit_per_s: Shown::of(&seen.egress, |e| e.bits() / 1e6),
        running_tasks: seen.running_tasks,
        ready_tasks: seen.ready_tasks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_gap_are_told_apart_in_json() {
        let gap = Shown::of::<f64>(&Err(Gap::not_yet("first sample")), |v| *v);
        for (shown, text) in [
            (Shown::Number(0.5), "0.5"),
            (gap, r#"{"gap":"not_yet","why":"first sample"}"#),
            (Shown::Gap(Gap::Pending), r#"{"gap":"pending"}"#),
        ] {
            assert_eq!(serde_json::to_string(&shown).unwrap(), text);
            assert_eq!(serde_json::from_str::<Shown>(text).unwrap(), shown);
        }
        let infinite = Shown::of(&Ok(f64::INFINITY), |v| *v);
        assert!(infinite.number().is_none(), "never null in JSON");
    }
}
