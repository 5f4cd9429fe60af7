//! `thesis`: the four controllers of the Tsinghua thesis (T.2 to T.6).
//!
//! **Problem.** A latency-critical service uses a tenth to a half of its server. Batch work could
//! have the rest, if the service's tail stayed under its target. Neighbours hurt through shared
//! cores (worst), the last-level cache, memory bandwidth and the link, and how much depends on
//! the service and its load (T-5, T-6), so a fixed split wastes or fails.
//!
//! **Idea.** Interference is mild until a resource saturates. A slow loop watches slack and load
//! and says whether batch may run at all and grow; faster loops move one resource a step at a
//! time towards batch and take back what did harm. Service performance is monotone in cores and
//! ways, so coordinate ascent is safe (H-7, Q-27).
//!
//! **Units.** Slack (target − latency)/target and load rate/peak, as fractions; the percentile is
//! the one of each service's objective (the thesis uses p95, Q-4). Traffic in bytes per second.
//! A *core* is a physical core with all its hardware threads. Of several services the one with
//! least slack and the one with most load count; the services share their side, the batch groups
//! theirs.
//!
//! **Pseudo-code.**
//! ```text
//! tap = DISABLED at start. DISABLED: batch frozen (or its tasks stopped), all shares to services
//!                          PAUSED:   batch runs, no task starts, no share grows
//!                          ENABLED:  batch runs, tasks start, shares grow
//!
//! top, every 10 s (4.1):
//!   if slack < 0:        bad += 1; if bad > 1: DISABLED; rest 5 s
//!   elif load > 0.85:    bad += 1; if bad > 1: DISABLED
//!   elif load < 0.70:    bad = 0; ENABLED (batch begins with 1 core and no way of its own)
//!   elif slack < 0.40:   bad = 0; PAUSED; if slack < 0.20: batch loses 1 core
//!   else:                bad = 0
//!
//! cores, cache and memory, every 5 s (4.2):
//!   if DISABLED: return.  if batch has no work: as at its beginning.  if PAUSED: return
//!   if traffic > limit: batch loses floor((traffic − limit) / traffic of a batch core); return
//!   GROW_LLC:   batch gets a way; after 1.5 s, if traffic did not fall, or is over the limit, or
//!               slack fell by more than 0.15 or below 0: take it back, GROW_CORES
//!   GROW_CORES: if service + batch + one core's traffic > limit: GROW_LLC
//!               elif slack > 0.30 and load · cores · margin ≤ service cores − 1:
//!                   batch gets a core, GROW_LLC
//!
//! network, every 1 s (4.3), for each link:
//!   batch ceiling = 0.90 · capacity − what services send, at least 100 bit/s
//! ```
//! The wait of 1.5 s is a state, not a sleep. Layout of cores: batch | services | system from core
//! 0 upwards (T-16). Layout of ways: batch | services | system from the highest bit down (T-15).
//!
//! **Readings of unclear text** (each with its switch in [`ThesisParams`]): sign of the traffic
//! test (T-12, `literal_thesis_sign`); neutral rounds forget bad ones (T-11,
//! `reset_bad_when_neutral`); slack below 70 % load (Q-6, `honour_slack_at_low_load`); a cut ends
//! the round (Q-28, `continue_after_cut`); cool-down 5 s on top of the period (Q-4,
//! `cool_down_s`); freeze rather than kill (T-11, `on_disable`); MBA in place of core-cutting
//! (T-26, `dram_limiter`). A cut leaves batch 1 core, since a group without a CPU cannot exist:
//! only DISABLED takes everything. How many tasks run at once is each group's `max_tasks`; the
//! thesis runs one.
//!
//! **Small machines.** The system's core is given up where fewer than two would be left to
//! divide. On two CPUs batch gets at most one, the lower. `sub_core_step_cores` makes batch grow
//! by parts of a core, as limits on CPU time within its last core (T-E2 (a)). A single CPU cannot
//! be divided: batch stays off.
//!
//! **Degradation.** No cache control: cores only. No traffic readings: no ceiling and no test of
//! use; a way is then judged by slack alone and cores get their turn after each way. No CPU set
//! of batch: its cores become a limit on CPU time. No freezer: tasks are stopped, else CPU time
//! is cut to the least. No egress reading of a service: that link's ceiling stays as it is. No
//! ceiling knob: that link is left alone. Slack not known: batch neither grows nor goes off for
//! it. Load not known: batch is not enabled. A service that is gone or idle has all slack. While
//! batch has no work it keeps its first core, since work may appear at any moment.
//!
//! **Invariants**, checked after every step of every fault run (`quell-faults`). Services and
//! batch that runs share no CPU and no way. Services keep a whole core where there are three.
//! Weights, idle classes and clocks are never written.
//!
//! **Unreachable objective.** Negative slack with batch off keeps it off, by the order of the
//! tests; after a minute of it `slo-unreachable-alone` says so once.
//!
//! | rule | when | what |
//! |---|---|---|
//! | `start-disabled` | first step | batch off, all to services (T-9) |
//! | `disable-slack-negative` | second bad round, slack < 0 | batch off |
//! | `disable-load-high` | second bad round, load > 0.85 | batch off |
//! | `enable-load-low` | load < 0.70 | batch on |
//! | `pause-slack-short` | slack < 0.40 | no growth, no new tasks |
//! | `shrink-slack-short` | slack < 0.20 | batch loses a core |
//! | `reset-no-batch` | batch without work | back to one core |
//! | `cut-dram-over-limit` | traffic over limit | batch loses cores |
//! | `throttle-dram-over-limit` | the same, with MBA | batch is throttled |
//! | `grow-llc` | GROW_LLC | batch gets a way |
//! | `llc-roll-back-traffic` | traffic did not fall | way taken back |
//! | `llc-roll-back-dram-limit` | traffic over limit | way taken back |
//! | `llc-roll-back-slack-drop` | slack fell by > 0.15 | way taken back |
//! | `llc-roll-back-slack-negative` | slack < 0 | way taken back |
//! | `ease-throttle` | GROW_CORES while throttled | MBA one step up |
//! | `grow-core` | GROW_CORES | batch gets a core |
//! | `link-headroom` | services leave something of a link | batch ceiling |
//! | `link-full` | services use 90 % or more | batch gets the least |
//! | `slo-unreachable-alone` | a minute of slack < 0 with batch off | said once |
//!
//! Sources: T-8 to T-22, T-26, Q-1 to Q-7, Q-28.

mod core_memory;
mod mba;
mod params;
#[cfg(test)]
mod tests;
mod top;

use crate::Policy;
use crate::ledger::{Ledger, Reason};
use crate::parts::{
    Every, Scene, Unreachable, halt, keep_running_tasks, resume, seconds, service_rate, share_out,
};
use core_memory::CoreMemory;
use quell_types::{BytesPerSecond, Input, Knob, LinkSpec, Observation, Proposal, Setup};
use std::time::Duration;
use top::{Judgement, Top};

pub use params::{DramLimiter, Profile, ThesisParams};

/// Whether batch may run, and grow (T-9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tap {
    Enabled,
    Paused,
    Disabled,
}

/// See the module.
pub(crate) struct Thesis {
    params: ThesisParams,
    ledger: Ledger,
    started: bool,
    tap: Tap,
    top: Top,
    top_every: Every,
    core_memory: CoreMemory,
    network_every: Every,
    unreachable: Unreachable,
}

impl Thesis {
    pub(crate) fn new(params: ThesisParams) -> Self {
        Self {
            ledger: Ledger::new("thesis"),
            started: false,
            tap: Tap::Disabled,
            top: Top::default(),
            top_every: Every::new(params.top_period_s),
            core_memory: CoreMemory::new(&params),
            network_every: Every::new(params.network_period()),
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
        match self.top.judge(&scene.worst, &self.params) {
            Judgement::Keep => {}
            Judgement::Enable => self.enable(scene),
            Judgement::Pause { shrink } => self.pause(scene, shrink),
            Judgement::Disable { rule, rest } => {
                self.disable(scene, &Reason::emergency(rule, self.inputs(scene)));
                if rest {
                    self.top_every.rest(scene.now(), seconds(self.params.cool_down_s));
                }
            }
        }
    }

    fn inputs(&self, scene: &Scene<'_>) -> Vec<Input> {
        let mut inputs = scene.worst.inputs();
        inputs.push(Input::new("bad_rounds_count", f64::from(self.top.bad)));
        inputs
    }

    fn disable(&mut self, scene: &Scene<'_>, why: &Reason) {
        self.tap = Tap::Disabled;
        halt(&mut self.ledger, scene.setup, scene.seen, self.params.on_disable, why);
        self.core_memory.clear(&mut self.ledger, scene, why);
    }

    fn enable(&mut self, scene: &Scene<'_>) {
        if !self.core_memory.can_share(scene) {
            return;
        }
        let why = Reason::partition("enable-load-low", self.inputs(scene));
        resume(&mut self.ledger, scene.setup, &why);
        if self.tap == Tap::Disabled {
            self.core_memory.begin(&mut self.ledger, scene, &why);
        }
        self.tap = Tap::Enabled;
    }

    fn pause(&mut self, scene: &Scene<'_>, shrink: bool) {
        if self.tap == Tap::Disabled {
            return;
        }
        let inputs = self.inputs(scene);
        if self.tap == Tap::Enabled {
            let why = Reason::partition("pause-slack-short", inputs.clone());
            keep_running_tasks(&mut self.ledger, scene.setup, scene.seen, &why);
            self.tap = Tap::Paused;
        }
        if shrink {
            let why = Reason::partition("shrink-slack-short", inputs);
            self.core_memory.lose(&mut self.ledger, scene, 1, &why);
        }
    }

    fn run_network(&mut self, scene: &Scene<'_>) {
        if self.network_every.due(scene.now()) {
            for link in &scene.setup.links {
                self.limit_link(scene, link);
            }
        }
    }

    fn limit_link(&mut self, scene: &Scene<'_>, link: &LinkSpec) {
        let Some(service) = service_rate(scene.setup, scene.seen, &link.name) else { return };
        let capacity = link.capacity.0.min(self.params.link_usable().0);
        let least = BytesPerSecond::from_bits(self.params.batch_min_bits_per_s).0;
        let left = capacity * self.params.link_use_frac - service;
        let rule = if left > least { "link-headroom" } else { "link-full" };
        let inputs = vec![
            Input::new("service_egress_bytes_per_s", service),
            Input::new("link_capacity_bytes_per_s", capacity),
        ];
        let why = Reason::partition(rule, inputs);
        share_out(&mut self.ledger, scene.setup, &link.name, left.max(least), &why);
    }

    fn say_if_unreachable(&mut self, scene: &Scene<'_>) {
        let off = self.tap == Tap::Disabled;
        if self.unreachable.now(scene, off, self.params.unreachable_after_s) {
            let why = Reason::emergency("slo-unreachable-alone", self.inputs(scene));
            self.ledger.repeat(|knob| matches!(knob, Knob::Frozen { .. }), &why);
        }
    }
}

impl Policy for Thesis {
    fn name(&self) -> &'static str {
        "thesis"
    }

    /// Half of the shortest loop, so that the wait of 1.5 s is kept within half a second.
    fn period(&self) -> Duration {
        let p = &self.params;
        let shortest = [p.top_period_s, p.core_memory_period_s, p.network_period(), p.settle_s];
        seconds(shortest.into_iter().fold(f64::INFINITY, f64::min) / 2.0)
    }

    fn step(&mut self, setup: &Setup, observation: &Observation) -> Vec<Proposal> {
        let scene = Scene::new(setup, observation);
        self.start(&scene);
        self.run_top(&scene);
        self.core_memory.step(&mut self.ledger, &scene, &self.params, self.tap);
        self.run_network(&scene);
        self.say_if_unreachable(&scene);
        self.ledger.drain()
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let mut notes = self.params.partition().degradations(setup);
        let throttle = setup.knobs.keys().any(|k| matches!(k, Knob::MemoryBandwidth { .. }));
        if self.params.dram_limiter == DramLimiter::Mba && !throttle {
            notes.push("no memory bandwidth throttle: cores are cut instead".into());
        }
        notes.extend(crate::parts::link_degradations(setup));
        notes
    }
}
