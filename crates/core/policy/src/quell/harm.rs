//! Who hurts, and how much: harm per CPU of each batch group, by holding one at a time.
//!
//! Harm is ln(inflation of the victim's CPU time per request) per CPU that the group used in the
//! chips in which it ran. The worst victim counts. Several experiments are pooled; the newest
//! weigh most, so a group that changes its ways is known within a minute.
//!
//! Bound: a group is held at most `held_share_frac` of the time.

use super::params::QuellParams;
use super::signals::Signals;
use crate::parts::HeldTime;
use quell_model::{InflationParams, inflation_of};
use quell_types::{Experiment, ExperimentTrace, Knob, Observation, Setup, Tenant, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Weight of the newest experiment once several are known.
const NEWEST: f64 = 0.3;
/// A group that used less CPU than this could not have hurt.
const IDLE_CPUS: f64 = 0.03;
/// Fewest requests on either side of one experiment.
const MIN_REQUESTS: u64 = 12;
/// The release comes at the latest this many times the planned length after the start.
const BOUND_FACTOR: u64 = 3;

/// What is known of one group.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    harm: f64,
    experiments: u32,
    last: Option<Time>,
}

/// Harm by group.
#[derive(Debug)]
pub(super) struct Harm {
    params: QuellParams,
    groups: BTreeMap<Tenant, Known>,
    playing: Option<(u64, Time)>,
    next_id: u64,
    held_time: HeldTime,
    last_played: Option<Time>,
}

/// An experiment with its cost.
pub(super) struct Planned(Experiment);

impl Planned {
    /// Time for which the group is held, in seconds.
    pub(super) fn held_s(&self) -> f64 {
        held_s(&self.0)
    }

    pub(super) fn into_inner(self) -> Experiment {
        self.0
    }
}

fn held_s(experiment: &Experiment) -> f64 {
    let held = experiment.code.iter().filter(|run| !**run).count() as u64;
    Duration::from_micros(held * experiment.chip_us).as_secs_f64()
}

impl Harm {
    pub(super) fn new(params: QuellParams) -> Self {
        Self {
            held_time: HeldTime::new(params.held_share_frac),
            params,
            groups: BTreeMap::new(),
            playing: None,
            next_id: 1,
            last_played: None,
        }
    }

    /// Harm per CPU of a group: measured, or what is assumed of the unknown.
    pub(super) fn of(&self, tenant: &Tenant) -> f64 {
        match self.groups.get(tenant) {
            Some(known) if known.experiments > 0 => known.harm.max(0.0),
            _ => self.params.unknown_harm_ln_per_cpu,
        }
    }

    /// ln of the inflation that the groups cause by what they use now.
    pub(super) fn present_ln(&self, observation: &Observation) -> f64 {
        let used = |(tenant, batch): (&Tenant, &quell_types::BatchObservation)| {
            let known = self.groups.get(tenant).filter(|k| k.experiments > 0)?;
            batch.cpu.clone().ok().map(|cpu| known.harm.max(0.0) * cpu.0)
        };
        observation.batch.iter().filter_map(used).sum()
    }

    /// Takes in experiments that ended, and lets the banks fill.
    pub(super) fn learn(&mut self, setup: &Setup, observation: &Observation) {
        self.held_time.fill(setup, observation.time);
        for trace in &observation.experiments {
            if self.playing.is_some_and(|(id, _)| id == trace.id) {
                self.playing = None;
            }
            self.take(setup, trace);
        }
    }

    fn take(&mut self, setup: &Setup, trace: &ExperimentTrace) {
        let Some((group, cpus)) = held_group(trace) else { return };
        if cpus < IDLE_CPUS {
            return;
        }
        let params = InflationParams { min_requests: MIN_REQUESTS, ..InflationParams::default() };
        let victims = setup.services.iter();
        let ratios = victims.filter_map(|s| inflation_of(&s.name, trace, &params).ok());
        let Some(worst) = ratios.reduce(f64::max) else { return };
        let harm = libm::log(worst.max(0.1)) / cpus;
        let known = self.groups.entry(group).or_default();
        // A plain mean of the first few, then the newest weigh most.
        known.experiments += 1;
        let weight = (1.0 / f64::from(known.experiments)).max(NEWEST);
        known.harm += weight * (harm - known.harm);
    }

    /// The next experiment, if one is due: the group known least and longest ago.
    pub(super) fn next_experiment(
        &mut self,
        setup: &Setup,
        observation: &Observation,
        signals: &Signals,
    ) -> Option<Planned> {
        let time = observation.time;
        if !self.params.experiments || self.busy(time) || signals.qps <= 0.0 {
            return None;
        }
        let gap = Duration::from_secs_f64(self.params.experiment_gap_s);
        if self.last_played.is_some_and(|last| time.since(last) < gap) {
            return None;
        }
        let chip_us = self.params.chip_ms * 1000;
        let cost_s = Duration::from_micros(2 * chip_us).as_secs_f64();
        let group = self.candidate(setup, observation, cost_s)?;
        let experiment = self.plan(setup, &group, chip_us);
        self.held_time.spend(&group, held_s(&experiment));
        self.groups.entry(group).or_default().last = Some(time);
        self.playing = Some((experiment.id, time));
        self.last_played = Some(time);
        Some(Planned(experiment))
    }

    /// A lost experiment must not stop all others.
    fn busy(&self, time: Time) -> bool {
        let longest = Duration::from_millis(self.params.chip_ms * 4 * BOUND_FACTOR + 1000);
        self.playing.is_some_and(|(_, since)| time.since(since) < longest)
    }

    fn candidate(&self, setup: &Setup, seen: &Observation, cost_s: f64) -> Option<Tenant> {
        let runs = |name: &Tenant| {
            let batch = seen.batch.get(name);
            batch.is_some_and(|b| b.cpu.as_ref().is_ok_and(|cpu| cpu.0 >= IDLE_CPUS))
        };
        let due = |name: &&Tenant| {
            let frozen = Knob::Frozen { tenant: (*name).clone() };
            setup.controls(&frozen) && self.held_time.pays(name, cost_s) && runs(name)
        };
        let rank = |name: &&Tenant| {
            let known = self.groups.get(*name).copied().unwrap_or_default();
            (known.experiments.min(3), known.last)
        };
        setup.batch.iter().map(|b| &b.name).filter(due).min_by_key(rank).cloned()
    }

    /// Run, held, held, run: what drifts steadily cancels out.
    fn plan(&mut self, setup: &Setup, group: &Tenant, chip_us: u64) -> Experiment {
        let id = self.next_id;
        self.next_id += 1;
        let code = vec![true, false, false, true];
        Experiment {
            id,
            groups: vec![group.clone()],
            victims: setup.services.iter().map(|s| s.name.clone()).collect(),
            bound_us: chip_us * code.len() as u64 * BOUND_FACTOR,
            code,
            chip_us,
        }
    }
}

/// The one group that an experiment held, and the CPUs that it used while it ran.
fn held_group(trace: &ExperimentTrace) -> Option<(Tenant, f64)> {
    let running = || trace.chips.iter().filter(|c| c.running);
    let groups: Vec<&Tenant> = running().next()?.group_cpu_ns.keys().collect();
    let [group] = groups[..] else { return None };
    let seconds: f64 = running().map(|c| c.to.since(c.from).as_secs_f64()).sum();
    let used = running().filter_map(|c| c.group_cpu_ns.get(group)?.clone().ok());
    let cpu_s = used.sum::<u64>() as f64 / 1e9;
    (seconds > 0.0).then(|| (group.clone(), cpu_s / seconds))
}
