//! What the kernel's traps of split and bus locks say: who made one at all.
//!
//! # Problem
//! Where nothing counts bus locks the kernel may still trap them, and write a line for each thread's
//! first. That is a word about *who*, free of charge and soon there, and it says little: an old library
//! makes one lock a day, and who makes a million a second is told of once as well. What is never told of
//! may only have been told of before this was read.
//!
//! # Idea
//! A trap is others' word about a suspect, kept apart from what is measured ([`Guilt::hear`]): the guilt of
//! who was trapped is so many times as likely as else. Of groups that harm by memory, caches or bus some
//! tenth or more do so by bus locks, and those are all trapped; of the innocent a few in a hundred make a
//! lock by accident. The factor is assumed, not measured, and small on purpose: a look or two outweigh it.
//! So it says whom to hold first, and makes looks that nearly suffice suffice. A second trap says no
//! more than the first, but that it is so still.
//!
//! It never names, and not even suspects, alone: who is named must have been held, to an effect that makes
//! it a suspect without that word; and where looks have not told yet, who was trapped is a suspect only
//! while somebody else ([`Signature`](super::Signature), or a counter) tells that bus locks hold everybody's
//! accesses back.
//!
//! # Units
//! Weight: ln of the factor by which guilt is more likely. Seconds.
//!
//! # Pseudo-code
//! ```text
//! each sample:     a total that grew: trapped(s) = now
//! weight(s)        = ln(ratio) * exp(-(now - trapped(s)) / memory)
//! each hypothesis: its weight times exp(sum of weight(s) over its guilty ones)
//! bus locks told:  who was trapped and never held: suspected of them
//! ```
//!
//! # Degradation
//! Where the kernel traps none, or its log cannot be read, nothing is said.
//!
//! Source: A-9, A-18; issue "Name the polluter and limit only it" (native evidence).

use super::finding::{Finding, Resource};
use quell_types::{Input, Reading, Tenant, Time};
use std::collections::BTreeMap;

/// How much a trap says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrapParams {
    /// How many times as likely a trap makes guilt.
    pub ratio: f64,
    /// After so many seconds a third of its weight is left: as for what is measured.
    pub memory_s: f64,
    /// Less weight than this, in ln, is none.
    pub least_ln: f64,
}

impl Default for TrapParams {
    fn default() -> Self {
        Self { ratio: 4.0, memory_s: 300.0, least_ln: 0.05 }
    }
}

/// Traps of one suspect.
#[derive(Clone, Copy, Debug)]
struct Trapped {
    total: u64,
    /// When the last one was told of; none if that was another workload.
    last: Option<Time>,
}

/// Who was trapped, and how much that says by now.
#[derive(Clone, Debug)]
pub struct Traps {
    params: TrapParams,
    trapped: BTreeMap<Tenant, Trapped>,
    now: Time,
    weights_ln: BTreeMap<Tenant, f64>,
}

impl Traps {
    /// Nobody was trapped.
    #[must_use]
    pub fn new(params: TrapParams) -> Self {
        Self { params, trapped: BTreeMap::new(), now: Time(0), weights_ln: BTreeMap::new() }
    }

    /// Takes in how many traps each suspect has had so far. Without that, what is known grows old.
    pub fn learn(&mut self, now: Time, totals: &Reading<BTreeMap<Tenant, u64>>) {
        self.now = now;
        for (tenant, total) in totals.iter().flatten().filter(|(_, total)| **total > 0) {
            let known = self.trapped.get(tenant).is_some_and(|before| before.total == *total);
            if !known {
                self.trapped.insert(tenant.clone(), Trapped { total: *total, last: Some(now) });
            }
        }
        let weight = |(tenant, trapped): (&Tenant, &Trapped)| {
            let age_s = now.since(trapped.last?).as_secs_f64();
            let ln = libm::log(self.params.ratio) * libm::exp(-age_s / self.params.memory_s);
            (ln >= self.params.least_ln).then(|| (tenant.clone(), ln))
        };
        self.weights_ln = self.trapped.iter().filter_map(weight).collect();
    }

    /// Begins anew with a suspect: traps that it has had say nothing of what it is now.
    pub fn forget(&mut self, suspect: &Tenant) {
        // The total stays, so that only another trap counts.
        if let Some(trapped) = self.trapped.get_mut(suspect) {
            trapped.last = None;
        }
        self.weights_ln.remove(suspect);
    }

    /// ln of how many times as likely the guilt of each is who was trapped.
    #[must_use]
    pub fn weights_ln(&self) -> &BTreeMap<Tenant, f64> {
        &self.weights_ln
    }

    /// For the journal: how many of those who are looked at were trapped, and by how much that makes the
    /// guilt of one of them more likely at most; nothing where nobody was.
    #[must_use]
    pub fn inputs(&self, looked_at: &[Tenant]) -> Vec<Input> {
        let trapped = || looked_at.iter().filter_map(|s| self.weights_ln.get(s));
        let Some(most_ln) = trapped().copied().reduce(f64::max) else { return Vec::new() };
        vec![
            Input::new("kernel_trapped_count", trapped().count() as f64),
            Input::new("kernel_trap_ratio", libm::exp(most_ln)),
        ]
    }

    /// Says of those who are accused that they were trapped, and what that weighs.
    pub fn tell(&self, finding: &mut Finding) {
        let accused = finding.culprits.iter().filter(|c| c.resource != Resource::Cpu);
        let told: Vec<String> = accused.filter_map(|c| self.in_words(&c.workload)).collect();
        finding.evidence.extend(told);
    }

    fn in_words(&self, suspect: &Tenant) -> Option<String> {
        let (trapped, ln) = (self.trapped.get(suspect)?, self.weights_ln.get(suspect)?);
        let ago_s = self.now.since(trapped.last?).as_secs_f64();
        Some(format!(
            "the kernel trapped {} split or bus locks of {suspect}, the last {ago_s:.0} s ago; it tells \
             each thread's first only, so guilt is held {:.1} times as likely for it, no more",
            trapped.total,
            libm::exp(*ln)
        ))
    }
}

#[cfg(test)]
mod tests;
