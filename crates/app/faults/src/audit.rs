//! What must hold whatever goes wrong.
//!
//! After every write and every step:
//!
//! 1. *floor*: each service has a CPU to run on, whatever CPUs are there;
//! 2. *apart*: CPU sets that must not overlap do not;
//! 3. *valid*: every setting that is asked for, and every one that stands, is one that the machine
//!    takes: no empty set, no mask with holes;
//! 4. *ours*: only knobs of the configuration are written, and a knob whose old setting is not in
//!    the knob journal never changes but by others;
//! 5. *explained*: each write of a law is in the decision journal before it is made, and what
//!    `quell explain` reads there is what stands;
//! 6. *safe side*: while nothing can be written down batch is held;
//! 7. *law*: what the law's essay promises (the section *Invariants*); for `quell`, batch is off or
//!    at its floor within two fast periods after a reported breach;
//! 8. *repaired*: when nothing has gone wrong for long, every knob stands as wanted.
//!
//! After a stop or a restore:
//!
//! 9. *as found*: every knob stands as it was found before the first write, unless it was left to
//!    others;
//! 10. *queue*: no task is lost, and none runs.

mod checks;
mod ownership;

use crate::KnobKind;
use crate::arena::Server;
use crate::director::Phase;
use crate::laws::{self, polluters::Watch};
use crate::plan::Plan;
use crate::sink::Journal;
use ownership::Ownership;
use quell_control::{Engine, Entry, Note, round_to_range, same_setting};
use quell_policy::Law;
use quell_types::{Action, Knob, KnobRange, Setting, Setup, Tenant, Wish};
use std::collections::{BTreeMap, BTreeSet};

/// So many fast periods after a reported breach batch is off or at its floor.
const BREACH_PERIODS: f64 = 2.0;

/// A breach of the objective that law `quell` reported, and what befell since.
#[derive(Clone, Copy, Debug)]
struct Breach {
    at_s: f64,
    faults: u32,
    judged: bool,
}

/// Watches one episode.
#[derive(Debug)]
pub(crate) struct Audit {
    law: Law,
    /// It and those beside it.
    laws: Vec<Law>,
    /// Whom laws that hold polluters back may hold back.
    limitable: Vec<Tenant>,
    period_s: f64,
    journal: Journal,
    ownership: Ownership,
    broken: Option<String>,
    /// Actions in the journal since the step began.
    written: Vec<Action>,
    given_up: BTreeSet<String>,
    breach: Option<Breach>,
    /// Groups that came back, and until when nobody need have seen them.
    unseen: BTreeMap<Tenant, f64>,
    /// Knobs as wanted, and since when, while all is calm.
    wanted: BTreeMap<Knob, (Setting, f64)>,
    steps: u64,
    watch: Watch,
    held_since_s: Option<f64>,
    barred: bool,
}

/// What is looked at after a step.
pub(crate) struct View<'a> {
    pub(crate) server: &'a Server,
    pub(crate) setup: &'a Setup,
    pub(crate) engine: &'a Engine,
    /// Whether the sample of this step hid what became of a tenant.
    pub(crate) hid: &'a dyn Fn(&Tenant) -> bool,
    pub(crate) held: bool,
    pub(crate) trouble: bool,
    pub(crate) now_s: f64,
    /// How long nothing has gone wrong; 0 while something still does.
    pub(crate) calm_s: f64,
}

impl Audit {
    pub(crate) fn new(plan: &Plan, period_s: f64, journal: Journal, server: &Server) -> Self {
        Self {
            law: plan.law,
            laws: [&[plan.law][..], &plan.beside].concat(),
            limitable: plan.limitable.clone(),
            period_s,
            journal,
            ownership: Ownership::new(server),
            broken: None,
            written: Vec::new(),
            given_up: BTreeSet::new(),
            breach: None,
            unseen: BTreeMap::new(),
            wanted: BTreeMap::new(),
            steps: 0,
            watch: Watch::default(),
            held_since_s: None,
            barred: false,
        }
    }

    /// Whether an agent's work could not be undone because of what others did meanwhile, so that
    /// the next one refuses to begin.
    pub(crate) fn is_barred(&self) -> bool {
        self.barred
    }

    /// Knobs could not be put back.
    pub(crate) fn not_put_back(&mut self, setup: &Setup, server: &Server, why: &str) {
        let exclusive = |knob: &Knob| is_exclusive(setup, knob);
        self.barred = self.ownership.is_barred(server, &exclusive);
        if !self.barred {
            self.breaks(format!("as found: knobs cannot be put back: {why}"));
        }
    }

    /// The first thing that did not hold.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    pub(crate) fn breaks(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    /// Knobs whose old setting is on record.
    pub(crate) fn owned(&self) -> Vec<Knob> {
        self.ownership.owned()
    }

    /// A new agent knows nothing of what the last one saw.
    pub(crate) fn new_agent(&mut self) {
        (self.breach, self.held_since_s) = (None, None);
        self.given_up.clear();
        self.wanted.clear();
        self.watch = Watch::default();
        self.read_journal(0.0);
    }

    pub(crate) fn begin_step(&mut self) {
        self.written.clear();
    }

    /// A fault came about, or ended.
    pub(crate) fn faulted(&mut self) {
        if let Some(breach) = &mut self.breach {
            breach.faults += 1;
        }
        self.wanted.clear();
    }

    pub(crate) fn foreign(&mut self, knob: &Knob, to: &Setting) {
        self.ownership.foreign(knob, to);
    }

    /// CPUs came or went, and sets with them.
    pub(crate) fn shaken(&mut self, server: &Server) {
        self.ownership.shaken(server);
    }

    pub(crate) fn reborn(&mut self, server: &Server, tenant: &Tenant, now_s: f64) {
        self.ownership.reborn(server, tenant);
        self.unseen.insert(tenant.clone(), now_s + BREACH_PERIODS * self.period_s);
    }

    /// Something was written, or time passed.
    pub(crate) fn sync(&mut self, server: &Server, before: &BTreeMap<Knob, Setting>) {
        let found = self.ownership.sync(server, before);
        self.broken = self.broken.take().or(found);
    }

    pub(crate) fn restored(
        &mut self,
        server: &Server,
        before: &BTreeMap<Knob, Setting>,
        fully: bool,
    ) {
        let found = self.ownership.restored(server, before, fully);
        self.broken = self.broken.take().or(found);
    }

    /// The agent is about to do something.
    pub(crate) fn wants(&mut self, setup: &Setup, action: &Action, phase: (Phase, bool)) {
        self.read_journal(0.0);
        if let Action::Set { knob, to } = action {
            self.ownership.tries(knob);
            self.wants_setting(setup, knob, to, phase);
        }
        if phase == (Phase::Guard, false) && !self.written.contains(action) {
            self.breaks(format!("explained: {action:?} is not in the decision journal"));
        }
    }

    fn wants_setting(
        &mut self,
        setup: &Setup,
        knob: &Knob,
        to: &Setting,
        (phase, trouble): (Phase, bool),
    ) {
        let Some(range) = setup.knobs.get(knob) else {
            return self.breaks(format!("ours: {knob} is not of this configuration"));
        };
        let taken = round_to_range(to, range).is_some_and(|rounded| same_setting(&rounded, to));
        if !taken {
            self.breaks(format!("valid: {knob} is asked to be {to}, which it does not take"));
        }
        let by_law = phase == Phase::Guard && !trouble;
        let may = KnobKind::of(knob)
            .is_some_and(|kind| self.laws.iter().any(|law| laws::may_write(*law, kind)));
        if by_law && !may {
            self.breaks(format!("law: {} writes {knob}", self.law));
        }
    }

    /// Takes in what was written down since.
    pub(crate) fn read_journal(&mut self, now_s: f64) {
        let fresh = self.journal.written().take_new();
        for entry in fresh {
            self.read_entry(&entry, now_s);
        }
    }

    fn read_entry(&mut self, entry: &Entry, now_s: f64) {
        self.written.extend(entry.actions.iter().cloned());
        for note in &entry.notes {
            if let Note::GivenUp { knob, .. } = note {
                self.given_up.insert(knob.clone());
            }
            if let Note::Agent { .. } = note {
                self.given_up.clear();
                self.breach = None;
            }
        }
        for judged in &entry.proposals {
            let holds =
                matches!(&judged.proposal.wish, Wish::Set { knob: Knob::Frozen { .. }, .. });
            match judged.proposal.rule.as_ref() {
                // The moment is filled in at the end of the step.
                "slo-missed" if holds && self.breach.is_none() && self.law == Law::Quell => {
                    self.breach = Some(Breach { at_s: now_s, faults: 0, judged: false });
                }
                "thaw" => self.breach = None,
                _ => {}
            }
        }
    }

    /// Everything that must hold after a step.
    pub(crate) fn after_step(&mut self, view: &View<'_>) {
        self.steps += 1;
        self.read_journal(view.now_s);
        if let Some(breach) = &mut self.breach
            && breach.at_s <= 0.0
        {
            breach.at_s = view.now_s;
        }
        self.follow_unseen(view);
        let found = self
            .floor(view)
            .or_else(|| apart(view))
            .or_else(|| self.valid(view))
            .or_else(|| self.explained(view))
            .or_else(|| self.safe_side(view))
            .or_else(|| self.breach_met(view))
            .or_else(|| self.lawful(view))
            .or_else(|| self.polluters(view))
            .or_else(|| self.repaired(view));
        self.broken = self.broken.take().or(found);
    }

    /// What the essays of the law and of those beside it promise.
    fn lawful(&self, view: &View<'_>) -> Option<String> {
        let left = |knob: &Knob| self.is_given_up(knob);
        self.laws.iter().find_map(|law| laws::check(*law, view, &left))
    }

    /// What those promise that slow whoever locks the bus or heats a socket.
    fn polluters(&mut self, view: &View<'_>) -> Option<String> {
        let mut watch = std::mem::take(&mut self.watch);
        let left = |knob: &Knob| self.is_given_up(knob);
        let found = laws::polluters::check(view, &mut watch, &self.limitable, &left);
        self.watch = watch;
        found
    }

    fn is_given_up(&self, knob: &Knob) -> bool {
        self.given_up.contains(&knob.to_string())
    }
}

/// Whether it is a CPU set that must overlap no other.
fn is_exclusive(setup: &Setup, knob: &Knob) -> bool {
    matches!(setup.knobs.get(knob), Some(KnobRange::Cpus { exclusive: true, .. }))
}

/// Sets that must not overlap, as they really stand.
fn apart(view: &View<'_>) -> Option<String> {
    let sets: Vec<(&Knob, &quell_types::CpuSet)> = view
        .server
        .standing()
        .iter()
        .filter(|(knob, _)| is_exclusive(view.setup, knob))
        .filter_map(|(knob, setting)| match setting {
            Setting::Cpus(set) => Some((knob, set)),
            _ => None,
        })
        .collect();
    for (index, (knob, set)) in sets.iter().enumerate() {
        if let Some((other, _)) = sets[..index].iter().find(|(_, s)| !s.is_disjoint(set)) {
            return Some(format!("apart: {knob} and {other} overlap on {set}"));
        }
    }
    None
}
