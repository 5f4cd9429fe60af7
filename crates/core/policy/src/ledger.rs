//! What a policy has wished so far, so that it answers only with what changes.

use quell_types::{Input, Knob, Precedence, Proposal, Setting, Setup, Tenant, Wish};
use std::collections::BTreeMap;

/// Why a wish is made: the rule that fired, its rank and what it looked at.
#[derive(Clone, Debug)]
pub(crate) struct Reason {
    /// The rule, as `slack-below-shrink`.
    pub(crate) rule: &'static str,
    /// Its rank among policies.
    pub(crate) precedence: Precedence,
    /// What it looked at.
    pub(crate) inputs: Vec<Input>,
}

impl Reason {
    /// A reason of the rank of partition sizing.
    pub(crate) fn partition(rule: &'static str, inputs: Vec<Input>) -> Self {
        Self { rule, precedence: Precedence::Partition, inputs }
    }

    /// A reason of the rank of throttling a polluter.
    pub(crate) fn polluter(rule: &'static str, inputs: Vec<Input>) -> Self {
        Self { rule, precedence: Precedence::Polluter, inputs }
    }

    /// A reason of the highest rank: the service is in danger, or the danger is over.
    pub(crate) fn emergency(rule: &'static str, inputs: Vec<Input>) -> Self {
        Self { rule, precedence: Precedence::Emergency, inputs }
    }
}

/// Standing wishes of one policy and those that are new in this step.
///
/// Invariant: a knob that the setup does not control is never wished for.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    policy: &'static str,
    standing: BTreeMap<Knob, Setting>,
    tasks: BTreeMap<Tenant, u32>,
    fresh: Vec<Proposal>,
}

impl Ledger {
    /// An empty one for the policy of this name.
    pub(crate) fn new(policy: &'static str) -> Self {
        Self { policy, standing: BTreeMap::new(), tasks: BTreeMap::new(), fresh: Vec::new() }
    }

    /// Wishes for a setting, unless the machine lacks the knob or it is already wished for.
    /// Returns whether that is new.
    pub(crate) fn set(&mut self, setup: &Setup, knob: Knob, to: Setting, why: &Reason) -> bool {
        if self.standing.get(&knob) == Some(&to) || !setup.controls(&knob) {
            return false;
        }
        self.standing.insert(knob.clone(), to.clone());
        self.push(Wish::Set { knob, to }, why);
        true
    }

    /// Gives a knob back, if it was ever wished for. Returns whether that is new.
    pub(crate) fn release(&mut self, knob: Knob, why: &Reason) -> bool {
        if self.standing.remove(&knob).is_none() {
            return false;
        }
        self.push(Wish::Release { knob }, why);
        true
    }

    /// Lets at most so many tasks run in a group, 0 = none. Returns whether that is new.
    pub(crate) fn run_tasks(&mut self, tenant: &Tenant, at_most: u32, why: &Reason) -> bool {
        if self.tasks.insert(tenant.clone(), at_most) == Some(at_most) {
            return false;
        }
        self.push(Wish::RunTasks { tenant: tenant.clone(), allowed: at_most > 0, at_most }, why);
        true
    }

    /// Lets every group that takes tasks run as many as it is configured for. Returns whether
    /// that is new.
    pub(crate) fn run_all_tasks(&mut self, setup: &Setup, why: &Reason) -> bool {
        let takers = setup.batch.iter().filter(|b| b.takes_tasks);
        let new = takers.filter(|b| self.run_tasks(&b.name, b.max_tasks, why)).count();
        new > 0
    }

    /// Wishes once more for what stands, for knobs that `which` picks and for tasks: nothing
    /// changes, but the journal learns a new reason.
    pub(crate) fn repeat(&mut self, which: fn(&Knob) -> bool, why: &Reason) {
        for (knob, to) in self.standing.clone().into_iter().filter(|(knob, _)| which(knob)) {
            self.push(Wish::Set { knob, to }, why);
        }
        for (tenant, at_most) in self.tasks.clone() {
            self.push(Wish::RunTasks { tenant, allowed: at_most > 0, at_most }, why);
        }
    }

    /// Wishes once more for what stands of one knob: nothing changes, but the journal learns a new reason.
    pub(crate) fn tell_again(&mut self, knob: &Knob, why: &Reason) {
        if let Some(to) = self.standing.get(knob).cloned() {
            self.push(Wish::Set { knob: knob.clone(), to }, why);
        }
    }

    /// The wish that stands for a knob.
    pub(crate) fn standing(&self, knob: &Knob) -> Option<&Setting> {
        self.standing.get(knob)
    }

    /// The proposals that are new since the last call.
    pub(crate) fn drain(&mut self) -> Vec<Proposal> {
        std::mem::take(&mut self.fresh)
    }

    fn push(&mut self, wish: Wish, why: &Reason) {
        self.fresh.push(Proposal {
            policy: self.policy.into(),
            precedence: why.precedence,
            wish,
            rule: why.rule.into(),
            inputs: why.inputs.clone(),
        });
    }
}
