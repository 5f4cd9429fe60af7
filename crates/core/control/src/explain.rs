//! Why does this knob stand as it does? Read from the journal alone.

use crate::journal::{Entry, Note};
use crate::round::same_setting;
use quell_types::{Input, Knob, Setting, Tenant, Verdict, Wish};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why one knob of a tenant stands as it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Which knob.
    #[serde(flatten)]
    pub knob: Knob,
    /// How it stands.
    pub setting: Setting,
    /// Since when, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Which law set it.
    pub policy: String,
    /// By which rule.
    pub rule: String,
    /// On which inputs.
    pub inputs: Vec<Input>,
    /// When the law last confirmed the setting, in milliseconds since 1970.
    pub confirmed_unix_ms: u64,
}

/// Explains every knob that concerns `tenant`, from journal entries in rising time.
#[must_use]
pub fn explain<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
    tenant: &Tenant,
) -> Vec<Explanation> {
    let mut standing: BTreeMap<Knob, Explanation> = BTreeMap::new();
    for entry in entries {
        for judged in &entry.proposals {
            let concerns = |knob: &Knob| knob.tenant() == Some(tenant);
            match (&judged.proposal.wish, &judged.verdict) {
                (Wish::Release { knob }, _) if concerns(knob) => drop(standing.remove(knob)),
                (Wish::Set { knob, to }, Verdict::Accepted) if concerns(knob) => {
                    let new = explanation(entry, &judged.proposal, knob, to);
                    let kept = standing.remove(knob).filter(|o| same_setting(&o.setting, to));
                    let kept = kept
                        .map(|old| Explanation { confirmed_unix_ms: entry.wall_unix_ms, ..old });
                    standing.insert(knob.clone(), kept.unwrap_or(new));
                }
                _ => {}
            }
        }
        // It was given up after this step's proposals had been judged.
        for note in &entry.notes {
            if let Note::GivenUp { knob: left, .. } = note {
                standing.retain(|knob, _| knob.to_string() != *left);
            }
        }
    }
    standing.into_values().collect()
}

fn explanation(
    entry: &Entry,
    proposal: &quell_types::Proposal,
    knob: &Knob,
    to: &Setting,
) -> Explanation {
    Explanation {
        knob: knob.clone(),
        setting: to.clone(),
        since_unix_ms: entry.wall_unix_ms,
        policy: proposal.policy.to_string(),
        rule: proposal.rule.to_string(),
        inputs: proposal.inputs.clone(),
        confirmed_unix_ms: entry.wall_unix_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Judged;
    use quell_types::{Precedence, Proposal};

    fn entry(ms: u64, rule: &'static str, weight: u32) -> Entry {
        let knob = Knob::CpuWeight { tenant: "jobs".into() };
        let proposal = Proposal {
            policy: "quell".into(),
            precedence: Precedence::Partition,
            wish: Wish::Set { knob, to: Setting::Weight(weight) },
            rule: rule.into(),
            inputs: vec![Input::new("slack_frac", 0.1)],
        };
        let proposals = vec![Judged { proposal, verdict: Verdict::Accepted }];
        Entry { wall_unix_ms: ms, proposals, ..Entry::default() }
    }

    #[test]
    fn the_first_of_equal_settings_says_since_when_and_by_which_rule() {
        let entries = [entry(1, "start", 100), entry(2, "shrink", 10), entry(3, "hold", 10)];
        let got = explain(&entries, &"jobs".into());
        assert_eq!(got.len(), 1);
        assert_eq!((got[0].since_unix_ms, got[0].rule.as_str()), (2, "shrink"));
        assert_eq!(got[0].confirmed_unix_ms, 3);
        assert!(explain(&entries, &"other".into()).is_empty());
    }
}
