//! The loop: a simulated server and an engine, step by step, as `quell guard` does it.
//!
//! sample → decide → write down → act. Full samples come each second, fast ones between them where
//! the law steps that often. Faults of the scenario are thrown between engine and server.

use crate::accused::Accused;
use crate::journal::Journal;
use crate::stage::{ChosenLaw, Event, Stage, What};
use anyhow::anyhow;
use quell_control::{Engine, EngineParams, Note};
use quell_platform::{Fault, MemoryStore, Platform, Scope};
use quell_sim::{SimServer, Truth};
use quell_types::{Action, Gap, Outcome, Sample, TenantReading};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// Between full samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// Between fast ones, unless a law wants to step more often.
const FAST: Duration = Duration::from_millis(250);
const FASTEST: Duration = Duration::from_millis(100);

/// What a run counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Steps in which the law turned a knob.
    pub(crate) moves: u64,
    /// Settings written.
    pub(crate) writes: u64,
    /// Settings refused by the machine.
    pub(crate) refused: u64,
    /// Experiments that ended.
    pub(crate) experiments: u64,
}

/// What a step brought.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) sample: Rc<Sample>,
    /// Whether everything was read.
    pub(crate) full: bool,
}

/// A server with its agent.
pub(crate) struct Drive {
    server: SimServer,
    store: MemoryStore,
    engine: Engine,
    /// What is in charge now.
    law: ChosenLaw,
    stage: Stage,
    step: Duration,
    steps: u32,
    next: u32,
    events: VecDeque<Event>,
    armed: VecDeque<Fault>,
    spoils: Vec<Fault>,
    last: Option<Rc<Sample>>,
    refusals: Vec<Outcome>,
    pub(crate) counts: Counts,
    pub(crate) accused: Accused,
    pub(crate) journal: Journal,
    /// What the law does without on this machine.
    pub(crate) degraded: Vec<String>,
}

impl Drive {
    /// A server at its start.
    ///
    /// # Errors
    /// The scene cannot be played, or the law refuses its parameters.
    pub(crate) fn new(stage: Stage, keep_journal: bool) -> anyhow::Result<Self> {
        let store = MemoryStore::default();
        let mut server = SimServer::with_journal(&stage.scene, store.clone())??;
        for (knob, to) in &stage.pins {
            server.change_behind(knob, to).map_err(|why| anyhow!(why))?;
        }
        let begins_later = stage.events.iter().any(|e| e.what == What::LawBegins);
        let law = if begins_later { ChosenLaw::none() } else { stage.law.clone() };
        let steps = steps_of(&engine(&server, &stage.law)?);
        let mut drive = Self {
            step: INTERVAL / steps,
            steps,
            next: 0,
            events: stage.events.clone().into(),
            armed: VecDeque::new(),
            spoils: Vec::new(),
            last: None,
            refusals: Vec::new(),
            counts: Counts::default(),
            accused: Accused::default(),
            journal: Journal::new(keep_journal),
            degraded: degraded(&server, &stage)?,
            engine: engine(&server, &law)?,
            server,
            store,
            law,
            stage,
        };
        drive.note_begin();
        Ok(drive)
    }

    fn note_begin(&mut self) {
        let policy = self.stage.law.name();
        let note = |how: &String| Note::Degraded { policy: policy.clone(), how: how.clone() };
        let notes = self.degraded.iter().map(note).collect();
        self.journal.append(&quell_control::Entry { notes, ..Default::default() });
    }

    /// One step.
    ///
    /// # Errors
    /// The simulated platform failed.
    pub(crate) fn step(&mut self) -> anyhow::Result<Step> {
        // The first sample is a full one, as in `quell guard`: laws whose loops take whole seconds
        // then see full samples.
        let span = match self.last {
            None => Duration::ZERO,
            Some(_) => {
                self.next = (self.next + 1) % self.steps;
                self.step
            }
        };
        let full = self.next == 0;
        let scope = if full { Scope::Full } else { Scope::Fast };
        let mut sample = self.server.sample(span, scope)?;
        self.spoil(&mut sample);
        self.counts.refused += sample.outcomes.iter().filter(|o| o.error.is_some()).count() as u64;
        self.counts.experiments += sample.experiments.len() as u64;
        let decision = self.engine.step(&sample);
        self.journal.append(&decision.entry);
        self.accused.see(&self.engine.findings());
        let is_write = |action: &&Action| matches!(action, Action::Set { .. });
        let writes = decision.actions.iter().filter(is_write).count() as u64;
        self.counts.writes += writes;
        self.counts.moves += u64::from(writes > 0);
        for action in &decision.actions {
            self.apply(action, &sample)?;
        }
        let sample = Rc::new(sample);
        self.last = Some(Rc::clone(&sample));
        self.happen(&sample)?;
        Ok(Step { sample, full })
    }

    /// What is really going on.
    pub(crate) fn truth(&mut self) -> Truth {
        self.server.truth()
    }

    fn apply(&mut self, action: &Action, sample: &Sample) -> anyhow::Result<()> {
        match self.armed.pop_front() {
            Some(Fault::LoseWrite) => {}
            Some(Fault::RefuseWrite(why)) => {
                let time = sample.time;
                self.refusals.push(Outcome { action: action.clone(), time, error: Some(why) });
            }
            _ => self.server.apply(action)?,
        }
        Ok(())
    }

    fn spoil(&mut self, sample: &mut Sample) {
        for fault in std::mem::take(&mut self.spoils) {
            match (fault, &self.last) {
                (Fault::Blind(tenant), _) => {
                    let gap = Gap::Failed("the sensor gave nothing".into());
                    sample.tenants.insert(tenant, TenantReading::missing(&gap));
                }
                (Fault::Stall, Some(last)) => {
                    *sample = Sample { time: sample.time, ..Sample::clone(last) };
                }
                _ => {}
            }
        }
        sample.outcomes.append(&mut self.refusals);
    }

    fn happen(&mut self, sample: &Sample) -> anyhow::Result<()> {
        while let Some(event) =
            self.events.pop_front_if(|e| e.at.as_nanos() <= u128::from(sample.time.0))
        {
            self.carry_out(event.what)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, what: What) -> anyhow::Result<()> {
        let done = match what {
            What::Load(number, load) => {
                let service = &self.stage.scene.services[number].spec;
                let peak = service.peak_qps.unwrap_or(1.0);
                self.server.set_load(&service.name, load.offered(peak))
            }
            What::Start(tenant, program) => self.server.start(&tenant, &program),
            What::Stop(tenant) => self.server.stop(&tenant),
            What::LawBegins => {
                self.law = self.stage.law.clone();
                self.engine = engine(&self.server, &self.law)?;
                Ok(())
            }
            What::Change(knob, to) => self.server.change_behind(&knob, &to),
            What::AgentDies => return self.begin_anew(),
            What::Faults(faults) => {
                for fault in faults {
                    match fault {
                        Fault::Blind(_) | Fault::Stall | Fault::Gone(_) => self.spoils.push(fault),
                        write => self.armed.push_back(write),
                    }
                }
                Ok(())
            }
        };
        done.map_err(|why| anyhow!(why))
    }

    /// Another agent, which first puts back what the dead one left, as `quell guard` does.
    fn begin_anew(&mut self) -> anyhow::Result<()> {
        let fresh = SimServer::new(&self.stage.scene)?;
        let server = std::mem::replace(&mut self.server, fresh);
        self.server = server.agent_dies(self.store.clone())?;
        self.server.restore()?;
        self.engine = engine(&self.server, &self.law)?;
        self.note_begin();
        Ok(())
    }
}

fn engine(server: &SimServer, law: &ChosenLaw) -> anyhow::Result<Engine> {
    Ok(Engine::new(server.setup().clone(), law.policies()?, EngineParams::default()))
}

fn degraded(server: &SimServer, stage: &Stage) -> anyhow::Result<Vec<String>> {
    let policies = stage.law.policies()?;
    Ok(policies.iter().flat_map(|policy| policy.degradations(server.setup())).collect())
}

/// Steps in a second.
fn steps_of(engine: &Engine) -> u32 {
    match engine.shortest_period() {
        Some(period) if period <= FASTEST => 10,
        Some(period) if period < INTERVAL => (INTERVAL.as_millis() / FAST.as_millis()) as u32,
        _ => 1,
    }
}
