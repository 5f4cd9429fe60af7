//! Who slows whom: a look at the machine that changes nothing for longer than a moment.

use crate::claim::Claims;
use crate::decisions::{DecisionLog, Decisions};
use crate::error::AgentError;
use crate::reserve::Reserve;
use crate::signals::Signals;
use crate::{fit, laws, options};
use quell_config::Checked;
use quell_control::Engine;
use quell_linux::{AgentLock, Linux, OpenError, StateDir};
use quell_model::blame::{Cause, Culprit, Finding, Pressing, Resource, Standing};
use quell_platform::{Platform, Scope};
use quell_policy::{Policy, Who};
use quell_types::{Setup, Tenant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Name and version of the JSON.
const SCHEMA: &str = "quell.who/1";

/// Who slows each service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhoReport {
    /// `quell.who/1`.
    pub schema: String,
    /// How long was looked, in seconds.
    pub seconds: f64,
    /// The services, in the order of the configuration.
    pub victims: Vec<VictimReport>,
    /// What batch groups press on, whether or not that hurts anybody; empty where the kernel's gauge tells
    /// nothing.
    #[serde(default)]
    pub pressing: Vec<Pressing>,
}

/// Who slows one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VictimReport {
    /// The service.
    pub workload: Tenant,
    /// By what factor those below lengthen its CPU time per request and the standing of its threads,
    /// or its latency where nothing else is known; 1 = not at all; none if nothing can be said.
    pub slowdown: Option<f64>,
    /// What it fights over with the first of those below; none if it is not slowed by others.
    pub resource: Option<Resource>,
    /// Those who do it, or may, the most certain first.
    pub culprits: Vec<Culprit>,
    /// Why it is slow; none if nothing can be said.
    pub cause: Option<Cause>,
    /// Why this is said, in words.
    pub evidence: Vec<String>,
}

impl WhoReport {
    pub(crate) fn of(seconds: f64, victims: Vec<VictimReport>, pressing: Vec<Pressing>) -> Self {
        Self { schema: SCHEMA.into(), seconds, victims, pressing }
    }

    /// Whether somebody is named.
    #[must_use]
    pub fn names_somebody(&self) -> bool {
        let mut culprits = self.victims.iter().flat_map(|victim| &victim.culprits);
        culprits.any(|culprit| culprit.status == Standing::Named)
    }
}

/// What is known about each service, in the order of the configuration.
pub(crate) fn victims(setup: &Setup, findings: &BTreeMap<Tenant, Finding>) -> Vec<VictimReport> {
    let names = setup.services.iter().map(|service| &service.name);
    names.map(|name| VictimReport::new(name, findings.get(name))).collect()
}

/// What batch groups press on: services are in the kernel's gauge, too.
pub(crate) fn pressing(setup: &Setup, engine: &Engine) -> Vec<Pressing> {
    let batch = |one: &Pressing| setup.batch.iter().any(|batch| batch.name == one.workload);
    engine.pressing().into_iter().filter(batch).collect()
}

impl VictimReport {
    fn new(name: &Tenant, finding: Option<&Finding>) -> Self {
        let Some(finding) = finding else {
            return Self {
                workload: name.clone(),
                slowdown: None,
                resource: None,
                culprits: Vec::new(),
                cause: None,
                evidence: vec![
                    "neither requests nor waits were seen, so nothing can be said".into(),
                ],
            };
        };
        Self {
            workload: name.clone(),
            slowdown: Some(finding.slowdown),
            resource: match finding.cause {
                // Where nobody is accused, many share the CPU.
                Cause::Neighbour | Cause::Overcommitted => Some(fought_over(finding)),
                _ => None,
            },
            culprits: finding.culprits.clone(),
            cause: Some(finding.cause),
            evidence: finding.evidence.clone(),
        }
    }
}

/// Over what a victim fights. One who presses on something, without a look that tells of harm, does not explain
/// why it is slow: then it shares the CPU.
fn fought_over(finding: &Finding) -> Resource {
    let explains = |c: &&Culprit| finding.slowdown <= 1.0 || c.slowdown > 1.0;
    finding.culprits.iter().find(explains).map_or(Resource::Cpu, |c| c.resource)
}

/// How to look.
#[derive(Clone, Copy, Debug)]
pub struct WhoOptions {
    /// At most so long.
    pub limit: Duration,
    /// Whether to end as soon as somebody is named.
    pub until_named: bool,
    /// Where messages for people go.
    pub say: fn(&str),
}

/// Looks who slows the services that the configuration names. Batch groups are held for moments,
/// at most 1 % of the time; every freezer is as before afterwards. Where a CPU is idle a reporter
/// uses at most 1 % of it. `progress` is told after each sample.
///
/// # Errors
/// As when an agent is opened; the platform failed; or a freezer could not be put back.
pub fn who(
    config: &Checked,
    wanted: &WhoOptions,
    signals: &Signals,
    mut progress: impl FnMut(&WhoReport),
) -> Result<WhoReport, AgentError> {
    if !rustix::process::geteuid().is_root() {
        return Err(AgentError::Open(vec![OpenError::NotRoot]));
    }
    fit::fit(config)?;
    let _reserve = Reserve::new(config.agent.cpu_reserve_frac, wanted.say);
    let state = StateDir(PathBuf::from(&config.agent.state_dir));
    let _lock = AgentLock::take(&state.0)?;
    let _claims = Claims::take(config)?;
    let mut log = DecisionLog::open(&state)?;
    let policy = Who::new(laws::who(config)?);
    let mut server = options::linux_options(config);
    if policy.needs().reporters {
        server.reporter_program = options::reporter();
    }
    let mut platform = Linux::open(server).map_err(AgentError::Open)?;
    let setup = platform.setup().clone();
    let period = policy.period();
    let policies: Vec<Box<dyn Policy>> = vec![Box::new(policy)];
    let mut engine = Engine::new(setup.clone(), policies, options::engine_params(config));
    let begun = Instant::now();
    let report = loop {
        let sample = platform.sample(period, Scope::Full)?;
        let decision = engine.step(&sample);
        if !decision.entry.is_empty() {
            log.append(&decision.entry)?;
        }
        for action in &decision.actions {
            platform.apply(action)?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let report =
            WhoReport::of(seconds, victims(&setup, &engine.findings()), pressing(&setup, &engine));
        progress(&report);
        let enough = wanted.until_named && report.names_somebody();
        if enough || signals.stops() || begun.elapsed() >= wanted.limit {
            break report;
        }
    };
    platform.restore()?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_presses_is_not_why_a_victim_is_slow() {
        let culprit = |slowdown: f64, resource| Culprit {
            workload: "a".into(),
            confidence: 0.8,
            serious_frac: 0.0,
            status: Standing::Suspected,
            resource,
            slowdown,
            share_frac: 0.0,
            harm_ln_per_cpu: 0.0,
            experiments: 0,
            stood_frac: None,
            elsewhere_frac: 0.0,
            held_back_frac: None,
        };
        let presses = culprit(1.0, Resource::LastLevelCache);
        let over = |slowdown: f64, culprits: &[Culprit]| {
            let finding = Finding {
                slowdown,
                cause: Cause::Neighbour,
                culprits: culprits.to_vec(),
                evidence: Vec::new(),
            };
            fought_over(&finding)
        };
        assert_eq!(over(1.2, std::slice::from_ref(&presses)), Resource::Cpu);
        assert_eq!(over(1.0, std::slice::from_ref(&presses)), Resource::LastLevelCache);
        let loads = culprit(1.1, Resource::MemoryBandwidth);
        assert_eq!(over(1.2, &[presses, loads]), Resource::MemoryBandwidth);
        assert_eq!(over(1.2, &[]), Resource::Cpu);
    }
}
