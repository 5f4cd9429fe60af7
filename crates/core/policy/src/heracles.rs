//! `heracles`: the controller of Heracles (ISCA'15), the parent of the thesis.
//!
//! **Problem.** As in `thesis`: a latency-critical service beside batch work on one
//! server, where each shared resource hurts in its own way and load changes by the minute.
//!
//! **Idea.** Interference hurts only where a resource saturates. Keep every resource below
//! saturation and the problem splits into small independent ones: cores and cache against memory
//! bandwidth, power, and the link; one slow loop on slack and load guards the whole.
//!
//! **Units.** As in `thesis`: slack and load as fractions, traffic in bytes per second, physical
//! cores. Power in watts, frequency in kHz.
//!
//! **Pseudo-code.**
//! ```text
//! top, every 15 s:
//!   if slack < 0:      batch off; rest 300 s
//!   elif load > 0.85:  batch off
//!   else:
//!     if load < 0.80: batch on (it begins with 1 core and a tenth of the cache)
//!     if slack < 0.10: no growth; if slack < 0.05: batch keeps 2 cores
//!     else: growth
//!
//! cores and memory, every 2 s, limit = 0.90 · peak:
//!   if traffic > limit: batch loses ceil((traffic − limit) / traffic of a batch core); return
//!   if no growth: return
//!   GROW_LLC:   if service model + batch + last change > limit: GROW_CORES
//!               else batch gets a way; look again: if traffic did not fall: take it back,
//!               GROW_CORES; if batch gains nothing: GROW_CORES
//!   GROW_CORES: if service model + batch + one core's traffic > limit: GROW_LLC
//!               elif slack > 0.10: batch gets a core
//!
//! power, every 2 s, each socket:
//!   if P > 0.90 · TDP and f_service < guaranteed:    batch's top frequency −100 MHz
//!   elif P <= 0.90 · TDP and f_service >= guaranteed: batch's top frequency +100 MHz
//!
//! network, every 1 s, each link:
//!   batch ceiling = capacity − service − max(0.05 · capacity, 0.10 · service)
//! ```
//! Layout: batch | services, from core 0 upwards and from the highest way down; nothing is kept
//! for the system (H-1: two partitions).
//!
//! **Readings of unclear text.** The printed order lets slack pause growth only between the load
//! bounds; the prose says whenever batch is on, which is the default here (Q-29,
//! `literal_order`). The service's traffic model is an offline table in the paper:
//! `service_bandwidth` takes one, without it the measured traffic stands in. "Batch gains" is
//! judged by its traffic per CPU second falling by `benefit_frac`, for want of a measure of its
//! progress. "Look again" waits `settle_s`. Slack is that of the newest tail (of a second, longer
//! where requests are few); the paper has the tail of all requests since the last round. With
//! `slack_window_s` its mean over so many seconds counts, which chance moves less. A cut leaves
//! batch one core. The cool-down comes on top of the period.
//!
//! **Degradation.** No peak traffic given: no limit, only the test whether traffic fell. No
//! traffic readings: no cache growth, batch keeps its first tenth and cores grow by slack alone.
//! No cache control: cores only. No power or frequency reading, no frequency knob, or TDP and
//! guaranteed frequency not given: no power loop. The rest as in `thesis`: no CPU set or freezer
//! of batch, unknown slack or load, services gone or idle, one CPU.
//!
//! **Invariants**, checked after every step of every fault run (`quell-faults`). Services and
//! batch that runs share no CPU and no way. Services keep a whole core where there are three.
//! Weights, idle classes and memory throttles are never written.
//!
//! **Unreachable objective.** Negative slack keeps batch off and renews the cool-down; after a
//! minute of it `slo-unreachable-alone` says so once.
//!
//! | rule | when | what |
//! |---|---|---|
//! | `start-disabled` | first step | batch off, all to services |
//! | `disable-slack-negative` | slack < 0 | batch off, cool-down |
//! | `disable-load-high` | load > 0.85 | batch off |
//! | `enable-load-low` | load < 0.80 | batch on |
//! | `keep-few-cores` | slack < 0.05 | batch keeps 2 cores |
//! | `reset-no-batch` | batch without work | as at its beginning |
//! | `cut-dram-over-limit` | traffic over limit | batch loses cores |
//! | `grow-llc` | GROW_LLC | batch gets a way |
//! | `llc-roll-back-traffic` | traffic did not fall | way taken back |
//! | `grow-core` | GROW_CORES | batch gets a core |
//! | `power-lower-batch` | power high, services slowed | batch's frequency down |
//! | `power-raise-batch` | power low, services at speed | batch's frequency up |
//! | `power-hold-batch` | neither, batch got a core | it joins the socket's ceiling |
//! | `free-frequency` | a core left batch | its frequency is given back |
//! | `link-headroom` | each second | batch ceiling on a link |
//! | `link-full` | nothing left of a link | batch gets the shaper's least |
//! | `slo-unreachable-alone` | a minute of slack < 0 with batch off | said once |
//!
//! Sources: H-1 to H-3, Q-29; spec section T for what both share.

mod core_memory;
mod params;
mod power;
mod recent;
#[cfg(test)]
mod tests;
mod top;

use crate::Policy;
use crate::ledger::{Ledger, Reason};
use crate::parts::{
    Every, Scene, Unreachable, halt, link_degradations, resume, seconds, service_rate, share_out,
};
use core_memory::CoreMemory;
use power::Power;
use quell_types::{Input, Knob, LinkSpec, Observation, Proposal, Setup};
use recent::Recent;
use std::time::Duration;
use top::{Judgement, judge};

pub use params::{HeraclesParams, ServiceBandwidth};

/// See the module.
pub(crate) struct Heracles {
    params: HeraclesParams,
    ledger: Ledger,
    started: bool,
    on: bool,
    recent: Recent,
    top_every: Every,
    core_memory: CoreMemory,
    power: Power,
    network_every: Every,
    unreachable: Unreachable,
}

impl Heracles {
    pub(crate) fn new(params: HeraclesParams) -> Self {
        Self {
            ledger: Ledger::new("heracles"),
            started: false,
            on: false,
            recent: Recent::default(),
            top_every: Every::new(params.top_period_s),
            core_memory: CoreMemory::new(&params),
            power: Power::new(&params),
            network_every: Every::new(params.network_period_s),
            unreachable: Unreachable::default(),
            params,
        }
    }

    fn start(&mut self, scene: &Scene<'_>) {
        if !std::mem::replace(&mut self.started, true) {
            self.disable(scene, &Reason::partition("start-disabled", Vec::new()));
        }
    }

    fn run_top(&mut self, scene: &Scene<'_>) {
        if !self.top_every.due(scene.now()) {
            return;
        }
        match judge(&scene.worst, &self.params) {
            Judgement::Disable { rule, rest } => {
                self.disable(scene, &Reason::emergency(rule, scene.worst.inputs()));
                if rest {
                    self.top_every.rest(scene.now(), seconds(self.params.cool_down_s));
                }
            }
            Judgement::Run { enable, growth, shrink } => {
                if enable && !self.on {
                    self.enable(scene);
                }
                self.core_memory.growth = growth.unwrap_or(self.core_memory.growth);
                if shrink && self.on {
                    let why = Reason::partition("keep-few-cores", scene.worst.inputs());
                    let cores = self.params.batch_keep_cores;
                    self.core_memory.keep(&mut self.ledger, scene, cores, &why);
                }
            }
        }
    }

    fn disable(&mut self, scene: &Scene<'_>, why: &Reason) {
        self.on = false;
        halt(&mut self.ledger, scene.setup, scene.seen, self.params.on_disable, why);
        self.core_memory.clear(&mut self.ledger, scene, why);
    }

    fn enable(&mut self, scene: &Scene<'_>) {
        if !self.core_memory.can_share(scene) {
            return;
        }
        self.on = true;
        let why = Reason::partition("enable-load-low", scene.worst.inputs());
        resume(&mut self.ledger, scene.setup, &why);
        self.core_memory.begin(&mut self.ledger, scene, &self.params, &why);
    }

    fn run_inner(&mut self, scene: &Scene<'_>) {
        if self.on {
            self.core_memory.step(&mut self.ledger, scene, &self.params);
        }
        let (service, batch) = self.core_memory.sides(scene.setup);
        self.power.step(&mut self.ledger, scene, &self.params, (&service, &batch));
        if self.network_every.due(scene.now()) {
            for link in &scene.setup.links {
                self.limit_link(scene, link);
            }
        }
    }

    fn limit_link(&mut self, scene: &Scene<'_>, link: &LinkSpec) {
        let Some(service) = service_rate(scene.setup, scene.seen, &link.name) else { return };
        let capacity = link.capacity.0;
        let of_link = self.params.link_reserve_frac * capacity;
        let reserve = of_link.max(self.params.service_reserve_frac * service);
        let left = capacity - service - reserve;
        let rule = if left > 0.0 { "link-headroom" } else { "link-full" };
        let inputs = vec![
            Input::new("service_egress_bytes_per_s", service),
            Input::new("link_capacity_bytes_per_s", capacity),
        ];
        let why = Reason::partition(rule, inputs);
        share_out(&mut self.ledger, scene.setup, &link.name, left.max(0.0), &why);
    }

    fn say_if_unreachable(&mut self, scene: &Scene<'_>) {
        if self.unreachable.now(scene, !self.on, self.params.unreachable_after_s) {
            let why = Reason::emergency("slo-unreachable-alone", scene.worst.inputs());
            self.ledger.repeat(|knob| matches!(knob, Knob::Frozen { .. }), &why);
        }
    }
}

impl Policy for Heracles {
    fn name(&self) -> &'static str {
        "heracles"
    }

    /// Half of the shortest loop.
    fn period(&self) -> Duration {
        let p = &self.params;
        let loops = [p.top_period_s, p.core_memory_period_s, p.power_period_s, p.network_period_s];
        seconds(loops.into_iter().fold(p.settle_s, f64::min) / 2.0)
    }

    fn step(&mut self, setup: &Setup, observation: &Observation) -> Vec<Proposal> {
        let mut scene = Scene::new(setup, observation);
        let (now, slack) = (scene.now(), scene.worst.slack);
        scene.worst.slack = self.recent.mean(now, slack, self.params.slack_window_s);
        self.start(&scene);
        self.run_top(&scene);
        self.run_inner(&scene);
        self.say_if_unreachable(&scene);
        self.ledger.drain()
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let mut notes = self.params.partition().degradations(setup);
        if self.params.dram_limit().is_none() {
            notes.push("peak_dram_bytes_per_s is not given: memory traffic has no limit".into());
        }
        if self.params.service_bandwidth.is_empty() {
            notes.push("no service_bandwidth model: measured traffic stands in for it".into());
        }
        notes.extend(power::missing(setup, &self.params).map(String::from));
        notes.extend(link_degradations(setup));
        notes
    }
}
