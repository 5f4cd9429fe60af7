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
pub(super) const IDLE_FRAC: f64 = 0.5;
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
    /// Whether it is so much, by the middle of what is believed, that chance hardly makes that of little.
    pub(super) plain: bool,
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

    /// Whether somebody serves a term.
    pub(super) fn serves(&self, name: &Tenant) -> bool {
        self.serving.contains_key(name)
    }

    /// Follows the budgets of those who serve a term, and begins terms of those who are to. Answers with budgets to
    /// set.
    pub(super) fn convict(
        &mut self,
        now: Time,
        charges: &BTreeMap<Tenant, Charge>,
        to_limit: &BTreeMap<Tenant, Charge>,
    ) -> Vec<(Tenant, f64)> {
        let mut budgets = Vec::new();
        for (name, charge) in charges {
            let Some(term) = self.serving.get_mut(name) else { continue };
            term.budget_cpus = charge.budget_cpus;
            term.apart_s = term.apart_s.max(charge.apart_s);
            term.by_looks &= charge.by_looks;
            budgets.push((name.clone(), charge.budget_cpus));
        }
        for (name, charge) in to_limit {
            let length_s = self.length_s(name, now);
            if !self.serves(name) {
                self.serving.insert(name.clone(), Term::new(now, charge, length_s));
                budgets.push((name.clone(), charge.budget_cpus));
            }
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
mod tests;
