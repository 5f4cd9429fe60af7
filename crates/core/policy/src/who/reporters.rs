//! When a reporter runs, and what it says.
//!
//! A burst is asked for where the machine has a CPU's worth of idle time; the platform finds the CPU
//! or plays none. Every look takes one along, timed into its hold: what the held do to the reporter
//! is missing there, which shows what quiet moments are like. Others come between looks. All
//! together take at most 1 % of one CPU in each minute, whatever else goes on. Where none was
//! played of late, it is asked for ever more seldom. Bursts of samples in which the hypervisor took
//! much away are not heard.

use super::series::Series;
use quell_model::blame::{
    Contention, Finding, Reporter, Signature, SignatureParams, counts_much, report,
};
use quell_types::{
    AccessTimes, Burst, CpuSet, Experiment, Input, Knob, Observation, Precedence, Proposal,
    Setting, Setup, Tenant, Time, Wish,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The most of one CPU that bursts may take...
const MOST_SHARE: f64 = 0.01;
/// ... over so many seconds.
const SHARE_OVER_S: f64 = 60.0;
/// What one burst is.
const WARM_US: u64 = 2_000;
const SLICE_US: u64 = 250;
const ROUNDS: u32 = 5;
/// Seconds between two bursts outside of looks: while the first are gathered, and later.
const GATHER_S: f64 = 0.5;
const FOLLOW_S: f64 = 2.0;
/// So many are the first.
const FIRST: u32 = 30;
/// The longest pause after bursts that were not played, in seconds.
const LONGEST_PAUSE_S: f64 = 30.0;
/// The least idle time, in CPUs, in which one CPU may be idle altogether.
const LEAST_IDLE_CPUS: f64 = 0.9;
/// Bursts are not heard where the hypervisor takes so much of all CPU time.
const STOLEN_FRAC: f64 = 0.05;
/// A trace that did not come by then is lost.
const LOST: Duration = Duration::from_secs(2);

/// A burst that was asked for.
#[derive(Clone, Debug)]
struct Asked {
    burst: Burst,
    time: Time,
    /// In whose hold.
    experiment: Option<u64>,
}

/// The reporter of one law.
#[derive(Debug)]
pub(super) struct Reporters {
    policy: &'static str,
    enabled: bool,
    reporter: Reporter,
    signature: Option<Signature>,
    series: Series,
    /// Bus locks a second that the processor counts.
    locks_per_s: Option<f64>,
    asked: Option<Asked>,
    /// When bursts were played, and the CPU time that they took, in seconds.
    spent: VecDeque<(Time, f64)>,
    next: Time,
    /// In a row that were not played.
    refused: u32,
    played: u32,
    next_id: u64,
}

impl Reporters {
    pub(super) fn new(policy: &'static str, enabled: bool) -> Self {
        Self {
            policy,
            enabled,
            reporter: Reporter::new(SignatureParams::default()),
            signature: None,
            series: Series::new(),
            locks_per_s: None,
            asked: None,
            spent: VecDeque::new(),
            next: Time(0),
            refused: 0,
            played: 0,
            next_id: 1,
        }
    }

    /// Begins anew with a suspect.
    pub(super) fn forget(&mut self, suspect: &Tenant) {
        self.series.forget(suspect);
    }

    /// Takes in what came of the last burst.
    pub(super) fn learn(&mut self, seen: &Observation, suspects: &BTreeMap<Tenant, f64>) {
        if !self.enabled {
            return;
        }
        self.series.face(seen.time, suspects);
        let locks = seen.host.bus_locks_per_s.as_ref().ok();
        self.locks_per_s = locks.map(|by_cpu| by_cpu.values().sum());
        let over = |(time, _): &(Time, f64)| seen.time.since(*time).as_secs_f64() > SHARE_OVER_S;
        while self.spent.front().is_some_and(over) {
            self.spent.pop_front();
        }
        if let Some(asked) = self.asked.take() {
            self.asked = self.take(asked, seen);
        }
        self.series.learn(seen);
        self.signature = self.reporter.signature(seen.time).ok();
    }

    /// What came of a burst; gives it back if that is not known yet.
    fn take(&mut self, asked: Asked, seen: &Observation) -> Option<Asked> {
        let trace = seen.bursts.iter().find(|trace| trace.id == asked.burst.id);
        if trace.is_none() && seen.time.since(asked.time) <= LOST {
            return Some(asked);
        }
        let cpu_ns = trace.map_or(0, |trace| trace.report.cpu_ns);
        if cpu_ns > 0 {
            self.spent.push_back((seen.time, cpu_ns as f64 / 1e9));
        }
        match trace.and_then(|trace| Some((trace, trace.cpu?, trace.report.times.as_ref().ok()?))) {
            Some((trace, cpu, times)) => {
                if !much_is_stolen(seen) {
                    self.hear(&asked, trace.time, cpu, times);
                }
                (self.refused, self.played) = (0, self.played.saturating_add(1));
            }
            None => {
                self.refused = self.refused.saturating_add(1);
                let pause_s = GATHER_S * f64::from(1_u32 << self.refused.min(8));
                self.next = seen.time + Duration::from_secs_f64(pause_s.min(LONGEST_PAUSE_S));
            }
        }
        None
    }

    fn hear(&mut self, asked: &Asked, time: Time, cpu: u32, times: &AccessTimes) {
        let relief = self.reporter.relief(time, cpu, times);
        if let (Some(experiment), Some(relief)) = (asked.experiment, relief) {
            self.series.hold(experiment, &asked.burst, time, relief);
        }
        self.reporter.take(time, cpu, times, asked.experiment.is_some());
    }

    /// The next burst, if it is time for one: in the hold of the look that now begins, or where no
    /// look is on its way.
    pub(super) fn propose(
        &mut self,
        setup: &Setup,
        seen: &Observation,
        look: Option<&Proposal>,
        playing: bool,
    ) -> Option<Proposal> {
        let experiment = look.and_then(|look| match &look.wish {
            Wish::Play(experiment) => Some(experiment),
            _ => None,
        });
        let elsewhere = playing && experiment.is_none();
        let early = seen.time < self.next && (experiment.is_none() || self.refused > 0);
        if !self.enabled || elsewhere || early || self.asked.is_some() {
            return None;
        }
        let burst = Burst {
            id: self.next_id,
            delay_us: experiment.map_or(0, into_the_hold),
            warm_us: WARM_US,
            slice_us: SLICE_US,
            rounds: ROUNDS,
            not_on: of_services(setup, seen),
        };
        if !may_be_idle(setup, seen) || !self.pays(&burst) {
            return None;
        }
        self.next_id += 1;
        let experiment = experiment.map(|experiment| experiment.id);
        self.asked = Some(Asked { burst: burst.clone(), time: seen.time, experiment });
        if experiment.is_none() {
            let pause_s = if self.played < FIRST { GATHER_S } else { FOLLOW_S };
            self.next = seen.time + Duration::from_secs_f64(pause_s);
        }
        Some(Proposal {
            policy: self.policy.into(),
            precedence: Precedence::Polluter,
            wish: Wish::Burst(burst),
            rule: "burst".into(),
            inputs: self.inputs(),
        })
    }

    /// Whether somebody tells that bus locks hold accesses back: the reporter, or the processor's
    /// counters where it has them.
    pub(super) fn tells_of_bus_locks(&self) -> bool {
        let told = self.signature.as_ref().and_then(|signature| signature.contention);
        match self.locks_per_s {
            Some(per_s) => counts_much(per_s),
            None => told == Some(Contention::BusLocks),
        }
    }

    fn pays(&self, burst: &Burst) -> bool {
        let spent_s: f64 = self.spent.iter().map(|(_, seconds)| seconds).sum();
        spent_s + burst.duration().as_secs_f64() <= MOST_SHARE * SHARE_OVER_S
    }

    /// What the bursts before have shown, for the journal.
    fn inputs(&self) -> Vec<Input> {
        let mut inputs = vec![Input::new("bursts_count", self.reporter.bursts() as f64)];
        if let Some(signature) = &self.signature {
            let seen = &signature.inflation;
            let certain = match signature.contention {
                Some(Contention::BusLocks) => "bus_lock_certain_frac",
                Some(Contention::LastLevelCache) => "last_level_cache_certain_frac",
                Some(Contention::Memory) => "memory_bandwidth_certain_frac",
                None => "not_told_frac",
            };
            inputs.extend([
                Input::new("arithmetic_ln", seen.arithmetic),
                Input::new("private_ln", seen.private),
                Input::new("shared_ln", seen.shared),
                Input::new("memory_ln", seen.memory),
                Input::new(certain, signature.confidence),
            ]);
        }
        inputs
    }

    /// Tells a finding over what victim and culprits fight.
    pub(super) fn tell(&self, finding: &mut Finding) {
        if let Some(signature) = &self.signature {
            report(finding, signature, self.locks_per_s);
            self.series.tell(finding);
        }
    }
}

/// Whether the hypervisor took so much of the last interval that what was timed in it may be its
/// doing.
fn much_is_stolen(seen: &Observation) -> bool {
    seen.host.steal.as_ref().is_ok_and(|steal| steal.0 >= STOLEN_FRAC)
}

/// How long after its begin the first hold of an experiment is well under way, in microseconds:
/// freezing takes some milliseconds.
fn into_the_hold(experiment: &Experiment) -> u64 {
    let chip = experiment.code.iter().position(|runs| !runs).unwrap_or(0) as u64;
    chip * experiment.chip_us + experiment.chip_us / 4
}

/// Whether all idle time together is that of a CPU at least. Where it is not known there is none.
fn may_be_idle(setup: &Setup, seen: &Observation) -> bool {
    let cpus = setup.topology.cpus.len() as f64;
    seen.host.utilisation.as_ref().is_ok_and(|busy| cpus * (1.0 - busy.0) >= LEAST_IDLE_CPUS)
}

/// CPUs that services have, as far as they have not all, with the siblings on their cores.
fn of_services(setup: &Setup, seen: &Observation) -> CpuSet {
    let sets = setup.services.iter().filter_map(|service| {
        let knob = Knob::Cpus { tenant: service.name.clone() };
        match seen.knobs.get(&knob)?.as_ref().ok()? {
            Setting::Cpus(set) if !setup.managed_cpus.is_subset(set) => Some(set.clone()),
            _ => None,
        }
    });
    let own = sets.fold(CpuSet::new(), |all, set| all.union(&set));
    let cores = own.iter().map(|cpu| setup.topology.siblings(cpu));
    cores.fold(own.clone(), |all, core| all.union(&core))
}

#[cfg(test)]
mod tests;
