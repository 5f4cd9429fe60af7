//! Serving a victim first, while somebody is limited for its sake and there is room.
//!
//! # Problem
//! Once the culprit is limited, what is left of a victim's waits is the innocents' sharing: each time
//! one of its threads wakes, somebody may have just begun a turn of some milliseconds. Nobody is to be
//! limited for that. Yet a tail several times as long as alone is what its users see.
//!
//! # Idea
//! Where CPUs have time left everybody gets what it asks for in the end, and weights decide only who gets
//! it when. So while a culprit of its serves a term, and as long as some of the CPUs' time is idle, a
//! victim has a great weight: it is served *first*, not *more*, and the others do the same work somewhat
//! later. Where no time is left whoever is served first takes from the others (measured: 18 % of the
//! work of innocents that want more than there is), so then its weight is as it was.
//!
//! It is not served first before somebody is limited: nobody would hurt it any more, and the culprit, who
//! goes on to hurt all others, would never be found.
//!
//! # Units
//! Shares of all CPUs' time; weights, of which 100 is the usual one; steps of the law.
//!
//! # Pseudo-code
//! ```text
//! each step, for each victim for whose sake somebody is limited:
//!   for four steps running at most 95 % of the CPUs' time was in use:    its weight is raised
//!   for two steps running more was, or nobody sees how much:             its weight is given back
//! for whose sake nobody is limited any more:                             the same
//! ```
//!
//! # Degradation
//! Without a weight for the service's group the culprit is limited all the same. Where groups may run on
//! some of the CPUs only, time that is left elsewhere counts as room.
//!
//! Source: issue "Name the polluter and limit only it" (what the victim must get back, what innocents
//! keep).

use quell_types::{Observation, Tenant};
use std::collections::{BTreeMap, BTreeSet};

/// With more of the CPUs' time in use there is no room: samples and their moments err by some percent.
const FULL_FRAC: f64 = 0.95;
/// Steps with room until it is served first: a culprit that was just limited has to be seen to be so.
const ROOMY_STEPS: u32 = 4;
/// Steps without until it is not.
const FULL_STEPS: u32 = 2;

/// What becomes of a victim's weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Serve {
    /// It is raised; so much of the CPUs' time is in use.
    First(f64),
    /// It is as it was, by this rule.
    AsUsual(&'static str),
}

/// Whether CPUs have time left, with some patience.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    open: bool,
    /// Steps running that say otherwise.
    against: u32,
}

impl Room {
    fn see(&mut self, used_frac: Option<f64>) {
        let roomy = used_frac.is_some_and(|used| used <= FULL_FRAC);
        if roomy == self.open {
            self.against = 0;
            return;
        }
        self.against += 1;
        let patience = if self.open { FULL_STEPS } else { ROOMY_STEPS };
        if self.against >= patience {
            *self = Room { open: roomy, against: 0 };
        }
    }
}

/// All victims of those who serve a term, with their culprits.
#[derive(Debug, Default)]
pub(super) struct First {
    victims: BTreeMap<Tenant, BTreeSet<Tenant>>,
    room: Room,
}

impl First {
    /// Somebody serves a term for the sake of these.
    pub(super) fn convicted(&mut self, culprit: &Tenant, victims: BTreeSet<Tenant>) {
        for victim in victims {
            self.victims.entry(victim).or_default().insert(culprit.clone());
        }
    }

    /// A term is over.
    pub(super) fn freed(&mut self, culprit: &Tenant) {
        for culprits in self.victims.values_mut() {
            culprits.remove(culprit);
        }
    }

    /// What becomes of each victim's weight. Those for whose sake nobody is limited any more are told
    /// once.
    pub(super) fn follow(&mut self, seen: &Observation) -> Vec<(Tenant, Serve)> {
        let used_frac = seen.host.utilisation.as_ref().ok().map(|used| used.0);
        if self.victims.is_empty() {
            self.room = Room::default();
            return Vec::new();
        }
        self.room.see(used_frac);
        let serve = |culprits: &BTreeSet<Tenant>| match used_frac {
            _ if culprits.is_empty() => Serve::AsUsual("served-again"),
            Some(used) if self.room.open => Serve::First(used),
            _ => Serve::AsUsual("no-room"),
        };
        let told = self.victims.iter().map(|(name, culprits)| (name.clone(), serve(culprits)));
        let told = told.collect();
        self.victims.retain(|_, culprits| !culprits.is_empty());
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{observe, setup};
    use quell_types::{Fraction, Gap};

    /// What becomes of the weight of `web` where so much of the CPUs' time is in use.
    fn follow(first: &mut First, used_frac: Option<f64>) -> Option<Serve> {
        let setup = setup(2).service("web", 10.0, 4000.0).batch("a").batch("b").build();
        let mut seen = observe(&setup, 1.0).done();
        std::sync::Arc::make_mut(&mut seen.host).utilisation =
            used_frac.map(Fraction).ok_or_else(|| Gap::not_yet("nobody looked"));
        let told = first.follow(&seen);
        assert!(told.len() <= 1);
        told.into_iter().next().map(|(name, serve)| {
            assert_eq!(name.as_str(), "web");
            serve
        })
    }

    fn convicted() -> First {
        let mut first = First::default();
        first.convicted(&"a".into(), BTreeSet::from(["web".into()]));
        first
    }

    const NO_ROOM: Option<Serve> = Some(Serve::AsUsual("no-room"));

    #[test]
    fn a_victim_is_served_first_where_there_is_room_until_the_last_term_is_over() {
        let mut first = convicted();
        first.convicted(&"b".into(), BTreeSet::from(["web".into()]));
        (1..ROOMY_STEPS).for_each(|_| assert_eq!(follow(&mut first, Some(0.8)), NO_ROOM));
        assert_eq!(follow(&mut first, Some(0.8)), Some(Serve::First(0.8)));
        first.freed(&"a".into());
        assert_eq!(follow(&mut first, Some(0.9)), Some(Serve::First(0.9)));
        first.freed(&"b".into());
        assert_eq!(follow(&mut first, Some(0.9)), Some(Serve::AsUsual("served-again")));
        assert_eq!(follow(&mut first, Some(0.9)), None, "told once");
    }

    #[test]
    fn it_is_not_where_there_is_none_or_nobody_sees_it() {
        for full in [Some(0.99), None] {
            let mut first = convicted();
            (0..10).for_each(|_| assert_eq!(follow(&mut first, full), NO_ROOM));
            (0..ROOMY_STEPS).for_each(|_| assert!(follow(&mut first, Some(0.5)).is_some()));
            let moment = follow(&mut first, full);
            assert_eq!(moment, full.map(Serve::First).or(NO_ROOM), "one step may be chance");
            assert_eq!(follow(&mut first, full), NO_ROOM);
        }
    }
}
