//! How long each culprit is limited, and to what.
//!
//! Who works in bursts is limited for many of them. Between two bursts it is idle, which is not to
//! keep out of trouble, and each release costs the victim bursts until it is named again. So how far
//! its bursts are apart is followed while it serves, from the time at which it works within its
//! limit, and it is free once it stays away for some of them.
//!
//! Who was named wrongly is acquitted once others are found guilty of what it was named for: it is free
//! at once, and its term never was.

use quell_types::{Tenant, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Who used less than this share of its budget does not work any more.
const IDLE_FRAC: f64 = 0.5;
/// For so long.
const IDLE: Duration = Duration::from_secs(10);
/// Who is convicted again within so many of its last terms gets a longer one.
const LATELY_TERMS: f64 = 4.0;

/// Who stays away for so many times as long as its bursts are apart does not work any more either.
const IDLE_BURSTS: f64 = 3.0;
/// Its term is at least as long as so many bursts are apart: it takes two of them to be named anew,
/// so that free and limited time are to each other as in the first term of who works on and on, and
/// is named anew after 3.5 s of 30.
const TERM_BURSTS: f64 = 16.0;
/// To be idle for less is no end of a burst.
const REST: Duration = Duration::from_secs(1);

/// What somebody who is named uses, and may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Charge {
    pub(super) budget_cpus: f64,
    pub(super) used_cpus: f64,
    /// The usual time from one burst to the next; 0 if it is not known to work in bursts.
    pub(super) apart_s: f64,
    /// Whether looks showed what it does, so that looks may show the contrary.
    pub(super) by_looks: bool,
    /// Whether the harm is worth a limit.
    pub(super) serious: bool,
}

impl Charge {
    /// Whether it counts in place of another one against the same: serious harm first, then the most.
    pub(super) fn is_worse_than(&self, other: &Self) -> bool {
        let lesser = self.budget_cpus < other.budget_cpus;
        if self.serious == other.serious { lesser } else { self.serious }
    }
}

/// A term that is being served.
#[derive(Clone, Copy, Debug)]
struct Term {
    budget_cpus: f64,
    /// What it used before.
    used_cpus: f64,
    since: Time,
    length_s: f64,
    idle_since: Option<Time>,
    /// When its last burst began; the conviction counts as a begin.
    burst: Time,
    /// The longest time from one burst to the next, in seconds; 0 before the second.
    apart_s: f64,
    by_looks: bool,
}

impl Term {
    fn new(now: Time, charge: &Charge, length_s: f64) -> Self {
        Self {
            budget_cpus: charge.budget_cpus,
            used_cpus: charge.used_cpus,
            since: now,
            length_s,
            idle_since: None,
            burst: now,
            apart_s: charge.apart_s,
            by_looks: charge.by_looks,
        }
    }

    /// Follows what it uses.
    fn see(&mut self, now: Time, used_cpus: f64) {
        if used_cpus < IDLE_FRAC * self.budget_cpus {
            self.idle_since.get_or_insert(now);
            return;
        }
        let Some(rest) = self.idle_since.take() else { return };
        let (worked, rested) = (rest.since(self.burst), now.since(rest));
        if rested < REST {
            return;
        }
        // Who rests for less time than it worked pauses now and then: that is no burst.
        if rested >= worked {
            self.apart_s = self.apart_s.max(now.since(self.burst).as_secs_f64());
        }
        self.burst = now;
    }

    fn length_s(&self, longest_s: f64) -> f64 {
        self.length_s.max(TERM_BURSTS * self.apart_s).min(longest_s)
    }

    /// Why it is over, if it is.
    fn over(&self, now: Time, longest_s: f64) -> Option<&'static str> {
        let idle_s = IDLE.as_secs_f64().max(IDLE_BURSTS * self.apart_s);
        let idle = |since: Time| now.since(since).as_secs_f64() >= idle_s;
        if now.since(self.since).as_secs_f64() >= self.length_s(longest_s) {
            return Some("served");
        }
        self.idle_since.is_some_and(idle).then_some("idle")
    }
}

/// A term that is over.
#[derive(Clone, Copy, Debug)]
struct Record {
    ended: Time,
    length_s: f64,
}

/// All terms.
#[derive(Debug)]
pub(super) struct Terms {
    first_s: f64,
    longest_s: f64,
    serving: BTreeMap<Tenant, Term>,
    records: BTreeMap<Tenant, Record>,
}

impl Terms {
    pub(super) fn new(first_s: f64, longest_s: f64) -> Self {
        Self { first_s, longest_s, serving: BTreeMap::new(), records: BTreeMap::new() }
    }

    /// What somebody used before its term; 0 if it serves none.
    pub(super) fn used_before(&self, name: &Tenant) -> f64 {
        self.serving.get(name).map_or(0.0, |term| term.used_cpus)
    }

    /// Who serves a term, and what it may use.
    pub(super) fn budgets(&self) -> BTreeMap<Tenant, f64> {
        self.serving.iter().map(|(name, term)| (name.clone(), term.budget_cpus)).collect()
    }

    /// Begins terms of those who use more than they may, and follows the budgets of those who
    /// serve one. Answers with budgets to set.
    pub(super) fn convict(
        &mut self,
        now: Time,
        charges: &BTreeMap<Tenant, Charge>,
    ) -> Vec<(Tenant, f64)> {
        let mut budgets = Vec::new();
        for (name, charge) in charges {
            let length_s = self.length_s(name, now);
            match self.serving.get_mut(name) {
                Some(term) => {
                    term.budget_cpus = charge.budget_cpus;
                    term.apart_s = term.apart_s.max(charge.apart_s);
                    term.by_looks &= charge.by_looks;
                }
                None if !charge.serious || charge.used_cpus <= charge.budget_cpus => continue,
                None => {
                    self.serving.insert(name.clone(), Term::new(now, charge, length_s));
                }
            }
            budgets.push((name.clone(), charge.budget_cpus));
        }
        budgets
    }

    /// Ends terms that are over, of those who have stopped working, and of those who are gone;
    /// answers with who is free, and why.
    pub(super) fn end(
        &mut self,
        now: Time,
        used_cpus: &BTreeMap<Tenant, f64>,
    ) -> Vec<(Tenant, &'static str)> {
        let mut free = Vec::new();
        for (name, term) in &mut self.serving {
            term.see(now, used_cpus.get(name).copied().unwrap_or(0.0));
            free.extend(term.over(now, self.longest_s).map(|rule| (name.clone(), rule)));
        }
        for (name, _) in &free {
            if let Some(term) = self.serving.remove(name) {
                let length_s = term.length_s(self.longest_s);
                self.records.insert(name.clone(), Record { ended: now, length_s });
            }
        }
        free
    }

    /// Ends the terms of those of whom looks show the contrary by now; answers with who that is.
    pub(super) fn acquit(&mut self, innocent: impl Fn(&Tenant) -> bool) -> Vec<Tenant> {
        let wrong = |(name, term): &(&Tenant, &Term)| term.by_looks && innocent(name);
        let free: Vec<Tenant> =
            self.serving.iter().filter(wrong).map(|(name, _)| name.clone()).collect();
        self.serving.retain(|name, _| !free.contains(name));
        free
    }

    fn length_s(&self, name: &Tenant, now: Time) -> f64 {
        let Some(record) = self.records.get(name) else { return self.first_s };
        if now.since(record.ended).as_secs_f64() > LATELY_TERMS * record.length_s {
            return self.first_s;
        }
        (2.0 * record.length_s).min(self.longest_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    fn charged(budget_cpus: f64, used_cpus: f64) -> BTreeMap<Tenant, Charge> {
        [(
            "jobs".into(),
            Charge { budget_cpus, used_cpus, apart_s: 0.0, by_looks: true, serious: true },
        )]
        .into()
    }

    fn used(cpus: f64) -> BTreeMap<Tenant, f64> {
        [("jobs".into(), cpus)].into()
    }

    /// Seconds from the conviction at `from` until it is free again while it uses so much.
    fn served(terms: &mut Terms, from: f64, cpus: f64) -> (f64, &'static str) {
        assert_eq!(terms.convict(at(from), &charged(0.1, 0.8)).len(), 1);
        for step in 0..10_000 {
            let second = from + 0.25 * f64::from(step);
            if let Some((_, rule)) = terms.end(at(second), &used(cpus)).first() {
                return (second - from, rule);
            }
        }
        panic!("never free");
    }

    #[test]
    fn each_term_is_twice_as_long_as_the_last_until_one_keeps_out_of_trouble() {
        let mut terms = Terms::new(30.0, 100.0);
        assert_eq!(served(&mut terms, 0.0, 0.1), (30.0, "served"));
        assert_eq!(served(&mut terms, 40.0, 0.1), (60.0, "served"));
        assert_eq!(served(&mut terms, 110.0, 0.1), (100.0, "served"), "the longest");
        assert_eq!(served(&mut terms, 220.0, 0.1), (100.0, "served"));
        assert_eq!(served(&mut terms, 1000.0, 0.1), (30.0, "served"), "long ago");
    }

    #[test]
    fn who_is_acquitted_is_free_and_never_served() {
        let mut terms = Terms::new(30.0, 600.0);
        terms.convict(at(0.0), &charged(0.1, 0.8));
        assert!(terms.acquit(|_| false).is_empty());
        assert_eq!(terms.acquit(|name| name.as_str() == "jobs"), ["jobs".into()]);
        assert!(terms.end(at(40.0), &used(0.8)).is_empty(), "there is no term to end");
        assert_eq!(served(&mut terms, 41.0, 0.1), (30.0, "served"), "a first term again");
    }

    #[test]
    fn looks_acquit_nobody_who_was_convicted_for_what_they_do_not_show() {
        let mut terms = Terms::new(30.0, 600.0);
        let by_waits = Charge { by_looks: false, ..charged(0.1, 0.8)[&"jobs".into()] };
        terms.convict(at(0.0), &[("jobs".into(), by_waits)].into());
        assert!(terms.acquit(|_| true).is_empty());
        terms.convict(at(1.0), &charged(0.1, 0.1));
        assert!(terms.acquit(|_| true).is_empty(), "nor who was convicted for both");
    }

    #[test]
    fn who_stops_working_is_free_after_ten_seconds() {
        let mut terms = Terms::new(30.0, 600.0);
        assert_eq!(served(&mut terms, 0.0, 0.01), (10.0, "idle"));
    }

    #[test]
    fn who_uses_no_more_than_it_may_is_not_convicted_and_budgets_follow_what_is_learned() {
        let mut terms = Terms::new(30.0, 600.0);
        assert!(terms.convict(at(0.0), &charged(0.5, 0.4)).is_empty());
        assert_eq!(terms.convict(at(1.0), &charged(0.3, 0.4)), [("jobs".into(), 0.3)]);
        assert_eq!(terms.convict(at(2.0), &charged(0.2, 0.3)), [("jobs".into(), 0.2)]);
        assert!(terms.convict(at(3.0), &BTreeMap::new()).is_empty());
        assert!(terms.end(at(4.0), &used(0.2)).is_empty(), "it still serves");
    }

    #[test]
    fn who_is_gone_is_freed() {
        let mut terms = Terms::new(30.0, 600.0);
        terms.convict(at(0.0), &charged(0.1, 0.8));
        assert!(terms.end(at(1.0), &BTreeMap::new()).is_empty());
        assert_eq!(terms.end(at(11.0), &BTreeMap::new()).len(), 1);
    }

    /// Seconds from the conviction until it is free, if it works at its budget for half a second of
    /// each so many, until then and so often.
    fn bursts(apart_s: f64, count: f64) -> (f64, &'static str) {
        let mut terms = Terms::new(30.0, 600.0);
        assert_eq!(terms.convict(at(0.0), &charged(0.1, 0.8)).len(), 1);
        for step in 0..10_000 {
            let second = 0.25 * f64::from(step);
            let works = second % apart_s < 0.5 && second < count * apart_s;
            if let Some((_, rule)) =
                terms.end(at(second), &used(if works { 0.1 } else { 0.0 })).first()
            {
                return (second, rule);
            }
        }
        panic!("never free");
    }

    #[test]
    fn who_works_in_bursts_is_limited_for_many_of_them_and_free_when_it_stays_away() {
        assert_eq!(bursts(5.0, 1e3), (80.0, "served"), "16 bursts");
        assert_eq!(bursts(1.5, 1e3), (30.0, "served"), "a first term");
        let (second, rule) = bursts(5.0, 4.0);
        assert_eq!(rule, "idle");
        assert!((30.0..31.5).contains(&second), "the last at 15 s, then three times 5: {second}");
        let (second, rule) = bursts(5.0, 1.0);
        assert_eq!(rule, "idle");
        assert!((10.0..11.0).contains(&second), "one burst has no period: {second}");
        assert!(bursts(9.0, 1e3).0 >= 140.0, "rests below ten seconds");
    }

    #[test]
    fn bursts_that_are_known_to_be_far_apart_are_waited_for() {
        let mut terms = Terms::new(30.0, 600.0);
        let far = Charge { apart_s: 20.0, ..charged(0.1, 0.9)[&"jobs".into()] };
        assert_eq!(terms.convict(at(0.0), &[("jobs".into(), far)].into()).len(), 1);
        assert!((0..59).all(|s| terms.end(at(f64::from(s)), &used(0.0)).is_empty()));
        assert_eq!(terms.end(at(60.0), &used(0.0)), [("jobs".into(), "idle")]);
    }

    #[test]
    fn who_pauses_once_does_not_work_in_bursts() {
        let mut terms = Terms::new(30.0, 600.0);
        assert_eq!(terms.convict(at(0.0), &charged(0.1, 0.8)).len(), 1);
        let free = (0..2000).find(|step| {
            let second = 0.25 * f64::from(*step);
            let cpus = if (27.0..28.25).contains(&second) { 0.0 } else { 0.1 };
            !terms.end(at(second), &used(cpus)).is_empty()
        });
        assert_eq!(free, Some(120), "30 s");
    }

    #[test]
    fn of_several_victims_the_one_with_serious_harm_counts_then_the_one_that_bears_least() {
        let charge =
            |budget_cpus, serious| Charge { serious, ..charged(budget_cpus, 0.8)[&"jobs".into()] };
        assert!(charge(0.2, true).is_worse_than(&charge(0.1, false)));
        assert!(!charge(0.1, false).is_worse_than(&charge(0.2, true)));
        assert!(charge(0.1, true).is_worse_than(&charge(0.2, true)));
    }

    #[test]
    fn harm_that_is_not_worth_a_limit_begins_no_term() {
        let mut terms = Terms::new(30.0, 600.0);
        let little = Charge { serious: false, ..charged(0.1, 0.8)[&"jobs".into()] };
        assert!(terms.convict(at(1.0), &[("jobs".into(), little)].into()).is_empty());
        assert_eq!(terms.convict(at(2.0), &charged(0.1, 0.8)).len(), 1);
        assert_eq!(terms.convict(at(3.0), &[("jobs".into(), little)].into()).len(), 1, "it serves");
    }

    #[test]
    fn who_falls_short_of_its_budget_for_a_sample_does_not_work_in_bursts() {
        let mut terms = Terms::new(30.0, 600.0);
        assert_eq!(terms.convict(at(0.0), &charged(0.1, 0.8)).len(), 1);
        let free = (0..200).find(|step| {
            let cpus = if step % 40 == 20 { 0.0 } else { 0.1 };
            !terms.end(at(0.25 * f64::from(*step)), &used(cpus)).is_empty()
        });
        assert_eq!(free, Some(120), "30 s");
    }
}
