//! The one step: sample → observation → proposals → verdicts → actions.

mod playing;

use crate::arbiter::{Arbiter, Standing};
use crate::due::Due;
use crate::identities::Identities;
use crate::journal::{Entry, Judged, Note};
use crate::order::order_actions;
use crate::repair::{Advice, ForeignChange, Repair};
use crate::round::same_setting;
use crate::side_by_side::SideBySide;
use crate::tasks::{Allowance, Allowances, dispatch};
use playing::Playing;
use quell_model::blame::{Finding, Pressing};
use quell_model::{Observer, ObserverParams};
use quell_policy::{Policy, Tolerance};
use quell_types::{
    Action, CpuSet, Gap, Knob, Observation, Proposal, Reading, Sample, Setting, Setup,
    SharedResource, Tenant, Time, Verdict, Wish,
};
use std::collections::{BTreeMap, BTreeSet};

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
    identities: Identities,
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
            identities: Identities::default(),
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

    /// What groups press on, by name, as far as the first policy that knows tells.
    #[must_use]
    pub fn pressing(&self) -> Vec<Pressing> {
        let all = self.policies.iter().map(|due| due.policy.pressing());
        all.into_iter().find(|told| !told.is_empty()).unwrap_or_default()
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
        self.follow_returns(sample);
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

    /// A workload that came back as another one has settings of its own: nobody changed what was set
    /// of the former one, and they are what it goes back to. One that stands as it was set is taken
    /// for the one it was.
    fn follow_returns(&mut self, sample: &Sample) {
        let changed = self.identities.changed(&sample.tenants);
        if changed.is_empty() {
            return;
        }
        let stands = |knob: &Knob| match sample.knobs.get(knob) {
            Some(Ok(real)) => self.repair.is_own(knob, real),
            _ => false,
        };
        let is_new = |knob: &Knob| knob.tenant().is_some_and(|tenant| changed.contains(tenant));
        self.first_seen.retain(|knob, _| !is_new(knob) || stands(knob));
        self.repair.begin_anew(is_new);
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
