//! Why is this tenant limited? Answered from the state folder alone, whether the agent lives or not.

use crate::decisions::read_entries;
use crate::state::AgentState;
use quell_control::{Entry, Explanation, Note};
use quell_linux::StateDir;
use quell_types::{Input, Knob, Setting, SharedResource, Tenant, Verdict, Wish};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;

/// Older probes are left out.
const LAST_PROBES: usize = 6;

/// One knob of a tenant that a law has set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Which knob.
    #[serde(flatten)]
    pub knob: Knob,
    /// How it stands.
    pub setting: Setting,
    /// Whether the setting holds the tenant back.
    pub limits: bool,
    /// Since when, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// When the law last confirmed it, in milliseconds since 1970.
    pub confirmed_unix_ms: u64,
    /// Which law.
    pub law: String,
    /// By which rule.
    pub rule: String,
    /// On which inputs.
    pub inputs: Vec<Input>,
}

/// A probe of what a service tolerates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probed {
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Pressed on what.
    pub resource: SharedResource,
    /// How hard.
    pub intensity_percent: f64,
    /// By which rule.
    pub rule: String,
    /// On which inputs: what was known before is among them.
    pub inputs: Vec<Input>,
}

/// Why a tenant stands as it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// `quell.explain/1`.
    pub schema: String,
    /// Whose limits.
    pub tenant: Tenant,
    /// What became of the agent.
    pub agent: AgentState,
    /// Whether the agent's journal knows such a tenant.
    pub known: bool,
    /// Its knobs, none if nothing is set.
    pub limits: Vec<Limit>,
    /// Whether tasks of the queue may run in it now; null if no law said.
    pub runs_tasks: Option<bool>,
    /// The last probes of a service, the newest last.
    pub probes: Vec<Probed>,
    /// When the journal was last written, in milliseconds since 1970; null if never.
    pub last_entry_unix_ms: Option<u64>,
}

/// Reads the decision journal of a state folder.
///
/// # Errors
/// The journal cannot be read.
pub fn explain(state: &StateDir, tenant: &Tenant) -> io::Result<Explained> {
    let mut reader = Reader { tenant, entries: Vec::new(), known: false, last: None };
    read_entries(state, |entry| reader.take(entry))?;
    let agent = AgentState::of(state);
    // A clean stop puts everything back, and so does a restore.
    let standing = !matches!(agent, AgentState::Never | AgentState::Stopped);
    let entries = if standing { std::mem::take(&mut reader.entries) } else { Vec::new() };
    let mut runs_tasks =
        entries.iter().flat_map(|e| &e.proposals).filter_map(|judged| {
            match &judged.proposal.wish {
                Wish::RunTasks { allowed, .. } => Some(*allowed),
                _ => None,
            }
        });
    let probes: Vec<Probed> = entries.iter().flat_map(probes).collect();
    Ok(Explained {
        probes: probes[probes.len().saturating_sub(LAST_PROBES)..].to_vec(),
        schema: "quell.explain/1".into(),
        tenant: tenant.clone(),
        agent,
        known: reader.known,
        runs_tasks: runs_tasks.next_back(),
        limits: quell_control::explain(&entries, tenant).into_iter().map(limit).collect(),
        last_entry_unix_ms: reader.last,
    })
}

/// Keeps what concerns one tenant since the agent's last start.
struct Reader<'a> {
    tenant: &'a Tenant,
    entries: Vec<Entry>,
    known: bool,
    last: Option<u64>,
}

impl Reader<'_> {
    fn take(&mut self, entry: Entry) {
        self.last = Some(entry.wall_unix_ms);
        if entry.notes.iter().any(is_new_beginning) {
            self.entries.clear();
        }
        let concerns = |wish: &Wish| match wish {
            Wish::Set { knob, .. } | Wish::Release { knob } => knob.tenant() == Some(self.tenant),
            Wish::RunTasks { tenant, .. } => tenant == self.tenant,
            Wish::Play(experiment) => experiment.groups.contains(self.tenant),
            Wish::Probe(probe) => probe.service == *self.tenant,
            Wish::EndProbe { .. } | Wish::Burst(_) => false,
        };
        let mut kept = Entry { actions: Vec::new(), outcomes: Vec::new(), ..entry };
        kept.proposals.retain(|judged| concerns(&judged.proposal.wish));
        if !kept.proposals.is_empty() {
            self.known = true;
            self.entries.push(kept);
        }
    }
}

/// The words with which a note begins that says: all knobs are as they were found.
pub(crate) const BEGINNINGS: [&str; 4] = ["started", "reloaded", "recovered", "restored"];

fn is_new_beginning(note: &Note) -> bool {
    matches!(note, Note::Agent { what } if BEGINNINGS.iter().any(|word| what.starts_with(word)))
}

/// The probes that an entry began.
fn probes(entry: &Entry) -> impl Iterator<Item = Probed> + '_ {
    let accepted = entry.proposals.iter().filter(|j| j.verdict == Verdict::Accepted);
    accepted.filter_map(|judged| match &judged.proposal.wish {
        Wish::Probe(probe) => Some(Probed {
            unix_ms: entry.wall_unix_ms,
            resource: probe.resource,
            intensity_percent: probe.intensity_percent,
            rule: judged.proposal.rule.to_string(),
            inputs: judged.proposal.inputs.clone(),
        }),
        _ => None,
    })
}

fn limit(of: Explanation) -> Limit {
    Limit {
        limits: holds_back(&of.setting),
        knob: of.knob,
        setting: of.setting,
        since_unix_ms: of.since_unix_ms,
        confirmed_unix_ms: of.confirmed_unix_ms,
        law: of.policy,
        rule: of.rule,
        inputs: of.inputs,
    }
}

/// Whether a setting leaves less than there would be without it.
fn holds_back(setting: &Setting) -> bool {
    match setting {
        Setting::Bandwidth(bandwidth) => bandwidth.limit_cpus.is_some(),
        Setting::Flag(held) => *held,
        Setting::Weight(weight) => *weight < 100,
        Setting::Rate(rate) => rate.is_some(),
        Setting::Percent(percent) => *percent < 100,
        Setting::Cpus(_)
        | Setting::Ways(_)
        | Setting::Frequency(_)
        | Setting::Duty(_)
        | Setting::Nodes(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::{DecisionLog, Decisions};
    use quell_control::Judged;
    use quell_linux::AgentLock;
    use quell_types::{CpuBandwidth, Precedence, Proposal};
    use std::time::Duration;

    fn limited(ms: u64, cpus: f64, rule: &'static str) -> Entry {
        let bandwidth = CpuBandwidth::limited(cpus, Duration::from_millis(5));
        let proposal = Proposal {
            policy: "quell".into(),
            precedence: Precedence::Polluter,
            wish: Wish::Set {
                knob: Knob::CpuBandwidth { tenant: "jobs".into() },
                to: Setting::Bandwidth(bandwidth),
            },
            rule: rule.into(),
            inputs: vec![Input::new("slack_frac", 0.1)],
        };
        let proposals = vec![Judged { proposal, verdict: Verdict::Accepted }];
        Entry { wall_unix_ms: ms, proposals, ..Entry::default() }
    }

    fn noted(ms: u64, what: &str) -> Entry {
        let notes = vec![Note::Agent { what: what.into() }];
        Entry { wall_unix_ms: ms, notes, ..Entry::default() }
    }

    #[test]
    fn limits_are_those_of_the_agent_that_runs() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir(folder.path().to_owned());
        assert_eq!(explain(&state, &"jobs".into()).unwrap().agent, AgentState::Never);
        let lock = AgentLock::take(&state.0).unwrap();
        let mut log = DecisionLog::open(&state).unwrap();
        for entry in [
            noted(1, "started: an earlier agent"),
            limited(2, 0.9, "earlier"),
            noted(3, "started"),
            limited(4, 0.5, "harm"),
            limited(5, 0.5, "hold"),
        ] {
            log.append(&entry).unwrap();
        }
        let got = explain(&state, &"jobs".into()).unwrap();
        let [limit] = &got.limits[..] else { panic!("{got:?}") };
        assert_eq!((limit.since_unix_ms, limit.rule.as_str(), limit.limits), (4, "harm", true));
        assert_eq!(limit.confirmed_unix_ms, 5);
        assert!(!explain(&state, &"nobody".into()).unwrap().known);
        drop(lock);
        let stopped = explain(&state, &"jobs".into()).unwrap();
        assert!(stopped.known && stopped.limits.is_empty(), "a clean stop put it back");
    }
}
