//! The one step: sample → observation → proposals → verdicts → actions.

use crate::arbiter::{Arbiter, Standing};
use crate::journal::{Entry, Judged, Note};
use crate::order::order_actions;
use crate::repair::{Advice, ForeignChange, Repair};
use crate::round::same_setting;
use crate::tasks::{Allowance, Allowances, dispatch};
use quell_model::blame::Finding;
use quell_model::{Observer, ObserverParams};
use quell_policy::Policy;
use quell_types::{
    Action, Experiment, Gap, Knob, Observation, Outcome, Proposal, Reading, Sample, Setting, Setup,
    Tenant, Time, Verdict, Wish,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A trace comes at the latest so long after an experiment's bound.
const PLAYED_LATE: Duration = Duration::from_secs(2);

/// Nor more than so many samples later.
const SAMPLES_LOST: u32 = 16;

/// An experiment on its way.
struct Playing {
    experiment: Experiment,
    until: Time,
    samples: u32,
}

/// How the engine behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineParams {
    /// Lengths of windows.
    pub observer: ObserverParams,
    /// What to do about changes made by others.
    pub on_foreign_change: ForeignChange,
}

/// A policy with the time of its next step.
struct Due {
    policy: Box<dyn Policy>,
    next: Time,
}

/// Decides. Owns no clock and no I/O.
pub struct Engine {
    setup: Setup,
    params: EngineParams,
    observer: Observer,
    policies: Vec<Due>,
    arbiter: Arbiter,
    repair: Repair,
    allowances: Allowances,
    /// Knobs that Quell set and that no policy wants any more: they go back to this setting.
    first_seen: BTreeMap<Knob, Setting>,
    given_up: BTreeSet<Knob>,
    /// What an experiment holds and frees.
    playing: Option<Playing>,
}

/// What one step brought.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What the policies saw.
    pub observation: Observation,
    /// What to do, in order.
    pub actions: Vec<Action>,
    /// Why: for the journal.
    pub entry: Entry,
}

impl Engine {
    /// An engine that has decided nothing yet.
    #[must_use]
    pub fn new(setup: Setup, policies: Vec<Box<dyn Policy>>, params: EngineParams) -> Self {
        let observer = Observer::new(setup.clone(), params.observer);
        let policies = policies.into_iter().map(|policy| Due { policy, next: Time(0) }).collect();
        Self {
            setup,
            params,
            observer,
            policies,
            arbiter: Arbiter::default(),
            repair: Repair::default(),
            allowances: Allowances::default(),
            first_seen: BTreeMap::new(),
            given_up: BTreeSet::new(),
            playing: None,
        }
    }

    /// What stands for every knob that a policy wants, and why.
    #[must_use]
    pub fn standing(&self) -> &BTreeMap<Knob, Standing> {
        self.arbiter.standing()
    }

    /// Who slows each service, as far as the policies find out.
    #[must_use]
    pub fn findings(&self) -> BTreeMap<Tenant, Finding> {
        self.policies.iter().flat_map(|due| due.policy.findings()).collect()
    }

    /// The shortest period of the policies.
    #[must_use]
    pub fn shortest_period(&self) -> Option<std::time::Duration> {
        self.policies.iter().map(|due| due.policy.period()).min()
    }

    /// Decides on one sample. Samples must come in rising time.
    pub fn step(&mut self, sample: &Sample) -> Decision {
        let observation = self.observer.observe(sample);
        self.repair.learn(&sample.outcomes);
        self.follow_experiment(sample);
        let proposals = self.propose(&observation);
        let judged = self.judge(sample.time, proposals);
        let mut notes = Vec::new();
        let mut actions = self.knob_actions(sample, &mut notes);
        actions.extend(dispatch(&sample.tasks, self.allowances.settled()));
        let plays: Vec<Action> = plays(&judged).collect();
        self.begin_experiment(sample.time, &plays);
        actions.extend(plays);
        let entry = Entry {
            time: sample.time,
            wall_unix_ms: sample.wall_unix_ms,
            proposals: judged,
            actions: actions.clone(),
            outcomes: sample.outcomes.clone(),
            notes,
        };
        Decision { observation, actions, entry }
    }

    fn begin_experiment(&mut self, time: Time, plays: &[Action]) {
        if let Some(Action::Play(experiment)) = plays.last() {
            let bound = Duration::from_micros(experiment.bound_us) + PLAYED_LATE;
            let experiment = experiment.clone();
            self.playing = Some(Playing { experiment, until: time + bound, samples: 0 });
        }
    }

    /// Forgets an experiment that ended, was refused, or was lost.
    fn follow_experiment(&mut self, sample: &Sample) {
        let Some(playing) = &mut self.playing else { return };
        playing.samples += 1;
        // A clock that jumps ahead ends no experiment.
        let lost = sample.time > playing.until && playing.samples > SAMPLES_LOST;
        let id = playing.experiment.id;
        let refused =
            |o: &Outcome| o.error.is_some() && matches!(&o.action, Action::Play(e) if e.id == id);
        let ended = sample.experiments.iter().any(|trace| trace.id == id);
        if ended || lost || sample.outcomes.iter().any(refused) {
            self.playing = None;
        }
    }

    /// Whether an experiment moves this knob now. It is no foreign change, and no reason to write,
    /// but for an emergency that holds the group.
    fn is_played(&self, knob: &Knob, wanted: &Setting) -> bool {
        let Knob::Frozen { tenant } = knob else { return false };
        let played = |playing: &Playing| playing.experiment.groups.contains(tenant);
        self.playing.as_ref().is_some_and(played) && *wanted == Setting::Flag(false)
    }

    fn propose(&mut self, observation: &Observation) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        for due in &mut self.policies {
            if observation.time >= due.next {
                due.next = observation.time + due.policy.period();
                proposals.extend(due.policy.step(&self.setup, observation));
            }
        }
        proposals
    }

    fn judge(&mut self, time: Time, proposals: Vec<Proposal>) -> Vec<Judged> {
        let mut judged = Vec::new();
        for proposal in proposals {
            if let Wish::RunTasks { tenant, allowed, at_most } = &proposal.wish {
                let allowance = Allowance { allowed: *allowed, at_most: *at_most };
                self.allowances.wish(proposal.policy.clone(), tenant, allowance);
            }
            let verdict = match left_to_others(&self.given_up, &proposal.wish) {
                Some(verdict) => verdict,
                None => self.arbiter.consider(time, &self.setup, &proposal),
            };
            judged.push(Judged { proposal, verdict });
        }
        judged
    }

    /// Compares what is wanted with how the knobs really stand.
    fn knob_actions(&mut self, sample: &Sample, notes: &mut Vec<Note>) -> Vec<Action> {
        let mut changes: Vec<(Knob, Setting)> = Vec::new();
        for (knob, wanted) in self.wanted() {
            if self.is_played(&knob, &wanted) {
                continue;
            }
            match sample.knobs.get(&knob) {
                // Gone, pending or unreadable: there is nothing to compare with.
                None | Some(Err(Gap::Pending | Gap::Gone(_) | Gap::Absent(_))) => {}
                Some(Ok(real)) if same_setting(real, &wanted) => {
                    self.repair.confirm(&knob, &wanted);
                    if !self.arbiter.standing().contains_key(&knob) {
                        self.first_seen.remove(&knob);
                    }
                }
                Some(reading) => {
                    if self.shall_write(sample.time, &knob, &wanted, reading, notes) {
                        self.remember(&knob, reading);
                        changes.push((knob, wanted));
                    }
                }
            }
        }
        order_actions(&sample.knobs, &changes)
    }

    /// Everything that shall stand: wishes, and the first settings of knobs no longer wished for.
    fn wanted(&self) -> Vec<(Knob, Setting)> {
        let standing = self.arbiter.standing();
        let wished = standing.iter().map(|(knob, s)| (knob.clone(), s.setting.clone()));
        let released = self.first_seen.iter().filter(|(knob, _)| !standing.contains_key(*knob));
        let released = released.map(|(knob, setting)| (knob.clone(), setting.clone()));
        wished.chain(released).filter(|(knob, _)| !self.given_up.contains(knob)).collect()
    }

    fn remember(&mut self, knob: &Knob, reading: &Reading<Setting>) {
        if let Ok(real) = reading
            && !self.first_seen.contains_key(knob)
        {
            self.first_seen.insert(knob.clone(), real.clone());
        }
    }

    fn shall_write(
        &mut self,
        time: Time,
        knob: &Knob,
        wanted: &Setting,
        reading: &Reading<Setting>,
        notes: &mut Vec<Note>,
    ) -> bool {
        let Ok(real) = reading else { return true };
        let on_change = self.params.on_foreign_change;
        let (knob_text, found) = (knob.to_string(), real.to_string());
        match self.repair.advise(time, knob, wanted, real, on_change) {
            Advice::Write => true,
            Advice::Wait => false,
            Advice::Reassert => {
                notes.push(Note::Reasserted { knob: knob_text, found });
                true
            }
            Advice::GiveUp => {
                notes.push(Note::GivenUp { knob: knob_text, found });
                self.given_up.insert(knob.clone());
                self.arbiter.forget(knob);
                false
            }
        }
    }
}

/// The verdict on a wish for a knob that was given up.
fn left_to_others(given_up: &BTreeSet<Knob>, wish: &Wish) -> Option<Verdict> {
    match wish {
        Wish::Set { knob, .. } if given_up.contains(knob) => {
            Some(Verdict::NotControllable { why: format!("{knob} is left to others") })
        }
        _ => None,
    }
}

fn plays(judged: &[Judged]) -> impl Iterator<Item = Action> + '_ {
    judged.iter().filter_map(|j| match &j.proposal.wish {
        Wish::Play(experiment) => Some(Action::Play(experiment.clone())),
        _ => None,
    })
}
