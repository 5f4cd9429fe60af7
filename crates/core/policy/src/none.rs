//! `none`: the baseline that does nothing.
//!
//! **Problem.** To say what a control law is worth, one must see the machine without it.
//!
//! **Idea.** No knob is touched and tasks of the queue run at once, as many as each group allows.
//!
//! **Pseudo-code.**
//! ```text
//! once: for each batch group that takes tasks: let max_tasks of them run
//! ```
//!
//! **Degradation.** Needs no capability, no knob and no reading.
//!
//! **Invariants**, checked after every step of every fault run (`quell-faults`). No knob is
//! written.
//!
//! | rule | when | what |
//! |---|---|---|
//! | `always-run` | first step | tasks may run |
//!
//! Source: the uncontrolled runs of T-1 and T-25; X-10.

use crate::Policy;
use crate::ledger::{Ledger, Reason};
use quell_types::{Observation, Proposal, Setup};
use std::time::Duration;

/// See the module.
pub(crate) struct None {
    ledger: Ledger,
}

impl None {
    pub(crate) fn new() -> Self {
        Self { ledger: Ledger::new("none") }
    }
}

impl Policy for None {
    fn name(&self) -> &'static str {
        "none"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn step(&mut self, setup: &Setup, _: &Observation) -> Vec<Proposal> {
        let why = Reason::partition("always-run", Vec::new());
        self.ledger.run_all_tasks(setup, &why);
        self.ledger.drain()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Standing, observe, setup};

    #[test]
    fn tasks_run_and_no_knob_is_touched_whatever_the_slack() {
        let setup = setup(2).service("search", 15.0, 1000.0).batch("hadoop").build();
        let (mut law, mut standing) = (None::new(), Standing::default());
        let rules = standing.step(&mut law, &setup, observe(&setup, 0.0).slack("search", 0.5));
        assert_eq!(rules, ["always-run"]);
        let rules = standing.step(&mut law, &setup, observe(&setup, 1.0).slack("search", -9.0));
        assert!(rules.is_empty(), "{rules:?}");
        assert_eq!((standing.settings.len(), standing.tasks[&"hadoop".into()]), (0, 4));
    }
}
