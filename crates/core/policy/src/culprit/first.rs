//! Serving a victim first, while somebody is limited for its sake.
//!
//! # Problem
//! Once the culprit is limited, what is left of a victim's waits is the innocents' sharing: each time
//! one of its threads wakes, somebody may have just begun a turn of some milliseconds. Nobody is to be
//! limited for that. Yet a tail five times as long as alone is what its users see.
//!
//! # Idea
//! To be served *first* is not to be served *more*. Who asks for no more CPU than its fair share gets all
//! of it in the end, whatever its weight; the weight decides when. So while a culprit of its serves a
//! term, a victim has a great weight, as long as it uses no more than its fair share: max-min, of the
//! CPUs among all groups and services by what each asks for. The others do the same work, somewhat later.
//! It is not served first before that: then nobody would hurt it any more, and the culprit, who goes on
//! to hurt all others, would never be found.
//!
//! A victim that uses more than that is greedy: its weight is given back, and not raised again for the
//! same terms, so that nothing swings.
//!
//! # Units
//! CPUs; weights, of which 100 is the usual one.
//!
//! # Pseudo-code
//! ```text
//! each step, for each victim for whose sake somebody is limited:
//!   share = max-min fair share of the CPUs, if the others get what they ask for
//!   uses at most 1.1 share: its weight is raised
//!   uses more, three steps running, or is not seen: its weight is given back
//! for whose sake nobody is limited any more: the same
//! ```
//!
//! # Degradation
//! Without a weight for the service's group the culprit is limited all the same. Where groups may run on
//! some of the CPUs only, the share is that of all CPUs: a service that is confined to few of them may be
//! served first though it uses most of these.
//!
//! Source: issue "Name the polluter and limit only it" (what the victim must get back, what innocents
//! keep).

use quell_types::{BatchObservation, Observation, Tenant};
use std::collections::{BTreeMap, BTreeSet};

/// By so much it may use more than its fair share: shares are estimates of a moment.
const LEEWAY: f64 = 1.1;
/// Steps running in which it uses more until it is greedy.
const GREEDY_STEPS: u32 = 3;

/// What becomes of a victim's weight.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Serve {
    /// It is raised: so much it uses of so large a share, in CPUs.
    First {
        /// What it uses.
        used_cpus: f64,
        /// Its share.
        share_cpus: f64,
    },
    /// It is as it was, by this rule.
    AsUsual(&'static str),
}

/// Somebody for whose sake others are limited.
#[derive(Clone, Debug, Default)]
struct Victim {
    culprits: BTreeSet<Tenant>,
    /// Steps running in which it used more than its share.
    over: u32,
}

/// All victims of those who serve a term.
#[derive(Debug, Default)]
pub(super) struct First {
    victims: BTreeMap<Tenant, Victim>,
}

impl First {
    /// Somebody serves a term for the sake of these.
    pub(super) fn convicted(&mut self, culprit: &Tenant, victims: BTreeSet<Tenant>) {
        for victim in victims {
            self.victims.entry(victim).or_default().culprits.insert(culprit.clone());
        }
    }

    /// A term is over.
    pub(super) fn freed(&mut self, culprit: &Tenant) {
        for victim in self.victims.values_mut() {
            victim.culprits.remove(culprit);
        }
    }

    /// What becomes of each victim's weight on a machine of so many CPUs. Those for whose sake nobody is
    /// limited any more are told once.
    pub(super) fn follow(&mut self, cpus: f64, seen: &Observation) -> Vec<(Tenant, Serve)> {
        let mut told = Vec::new();
        for (name, victim) in &mut self.victims {
            told.push((name.clone(), victim.follow(name, cpus, seen)));
        }
        self.victims.retain(|_, victim| !victim.culprits.is_empty());
        told
    }
}

impl Victim {
    fn follow(&mut self, name: &Tenant, cpus: f64, seen: &Observation) -> Serve {
        if self.culprits.is_empty() {
            return Serve::AsUsual("served-again");
        }
        if self.over >= GREEDY_STEPS {
            return Serve::AsUsual("greedy");
        }
        let service = seen.services.get(name);
        let Some(used_cpus) = service.and_then(|s| s.cpu.as_ref().ok()).map(|cpu| cpu.0) else {
            return Serve::AsUsual("unseen");
        };
        let share_cpus = fair_share(cpus, asked(name, seen));
        self.over = if used_cpus > LEEWAY * share_cpus { self.over + 1 } else { 0 };
        Serve::First { used_cpus, share_cpus }
    }
}

/// What everybody else asks for, in CPUs.
fn asked(but: &Tenant, seen: &Observation) -> Vec<f64> {
    let batch = |group: &BatchObservation| {
        let used = group.cpu.as_ref().ok()?.0;
        let held_back = group.throttled.as_ref().is_ok_and(|frac| frac.0 > 0.0);
        let standing = group.standing.as_ref().copied().unwrap_or(0.0);
        Some(if held_back { used } else { used + standing })
    };
    let others = seen.services.iter().filter(|(name, _)| *name != but);
    let services = others.filter_map(|(_, s)| s.cpu.as_ref().ok().map(|cpu| cpu.0));
    seen.batch.values().filter_map(batch).chain(services).collect()
}

/// What is left of these CPUs to one who takes all it gets, if each of the others gets what it asks for or
/// an equal share, whichever is less.
fn fair_share(cpus: f64, mut asked: Vec<f64>) -> f64 {
    asked.sort_by(f64::total_cmp);
    let (mut left, mut sharers) = (cpus, asked.len() as f64 + 1.0);
    for one in asked {
        let equal = left / sharers;
        if one >= equal {
            return equal;
        }
        left -= one;
        sharers -= 1.0;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{observe, setup};
    use proptest::prelude::*;

    #[test]
    fn shares() {
        for (cpus, asked, share) in [
            (2.0, vec![], 2.0),
            (2.0, vec![0.5], 1.5),
            (2.0, vec![5.0], 1.0),
            (2.0, vec![0.3, 0.3, 0.3, 0.3], 0.8),
            (2.0, vec![0.1, 4.0, 4.0], 1.9 / 3.0),
            (8.0, vec![1.0, 0.0, 9.0], 3.5),
        ] {
            assert!((fair_share(cpus, asked.clone()) - share).abs() < 1e-9, "{asked:?}");
        }
    }

    proptest! {
        #[test]
        fn a_share_is_at_least_an_equal_one_and_what_is_not_asked_for(
            cpus in 0.1..64.0, asked in proptest::collection::vec(0.0..8.0, 0..20),
        ) {
            let (count, sum) = (asked.len() as f64 + 1.0, asked.iter().sum::<f64>());
            let share = fair_share(cpus, asked);
            prop_assert!(share <= cpus + 1e-9);
            prop_assert!(share >= (cpus / count).max(cpus - sum) - 1e-9);
        }
    }

    /// What becomes of a service's weight that uses so much, beside two groups that use so much each.
    fn follow(first: &mut First, service: f64, groups: f64) -> Vec<(Tenant, Serve)> {
        let setup = setup(2).service("web", 10.0, 4000.0).batch("a").batch("b").build();
        let seen = observe(&setup, 1.0).cpu("web", service).cpu("a", groups).cpu("b", groups);
        first.follow(2.0, &seen.done())
    }

    fn convicted() -> First {
        let mut first = First::default();
        first.convicted(&"a".into(), BTreeSet::from(["web".into()]));
        first
    }

    #[test]
    fn who_uses_its_share_at_most_is_served_first_until_the_last_term_is_over() {
        let mut first = convicted();
        first.convicted(&"b".into(), BTreeSet::from(["web".into()]));
        let one = |used_cpus, share_cpus| {
            vec![(Tenant::from("web"), Serve::First { used_cpus, share_cpus })]
        };
        assert_eq!(follow(&mut first, 0.5, 0.5), one(0.5, 1.0));
        first.freed(&"a".into());
        assert_eq!(follow(&mut first, 0.5, 0.25), one(0.5, 1.5));
        first.freed(&"b".into());
        let usual = vec![("web".into(), Serve::AsUsual("served-again"))];
        assert_eq!(follow(&mut first, 0.5, 0.25), usual);
        assert_eq!(follow(&mut first, 0.5, 0.25), vec![], "told once");
    }

    #[test]
    fn who_uses_more_is_not_served_first_for_the_rest_of_the_terms() {
        let mut first = convicted();
        let served = |told: &[(Tenant, Serve)]| matches!(told[0].1, Serve::First { .. });
        assert!(served(&follow(&mut first, 1.8, 0.9)) && served(&follow(&mut first, 1.8, 0.9)));
        assert!(served(&follow(&mut first, 0.2, 0.9)), "for a moment only");
        (0..3).for_each(|_| assert!(served(&follow(&mut first, 1.8, 0.9))));
        for used in [1.8, 0.2] {
            let told = follow(&mut first, used, 0.9);
            assert_eq!(told, vec![("web".into(), Serve::AsUsual("greedy"))]);
        }
    }

    #[test]
    fn who_is_not_seen_is_not_served_first() {
        let mut first = convicted();
        let setup = setup(2).service("db", 10.0, 4000.0).build();
        let told = first.follow(2.0, &observe(&setup, 1.0).done());
        assert_eq!(told, vec![("web".into(), Serve::AsUsual("unseen"))]);
    }
}
