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
//! victim is served *first*, not *more*, and the others do the same work somewhat later. Where no time
//! is left whoever is served first takes from the others (measured: 18 % of the work of innocents that
//! want more than there is), so then all is as it was.
//!
//! Two things serve it first. Batch groups are in the *idle class*: who wakes takes the CPU of such a group
//! at once, and where the kernel looks for a free CPU it counts theirs as free. A great *weight* of
//! the victim does neither: it ends a turn that began, not at once, and two of the victim's threads may
//! stand behind each other while batch has the other CPU. It is raised all the same, for what is
//! not batch. (Measured in trials: p95 over alone 0.92 with both, in six with the weight alone 1.87.)
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
//!   of the last four to eight steps at most 95 % of the CPUs' time was in use:    it is served first
//!   of the last eight more than 97 % was, or for two nobody sees how much:        as it was
//! for whose sake nobody is limited any more:                                      the same
//! batch groups that are not spared are in the idle class as long as anybody is served first
//! ```
//!
//! # Degradation
//! Who works for a share of the clock's time, and sleeps whether or not it got a CPU, does not catch up:
//! such groups did a quarter less (docs/experiments/polluter-history.md). Without a weight for the service's
//! group, or an idle class for batch, the other of the two is left; without both the culprit is
//! limited all the same. Where groups may run on some of the CPUs only, time that is left elsewhere
//! counts as room.
//!
//! Source: issue "Name the polluter and limit only it" (what the victim must get back, what innocents
//! keep).

use quell_types::{Observation, Tenant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// With at most this share of the CPUs' time in use there is room: samples err by some percent.
const ROOMY_FRAC: f64 = 0.95;
/// With more than this there is none any more.
const FULL_FRAC: f64 = 0.97;
/// Steps until it is served first: a culprit that was just limited has to be seen to be so.
const FEWEST_STEPS: usize = 4;
/// Steps over which use is averaged: a machine with room is full for moments, and nobody loses by that.
const STEPS: usize = 8;
/// Steps in which nobody saw it until it is not.
const BLIND_STEPS: u32 = 2;

/// What becomes of a victim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Serve {
    /// It is served first; so much of the CPUs' time is in use.
    First(f64),
    /// It is as it was, by this rule.
    AsUsual(&'static str),
}

/// Whether CPUs have time left, with some patience.
#[derive(Clone, Debug, Default)]
struct Room {
    open: bool,
    /// Of the last steps, the latest last.
    used_frac: VecDeque<f64>,
    /// Steps running in which nobody saw it.
    blind: u32,
}

impl Room {
    fn see(&mut self, used_frac: Option<f64>) {
        let Some(used_frac) = used_frac else {
            self.blind += 1;
            if self.blind >= BLIND_STEPS {
                *self = Room::default();
            }
            return;
        };
        self.blind = 0;
        self.used_frac.push_back(used_frac);
        if self.used_frac.len() > STEPS {
            self.used_frac.pop_front();
        }
        let mean = self.used_frac.iter().sum::<f64>() / self.used_frac.len() as f64;
        let roomy = self.used_frac.len() >= FEWEST_STEPS && mean <= ROOMY_FRAC;
        self.open = roomy || (self.open && mean <= FULL_FRAC);
    }

    /// The share in use when it was last seen; none where there is no room.
    fn last_seen(&self) -> Option<f64> {
        self.used_frac.back().copied().filter(|_| self.open)
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

    /// What becomes of each victim. Those for whose sake nobody is limited any more are told
    /// once.
    pub(super) fn follow(&mut self, seen: &Observation) -> Vec<(Tenant, Serve)> {
        let used_frac = seen.host.utilisation.as_ref().ok().map(|used| used.0);
        if self.victims.is_empty() {
            self.room = Room::default();
            return Vec::new();
        }
        self.room.see(used_frac);
        let serve = |culprits: &BTreeSet<Tenant>| match self.room.last_seen() {
            _ if culprits.is_empty() => Serve::AsUsual("served-again"),
            Some(used) => Serve::First(used),
            None => Serve::AsUsual("no-room"),
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
        (1..FEWEST_STEPS).for_each(|_| assert_eq!(follow(&mut first, Some(0.8)), NO_ROOM));
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
            (0..STEPS).for_each(|_| assert!(follow(&mut first, Some(0.8)).is_some()));
            let moment = follow(&mut first, full);
            assert_eq!(moment, Some(Serve::First(full.unwrap_or(0.8))), "one step tells nothing");
            (1..STEPS).for_each(|_| assert!(follow(&mut first, full).is_some()));
            assert_eq!(follow(&mut first, full), NO_ROOM);
        }
    }

    #[test]
    fn a_machine_with_room_may_be_full_for_moments() {
        let mut first = convicted();
        for step in 0..40 {
            let used_frac = if step % 4 == 3 { 1.0 } else { 0.9 };
            let told = follow(&mut first, Some(used_frac));
            assert_eq!(told, if step < 3 { NO_ROOM } else { Some(Serve::First(used_frac)) });
        }
    }
}
