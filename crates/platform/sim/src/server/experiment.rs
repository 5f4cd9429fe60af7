//! Plays an experiment: groups held and freed chip by chip, with a release at the bound.

use super::body::Body;
use quell_types::{
    ChipTrace, Experiment, ExperimentTrace, Gap, Knob, Reading, RequestReading, Setting, Tenant,
    Time,
};
use std::collections::BTreeMap;

/// Counters at an edge of a chip.
#[derive(Debug)]
pub(super) struct Edge {
    time: u64,
    cpu_ns: BTreeMap<Tenant, u64>,
    requests: BTreeMap<Tenant, Reading<RequestReading>>,
}

/// An experiment on its way.
#[derive(Debug)]
pub(crate) struct Player {
    experiment: Experiment,
    groups: Vec<usize>,
    chips: Vec<ChipTrace>,
    last: Edge,
    next: u64,
    bound: u64,
}

impl Player {
    pub(crate) fn begin(experiment: &Experiment, groups: Vec<usize>, body: &mut Body) -> Self {
        let now = body.now();
        let mut player = Self {
            last: Edge::of(experiment, body),
            experiment: experiment.clone(),
            groups,
            chips: Vec::new(),
            next: now,
            bound: now + experiment.bound_us * 1_000,
        };
        player.switch(body);
        player
    }

    /// When it wants to be stepped next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Ends the present chip and begins the next; the trace when that was the last.
    pub(crate) fn step(&mut self, body: &mut Body) -> Option<ExperimentTrace> {
        let now = Edge::of(&self.experiment, body);
        let running = self.experiment.code[self.chips.len()];
        self.chips.push(chip(&self.experiment, &self.last, &now, running));
        self.last = now;
        if self.chips.len() == self.experiment.code.len() {
            return Some(self.end(body, None));
        }
        if body.now() >= self.bound {
            return Some(self.end(body, Some("the bound had passed".into())));
        }
        self.switch(body);
        None
    }

    /// Frees the groups.
    pub(crate) fn end(&mut self, body: &mut Body, aborted: Option<String>) -> ExperimentTrace {
        self.hold(body, false);
        let chips = std::mem::take(&mut self.chips);
        ExperimentTrace { id: self.experiment.id, chips, aborted }
    }

    fn switch(&mut self, body: &mut Body) {
        self.hold(body, !self.experiment.code[self.chips.len()]);
        self.next = (self.last.time + self.experiment.chip_us * 1_000).min(self.bound);
    }

    fn hold(&self, body: &mut Body, held: bool) {
        for group in &self.groups {
            if body.world.groups[*group].frozen != held {
                body.world.set_frozen(*group, held);
                let tenant = body.tenants[*group].clone();
                body.knobs.settle(&Knob::Frozen { tenant }, &Setting::Flag(held));
            }
        }
    }
}

impl Edge {
    pub(super) fn of(experiment: &Experiment, body: &Body) -> Self {
        let both = experiment.victims.iter().chain(&experiment.groups);
        let cpu = |name: &Tenant| {
            let group = body.group(name).ok()?;
            Some((name.clone(), body.world.groups[group].cpu_ns))
        };
        let requests = |name: &Tenant| (name.clone(), body.requests(name));
        Self {
            time: body.now(),
            cpu_ns: both.filter_map(cpu).collect(),
            requests: experiment.victims.iter().map(requests).collect(),
        }
    }
}

pub(super) fn chip(experiment: &Experiment, from: &Edge, to: &Edge, running: bool) -> ChipTrace {
    let grown = |name: &Tenant| -> (Tenant, Reading<u64>) {
        let growth = match (from.cpu_ns.get(name), to.cpu_ns.get(name)) {
            (Some(from), Some(to)) => Ok(to - from),
            _ => Err(Gap::Gone(format!("{name} is not here"))),
        };
        (name.clone(), growth)
    };
    let served = |name: &Tenant| (name.clone(), served(&from.requests[name], &to.requests[name]));
    ChipTrace {
        from: Time(from.time),
        to: Time(to.time),
        running,
        victim_cpu_ns: experiment.victims.iter().map(grown).collect(),
        victim_requests: experiment.victims.iter().map(served).collect(),
        group_cpu_ns: experiment.groups.iter().map(grown).collect(),
    }
}

fn served(from: &Reading<RequestReading>, to: &Reading<RequestReading>) -> Reading<RequestReading> {
    let (from, to) = (from.clone()?, to.clone()?);
    Ok(RequestReading {
        requests: to.requests - from.requests,
        bytes_in: to.bytes_in - from.bytes_in,
        bytes_out: to.bytes_out - from.bytes_out,
        latency_ns: Ok(to.latency_ns?.since(&from.latency_ns?)),
    })
}
