//! Why does this knob stand as it does? Read from the journal alone.

use crate::journal::{Entry, Judged, Note};
use crate::round::{round_quota, same_setting};
use quell_types::{Input, Knob, Precedence, Setting, Tenant, Verdict, Wish};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
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

/// What laws wish of one knob, and what stands of it: as arbitration sees it.
#[derive(Default)]
struct Wished {
    by: BTreeMap<String, (Precedence, Explanation)>,
    standing: Option<Explanation>,
}

impl Wished {
    fn take(&mut self, precedence: Precedence, new: Explanation) {
        let now = new.confirmed_unix_ms;
        let old = self.by.remove(&new.policy).map(|(_, old)| old);
        let kept = old.filter(|old| same_setting(&old.setting, &new.setting));
        let kept = kept.map(|old| Explanation { confirmed_unix_ms: now, ..old });
        self.by.insert(new.policy.clone(), (precedence, kept.unwrap_or(new)));
        self.settle(now);
    }

    /// The highest wish stands, unless a lower one is tighter.
    fn settle(&mut self, now_unix_ms: u64) {
        let mut wishes: Vec<&(Precedence, Explanation)> = self.by.values().collect();
        wishes.sort_by_key(|(precedence, _)| std::cmp::Reverse(*precedence));
        let tighter = |top: &Explanation, other: &Explanation| {
            other.setting.compare_freedom(&top.setting) == Some(Ordering::Less)
        };
        let all = wishes.into_iter().map(|(_, wish)| wish);
        let chosen = all.reduce(|top, other| if tighter(top, other) { other } else { top });
        let before = self.standing.take();
        self.standing = chosen.cloned().map(|new| {
            let same = before.filter(|old| same_setting(&old.setting, &new.setting));
            let since_unix_ms = same.map_or(now_unix_ms, |old| old.since_unix_ms);
            Explanation { since_unix_ms, ..new }
        });
    }
}

/// Explains every knob that concerns `tenant`, from journal entries in rising time.
#[must_use]
pub fn explain<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
    tenant: &Tenant,
) -> Vec<Explanation> {
    let concerns = |knob: &Knob| knob.tenant() == Some(tenant);
    let mut knobs: BTreeMap<Knob, Wished> = BTreeMap::new();
    for entry in entries {
        for Judged { proposal, verdict } in &entry.proposals {
            match (&proposal.wish, verdict) {
                (_, Verdict::NotControllable { .. }) => {}
                (Wish::Release { knob }, _) if concerns(knob) => {
                    let wished = knobs.entry(knob.clone()).or_default();
                    wished.by.remove(&*proposal.policy);
                    wished.settle(entry.wall_unix_ms);
                }
                (Wish::Set { knob, to }, _) if concerns(knob) => {
                    let new = explanation(entry, proposal, knob, to);
                    knobs.entry(knob.clone()).or_default().take(proposal.precedence, new);
                }
                _ => {}
            }
        }
        // It was given up after this step's proposals had been judged.
        for note in &entry.notes {
            if let Note::GivenUp { knob: left, .. } = note {
                knobs.retain(|knob, _| knob.to_string() != *left);
            }
        }
    }
    knobs.into_values().filter_map(|wished| wished.standing).collect()
}

fn explanation(
    entry: &Entry,
    proposal: &quell_types::Proposal,
    knob: &Knob,
    to: &Setting,
) -> Explanation {
    Explanation {
        knob: knob.clone(),
        // Wishes that differ by less than the kernel tells apart are weighed as arbitration weighs
        // them: by what would stand.
        setting: round_quota(to),
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
    use crate::arbiter::Arbiter;
    use quell_types::{CpuBandwidth, Cpus, KnobRange, Proposal, Setup, Time};

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

    #[test]
    fn of_two_limits_that_the_kernel_rounds_the_tighter_is_told() {
        let knob = Knob::CpuBandwidth { tenant: "jobs".into() };
        let range = KnobRange::Bandwidth {
            min_quota_us: 1_000,
            min_period_us: 1_000,
            max_period_us: 1_000_000,
        };
        let knobs = BTreeMap::from([(knob.clone(), range)]);
        let setup = Setup { knobs, ..Setup::default() };
        let wish = |policy: &'static str, precedence, period_us| {
            let limit = CpuBandwidth { limit_cpus: Some(Cpus(0.06)), period_us };
            let to = Setting::Bandwidth(limit);
            let (wish, rule) = (Wish::Set { knob: knob.clone(), to }, "r".into());
            Proposal { policy: policy.into(), precedence, wish, rule, inputs: vec![] }
        };
        // 0.06 CPUs in 16,667 us are 1,000.02 us, of which the kernel counts 1,000.
        for (high, low) in [(17_000, 16_667), (16_667, 17_000), (17_000, 17_000)] {
            let mut arbiter = Arbiter::default();
            let both =
                [wish("high", Precedence::Polluter, high), wish("low", Precedence::Partition, low)];
            let judge = |proposal| {
                let verdict = arbiter.consider(Time(1), &setup, &proposal);
                Judged { proposal, verdict }
            };
            let proposals = both.into_iter().map(judge).collect();
            let told = explain(&[Entry { proposals, ..Entry::default() }], &"jobs".into());
            let standing = &arbiter.standing()[&knob];
            assert_eq!(told[0].setting, standing.setting, "{high} {low}");
            assert_eq!(told[0].policy, standing.policy, "{high} {low}");
        }
    }

    #[test]
    fn a_law_that_lets_go_leaves_what_another_wishes() {
        let knob = Knob::CpuWeight { tenant: "jobs".into() };
        let wish = |ms, policy: &'static str, precedence, wish, verdict| {
            let proposal = Proposal {
                policy: policy.into(),
                precedence,
                wish,
                rule: "r".into(),
                inputs: vec![],
            };
            let proposals = vec![Judged { proposal, verdict }];
            Entry { wall_unix_ms: ms, proposals, ..Entry::default() }
        };
        let set = |weight| Wish::Set { knob: knob.clone(), to: Setting::Weight(weight) };
        let release = Wish::Release { knob: knob.clone() };
        let overruled = Verdict::Overruled { by: "low".into() };
        let mut entries = vec![
            wish(1, "low", Precedence::Partition, set(10), Verdict::Accepted),
            wish(2, "high", Precedence::Polluter, set(50), overruled),
        ];
        let told = |entries: &[Entry]| {
            let all = explain(entries, &"jobs".into());
            all.into_iter().map(|e| (e.policy, e.setting, e.since_unix_ms)).collect::<Vec<_>>()
        };
        assert_eq!(told(&entries), [("low".to_owned(), Setting::Weight(10), 1)]);
        let free = |ms, policy| {
            wish(ms, policy, Precedence::Partition, release.clone(), Verdict::Accepted)
        };
        entries.push(free(3, "low"));
        assert_eq!(told(&entries), [("high".to_owned(), Setting::Weight(50), 3)]);
        entries.push(free(4, "high"));
        assert_eq!(told(&entries), []);
    }
}
