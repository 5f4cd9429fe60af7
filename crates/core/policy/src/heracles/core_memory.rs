//! The core and memory loop: a gradient descent in two dimensions (H-2).

use super::HeraclesParams;
use crate::ledger::{Ledger, Reason};
use crate::parts::{Every, Partition, Scene, Share, Traffic, has_work, seconds};
use quell_types::{CpuSet, Input, Setup, Time};

/// Which resource is tried next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    GrowLlc,
    GrowCores,
}

/// A new way that is being watched.
#[derive(Clone, Copy, Debug)]
struct Settling {
    until: Time,
    ways_before: u32,
    before: Traffic,
    per_cpu_before: Option<f64>,
}

/// See the module.
pub(super) struct CoreMemory {
    every: Every,
    partition: Partition,
    state: State,
    settling: Option<Settling>,
    share: Share,
    /// Last change of traffic by a new way, in bytes per second.
    derivative: f64,
    /// Whether batch may grow (set by the top controller).
    pub(super) growth: bool,
}

impl CoreMemory {
    pub(super) fn new(params: &HeraclesParams) -> Self {
        Self {
            every: Every::new(params.core_memory_period_s),
            partition: params.partition(),
            state: State::GrowLlc,
            settling: None,
            share: Share::default(),
            derivative: 0.0,
            growth: false,
        }
    }

    /// Whether there is anything to give to batch.
    pub(super) fn can_share(&self, scene: &Scene<'_>) -> bool {
        self.partition.steps_max(scene.setup) > 0
    }

    /// CPUs of both sides as they are divided now: services, batch.
    pub(super) fn sides(&self, setup: &Setup) -> (CpuSet, CpuSet) {
        let cores = self.partition.cores(setup);
        let batch = self.share.steps.min(cores.batch_max());
        (cores.service(batch), cores.batch(batch))
    }

    /// A batch that begins has one core and a tenth of the cache (H-3).
    pub(super) fn begin(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &HeraclesParams,
        why: &Reason,
    ) {
        self.every.restart(scene.now());
        let steps = params.start_cores.min(self.partition.steps_max(scene.setup));
        let ways = self.partition.ways_of(scene.setup, params.start_ways_frac);
        self.share = Share { steps, ways };
        (self.state, self.settling, self.derivative) = (State::GrowLlc, None, 0.0);
        self.partition.give(ledger, scene.setup, self.share, why);
    }

    /// All to services.
    pub(super) fn clear(&mut self, ledger: &mut Ledger, scene: &Scene<'_>, why: &Reason) {
        self.share = Share::default();
        (self.state, self.settling) = (State::GrowLlc, None);
        self.partition.all_to_services(ledger, scene.setup, why);
    }

    /// Leaves batch at most so many cores, at least one.
    pub(super) fn keep(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        cores: u32,
        why: &Reason,
    ) {
        self.share.steps = self.share.steps.min(cores).max(1);
        self.partition.give(ledger, scene.setup, self.share, why);
    }

    /// One step of a batch that is on: judges a way that has settled, or makes a round where one
    /// is due.
    pub(super) fn step(&mut self, ledger: &mut Ledger, scene: &Scene<'_>, params: &HeraclesParams) {
        if let Some(settling) = self.settling {
            if scene.now() >= settling.until {
                self.settling = None;
                self.judge_way(ledger, scene, params, settling);
            }
            return;
        }
        if !self.every.due(scene.now()) {
            return;
        }
        if !has_work(scene.seen) {
            let why = Reason::partition("reset-no-batch", Vec::new());
            return self.begin(ledger, scene, params, &why);
        }
        self.round(ledger, scene, params);
    }

    fn round(&mut self, ledger: &mut Ledger, scene: &Scene<'_>, params: &HeraclesParams) {
        let traffic = Traffic::of(scene.seen);
        if let Some((traffic, limit)) = traffic.zip(params.dram_limit())
            && traffic.total > limit
        {
            return self.cut(ledger, scene, &traffic, limit);
        }
        if !self.growth {
            return;
        }
        if self.state == State::GrowLlc {
            match traffic.filter(|t| self.may_try_way(scene, params, t)) {
                Some(traffic) => return self.try_way(ledger, scene, params, traffic),
                None => self.state = State::GrowCores,
            }
        }
        self.grow_cores(ledger, scene, params, traffic);
    }

    fn cut(&mut self, ledger: &mut Ledger, scene: &Scene<'_>, traffic: &Traffic, limit: f64) {
        let per_core = (traffic.batch / f64::from(self.share.steps.max(1))).max(1.0);
        let cores = ((traffic.total - limit) / per_core).ceil() as u32;
        let mut inputs = traffic.inputs().to_vec();
        inputs.push(Input::new("dram_limit_bytes_per_s", limit));
        let why = Reason::partition("cut-dram-over-limit", inputs);
        let left = self.share.steps.saturating_sub(cores);
        self.keep(ledger, scene, left, &why);
    }

    /// Whether a way is left and traffic is predicted to stay under the limit.
    fn may_try_way(&self, scene: &Scene<'_>, params: &HeraclesParams, traffic: &Traffic) -> bool {
        let service = self.service_traffic(scene, params, traffic);
        let predicted = service + traffic.batch + self.derivative;
        let fits = params.dram_limit().is_none_or(|limit| predicted <= limit);
        fits && self.share.ways < self.partition.ways_max(scene.setup)
    }

    fn try_way(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &HeraclesParams,
        before: Traffic,
    ) {
        self.settling = Some(Settling {
            until: scene.now() + seconds(params.settle_s),
            ways_before: self.share.ways,
            before,
            per_cpu_before: batch_traffic_per_cpu(scene, &before),
        });
        self.share.ways += 1;
        let why = Reason::partition("grow-llc", self.inputs(scene, &before));
        self.partition.give(ledger, scene.setup, self.share, &why);
    }

    fn judge_way(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &HeraclesParams,
        old: Settling,
    ) {
        let Some(now) = Traffic::of(scene.seen) else {
            self.state = State::GrowCores; // cannot be judged: keep it, go on with cores
            return;
        };
        self.derivative = now.total - old.before.total;
        if self.derivative >= 0.0 {
            self.share.ways = old.ways_before;
            self.state = State::GrowCores;
            let mut inputs = self.inputs(scene, &now);
            inputs.push(Input::new("memory_change_bytes_per_s", self.derivative));
            let why = Reason::partition("llc-roll-back-traffic", inputs);
            self.partition.give(ledger, scene.setup, self.share, &why);
        } else if !benefits(old.per_cpu_before, batch_traffic_per_cpu(scene, &now), params) {
            self.state = State::GrowCores;
        }
    }

    fn grow_cores(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &HeraclesParams,
        traffic: Option<Traffic>,
    ) {
        if let Some((traffic, limit)) = traffic.zip(params.dram_limit()) {
            let per_core = traffic.batch / f64::from(self.share.steps.max(1));
            let need = self.service_traffic(scene, params, &traffic) + traffic.batch + per_core;
            if need > limit {
                self.state = State::GrowLlc;
                return;
            }
        }
        let full = self.share.steps >= self.partition.steps_max(scene.setup);
        if !full && scene.worst.slack_above(params.slack_grow_frac) {
            self.share.steps += 1;
            let mut inputs = scene.worst.inputs();
            inputs.extend(traffic.iter().flat_map(Traffic::inputs));
            inputs.push(Input::new("batch_cores", f64::from(self.share.steps)));
            let why = Reason::partition("grow-core", inputs);
            self.partition.give(ledger, scene.setup, self.share, &why);
        }
    }

    /// The services' traffic: the model's where there is one and the load is known, with the cores and
    /// ways that they have now; else as measured.
    fn service_traffic(
        &self,
        scene: &Scene<'_>,
        params: &HeraclesParams,
        traffic: &Traffic,
    ) -> f64 {
        let cores = u32::try_from(self.sides(scene.setup).0.len()).unwrap_or(u32::MAX);
        let ways = self.partition.service_ways(scene.setup, self.share.ways);
        let modelled =
            scene.worst.load.and_then(|load| params.modelled_bandwidth(load, cores, ways));
        modelled.unwrap_or(traffic.service)
    }

    fn inputs(&self, scene: &Scene<'_>, traffic: &Traffic) -> Vec<Input> {
        let mut inputs = scene.worst.inputs();
        inputs.extend(traffic.inputs());
        inputs.push(Input::new("batch_ways_count", f64::from(self.share.ways)));
        inputs
    }
}

/// Batch traffic per CPU second: falls when more of its accesses hit the cache.
fn batch_traffic_per_cpu(scene: &Scene<'_>, traffic: &Traffic) -> Option<f64> {
    let there = scene.seen.batch.values().filter(|b| b.present.is_ok());
    let cpus = there.map(|b| b.cpu.as_ref().ok().map(|cpu| cpu.0)).sum::<Option<f64>>()?;
    (cpus > 0.0).then(|| traffic.batch / cpus)
}

/// Whether batch gains from a way; taken for granted where it cannot be told.
fn benefits(before: Option<f64>, now: Option<f64>, params: &HeraclesParams) -> bool {
    before.zip(now).is_none_or(|(before, now)| now <= before * (1.0 - params.benefit_frac))
}
