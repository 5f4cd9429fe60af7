//! The simulated server as a platform.

mod body;
mod capabilities;
mod experiment;
mod knobs;
mod mishaps;
mod probe;
mod queue;
mod reading;
mod reporter;
mod sensors;
mod tasks;
mod truth;

pub use mishaps::UndoFault;
pub use truth::Truth;

use crate::scene::{Scene, SceneError};
use crate::workload::Program;
use body::Body;
use quell_platform::{
    KnobJournal, MemoryStore, NotUndone, Platform, PlatformError, Scope, Store, StoreError, Undo,
    Undoer,
};
use quell_types::{
    Action, CapabilityReport, Knob, KnobRange, Outcome, Sample, Setting, Setup, TaskId, Tenant,
};
use std::time::Duration;

/// A simulated server. Its clock moves only by [`Platform::sample`] and [`SimServer::advance`].
///
/// `S` keeps the knob journal, so that a full disk can be simulated.
#[derive(Debug)]
pub struct SimServer<S = MemoryStore> {
    body: Body,
    journal: KnobJournal<S>,
}

impl SimServer {
    /// A server as the scene describes it, with the knob journal in memory.
    ///
    /// # Errors
    /// What cannot be played.
    pub fn new(scene: &Scene) -> Result<Self, SceneError> {
        scene.validate()?;
        let store = MemoryStore::default();
        // A store in memory that was never written has nothing that could not be read.
        let Ok(journal) = KnobJournal::open(store) else { unreachable!("an empty store") };
        Ok(Self { body: Body::new(scene), journal })
    }
}

impl<S: Store> SimServer<S> {
    /// The same with a journal of one's own.
    ///
    /// # Errors
    /// What cannot be played, or that the journal cannot be read.
    pub fn with_journal(scene: &Scene, store: S) -> Result<Result<Self, StoreError>, SceneError> {
        scene.validate()?;
        let body = Body::new(scene);
        Ok(KnobJournal::open(store).map(|journal| Self { body, journal }))
    }

    /// Lets time pass without a sample.
    pub fn advance(&mut self, span: Duration) {
        let to = self.body.now() + span.as_nanos() as u64;
        self.body.run_until(to);
    }

    /// What is really going on, without noise: for tests and reports, never for policies.
    pub fn truth(&mut self) -> Truth {
        self.body.truth()
    }

    /// Puts a task into the queue; it begins when an action starts it.
    pub fn submit(&mut self, spec: quell_types::TaskSpec) -> TaskId {
        self.body.tasks.submit(spec)
    }

    /// Changes a knob behind the agent's back, as another program would.
    ///
    /// # Errors
    /// The knob is not there, or does not take this.
    pub fn change_behind(&mut self, knob: &Knob, to: &Setting) -> Result<(), String> {
        self.body.set_now(knob, to)
    }

    /// Starts a program in a batch group, outside the queue.
    ///
    /// # Errors
    /// There is no such batch group, or the program cannot be.
    pub fn start(&mut self, tenant: &Tenant, program: &Program) -> Result<(), String> {
        program.validate(self.body.world.machine.nodes()).map_err(|error| error.to_string())?;
        let group = self.body.batch_group(tenant)?;
        self.body.world.add_work(group, program, None);
        Ok(())
    }

    /// Ends what runs in a batch group, but for tasks of the queue.
    ///
    /// # Errors
    /// There is no such batch group.
    pub fn stop(&mut self, tenant: &Tenant) -> Result<(), String> {
        let group = self.body.batch_group(tenant)?;
        self.body.end_programs(group);
        Ok(())
    }

    /// Keeps the queue in a store of its own, and takes in what is there. Tasks that an agent which
    /// died has left running, and that no longer run, are ready again.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn keep_queue_in(&mut self, store: Box<dyn Store>) -> Result<(), StoreError> {
        self.body.tasks.keep_in(store)
    }

    /// How every knob stands, whatever is on its way: cheaper than the whole [`Truth`].
    pub fn standing(&self) -> &std::collections::BTreeMap<Knob, Setting> {
        self.body.knobs.all()
    }

    /// Nanoseconds since the server began.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.body.now()
    }

    /// Whether a knob's old setting is in the knob journal.
    #[must_use]
    pub fn is_recorded(&self, knob: &Knob) -> bool {
        self.journal.knows(&knob.to_string())
    }

    /// CPUs that a tenant may really run on: those of its set that are there.
    #[must_use]
    pub fn effective_cpus(&self, tenant: &Tenant) -> quell_types::CpuSet {
        self.body.effective_cpus(tenant)
    }

    /// Whether a tenant's group is gone.
    #[must_use]
    pub fn is_gone(&self, tenant: &Tenant) -> bool {
        self.body.is_gone(tenant)
    }

    /// Whether it tells bus locks, temperatures or power.
    #[must_use]
    pub fn senses_hardware(&self) -> bool {
        let machine = &self.body.world.machine;
        machine.lock_counter || machine.power_sensor
    }

    /// A CPU goes. Sets lose it for good where `legacy` (cgroup v1), else as long as it is away.
    ///
    /// # Errors
    /// It is not there, or the last one.
    pub fn unplug(&mut self, cpu: u32, legacy: bool) -> Result<(), String> {
        self.body.unplug(cpu, legacy)
    }

    /// All CPUs that went are back.
    pub fn plug_all(&mut self) {
        self.body.plug_all();
    }

    /// The workload of a tenant ends, and its group goes with it.
    ///
    /// # Errors
    /// There is no such tenant, or it is gone already.
    pub fn vanish(&mut self, tenant: &Tenant) -> Result<(), String> {
        self.body.vanish(tenant)
    }

    /// A tenant is back in a group made anew: another identity, counters at nothing, knobs as the
    /// kernel makes them.
    ///
    /// # Errors
    /// It is not gone.
    pub fn come_back(&mut self, tenant: &Tenant) -> Result<(), String> {
        self.body.come_back(tenant)
    }

    /// The processes of a batch group end, the group stays. Answers what ran.
    ///
    /// # Errors
    /// There is no such batch group.
    pub fn end_programs(&mut self, tenant: &Tenant) -> Result<Vec<Program>, String> {
        let group = self.body.batch_group(tenant)?;
        Ok(self.body.end_programs(group))
    }

    /// What runs in one batch group goes on in another.
    ///
    /// # Errors
    /// One of them is no batch group.
    pub fn move_programs(&mut self, from: &Tenant, to: &Tenant) -> Result<(), String> {
        self.body.move_programs(from, to)
    }

    /// The next time that this knob is put back, it goes wrong like this.
    pub fn spoil_undo(&mut self, knob: Knob, how: UndoFault) {
        self.body.mishaps.spoil_undo(knob, how);
    }

    /// Forgets what [`SimServer::spoil_undo`] has in store.
    pub fn calm(&mut self) {
        self.body.mishaps.calm();
    }

    /// From now on clients offer this load to a service.
    ///
    /// # Errors
    /// There is no such service, or the load cannot be.
    pub fn set_load(&mut self, service: &Tenant, load: crate::Load) -> Result<(), String> {
        if !load.is_sound() {
            return Err("the load is not finite, negative, or goes back in time".into());
        }
        let number = self.body.service_number(service)?;
        self.body.world.services[number].set_load(load);
        Ok(())
    }

    /// The agent dies: what it had in memory is gone, its experiment stays as it stands, its tasks
    /// and knobs too. Answers the server with an agent begun anew on the same journal.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn agent_dies(mut self, store: S) -> Result<Self, StoreError> {
        self.body.forget_agent();
        let journal = KnobJournal::open(store)?;
        Ok(Self { body: self.body, journal })
    }

    fn set(&mut self, knob: &Knob, to: &Setting) -> Result<Result<(), String>, StoreError> {
        let Some(old) = self.body.knobs.standing(knob) else {
            return Ok(Err(format!("{knob} is not here")));
        };
        if let Err(why) = self.body.check(knob, to) {
            return Ok(Err(why));
        }
        self.journal.before_write(&knob.to_string(), || vec![knobs::undo(knob, &old)])?;
        self.body.send(knob, to);
        Ok(Ok(()))
    }

    fn carry_out(&mut self, action: &Action) -> Result<Result<(), String>, StoreError> {
        match action {
            Action::Set { knob, to } => {
                if matches!(knob, Knob::Frozen { .. }) {
                    self.body.free_groups("the group was frozen or thawed by a law");
                }
                self.set(knob, to)
            }
            Action::StartTask { task, tenant } => Ok(self.body.start_task(*task, tenant)),
            Action::StopTask { task } => Ok(self.body.stop_task(*task)),
            Action::Probe(probe) => Ok(self.body.probe(probe)),
            Action::EndProbe { id } => Ok(self.body.end_probe(Some(*id), "it was asked to end")),
            Action::Burst(burst) => Ok(self.body.burst(burst)),
            Action::Play(experiment) => {
                let known = |group| self.body.batch_group(group).map(drop);
                if let Err(why) = experiment.groups.iter().try_for_each(known) {
                    return Ok(Err(why));
                }
                for group in &experiment.groups {
                    let knob = Knob::Frozen { tenant: group.clone() };
                    let Some(old) = self.body.knobs.standing(&knob) else { continue };
                    self.journal
                        .before_write(&knob.to_string(), || vec![knobs::undo(&knob, &old)])?;
                }
                Ok(self.body.play(experiment))
            }
        }
    }
}

impl<S: Store> Platform for SimServer<S> {
    fn setup(&self) -> &Setup {
        &self.body.setup
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        capabilities::of(&self.body.world.machine, !self.body.setup.links.is_empty())
    }

    fn sample(&mut self, after: Duration, scope: Scope) -> Result<Sample, PlatformError> {
        if let Err(error) = self.body.tasks.flush() {
            self.advance(after);
            return Err(PlatformError::Lost(error.to_string()));
        }
        Ok(self.body.sample(after, scope))
    }

    fn apply(&mut self, action: &Action) -> Result<(), PlatformError> {
        let error = self.carry_out(action)?.err();
        let time = quell_types::Time(self.body.now());
        self.body.outcomes.push(Outcome { action: action.clone(), time, error });
        Ok(())
    }

    fn restore(&mut self) -> Result<(), PlatformError> {
        self.body.end_all();
        let report = self.journal.restore(&mut self.body)?;
        // A queue that cannot be written must not keep the knobs from being put back.
        let _ = self.body.tasks.flush();
        if report.failed.is_empty() {
            return Ok(());
        }
        Err(PlatformError::Lost(format!("not put back: {}", report.failed.join("; "))))
    }

    fn disown(&mut self, knob: &Knob) -> Result<(), PlatformError> {
        Ok(self.journal.forget(&knob.to_string())?)
    }
}

impl Body {
    fn take_back(&mut self, undo: &Undo) -> Result<(), String> {
        let (knob, to) = knobs::from_undo(undo)?;
        if self.is_dying() {
            return Err("the agent is dead".into());
        }
        let fault = self.mishaps.undo_fault(&knob);
        match &fault {
            Some(UndoFault::Refuse) => return Err(format!("{knob}: Input/output error")),
            Some(UndoFault::DieBefore(life)) => {
                life.end();
                self.dying = Some(life.clone());
                return Err("the agent is dead".into());
            }
            _ => {}
        }
        // What is gone needs no putting back.
        if !knob.tenant().is_some_and(|tenant| self.is_gone(tenant)) {
            self.set_now(&knob, &to)?;
        }
        if let Some(UndoFault::DieAfter(life)) = fault {
            life.end();
            self.dying = Some(life);
        }
        Ok(())
    }
}

/// How often sets that must not overlap make way for each other.
const ROUNDS: usize = 3;

impl Body {
    /// A CPU set that must not overlap others makes way: it gives up what it shall not keep, else
    /// takes what is free of that which it shall have, else keeps a single CPU. Without that, two
    /// that stand on each other's CPUs could never change places.
    fn make_way(&mut self, undo: &Undo) {
        let Ok((knob, Setting::Cpus(to))) = knobs::from_undo(undo) else { return };
        let exclusive = |knob: &Knob| {
            let range = self.setup.knobs.get(knob);
            matches!(range, Some(KnobRange::Cpus { exclusive: true, .. }))
        };
        let Some(Setting::Cpus(now)) = self.knobs.standing(&knob) else { return };
        if !exclusive(&knob) || self.is_dying() {
            return;
        }
        let kept = now.intersection(&to);
        let others = self.knobs.all().iter().filter(|(other, _)| **other != knob);
        let free = others.fold(to, |free, (_, setting)| match setting {
            Setting::Cpus(set) => free.difference(set),
            _ => free,
        });
        let next = match (kept.is_empty(), free.is_empty()) {
            (false, _) => kept,
            (true, false) => free,
            (true, true) => now.first(1),
        };
        if next != now {
            // What is refused here is refused again when it is put back, and told then.
            let _ = self.set_now(&knob, &Setting::Cpus(next));
        }
    }
}

impl Undoer for Body {
    fn undo(&mut self, changes: &[&Undo]) -> Vec<Result<(), NotUndone>> {
        for _ in 0..ROUNDS {
            changes.iter().for_each(|undo| self.make_way(undo));
        }
        changes.iter().map(|undo| Ok(self.take_back(undo)?)).collect()
    }
}
