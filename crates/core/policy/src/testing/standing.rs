//! Wishes that stand.

use super::Seen;
use crate::Policy;
use quell_types::{CpuSet, Knob, Proposal, Setting, Setup, Tenant, Wish};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// All wishes of one policy that stand, as the engine keeps them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    /// Wanted setting of every knob that the policy owns.
    pub(crate) settings: BTreeMap<Knob, Setting>,
    /// Tasks allowed at once by group; 0 = none may run.
    pub(crate) tasks: BTreeMap<Tenant, u32>,
    /// Rules that fired, in order.
    pub(crate) rules: Vec<String>,
    /// Experiments asked for.
    pub(crate) played: Vec<quell_types::Experiment>,
}

#[allow(dead_code)] // each law's tests use their own part
impl Standing {
    /// Takes over the answer of one step.
    pub(crate) fn take(&mut self, proposals: &[Proposal]) {
        for proposal in proposals {
            self.rules.push(proposal.rule.to_string());
            match proposal.wish.clone() {
                Wish::Set { knob, to } => {
                    self.settings.insert(knob, to);
                }
                Wish::Release { knob } => {
                    self.settings.remove(&knob);
                }
                Wish::RunTasks { tenant, allowed, at_most } => {
                    self.tasks.insert(tenant, if allowed { at_most } else { 0 });
                }
                Wish::Play(experiment) => self.played.push(experiment),
                Wish::Probe(_) | Wish::EndProbe { .. } | Wish::Burst(_) => {}
            }
        }
    }

    /// Steps a policy, takes over its answer and gives the rules that fired, without repeats.
    pub(crate) fn step(&mut self, law: &mut dyn Policy, setup: &Setup, seen: Seen) -> Vec<String> {
        let proposals = law.step(setup, &seen.done());
        self.take(&proposals);
        let mut rules: Vec<String> = proposals.iter().map(|p| p.rule.to_string()).collect();
        rules.dedup();
        rules
    }

    /// The wanted CPUs of a tenant; empty if the policy does not own that knob.
    pub(crate) fn cpus(&self, tenant: &str) -> CpuSet {
        match self.settings.get(&Knob::Cpus { tenant: tenant.into() }) {
            Some(Setting::Cpus(set)) => set.clone(),
            _ => CpuSet::new(),
        }
    }

    /// The wanted cache mask of a tenant in domain 0; 0 if the policy does not own that knob.
    pub(crate) fn ways(&self, tenant: &str) -> u64 {
        match self.settings.get(&Knob::LlcWays { tenant: tenant.into(), domain: 0 }) {
            Some(Setting::Ways(mask)) => *mask,
            _ => 0,
        }
    }

    /// The wanted CPU limit of a tenant; none if unlimited or not owned.
    pub(crate) fn quota_cpus(&self, tenant: &str) -> Option<f64> {
        match self.settings.get(&Knob::CpuBandwidth { tenant: tenant.into() }) {
            Some(Setting::Bandwidth(b)) => b.limit_cpus.map(|c| c.0),
            _ => None,
        }
    }

    /// The wanted egress ceiling in bytes per second; none if unlimited or not owned.
    pub(crate) fn ceiling(&self, tenant: &str, link: &str) -> Option<f64> {
        let knob = Knob::EgressCeiling { tenant: tenant.into(), link: link.into() };
        match self.settings.get(&knob) {
            Some(Setting::Rate(rate)) => rate.map(|r| r.0),
            _ => None,
        }
    }

    /// Whether the policy wants the group frozen.
    pub(crate) fn frozen(&self, tenant: &str) -> bool {
        self.settings.get(&Knob::Frozen { tenant: tenant.into() }) == Some(&Setting::Flag(true))
    }
}

/// The answer of one step as lines of a golden journal:
/// `  10.000 rule {input=value …}: wish`.
pub(crate) fn journal_lines(second: f64, proposals: &[Proposal]) -> String {
    let mut text = String::new();
    for p in proposals {
        let inputs: Vec<String> =
            p.inputs.iter().map(|i| format!("{}={:.4}", i.name, i.value)).collect();
        let wish = match &p.wish {
            Wish::Set { knob, to } => format!("{knob} = {to}"),
            Wish::Release { knob } => format!("release {knob}"),
            Wish::RunTasks { tenant, allowed: true, at_most } => {
                format!("tasks of {tenant}: at most {at_most}")
            }
            Wish::RunTasks { tenant, .. } => format!("tasks of {tenant}: none"),
            Wish::Play(e) => format!("play experiment {}", e.id),
            Wish::Probe(p) => format!("probe {} of {}", p.resource, p.service),
            Wish::EndProbe { id } => format!("end probe {id}"),
            Wish::Burst(b) => format!("burst {}", b.id),
        };
        let (rank, rule) = (p.precedence, &p.rule);
        writeln!(text, "{second:8.3} {rank:?} {rule} {{{}}}: {wish}", inputs.join(" "))
            .expect("a string takes all");
    }
    text
}
