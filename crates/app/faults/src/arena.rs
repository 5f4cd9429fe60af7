//! The simulated server as the agent meets it: behind faults, watched.

use crate::audit::Audit;
use crate::director::{Phase, Stage, Throw};
use crate::mishaps::Later;
use crate::{FaultKind, KnobKind, Site};
use quell_platform::{
    Fault, Faulty, FaultyStore, Life, Medium, MemoryStore, Platform, PlatformError, Scope,
};
use quell_sim::{SimServer, UndoFault};
use quell_types::{Action, CapabilityReport, Knob, Sample, Setting, Setup};
use std::collections::BTreeMap;
use std::time::Duration;

/// The server that agents come and go on.
pub(crate) type Server = SimServer<FaultyStore<MemoryStore>>;

/// Between agent and server.
pub(crate) struct Arena {
    pub(crate) faulty: Faulty<Server>,
    pub(crate) stage: Stage,
    pub(crate) life: Life,
    /// The disk that all journals share.
    pub(crate) disk: Medium,
    pub(crate) audit: Audit,
    pub(crate) later: Vec<(f64, Later)>,
}

impl Arena {
    pub(crate) fn server(&mut self) -> &mut Server {
        self.faulty.inner_mut()
    }

    /// A knob's site in the present phase.
    fn site_of_knob(&self, knob: &Knob, to: &Setting) -> Option<Site> {
        let director = self.stage.director();
        let is_brake = matches!((knob, to), (Knob::Frozen { .. }, Setting::Flag(true)));
        match (director.phase, director.trouble) {
            (Phase::Begin, _) => Some(Site::Reserve),
            (Phase::Guard, false) => KnobKind::of(knob).map(Site::Set),
            (Phase::Guard, true) if matches!(knob, Knob::Cpus { .. }) => Some(Site::Free),
            (Phase::Guard, true) => Some(Site::Hold),
            (Phase::Held, _) if is_brake => Some(Site::Hold),
            (Phase::Held, _) => Some(Site::Recover),
        }
    }

    fn phase(&self) -> (Phase, bool) {
        let director = self.stage.director();
        (director.phase, director.trouble)
    }

    fn site(&self, action: &Action) -> Option<Site> {
        match action {
            Action::Set { knob, to } => self.site_of_knob(knob, to),
            Action::StartTask { .. } => Some(Site::StartTask),
            Action::StopTask { .. } => Some(Site::StopTask),
            Action::Play(_) => Some(Site::Play),
            // No law that is tried here makes probes; a burst writes to nothing.
            Action::Probe(_) | Action::EndProbe { .. } | Action::Burst(_) => None,
        }
    }

    fn trouble<T>(&self, done: Result<T, PlatformError>) -> Result<T, PlatformError> {
        self.stage.director().trouble |= done.is_err();
        done
    }

    /// Faults of the write itself are thrown before it; the others come about after it.
    fn throw_at(&mut self, throw: &mut Throw) {
        let mut dice_less = Vec::new();
        for kind in std::mem::take(&mut throw.kinds) {
            let fault = match kind {
                FaultKind::LostWrite => Fault::LoseWrite,
                FaultKind::LateWrite => Fault::DelayWrite(throw.dice.between(1, 4) as u32),
                FaultKind::RefusedWrite => {
                    Fault::RefuseWrite("Device or resource busy".to_string())
                }
                FaultKind::DeathBefore => Fault::DieBefore,
                FaultKind::DeathAfter => Fault::DieAfter,
                other => {
                    dice_less.push(other);
                    continue;
                }
            };
            self.stage.director().note(kind, throw.site, "");
            self.audit.faulted();
            self.faulty.throw(fault, 0);
        }
        throw.kinds = dice_less;
    }

    /// Faults that came due inside a store, and those that waited long enough.
    pub(crate) fn come_about(&mut self) {
        let mut due = {
            let mut director = self.stage.director();
            let mut due = std::mem::take(&mut director.deferred);
            due.extend(director.overdue());
            due
        };
        for throw in &mut due {
            self.befall(throw, None);
        }
    }

    /// Restoring: what goes wrong with each knob that is put back.
    fn spoil_restore(&mut self) {
        for knob in self.audit.owned() {
            let Some(kind) = KnobKind::of(&knob) else { continue };
            let throw = self.stage.director().at(Site::Restore(kind));
            let Some(mut throw) = throw else { continue };
            let two = throw.kinds.len() > 1;
            let mut rest = Vec::new();
            for kind in std::mem::take(&mut throw.kinds) {
                let fault = match kind {
                    FaultKind::DeathBefore => UndoFault::DieBefore(self.life.clone()),
                    FaultKind::DeathAfter => UndoFault::DieAfter(self.life.clone()),
                    // Whoever puts back reads back, so a write that is lost or late is seen.
                    kind if kind.is_of_write() => UndoFault::Refuse,
                    other => {
                        rest.push(other);
                        continue;
                    }
                };
                self.stage.director().note(kind, throw.site, "");
                self.audit.faulted();
                self.server().spoil_undo(knob.clone(), fault);
            }
            throw.kinds = rest;
            self.befall(&mut throw, Some(&knob));
            if two {
                self.stage.director().note_two(throw.site);
            }
        }
    }

    /// Lets time pass while no agent runs.
    pub(crate) fn advance(&mut self, span: Duration) {
        let before = self.server().standing().clone();
        self.server().advance(span);
        self.audit.sync(self.faulty.inner(), &before);
        let now_s = self.now_s();
        self.stage.director().now_s = now_s;
        self.come_back_later();
        self.come_about();
    }

    pub(crate) fn now_s(&mut self) -> f64 {
        self.server().now_ns() as f64 / 1e9
    }

    fn note_time(&mut self) {
        let now_s = self.now_s();
        self.stage.director().now_s = now_s;
    }
}

impl Platform for Arena {
    fn setup(&self) -> &Setup {
        self.faulty.setup()
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        self.faulty.capabilities()
    }

    fn sample(&mut self, after: Duration, scope: Scope) -> Result<Sample, PlatformError> {
        if !self.life.is_over() {
            self.come_back_later();
            self.come_about();
        }
        let before = self.server().standing().clone();
        let sample = self.faulty.sample(after, scope);
        self.note_time();
        self.audit.sync(self.faulty.inner(), &before);
        self.trouble(sample)
    }

    fn apply(&mut self, action: &Action) -> Result<(), PlatformError> {
        if self.life.is_over() {
            return self.faulty.apply(action);
        }
        let site = self.site(action);
        let phase = self.phase();
        self.audit.wants(self.faulty.setup(), action, phase);
        let throw = site.and_then(|site| self.stage.director().at(site));
        let before = self.server().standing().clone();
        let Some(mut throw) = throw else {
            let done = self.faulty.apply(action);
            self.audit.sync(self.faulty.inner(), &before);
            self.come_about();
            return self.trouble(done);
        };
        if throw.kinds.len() > 1 {
            self.stage.director().note_two(throw.site);
        }
        self.throw_at(&mut throw);
        let done = self.faulty.apply(action);
        self.audit.sync(self.faulty.inner(), &before);
        let knob = match action {
            Action::Set { knob, .. } => Some(knob),
            _ => None,
        };
        self.befall(&mut throw, knob);
        self.come_about();
        self.trouble(done)
    }

    fn restore(&mut self) -> Result<(), PlatformError> {
        if !self.life.is_over() {
            self.spoil_restore();
        }
        let before: BTreeMap<Knob, Setting> = self.server().standing().clone();
        let restored = self.faulty.restore();
        self.audit.restored(self.faulty.inner(), &before, restored.is_ok());
        self.come_about();
        restored
    }

    fn disown(&mut self, knob: &Knob) -> Result<(), PlatformError> {
        let before = self.server().standing().clone();
        let done = self.faulty.disown(knob);
        self.audit.sync(self.faulty.inner(), &before);
        self.come_about();
        self.trouble(done)
    }
}
