//! The one step: sample → observation → proposals → verdicts → actions.

use crate::arbiter::{Arbiter, Standing};
use crate::due::Due;
use crate::journal::{Entry, Judged, Note};
use crate::order::order_actions;
use crate::repair::{Advice, ForeignChange, Repair};
use crate::round::same_setting;
use crate::side_by_side::SideBySide;
use crate::tasks::{Allowance, Allowances, dispatch};
use quell_model::blame::Finding;
use quell_model::{Observer, ObserverParams};
use quell_policy::{Policy, Tolerance};
use quell_types::{
    Action, CpuSet, Experiment, Gap, Knob, Observation, Outcome, Probe, Proposal, Reading, Sample,
    Setting, Setup, SharedResource, Tenant, Time, Verdict, Wish,
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
    /// CPUs that are there, as last told.
    online: Option<CpuSet>,
    /// Pressure beside a service, and its latest end.
    probing: Option<(u64, Time)>,
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
        let policies = policies.into_iter().map(Due::new).collect();
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
            online: None,
            probing: None,
        }
    }

    /// What stands for every knob that a policy wants, and why.
    #[must_use]
    pub fn standing(&self) -> &BTreeMap<Knob, Standing> {
        self.arbiter.standing()
    }

    /// Wishes that do not stand, since another law's does: what would stand if that one let go.
    pub fn outvoted(&self) -> impl Iterator<Item = (&Knob, &Standing)> {
        self.arbiter.outvoted()
    }

    /// Who slows each service, as far as the policies find out.
    #[must_use]
    pub fn findings(&self) -> BTreeMap<Tenant, Finding> {
        self.policies.iter().flat_map(|due| due.policy.findings()).collect()
    }

    /// What services tolerate, as far as the policies find out while they guard.
    #[must_use]
    pub fn tolerances(&self) -> BTreeMap<Tenant, BTreeMap<SharedResource, Tolerance>> {
        self.policies.iter().flat_map(|due| due.policy.tolerances()).collect()
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
        if let Ok(online) = &sample.host.online_cpus {
            self.online = Some(online.clone());
        }
        self.follow_probe(sample);
        let proposals = self.propose(&observation);
        let mut judged = self.judge(sample.time, proposals);
        let mut notes = Vec::new();
        let mut actions = self.knob_actions(sample, &mut notes);
        actions.extend(dispatch(&sample.tasks, self.allowances.settled()));
        let plays = self.plays(&mut judged);
        self.begin_probe(sample.time, &plays);
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

    /// Experiments and probes to be played: no experiment that moves a freezer which is left to
    /// others.
    fn plays(&self, judged: &mut [Judged]) -> Vec<Action> {
        let theirs =
            |group: &&Tenant| self.given_up.contains(&Knob::Frozen { tenant: (*group).clone() });
        let mut plays = Vec::new();
        for Judged { proposal, verdict } in judged {
            if *verdict != Verdict::Accepted {
                continue;
            }
            match &proposal.wish {
                Wish::Play(experiment) => match experiment.groups.iter().find(theirs) {
                    None => plays.push(Action::Play(experiment.clone())),
                    Some(group) => {
                        let why = format!("the freezer of {group} is left to others");
                        *verdict = Verdict::NotControllable { why };
                    }
                },
                Wish::Probe(probe) => plays.push(Action::Probe(probe.clone())),
                Wish::EndProbe { id } => plays.push(Action::EndProbe { id: *id }),
                Wish::Burst(burst) => plays.push(Action::Burst(burst.clone())),
                _ => {}
            }
        }
        plays
    }

    fn begin_experiment(&mut self, time: Time, plays: &[Action]) {
        let experiments = plays.iter().rev().find(|a| matches!(a, Action::Play(_)));
        if let Some(Action::Play(experiment)) = experiments {
            let bound = Duration::from_micros(experiment.bound_us) + PLAYED_LATE;
            let experiment = experiment.clone();
            self.playing = Some(Playing { experiment, until: time + bound, samples: 0 });
        }
    }

    fn begin_probe(&mut self, time: Time, plays: &[Action]) {
        let of = |action: &Action| match action {
            Action::Probe(probe) => Some((probe.id, time + probe.bound() + PLAYED_LATE)),
            _ => None,
        };
        self.probing = plays.iter().find_map(of).or(self.probing);
    }

    /// Forgets a probe that ended, was refused, or was lost.
    fn follow_probe(&mut self, sample: &Sample) {
        let Some((id, until)) = self.probing else { return };
        let is_it = |probe: &Probe| probe.id == id;
        let refused = |o: &Outcome| {
            o.error.is_some() && matches!(&o.action, Action::Probe(probe) if is_it(probe))
        };
        let ended = sample.probes.iter().any(|trace| is_it(&trace.probe));
        if ended || sample.time > until || sample.outcomes.iter().any(refused) {
            self.probing = None;
        }
    }

    /// Experiments and probes would spoil each other: one at a time.
    fn in_the_way(&self, wish: &Wish) -> Option<Verdict> {
        let why = match wish {
            Wish::Play(_) | Wish::Burst(_) if self.probing.is_some() => "a probe is under way",
            Wish::Probe(_) if self.playing.is_some() => "an experiment is being played",
            Wish::Probe(_) if self.probing.is_some() => "another probe is under way",
            _ => return None,
        };
        Some(Verdict::NotControllable { why: why.to_owned() })
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
        if !ended && !lost && !sample.outcomes.iter().any(refused) {
            return;
        }
        let groups = self.playing.take().map(|playing| playing.experiment.groups);
        for tenant in groups.unwrap_or_default() {
            // As the player left it, or as a sensor that lags behind still shows it.
            self.repair.expect_anything(&Knob::Frozen { tenant });
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
        let setup = &self.setup;
        self.policies.iter_mut().flat_map(|due| due.step(setup, observation)).collect()
    }

    fn judge(&mut self, time: Time, proposals: Vec<Proposal>) -> Vec<Judged> {
        let mut judged = Vec::new();
        for proposal in proposals {
            if let Wish::RunTasks { tenant, allowed, at_most } = &proposal.wish {
                let allowance = Allowance { allowed: *allowed, at_most: *at_most };
                self.allowances.wish(proposal.policy.clone(), tenant, allowance);
            }
            let left = left_to_others(&self.given_up, &proposal.wish);
            let verdict = match left.or_else(|| self.in_the_way(&proposal.wish)) {
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
        for (knob, wanted) in self.unsettled(sample) {
            if self.is_played(&knob, &wanted) {
                continue;
            }
            match sample.knobs.get(&knob) {
                // Gone, pending or unreadable: there is nothing to compare with.
                None | Some(Err(Gap::Pending | Gap::Gone(_) | Gap::Absent(_))) => {}
                Some(reading @ Ok(real)) if same_setting(real, &wanted) => {
                    if self.repair.may_be_stale(&knob, &wanted) {
                        self.write(&knob, &wanted, reading, &mut changes);
                        continue;
                    }
                    self.repair.confirm(&knob, &wanted);
                    if !self.arbiter.standing().contains_key(&knob) {
                        self.first_seen.remove(&knob);
                    }
                }
                Some(Ok(real)) if self.lacks_only_unplugged(real, &wanted) => {
                    self.repair.expect_anything(&knob);
                }
                Some(reading) => {
                    if self.shall_write(sample.time, &knob, &wanted, reading, notes) {
                        self.write(&knob, &wanted, reading, &mut changes);
                    }
                }
            }
        }
        order_actions(&sample.knobs, &changes)
    }

    fn write(
        &mut self,
        knob: &Knob,
        wanted: &Setting,
        reading: &Reading<Setting>,
        changes: &mut Vec<(Knob, Setting)>,
    ) {
        self.remember(knob, reading);
        self.repair.writes(knob, wanted);
        changes.push((knob.clone(), wanted.clone()));
    }

    /// Whether a CPU set lacks only CPUs that are not there: the kernel took them out (cgroup v1)
    /// and would refuse them. They are put in again when they are back.
    fn lacks_only_unplugged(&self, real: &Setting, wanted: &Setting) -> bool {
        let (Setting::Cpus(real), Setting::Cpus(wanted)) = (real, wanted) else { return false };
        let lacking = wanted.difference(real);
        real.is_subset(wanted)
            && !lacking.is_empty()
            && self.online.as_ref().is_some_and(|online| lacking.is_disjoint(online))
    }

    /// What shall stand and may not: wishes, and the first settings of knobs no longer wished for.
    /// A wish that was seen in place before and still is, as nearly all are, needs no second look.
    fn unsettled(&self, sample: &Sample) -> Vec<(Knob, Setting)> {
        let standing = self.arbiter.standing();
        // All are in order: side by side each knob is compared about once.
        let mut confirmed = SideBySide::of(self.repair.confirmed());
        let mut real = SideBySide::of(sample.knobs.iter());
        let mut stands = |knob: &Knob, wanted: &Setting| {
            confirmed.at(knob) == Some(wanted)
                && matches!(real.at(knob), Some(Ok(real)) if same_setting(real, wanted))
        };
        let wished = standing.iter().map(|(knob, standing)| (knob, &standing.setting));
        let wished = wished.filter(|(knob, wanted)| !stands(knob, wanted));
        let mut others = SideBySide::of(standing.iter());
        let released = self.first_seen.iter().filter(|(knob, _)| others.at(knob).is_none());
        let left = wished.chain(released).filter(|(knob, _)| !self.given_up.contains(*knob));
        left.map(|(knob, setting)| (knob.clone(), setting.clone())).collect()
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
        let text = || (knob.to_string(), real.to_string());
        match self.repair.advise(time, knob, wanted, real, on_change) {
            Advice::Write => true,
            Advice::Wait => false,
            Advice::Reassert => {
                let (knob, found) = text();
                notes.push(Note::Reasserted { knob, found });
                true
            }
            Advice::GiveUp => {
                let (name, found) = text();
                notes.push(Note::GivenUp { knob: name, found });
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
