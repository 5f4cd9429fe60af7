//! Says what goes wrong at a write, and remembers what did.

use crate::dice::Dice;
use crate::plan::{Plan, Trigger};
use crate::{Cell, Coverage, FaultKind, Site};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has no site of its own comes about after so long without a write.
const OVERDUE_S: f64 = 3.0;

/// What the agent is doing, as far as its writes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It begins.
    Begin,
    /// It decides.
    Guard,
    /// It is on the safe side at the beginning of this step.
    Held,
}

/// Faults that come about together.
#[derive(Debug)]
pub(crate) struct Throw {
    pub(crate) site: Option<Site>,
    pub(crate) kinds: Vec<FaultKind>,
    pub(crate) dice: Dice,
}

/// The episode's faults.
#[derive(Debug)]
pub(crate) struct Director {
    seed: u64,
    triggers: Vec<Trigger>,
    /// Seconds since the episode began.
    pub(crate) now_s: f64,
    pub(crate) phase: Phase,
    /// Whether something failed in this step, so that the agent goes to the safe side.
    pub(crate) trouble: bool,
    /// Faults of the world that came due inside a store.
    pub(crate) deferred: Vec<Throw>,
    pub(crate) coverage: Coverage,
    pub(crate) faults: u64,
    pub(crate) last_fault_s: f64,
    pub(crate) thrown: Vec<String>,
}

impl Director {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            seed: plan.seed,
            triggers: plan.triggers.clone(),
            now_s: 0.0,
            phase: Phase::Begin,
            trouble: false,
            deferred: Vec::new(),
            coverage: Coverage::default(),
            faults: 0,
            last_fault_s: 0.0,
            thrown: Vec::new(),
        }
    }

    /// What goes wrong at this site now.
    pub(crate) fn at(&mut self, site: Site) -> Option<Throw> {
        // Every step writes decisions: what waits for any write waits for a rarer one.
        let any = site != Site::Decision;
        let fits = |t: &Trigger| t.site.map_or(any, |own| own == site);
        let due = |t: &Trigger| t.from_s <= self.now_s && fits(t);
        // What waits for this very site goes first.
        let own = self.triggers.iter().position(|t| due(t) && t.site.is_some());
        let index = own.or_else(|| self.triggers.iter().position(due))?;
        Some(self.take(index, Some(site)))
    }

    /// What waits for any write and has waited long enough.
    pub(crate) fn overdue(&mut self) -> Option<Throw> {
        let late = |t: &Trigger| t.site.is_none() && t.from_s + OVERDUE_S <= self.now_s;
        let index = self.triggers.iter().position(late)?;
        Some(self.take(index, None))
    }

    fn take(&mut self, index: usize, site: Option<Site>) -> Throw {
        let trigger = self.triggers.remove(index);
        let dice = Dice::new(self.seed, 1_000 + trigger.number);
        Throw { site, kinds: trigger.kinds, dice }
    }

    /// A fault came about.
    pub(crate) fn note(&mut self, kind: FaultKind, site: Option<Site>, details: &str) {
        self.faults += 1;
        self.last_fault_s = self.now_s;
        let place = site.map_or("between writes".into(), |site| site.to_string());
        self.thrown.push(format!("{:8.2} s  {kind} at {place} {details}", self.now_s));
        if let Some(site) = site {
            self.coverage.note(Cell { kind, site });
        }
    }

    /// Two of a throw came about at once.
    pub(crate) fn note_two(&mut self, site: Option<Site>) {
        if let Some(site) = site {
            self.coverage.note(Cell { kind: FaultKind::Two, site });
        }
    }

    /// Nothing but what waits for the end comes about any more.
    pub(crate) fn leave_the_end(&mut self, length_s: f64) {
        let of_end = |t: &Trigger| matches!(t.site, Some(Site::Restore(_) | Site::JournalReplace));
        self.triggers.retain(|t| t.from_s >= length_s || of_end(t));
    }

    /// No more faults of the plan.
    pub(crate) fn calm(&mut self) {
        self.triggers.clear();
        self.deferred.clear();
    }
}

/// The director, known to everything that writes.
#[derive(Clone, Debug)]
pub(crate) struct Stage(Arc<Mutex<Director>>);

impl Stage {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self(Arc::new(Mutex::new(Director::new(plan))))
    }

    pub(crate) fn director(&self) -> MutexGuard<'_, Director> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
