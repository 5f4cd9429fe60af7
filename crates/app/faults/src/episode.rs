//! One episode: agents come and go on one server.

use crate::Site;
use crate::arena::{Arena, Server};
use crate::audit::{Audit, View};
use crate::director::{Phase, Stage};
use crate::plan::{CALM_S, End, Plan};
use crate::played::{Broken, Outcome, Played};
use crate::scenes::TASK;
use crate::sink::{Journal, Sink};
use crate::stores::throw_at_store;
use quell_agent::{Introduction, Session};
use quell_platform::{Faulty, FaultyStore, Life, Medium, MemoryStore, OnChange, Platform, Store};
use quell_sim::SimServer;
use quell_types::{TaskId, TaskRecord, TaskSpec, TaskState, Tenant};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// After so many tries to put knobs back whatever still hinders it is taken away.
const PATIENCE: u32 = 40;
const SECOND: Duration = Duration::from_secs(1);

/// Why an agent no longer guards.
enum Fate {
    Died,
    /// It could not begin, or is to begin anew.
    Again,
    Over,
}

type Guarding = Session<Arena, Sink>;

struct Episode<'a> {
    plan: &'a Plan,
    stage: Stage,
    disk: Medium,
    knobs: MemoryStore,
    queue: MemoryStore,
    journal: Journal,
    tasks_s: Vec<f64>,
    reload_s: Option<f64>,
    submitted: Vec<TaskId>,
}

/// Plays a plan to its end, or until something breaks.
pub(crate) fn play(plan: &Plan) -> Played {
    let stage = Stage::new(plan);
    let played = catch_unwind(AssertUnwindSafe(|| Episode::new(plan, stage.clone()).run()));
    let Outcome { broken, barred } = match played {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Outcome::broken(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    let director = stage.director();
    let (at_s, thrown) = (director.now_s, director.thrown.clone());
    Played {
        seed: plan.seed,
        law: plan.law.name(),
        seconds: director.now_s,
        faults: director.faults,
        coverage: director.coverage.clone(),
        barred,
        broken: broken.map(|what| Broken { at_s, what, thrown }),
    }
}

impl<'a> Episode<'a> {
    fn new(plan: &'a Plan, stage: Stage) -> Self {
        Self {
            plan,
            stage,
            disk: Medium::default(),
            knobs: MemoryStore::default(),
            queue: MemoryStore::default(),
            journal: Journal::default(),
            tasks_s: plan.tasks_s.clone(),
            reload_s: plan.reload_s,
            submitted: Vec::new(),
        }
    }

    fn run(mut self) -> Outcome {
        let mut arena = match self.first_arena() {
            Ok(arena) => arena,
            Err(error) => return Outcome::broken(format!("scene: {error}")),
        };
        loop {
            arena = self.put_back(arena);
            let ended = arena.audit.is_barred() || arena.now_s() >= self.plan.length_s;
            if ended || arena.audit.broken().is_some() {
                break;
            }
            let (left, fate) = self.guard(arena);
            arena = left;
            match fate {
                Fate::Died => arena = self.another_agent(arena),
                Fate::Again => arena.advance(SECOND),
                Fate::Over => break,
            }
        }
        if arena.audit.broken().is_none() {
            arena = self.finish(arena);
        }
        let broken = arena.audit.broken().map(str::to_owned);
        Outcome { barred: broken.is_none() && arena.audit.is_barred(), broken }
    }

    fn first_arena(&self) -> Result<Arena, String> {
        let life = Life::default();
        let server = SimServer::with_journal(&self.plan.scene, self.knob_store(&life));
        let mut server = server.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        self.plan.pins.iter().try_for_each(|(knob, to)| server.change_behind(knob, to))?;
        let period_s = self.plan.config.agent.fast_interval.as_secs_f64();
        let audit = Audit::new(self.plan, period_s, self.journal.clone(), &server);
        let mut arena = self.arena(server, life, audit);
        self.open_queue(&mut arena);
        Ok(arena)
    }

    fn arena(&self, server: Server, life: Life, audit: Audit) -> Arena {
        Arena {
            faulty: Faulty::new(server, BTreeMap::new()).with_life(life.clone()),
            stage: self.stage.clone(),
            life,
            disk: self.disk.clone(),
            audit,
            later: Vec::new(),
        }
    }

    fn knob_store(&self, life: &Life) -> FaultyStore<MemoryStore> {
        let of = |doing: &'static str| match doing {
            "replace" => Site::JournalReplace,
            _ => Site::JournalAppend,
        };
        self.store(&self.knobs, life, of)
    }

    fn store(
        &self,
        on: &MemoryStore,
        life: &Life,
        site: fn(&'static str) -> Site,
    ) -> FaultyStore<MemoryStore> {
        let (stage, disk) = (self.stage.clone(), self.disk.clone());
        let on_change: OnChange = Arc::new(move |doing| throw_at_store(&stage, &disk, site(doing)));
        FaultyStore::new(on.clone(), self.disk.clone(), life.clone(), on_change)
    }

    /// Opens the queue, however long that takes. An agent that dies of it is followed by another.
    fn open_queue(&self, arena: &mut Arena) -> bool {
        for attempt in 0..PATIENCE {
            let store = self.store(&self.queue, &arena.life, |_| Site::Queue);
            if arena.server().keep_queue_in(Box::new(store)).is_ok() {
                return true;
            }
            if arena.life.is_over() {
                return false;
            }
            arena.advance(SECOND);
            if attempt > PATIENCE / 2 {
                self.disk.set_full(false);
            }
        }
        false
    }

    /// The next agent begins on what the dead one left.
    fn another_agent(&self, mut arena: Arena) -> Arena {
        loop {
            let life = Life::default();
            let mut later = std::mem::take(&mut arena.later);
            let Arena { faulty, audit, .. } = arena;
            let server = faulty.into_inner();
            self.disk.heal();
            let Ok(server) = server.agent_dies(self.knob_store(&life)) else {
                unreachable!("a store in memory can be read")
            };
            arena = self.arena(server, life, audit);
            arena.later.append(&mut later);
            arena.server().calm();
            let before = arena.server().standing().clone();
            arena.audit.sync(arena.faulty.inner(), &before);
            arena.advance(Duration::from_millis(300));
            if self.open_queue(&mut arena) || !arena.life.is_over() {
                return arena;
            }
        }
    }

    /// As an agent does at its start, or `quell restore`.
    fn put_back(&self, mut arena: Arena) -> Arena {
        let mut why = String::new();
        for attempt in 0..2 * PATIENCE {
            if attempt == PATIENCE {
                self.calm_down(&mut arena);
            }
            let restored = arena.restore();
            if arena.audit.broken().is_some() || (restored.is_ok() && !arena.life.is_over()) {
                return arena;
            }
            if let Err(error) = &restored {
                why = format!("{error:?}");
            }
            if arena.life.is_over() {
                arena = self.another_agent(arena);
            } else {
                arena.advance(SECOND);
            }
        }
        let Arena { audit, faulty, .. } = &mut arena;
        audit.not_put_back(faulty.setup(), faulty.inner(), &why);
        arena
    }

    /// Nothing goes wrong any more.
    fn calm_down(&self, arena: &mut Arena) {
        self.stage.director().calm();
        arena.faulty.calm();
        arena.server().calm();
        self.disk.heal();
        self.disk.set_full(false);
        arena.repair_all();
    }

    fn guard(&mut self, mut arena: Arena) -> (Arena, Fate) {
        {
            let mut director = self.stage.director();
            (director.phase, director.trouble) = (Phase::Begin, false);
        }
        arena.audit.new_agent();
        let sink = Sink {
            journal: self.journal.clone(),
            stage: self.stage.clone(),
            life: arena.life.clone(),
            disk: self.disk.clone(),
        };
        let introduction = Introduction { word: "started", pid: 1, say: |_| () };
        match Session::begin(arena, &self.plan.config, sink, introduction) {
            Ok(session) => self.steps(session),
            Err((_, mut arena)) => {
                if arena.life.is_over() {
                    return (arena, Fate::Died);
                }
                // A platform that is dropped puts back what was written already.
                let _ = arena.restore();
                let fate = if arena.life.is_over() { Fate::Died } else { Fate::Again };
                (arena, fate)
            }
        }
    }

    fn steps(&mut self, mut session: Guarding) -> (Arena, Fate) {
        let length_s = self.plan.length_s;
        loop {
            let now_s = session.platform().now_s();
            if now_s >= length_s {
                return self.stop(session);
            }
            if self.reload_s.is_some_and(|at_s| at_s <= now_s) {
                self.reload_s = None;
                let _ = session.end("stopped for a reload");
                let arena = session.abandon();
                let fate = if arena.life.is_over() { Fate::Died } else { Fate::Again };
                return (arena, fate);
            }
            self.submit(&mut session, now_s);
            if now_s >= length_s - CALM_S {
                self.stage.director().leave_the_end(length_s);
                session.platform().faulty.calm();
            }
            self.step(&mut session);
            if session.platform().life.is_over() {
                return (session.abandon(), Fate::Died);
            }
            if session.platform().audit.broken().is_some() {
                return (session.abandon(), Fate::Over);
            }
        }
    }

    fn step(&self, session: &mut Guarding) {
        let held = session.held().is_some();
        {
            let mut director = self.stage.director();
            director.phase = if held { Phase::Held } else { Phase::Guard };
            director.trouble = false;
        }
        session.platform().audit.begin_step();
        let _ = session.step();
        if session.platform().life.is_over() {
            return;
        }
        let held = session.held().is_some();
        let (now_s, calm_s) = self.times(session.platform());
        let trouble = self.stage.director().trouble;
        let (Arena { audit, faulty, .. }, engine) = session.parts();
        let (server, setup) = (faulty.inner(), faulty.setup());
        let hid = |tenant: &Tenant| faulty.hid(tenant);
        audit.after_step(&View { server, setup, engine, hid: &hid, held, trouble, now_s, calm_s });
    }

    fn times(&self, arena: &mut Arena) -> (f64, f64) {
        let now_s = arena.now_s();
        let quiet = arena.faulty.is_calm() && arena.later.is_empty() && !self.disk.is_full();
        let calm_s = if quiet { now_s - self.stage.director().last_fault_s } else { 0.0 };
        (now_s, calm_s)
    }

    fn submit(&mut self, session: &mut Guarding, now_s: f64) {
        let due = self.tasks_s.iter().filter(|at_s| **at_s <= now_s).count();
        self.tasks_s.retain(|at_s| *at_s > now_s);
        for _ in 0..due {
            let spec =
                TaskSpec { command: vec![TASK.into()], tenant: None, directory: None, retries: 0 };
            let id = session.platform().server().submit(spec);
            if self.queued().contains_key(&id) {
                self.submitted.push(id);
            }
        }
    }

    /// Tasks by the queue's own journal.
    fn queued(&self) -> BTreeMap<TaskId, TaskState> {
        let lines = self.queue.clone().read().unwrap_or_default();
        let records = lines.iter().filter_map(|l| serde_json::from_str::<TaskRecord>(l).ok());
        records.map(|record| (record.id, record.state)).collect()
    }

    fn stop(&self, mut session: Guarding) -> (Arena, Fate) {
        if self.plan.end == End::Stop {
            let _ = session.end("stopped");
        }
        let killed = self.plan.end == End::Kill;
        let arena = session.abandon();
        if killed {
            arena.life.end();
        }
        let arena = if arena.life.is_over() { self.another_agent(arena) } else { arena };
        (arena, Fate::Over)
    }

    /// Whatever an agent left is put back, and nothing is missing.
    fn finish(&self, mut arena: Arena) -> Arena {
        arena = self.put_back(arena);
        if arena.audit.broken().is_some() {
            return arena;
        }
        self.calm_down(&mut arena);
        arena = self.put_back(arena);
        // What was noted of tasks is written down by the next sample.
        let _ = arena.sample(SECOND, quell_platform::Scope::Full);
        let queued = self.queued();
        for id in &self.submitted {
            match queued.get(id) {
                Some(TaskState::Running) => arena.audit.breaks(format!("queue: {id} still runs")),
                None => arena.audit.breaks(format!("queue: {id} is lost")),
                Some(_) => {}
            }
        }
        arena
    }
}
