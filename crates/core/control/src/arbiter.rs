//! One writer per knob: what stands of all that the policies want.

use crate::round::{round_to_range, same_setting};
use quell_types::{Input, Knob, Precedence, Proposal, Setting, Setup, Time, Verdict, Wish};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What stands for one knob, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The setting, rounded as the kernel rounds it.
    pub setting: Setting,
    /// Whose wish it is.
    pub policy: Cow<'static, str>,
    /// With what rank.
    pub precedence: Precedence,
    /// By which rule.
    pub rule: Cow<'static, str>,
    /// On which inputs.
    pub inputs: Vec<Input>,
    /// Since when it stands at this setting.
    pub since: Time,
}

/// Remembers every policy's last wish for each knob.
#[derive(Debug, Default)]
pub struct Arbiter {
    wishes: BTreeMap<Knob, BTreeMap<Cow<'static, str>, Standing>>,
    standing: BTreeMap<Knob, Standing>,
}

impl Arbiter {
    /// Takes one proposal in and says what became of it. Only knob wishes concern the arbiter;
    /// others are accepted as they are.
    pub fn consider(&mut self, time: Time, setup: &Setup, proposal: &Proposal) -> Verdict {
        match &proposal.wish {
            Wish::Set { knob, to } => self.want(time, setup, proposal, knob, to),
            Wish::Release { knob } => {
                if let Some(wishes) = self.wishes.get_mut(knob) {
                    wishes.remove(&proposal.policy);
                }
                self.settle(knob);
                Verdict::Accepted
            }
            Wish::RunTasks { .. }
            | Wish::Play(_)
            | Wish::Probe(_)
            | Wish::EndProbe { .. }
            | Wish::Burst(_) => Verdict::Accepted,
        }
    }

    /// What stands for every knob that somebody wants.
    #[must_use]
    pub fn standing(&self) -> &BTreeMap<Knob, Standing> {
        &self.standing
    }

    /// Wishes that do not stand, since another law's does.
    pub fn outvoted(&self) -> impl Iterator<Item = (&Knob, &Standing)> {
        let stands = |knob: &Knob, wish: &Standing| {
            self.standing.get(knob).is_some_and(|top| top.policy == wish.policy)
        };
        let all = self.wishes.iter().flat_map(|(knob, by)| by.values().map(move |w| (knob, w)));
        all.filter(move |(knob, wish)| !stands(knob, wish))
    }

    /// Forgets all wishes for a knob.
    pub fn forget(&mut self, knob: &Knob) {
        self.wishes.remove(knob);
        self.standing.remove(knob);
    }

    fn want(
        &mut self,
        time: Time,
        setup: &Setup,
        proposal: &Proposal,
        knob: &Knob,
        to: &Setting,
    ) -> Verdict {
        let Some(range) = setup.knobs.get(knob) else {
            let why = format!("{knob} cannot be set here");
            return Verdict::NotControllable { why };
        };
        let Some(setting) = round_to_range(to, range) else {
            return Verdict::NotControllable { why: format!("{knob} cannot be {to}") };
        };
        let wish = Standing {
            setting,
            policy: proposal.policy.clone(),
            precedence: proposal.precedence,
            rule: proposal.rule.clone(),
            inputs: proposal.inputs.clone(),
            since: time,
        };
        let wishes = self.wishes.entry(knob.clone()).or_default();
        wishes.insert(proposal.policy.clone(), wish.clone());
        self.settle(knob);
        self.verdict(knob, &wish)
    }

    /// Chooses among the wishes for a knob: the highest, then whatever lower ones tighten.
    fn settle(&mut self, knob: &Knob) {
        let mut wishes: Vec<&Standing> =
            self.wishes.get(knob).into_iter().flat_map(BTreeMap::values).collect();
        wishes.sort_by_key(|wish| std::cmp::Reverse(wish.precedence));
        let mut chosen: Option<Standing> = None;
        for wish in wishes {
            let tightens = chosen.as_ref().is_none_or(|top| {
                wish.setting.compare_freedom(&top.setting) == Some(Ordering::Less)
            });
            if tightens {
                chosen = Some(wish.clone());
            }
        }
        match chosen {
            None => drop(self.standing.remove(knob)),
            Some(mut now) => {
                if let Some(before) = self.standing.get(knob)
                    && same_setting(&before.setting, &now.setting)
                {
                    now.since = before.since;
                }
                self.standing.insert(knob.clone(), now);
            }
        }
    }

    fn verdict(&self, knob: &Knob, wish: &Standing) -> Verdict {
        match self.standing.get(knob) {
            Some(top) if top.policy == wish.policy => Verdict::Accepted,
            Some(top) if same_setting(&top.setting, &wish.setting) => Verdict::Accepted,
            Some(top) if top.precedence < wish.precedence => {
                Verdict::Tightened { to: top.setting.clone() }
            }
            Some(top) => Verdict::Overruled { by: top.policy.to_string() },
            None => Verdict::Accepted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::{KnobRange, Tenant};

    fn knob() -> Knob {
        Knob::CpuWeight { tenant: Tenant::from("jobs") }
    }

    fn setup() -> Setup {
        let knobs = BTreeMap::from([(knob(), KnobRange::Weight { min: 1, max: 10_000 })]);
        Setup { knobs, ..Setup::default() }
    }

    fn wants(policy: &'static str, precedence: Precedence, weight: u32) -> Proposal {
        Proposal {
            policy: policy.into(),
            precedence,
            wish: Wish::Set { knob: knob(), to: Setting::Weight(weight) },
            rule: "test".into(),
            inputs: vec![],
        }
    }

    fn release(policy: &'static str, precedence: Precedence) -> Proposal {
        Proposal { wish: Wish::Release { knob: knob() }, ..wants(policy, precedence, 0) }
    }

    fn weight(arbiter: &Arbiter) -> Option<Setting> {
        arbiter.standing().get(&knob()).map(|s| s.setting.clone())
    }

    #[test]
    fn outvoted_wishes_are_known_and_what_stands_is_none_of_them() {
        let (setup, mut arbiter) = (setup(), Arbiter::default());
        arbiter.consider(Time(1), &setup, &wants("throttle", Precedence::Polluter, 50));
        assert_eq!(arbiter.outvoted().count(), 0);
        arbiter.consider(Time(2), &setup, &wants("partition", Precedence::Partition, 20));
        let told: Vec<&Setting> = arbiter.outvoted().map(|(_, wish)| &wish.setting).collect();
        assert_eq!(told, [&Setting::Weight(50)]);
    }

    #[test]
    fn a_lower_policy_may_tighten_and_never_relax() {
        let (setup, mut arbiter) = (setup(), Arbiter::default());
        let mut ask = |p: Proposal| (arbiter.consider(Time(1), &setup, &p), weight(&arbiter));
        let high = |w| wants("throttle", Precedence::Polluter, w);
        let low = |w| wants("partition", Precedence::Partition, w);
        assert_eq!(ask(high(50)), (Verdict::Accepted, Some(Setting::Weight(50))));
        let overruled = Verdict::Overruled { by: "throttle".into() };
        assert_eq!(ask(low(80)), (overruled, Some(Setting::Weight(50))));
        assert_eq!(ask(low(20)), (Verdict::Accepted, Some(Setting::Weight(20))));
        let tightened = Verdict::Tightened { to: Setting::Weight(20) };
        assert_eq!(ask(high(40)), (tightened, Some(Setting::Weight(20))));
        assert_eq!(ask(release("partition", Precedence::Partition)).1, Some(Setting::Weight(40)));
        assert_eq!(ask(release("throttle", Precedence::Polluter)).1, None);
    }

    #[test]
    fn what_cannot_be_set_is_said() {
        let mut arbiter = Arbiter::default();
        let p = wants("x", Precedence::Partition, 5);
        let verdict = arbiter.consider(Time(1), &Setup::default(), &p);
        assert!(matches!(verdict, Verdict::NotControllable { .. }));
        assert!(arbiter.standing().is_empty());
    }

    #[test]
    fn since_is_kept_while_the_setting_stands() {
        let (setup, mut arbiter) = (setup(), Arbiter::default());
        for (time, weight) in [(1, 10), (2, 10), (3, 11)] {
            arbiter.consider(Time(time), &setup, &wants("x", Precedence::Partition, weight));
            let since = arbiter.standing()[&knob()].since;
            assert_eq!(since, Time(if weight == 10 { 1 } else { 3 }));
        }
    }
}
