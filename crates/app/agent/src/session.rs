//! The loop's body, on any platform: sample, decide, write down, act.
//!
//! # The safe side
//! What cannot be written down is not done. At the start each batch group's freezer is journalled
//! by a write that changes nothing; so when a disk is full later, batch can still be held, and a
//! restore still knows how to let it go. From then on nothing is decided. Every interval it is
//! tried whether what failed works again; only then batch is let go, and the law begins anew.

mod brake;
mod stranded;

use crate::decisions::Decisions;
use crate::pace::Pace;
use crate::{laws, options};
use brake::{brake, reserve};
use quell_config::{Checked, ConfigErrors};
use quell_control::{Engine, Entry, Note, Standing, same_setting};
use quell_platform::{Platform, PlatformError, Scope, StoreError};
use quell_types::{Action, Knob, KnobRange, Observation, Proposal, Sample, Setting, Verdict, Wish};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thiserror::Error;

/// What keeps a session from beginning.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The platform cannot be used, or its knob journal cannot be written.
    #[error("{0}")]
    Platform(#[from] PlatformError),
    /// The decision journal cannot be written.
    #[error("the decision journal cannot be written: {0}")]
    Journal(#[from] StoreError),
    /// The law does not accept its parameters.
    #[error("{0}")]
    Config(#[from] ConfigErrors),
}

/// How a session says that it is there.
#[derive(Clone, Copy, Debug)]
pub struct Introduction {
    /// The first word of its journal, as `started`.
    pub word: &'static str,
    /// The process that decides.
    pub pid: u32,
    /// Where messages for people go.
    pub say: fn(&str),
}

/// One guarded machine: the body of `quell guard`, on any platform.
pub struct Session<P, D> {
    pub(crate) platform: P,
    pub(crate) engine: Engine,
    pub(crate) pace: Pace,
    config: Checked,
    log: D,
    introduction: Introduction,
    /// For people: when the last sample was taken, in milliseconds since 1970.
    wall_unix_ms: u64,
    /// Knobs that were written.
    touched: BTreeSet<Knob>,
    /// Whether an experiment is being played: then the platform must not be kept waiting.
    pub(crate) playing: bool,
    /// What was told already: once is enough.
    told: BTreeSet<String>,
    pub(crate) actions_total: BTreeMap<String, u64>,
    pub(crate) full_samples: u64,
    /// How each batch group's brake stood at the start.
    brakes: Vec<(Knob, Setting)>,
    /// The action that could not be written down; it is what is tried again.
    failed: Option<Action>,
    /// Why batch is held on the safe side; none if all is well.
    pub(crate) held: Option<String>,
}

impl<P: Platform, D: Decisions> Session<P, D> {
    /// Begins: journals what the safe side needs, and writes down that it began.
    ///
    /// # Errors
    /// A journal cannot be written, or the law does not accept its parameters. The platform comes
    /// back, so that its knobs can be put back.
    pub fn begin(
        mut platform: P,
        config: &Checked,
        log: D,
        introduction: Introduction,
    ) -> Result<Self, (SessionError, P)> {
        let begun = reserve(&mut platform).map_err(SessionError::from).and_then(|reserved| {
            Ok((reserved, engine(&platform, config, introduction.word, introduction.pid)?))
        });
        let ((brakes, wall_unix_ms), (engine, notes)) = match begun {
            Ok(begun) => begun,
            Err(error) => return Err((error, platform)),
        };
        let mut session = Self {
            pace: pace(config, &engine),
            platform,
            engine,
            config: config.clone(),
            log,
            introduction,
            wall_unix_ms,
            touched: BTreeSet::new(),
            playing: false,
            told: BTreeSet::new(),
            actions_total: BTreeMap::new(),
            full_samples: 0,
            brakes,
            failed: None,
            held: None,
        };
        match session.write_notes(notes) {
            Ok(()) => Ok(session),
            Err(error) => Err((error.into(), session.platform)),
        }
    }

    /// The machine.
    pub fn platform(&mut self) -> &mut P {
        &mut self.platform
    }

    /// The machine, and who decides.
    pub fn parts(&mut self) -> (&mut P, &Engine) {
        (&mut self.platform, &self.engine)
    }

    /// Why batch is held on the safe side; none if all is well.
    pub fn held(&self) -> Option<&str> {
        self.held.as_deref()
    }

    /// Leaves everything as it stands, as a death does.
    pub fn abandon(self) -> P {
        self.platform
    }

    /// One step. Answers with what was seen in a full sample; nothing between them, or on the safe
    /// side.
    pub fn step(&mut self) -> Option<Observation> {
        let (after, scope) = self.pace.next();
        let done = match self.held {
            None => self.try_step(after, scope).map(Some),
            Some(_) => self.recover().map(|()| None),
        };
        self.pace.advance();
        match done {
            Ok(observation) => observation.filter(|_| scope == Scope::Full),
            Err(trouble) => {
                if self.held.is_none() {
                    self.hold(&trouble.to_string());
                }
                None
            }
        }
    }

    fn try_step(&mut self, after: Duration, scope: Scope) -> Result<Observation, SessionError> {
        let sample = self.platform.sample(after, scope)?;
        self.wall_unix_ms = sample.wall_unix_ms;
        self.full_samples += u64::from(scope == Scope::Full);
        self.tell_refusals(&sample);
        self.tell_stranded(&sample);
        let decision = self.engine.step(&sample);
        if !decision.entry.is_empty() && self.log.append(&decision.entry)? {
            self.write_standing(&sample)?;
        }
        for action in &decision.actions {
            self.apply(action)?;
        }
        for note in &decision.entry.notes {
            self.heed(note)?;
        }
        self.playing &= sample.experiments.is_empty() && sample.probes.is_empty();
        let begins = |a: &Action| matches!(a, Action::Play(_) | Action::Probe(_));
        self.playing |= decision.actions.iter().any(begins);
        Ok(decision.observation)
    }

    fn apply(&mut self, action: &Action) -> Result<(), PlatformError> {
        let rule = match action {
            Action::Set { knob, .. } => {
                self.touched.insert(knob.clone());
                let standing = self.engine.standing().get(knob);
                standing.map_or("release".into(), |standing| standing.rule.to_string())
            }
            Action::StartTask { .. } => "start-task".into(),
            Action::StopTask { .. } => "stop-task".into(),
            Action::Play(_) => "experiment".into(),
            Action::Probe(_) => "probe".into(),
            Action::EndProbe { .. } => "probe-ended".into(),
            Action::Burst(_) => "burst".into(),
        };
        if let Err(error) = self.platform.apply(action) {
            self.failed = Some(action.clone());
            return Err(error);
        }
        *self.actions_total.entry(rule).or_default() += 1;
        Ok(())
    }

    /// A knob that was given up is somebody else's now: a restore shall not touch it.
    fn heed(&mut self, note: &Note) -> Result<(), PlatformError> {
        match note {
            Note::GivenUp { knob: text, found } => {
                self.say(&format!("{text} is left to others, who set it to {found}"));
                let knob = self.platform.setup().knobs.keys().find(|k| k.to_string() == *text);
                match knob.cloned() {
                    Some(knob) => self.platform.disown(&knob),
                    None => Ok(()),
                }
            }
            Note::Reasserted { knob, found } => {
                self.say(&format!("others changed {knob} to {found}; put right"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Says once what the machine refused.
    fn tell_refusals(&mut self, sample: &Sample) {
        for outcome in &sample.outcomes {
            let Some(error) = &outcome.error else { continue };
            self.say_once(&format!("not done: {error}"));
            self.playing &= !matches!(outcome.action, Action::Play(_) | Action::Probe(_));
        }
    }

    /// After a rotation: what stands is written down again, with the time since when it stands,
    /// and before it what other laws wish, which stands once the one above lets go.
    fn write_standing(&mut self, sample: &Sample) -> Result<(), StoreError> {
        for (knob, wish) in self.engine.outvoted() {
            self.log.append(&entry_of(knob, wish, sample)).map(drop)?;
        }
        for (knob, standing) in self.engine.standing() {
            self.log.append(&entry_of(knob, standing, sample)).map(drop)?;
        }
        Ok(())
    }

    fn write_notes(&mut self, notes: Vec<Note>) -> Result<(), StoreError> {
        let entry = Entry { wall_unix_ms: self.wall_unix_ms, notes, ..Entry::default() };
        self.log.append(&entry).map(drop)
    }

    fn say(&self, text: &str) {
        (self.introduction.say)(text);
    }

    /// Says it unless it was said before. What names ever new things must not fill the memory.
    fn say_once(&mut self, text: &str) {
        if self.told.len() < 1000 && self.told.insert(text.to_owned()) {
            self.say(text);
        }
    }

    /// To the safe side: batch held, services free.
    fn hold(&mut self, why: &str) {
        let setup = self.platform.setup().clone();
        let mut failed = Vec::new();
        for batch in &setup.batch {
            let Some((knob, to)) = brake(&setup.knobs, &batch.name) else { continue };
            failed.extend(self.platform.apply(&Action::Set { knob, to }).err());
        }
        for service in &setup.services {
            let knob = Knob::Cpus { tenant: service.name.clone() };
            if let Some(KnobRange::Cpus { within, .. }) = setup.knobs.get(&knob)
                && self.touched.contains(&knob)
            {
                let to = Setting::Cpus(within.clone());
                failed.extend(self.platform.apply(&Action::Set { knob, to }).err());
            }
        }
        self.held = Some(why.to_owned());
        self.say(&format!("{why}. Batch is held and services are free until this is repaired"));
        for error in failed {
            self.say(&format!("on the way to the safe side: {error}"));
        }
    }

    /// On the safe side brakes that came loose (a write that was lost, others) are set again.
    fn keep_held(&mut self, sample: &Sample) {
        let setup = self.platform.setup().clone();
        for batch in &setup.batch {
            let Some((knob, to)) = brake(&setup.knobs, &batch.name) else { continue };
            let loose =
                matches!(sample.knobs.get(&knob), Some(Ok(real)) if !same_setting(real, &to));
            if loose {
                // What fails is tried again at the next step.
                let _ = self.platform.apply(&Action::Set { knob, to });
            }
        }
    }

    /// Back from the safe side, if everything can be written down again.
    fn recover(&mut self) -> Result<(), SessionError> {
        let sample = self.platform.sample(self.pace.next().0, Scope::Full)?;
        self.wall_unix_ms = sample.wall_unix_ms;
        self.keep_held(&sample);
        self.write_notes(vec![Note::Agent { what: "tries to go on".into() }])?;
        if let Some(action) = &self.failed {
            self.platform.apply(action)?;
        }
        let (engine, notes) =
            engine(&self.platform, &self.config, "recovered", self.introduction.pid)?;
        self.write_notes(notes)?;
        for (knob, to) in self.brakes.clone() {
            self.platform.apply(&Action::Set { knob, to })?;
        }
        self.engine = engine;
        self.playing = false;
        self.failed = None;
        self.held = None;
        self.say("the journals can be written again: going on");
        Ok(())
    }

    /// Puts everything back and writes that down.
    ///
    /// # Errors
    /// What could not be put back.
    pub fn end(&mut self, word: &str) -> Result<(), PlatformError> {
        let restored = self.platform.restore();
        let what = match &restored {
            Ok(()) => format!("{word}: every knob was put back"),
            Err(error) => format!("{word}, but: {error}"),
        };
        // A full disk is no reason not to stop.
        let _ = self.write_notes(vec![Note::Agent { what }]);
        restored
    }
}

/// A new engine, and the first words for its journal.
fn engine<P: Platform>(
    platform: &P,
    config: &Checked,
    word: &str,
    pid: u32,
) -> Result<(Engine, Vec<Note>), ConfigErrors> {
    let mut policies = laws::policies(config)?;
    policies.extend(laws::listener(&policies));
    let setup = platform.setup().clone();
    let laws = [&[config.agent.law.clone()][..], &config.agent.beside].concat().join(" and ");
    let what = format!("{word}: law {laws}, pid {pid}");
    let mut notes = vec![Note::Agent { what }];
    let without_ways = setup.without_ways().into_iter().map(|tenant| Note::Degraded {
        policy: config.agent.law.clone(),
        how: format!(
            "no class of service is left for {tenant}: it may fill all ways of the caches, and its \
             memory bandwidth is not throttled"
        ),
    });
    notes.extend(without_ways);
    for policy in &policies {
        let degraded = policy.degradations(&setup).into_iter();
        notes.extend(degraded.map(|how| Note::Degraded { policy: policy.name().into(), how }));
    }
    Ok((Engine::new(setup, policies, options::engine_params(config)), notes))
}

fn pace(config: &Checked, engine: &Engine) -> Pace {
    let agent = &config.agent;
    Pace::new(agent.interval, agent.fast_interval, engine.shortest_period())
}

/// What stands for one knob as the entry that set it.
fn entry_of(knob: &Knob, standing: &Standing, sample: &Sample) -> Entry {
    let age = sample.time.since(standing.since);
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let proposal = Proposal {
        policy: standing.policy.clone(),
        precedence: standing.precedence,
        wish: Wish::Set { knob: knob.clone(), to: standing.setting.clone() },
        rule: standing.rule.clone(),
        inputs: standing.inputs.clone(),
    };
    Entry {
        time: standing.since,
        wall_unix_ms: sample.wall_unix_ms.saturating_sub(age_ms),
        proposals: vec![quell_control::Judged { proposal, verdict: Verdict::Accepted }],
        ..Entry::default()
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
