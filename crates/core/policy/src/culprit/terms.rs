//! How long each culprit is limited, and to what.

use quell_types::{Tenant, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Who used less than this share of its budget does not work any more.
const IDLE_FRAC: f64 = 0.5;
/// For so long.
const IDLE: Duration = Duration::from_secs(10);
/// Who is convicted again within so many of its last terms gets a longer one.
const LATELY_TERMS: f64 = 4.0;

/// What somebody who is named uses, and may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Charge {
    pub(super) budget_cpus: f64,
    pub(super) used_cpus: f64,
}

/// A term that is being served.
#[derive(Clone, Copy, Debug)]
struct Term {
    budget_cpus: f64,
    since: Time,
    length_s: f64,
    idle_since: Option<Time>,
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
                Some(term) => term.budget_cpus = charge.budget_cpus,
                None if charge.used_cpus <= charge.budget_cpus => continue,
                None => {
                    let budget_cpus = charge.budget_cpus;
                    let term = Term { budget_cpus, since: now, length_s, idle_since: None };
                    self.serving.insert(name.clone(), term);
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
            let used = used_cpus.get(name).copied().unwrap_or(0.0);
            if used >= IDLE_FRAC * term.budget_cpus {
                term.idle_since = None;
            } else if term.idle_since.is_none() {
                term.idle_since = Some(now);
            }
            if now.since(term.since).as_secs_f64() >= term.length_s {
                free.push((name.clone(), "served"));
            } else if term.idle_since.is_some_and(|since| now.since(since) >= IDLE) {
                free.push((name.clone(), "idle"));
            }
        }
        for (name, _) in &free {
            if let Some(term) = self.serving.remove(name) {
                self.records.insert(name.clone(), Record { ended: now, length_s: term.length_s });
            }
        }
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
        [("jobs".into(), Charge { budget_cpus, used_cpus })].into()
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
}
