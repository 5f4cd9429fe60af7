//! Holding who is limited, and runs on all the same.
//!
//! # Problem
//! CPU bandwidth holds threads of the usual classes. Real-time threads go on as before where groups may have any
//! (kernels without `CONFIG_RT_GROUP_SCHED`, as Debian's; `stress-ng --mutex` makes itself one), and so does a group
//! whose limit somebody else has raised, or whose file took the write and did nothing. It is named then, and told to
//! be limited, and hurts as ever.
//!
//! # Idea
//! What a group uses is in every sample, so it is *seen* whether a limit holds. Who uses far more than it may, for two
//! seconds on end, is not held by it. The freezer holds threads of all classes, but on and off only. So such a group
//! runs for whole samples, in so many of them that it has its budget on average, and in one of sixteen at least: what
//! is a limit for nobody else shall not starve it either.
//!
//! Each time before it runs again it is seen what it used since it ran last, for each sample in which it did: what is
//! read in a sample is in part of the one before, so a single one tells too little. If that is no more than a limit
//! lets through, four times running, since it gave its class up, it is left to the limit.
//!
//! # Units
//! CPUs; samples of the law.
//!
//! # Pseudo-code
//! ```text
//! each sample, for each that serves a term:
//!   used more than 3 times its budget, and more by a fifth of a CPU, in each of the last 8 samples: it takes turns
//!   for who takes turns:
//!       credit += max(budget / used, 1/16);  it runs if credit >= 1, which costs 1; else it is frozen
//!       before it runs: what it used since the last time, by the samples in which it ran:
//!           so much again: used := that
//!           it was not, for the fourth time running: no turns any more
//! ```
//!
//! # Degradation
//! A sample of a quarter of a second is long: while it runs, victims are slowed as ever. Without a freezer it is
//! told (rule `unheld`), and nothing else. Turns go on while nobody sees what it uses: who is frozen must never stay
//! so for want of a reading.
//!
//! Source: issue "Name the polluter and limit only it" (read the effect back, and fall back when the cap does not
//! hold; freezer duty); A-4.

use crate::parts::{Overruns, runs_on};
use quell_types::{Knob, Setup, Tenant};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Who runs on does so in so many samples running.
const OVER_SAMPLES: u32 = 8;
/// A limit holds again if it did so many times running.
const CALM_SAMPLES: u32 = 4;
/// It runs in one of so many samples, at least.
const FEWEST_OF: f64 = 16.0;

/// Whether somebody runs until the next sample, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Turn {
    pub(super) runs: bool,
    /// Whether these turns begin.
    pub(super) begins: bool,
    pub(super) used_cpus: f64,
    pub(super) budget_cpus: f64,
}

/// Of one who takes turns.
#[derive(Clone, Copy, Debug)]
struct Turns {
    /// While it runs, as far as its limit does not hold it.
    used_cpus: f64,
    /// The same by the last look.
    last_cpus: f64,
    credit: f64,
    runs: bool,
    /// What it used since it was last looked at, and in how many samples it ran.
    spent_cpus: f64,
    ran: u32,
    /// How often its limit held since it last did not.
    calm: u32,
}

impl Turns {
    fn of(used_cpus: f64) -> Self {
        let last_cpus = used_cpus;
        Self { used_cpus, last_cpus, credit: 0.0, runs: false, spent_cpus: 0.0, ran: 0, calm: 0 }
    }

    /// Of its time it may run so much.
    fn share_frac(&self, budget_cpus: f64) -> f64 {
        (budget_cpus / self.used_cpus.max(f64::MIN_POSITIVE)).clamp(1.0 / FEWEST_OF, 1.0)
    }

    /// Follows a sample, and begins the next; none if the limit holds by now. What was used may be unknown.
    fn follow(&mut self, budget_cpus: f64, used_cpus: Option<f64>) -> Option<Turn> {
        // Sums of parts that are no powers of two end a little below one.
        const ALMOST: f64 = 1.0 - 1e-9;
        if let Some(used_cpus) = used_cpus {
            self.spent_cpus += used_cpus;
            self.ran += u32::from(self.runs);
        }
        self.credit += self.share_frac(budget_cpus);
        self.runs = self.credit >= ALMOST;
        if self.runs {
            self.credit -= 1.0;
            self.look(budget_cpus);
        }
        let Self { runs, used_cpus, .. } = *self;
        (self.calm < CALM_SAMPLES).then_some(Turn { runs, begins: false, used_cpus, budget_cpus })
    }

    fn look(&mut self, budget_cpus: f64) {
        if self.ran > 0 {
            self.last_cpus = self.spent_cpus / f64::from(self.ran);
            let over = runs_on(budget_cpus, self.last_cpus);
            self.calm = if over { 0 } else { self.calm + 1 };
            self.used_cpus = if over { self.last_cpus } else { self.used_cpus };
        }
        (self.spent_cpus, self.ran) = (0.0, 0);
    }
}

/// All whom their limits do not hold.
#[derive(Debug)]
pub(super) struct Unheld {
    over: Overruns,
    turns: BTreeMap<Tenant, Turns>,
}

impl Default for Unheld {
    fn default() -> Self {
        Self { over: Overruns::after(OVER_SAMPLES), turns: BTreeMap::new() }
    }
}

impl Unheld {
    /// Follows who is limited, with the budgets that hold since the last sample, and what they used in it; answers
    /// with those who take turns, and with those who do no more and run.
    pub(super) fn follow(
        &mut self,
        budgets: &BTreeMap<Tenant, f64>,
        used_cpus: &BTreeMap<Tenant, f64>,
    ) -> Vec<(Tenant, Turn)> {
        self.over.keep(|name| budgets.contains_key(name));
        self.turns.retain(|name, _| budgets.contains_key(name));
        let turn = |(name, budget): (&Tenant, &f64)| {
            let used = used_cpus.get(name).copied();
            Some((name.clone(), self.turn(name, *budget, used)?))
        };
        budgets.iter().filter_map(turn).collect()
    }

    fn turn(&mut self, name: &Tenant, budget_cpus: f64, used_cpus: Option<f64>) -> Option<Turn> {
        if let Some(turns) = self.turns.get_mut(name) {
            let turn = turns.follow(budget_cpus, used_cpus);
            if turn.is_none() {
                self.turns.remove(name);
            }
            let used_cpus = used_cpus.unwrap_or_default();
            return turn.or(Some(Turn { runs: true, begins: false, used_cpus, budget_cpus }));
        }
        let used_cpus = used_cpus?;
        if !self.over.look(name, Some(budget_cpus), Some(used_cpus)) {
            return None;
        }
        self.over.forget(name);
        let mut turns = Turns::of(used_cpus);
        let turn = turns.follow(budget_cpus, Some(0.0));
        self.turns.insert(name.clone(), turns);
        turn.map(|turn| Turn { begins: true, ..turn })
    }

    /// The machine as it is for looks: who takes turns is not to be held by them. A look that ended would let it go.
    pub(super) fn for_looks<'a>(&self, setup: &'a Setup) -> Cow<'a, Setup> {
        if self.turns.is_empty() {
            return Cow::Borrowed(setup);
        }
        let mut setup = setup.clone();
        let turns = |knob: &Knob| matches!(knob, Knob::Frozen { tenant } if self.turns.contains_key(tenant));
        setup.knobs.retain(|knob, _| !turns(knob));
        Cow::Owned(setup)
    }

    /// What somebody used in a sample, on average over its turns if it takes any: to be frozen is not to be idle.
    pub(super) fn average_cpus(&self, name: &Tenant, budget_cpus: f64, used_cpus: f64) -> f64 {
        let turns = self.turns.get(name);
        turns.map_or(used_cpus, |turns| turns.share_frac(budget_cpus) * turns.last_cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cpus: f64) -> BTreeMap<Tenant, f64> {
        [("jobs".into(), cpus)].into()
    }

    /// Lets so many samples pass, in which it uses so much whenever it runs; in how many it ran.
    fn ran(unheld: &mut Unheld, samples: u32, budget_cpus: f64, used_cpus: f64) -> u32 {
        let mut runs = true;
        (0..samples)
            .filter(|_| {
                let ran = runs;
                let used = of(if ran { used_cpus } else { 0.0 });
                let told = unheld.follow(&of(budget_cpus), &used);
                runs = told.first().is_none_or(|(_, turn)| turn.runs);
                ran
            })
            .count() as u32
    }

    #[test]
    fn who_runs_on_gets_its_budget_in_turns_and_is_never_starved() {
        for (budget, used, wanted) in [(0.5, 2.0, 100), (0.3, 1.0, 120), (0.05, 2.0, 25)] {
            let mut unheld = Unheld::default();
            assert_eq!(ran(&mut unheld, OVER_SAMPLES, budget, used), OVER_SAMPLES, "it is seen");
            let ran = ran(&mut unheld, 400, budget, used);
            assert!(ran.abs_diff(wanted) <= 1, "{budget} of {used}: {ran} of 400");
        }
    }

    #[test]
    fn a_limit_that_holds_is_left_alone() {
        let mut unheld = Unheld::default();
        for (budget, used) in [(0.05, 0.24), (0.5, 0.8), (1.0, 2.9), (0.05, 0.0)] {
            assert_eq!(ran(&mut unheld, 100, budget, used), 100, "{budget}, {used}");
        }
        for _ in 0..20 {
            assert_eq!(ran(&mut unheld, OVER_SAMPLES - 1, 0.05, 2.0), OVER_SAMPLES - 1);
            assert_eq!(ran(&mut unheld, 1, 0.05, 0.05), 1, "late for some samples only");
        }
    }

    #[test]
    fn who_keeps_to_its_budget_again_runs_on() {
        let mut unheld = Unheld::default();
        ran(&mut unheld, 100, 0.1, 2.0);
        ran(&mut unheld, 120, 0.1, 0.1);
        assert_eq!(ran(&mut unheld, 100, 0.1, 0.1), 100);
        assert!(unheld.turns.is_empty());
    }

    #[test]
    fn what_is_read_late_frees_nobody() {
        let mut unheld = Unheld::default();
        ran(&mut unheld, OVER_SAMPLES, 0.05, 2.0);
        let (mut before, mut free) = (2.0, 0);
        for _ in 0..320 {
            // Half of what is read is of the sample before.
            let runs = unheld.turns[&"jobs".into()].runs;
            let now = if runs { 0.4 } else { 0.0 };
            free += u32::from(runs);
            unheld.follow(&of(0.05), &of(f64::midpoint(before, now)));
            before = now;
        }
        assert!((38..=41).contains(&free), "{free} of 320");
    }

    #[test]
    fn who_is_not_seen_takes_its_turns_all_the_same_and_who_is_free_is_forgotten() {
        let mut unheld = Unheld::default();
        assert!(unheld.follow(&of(0.1), &BTreeMap::new()).is_empty(), "nothing is known of it");
        ran(&mut unheld, OVER_SAMPLES + 1, 0.1, 2.0);
        let runs = |told: Vec<(Tenant, Turn)>| u32::from(told[0].1.runs);
        let ran: u32 = (0..320).map(|_| runs(unheld.follow(&of(0.1), &BTreeMap::new()))).sum();
        assert!((19..=21).contains(&ran), "{ran} of 320");
        assert!(unheld.follow(&BTreeMap::new(), &of(2.0)).is_empty());
        assert!(unheld.turns.is_empty());
    }

    #[test]
    fn no_look_holds_who_takes_turns() {
        let setup = crate::testing::setup(2).batch("jobs").batch("others").build();
        let looked_at = |unheld: &Unheld| {
            let setup = unheld.for_looks(&setup);
            let held = |name: &&str| setup.controls(&Knob::Frozen { tenant: (*name).into() });
            ["jobs", "others"].into_iter().filter(held).collect::<Vec<_>>()
        };
        let mut unheld = Unheld::default();
        assert_eq!(looked_at(&unheld), ["jobs", "others"]);
        ran(&mut unheld, OVER_SAMPLES, 0.1, 2.0);
        assert_eq!(looked_at(&unheld), ["others"]);
        unheld.follow(&BTreeMap::new(), &of(2.0));
        assert_eq!(looked_at(&unheld), ["jobs", "others"], "free");
    }

    #[test]
    fn who_is_frozen_counts_as_using_its_part() {
        let mut unheld = Unheld::default();
        assert_eq!(unheld.average_cpus(&"jobs".into(), 0.5, 0.7), 0.7);
        ran(&mut unheld, OVER_SAMPLES, 0.5, 2.0);
        assert!(!unheld.turns[&"jobs".into()].runs);
        assert_eq!(unheld.average_cpus(&"jobs".into(), 0.5, 0.0), 0.5);
    }
}
