//! Plays a probe: what presses runs in a group of its own, in the idle class, frozen in quiet windows.

use super::body::Body;
use super::experiment::{Edge, chip};
use crate::workload::Program;
use quell_types::{ChipTrace, Experiment, PROBE_GROUP, Probe, ProbeTrace};

/// Weight of the idle class; the class is what counts.
const WEIGHT: u32 = 1;

/// A probe on its way.
#[derive(Debug)]
pub(crate) struct Prober {
    probe: Probe,
    /// The same as an experiment that holds nobody: how its edges are read.
    watched: Experiment,
    code: Vec<bool>,
    group: usize,
    work: usize,
    windows: Vec<ChipTrace>,
    last: (Edge, u64),
    next: u64,
    bound: u64,
}

impl Prober {
    pub(super) fn begin(probe: &Probe, body: &mut Body) -> Self {
        let group = body.probe_group();
        let program = Program::pressing(
            probe.resource,
            probe.intensity_percent,
            body.world.machine.cache.bytes,
        );
        body.world.set_frozen(group, true);
        let work = body.world.add_work(group, &program, None);
        let watched = Experiment {
            id: probe.id,
            groups: Vec::new(),
            victims: vec![probe.service.clone()],
            code: probe.code(),
            chip_us: probe.window_us,
            bound_us: probe.bound_us,
        };
        let now = body.now();
        Self {
            last: edge(&watched, group, body),
            code: probe.code(),
            watched,
            group,
            work,
            windows: Vec::new(),
            next: now + probe.window_us * 1_000,
            bound: now + probe.bound_us * 1_000,
            probe: probe.clone(),
        }
    }

    /// When it wants to be stepped next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn id(&self) -> u64 {
        self.probe.id
    }

    /// Ends the present window and begins the next; the trace when that was the last.
    pub(super) fn step(&mut self, body: &mut Body) -> Option<ProbeTrace> {
        let now = edge(&self.watched, self.group, body);
        let pressed = self.code[self.windows.len()];
        let mut window = chip(&self.watched, &self.last.0, &now.0, pressed);
        window.group_cpu_ns.insert(PROBE_GROUP.into(), Ok(now.1 - self.last.1));
        self.windows.push(window);
        self.last = now;
        let Some(pressed) = self.code.get(self.windows.len()).copied() else {
            return Some(self.end(body, None));
        };
        if body.now() >= self.bound {
            return Some(self.end(body, Some("the bound had passed".into())));
        }
        body.world.set_frozen(self.group, !pressed);
        self.next = (body.now() + self.probe.window_us * 1_000).min(self.bound);
        None
    }

    /// Ends what presses.
    pub(super) fn end(&mut self, body: &mut Body, aborted: Option<String>) -> ProbeTrace {
        body.world.set_frozen(self.group, false);
        body.world.end_work(self.work);
        let windows = std::mem::take(&mut self.windows);
        ProbeTrace { probe: self.probe.clone(), windows, aborted }
    }
}

fn edge(watched: &Experiment, group: usize, body: &Body) -> (Edge, u64) {
    (Edge::of(watched, body), body.world.groups[group].cpu_ns)
}

impl Body {
    /// The group of what presses, made when it is first wanted.
    fn probe_group(&mut self) -> usize {
        if let Some(group) = self.probe_group {
            return group;
        }
        let group = self.world.add_group(Vec::new());
        self.world.set_class(group, WEIGHT, true);
        self.probe_group = Some(group);
        group
    }

    pub(super) fn probe(&mut self, probe: &Probe) -> Result<(), String> {
        if self.prober.is_some() || self.player.is_some() {
            return Err("a probe or an experiment is being played".into());
        }
        self.service_number(&probe.service)?;
        if probe.window_us == 0 || probe.pressed == 0 {
            return Err("the probe has no window".into());
        }
        self.world.settle_all();
        self.prober = Some(Prober::begin(probe, self));
        Ok(())
    }

    pub(super) fn step_prober(&mut self) {
        let Some(mut prober) = self.prober.take_if(|p| p.next() <= self.world.now) else { return };
        self.world.settle_all();
        match prober.step(self) {
            Some(trace) => self.probed.push(trace),
            None => self.prober = Some(prober),
        }
    }

    /// Ends a probe: this one, or any.
    pub(super) fn end_probe(&mut self, id: Option<u64>, why: &str) -> Result<(), String> {
        let is_it = |prober: &mut Prober| id.is_none_or(|id| id == prober.id());
        let Some(mut prober) = self.prober.take_if(is_it) else {
            return Err("no such probe is under way".into());
        };
        self.world.settle_all();
        let trace = prober.end(self, Some(why.to_owned()));
        self.probed.push(trace);
        Ok(())
    }
}
