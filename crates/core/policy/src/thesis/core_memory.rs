//! The core, cache and memory-bandwidth controller: Algorithm 4.2 (T-12 to T-16).

use super::mba::Mba;
use super::{DramLimiter, Tap, ThesisParams};
use crate::ledger::{Ledger, Reason};
use crate::parts::{Every, Partition, Scene, Share, Traffic, has_work, seconds};
use quell_types::{Input, Time};

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
    total_before: Option<f64>,
    slack_before: Option<f64>,
}

/// See the module.
pub(super) struct CoreMemory {
    every: Every,
    partition: Partition,
    state: State,
    settling: Option<Settling>,
    share: Share,
    mba: Mba,
}

impl CoreMemory {
    pub(super) fn new(params: &ThesisParams) -> Self {
        Self {
            every: Every::new(params.core_memory_period_s),
            partition: params.partition(),
            state: State::GrowLlc,
            settling: None,
            share: Share::default(),
            mba: Mba::default(),
        }
    }

    /// Whether there is anything to give to batch.
    pub(super) fn can_share(&self, scene: &Scene<'_>) -> bool {
        self.partition.steps_max(scene.setup) > 0
    }

    /// A batch that begins has one core and no way of its own (T-15, T-16), and a period to show
    /// what it does.
    pub(super) fn begin(&mut self, ledger: &mut Ledger, scene: &Scene<'_>, why: &Reason) {
        self.every.restart(scene.now());
        self.share = Share { steps: 1, ways: 0 };
        (self.state, self.settling) = (State::GrowLlc, None);
        self.mba.lift(ledger, scene.setup, why);
        self.partition.give(ledger, scene.setup, self.share, why);
    }

    /// All to services.
    pub(super) fn clear(&mut self, ledger: &mut Ledger, scene: &Scene<'_>, why: &Reason) {
        self.share = Share::default();
        (self.state, self.settling) = (State::GrowLlc, None);
        self.mba.lift(ledger, scene.setup, why);
        self.partition.all_to_services(ledger, scene.setup, why);
    }

    /// Takes steps of cores from batch, which keeps one.
    pub(super) fn lose(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        steps: u32,
        why: &Reason,
    ) {
        self.share.steps = self.share.steps.saturating_sub(steps).max(1);
        self.partition.give(ledger, scene.setup, self.share, why);
    }

    /// One step: judges a way that has settled, or makes a round where one is due.
    pub(super) fn step(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &ThesisParams,
        tap: Tap,
    ) {
        if tap == Tap::Disabled {
            return; // everything was given to services when it was disabled
        }
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
            self.begin(ledger, scene, &Reason::partition("reset-no-batch", Vec::new()));
        } else if tap == Tap::Enabled {
            self.round(ledger, scene, params);
        }
    }

    fn round(&mut self, ledger: &mut Ledger, scene: &Scene<'_>, params: &ThesisParams) {
        let traffic = Traffic::of(scene.seen);
        let over = traffic.filter(|t| t.total > params.dram_limit());
        if let Some(traffic) = over {
            self.cut(ledger, scene, params, &traffic);
            if !params.continue_after_cut {
                return;
            }
        }
        if self.state == State::GrowLlc {
            if self.share.ways < self.partition.ways_max(scene.setup) {
                return self.try_way(ledger, scene, params, traffic);
            }
            self.state = State::GrowCores; // no way is left to give: go on with cores
        }
        self.grow_cores(ledger, scene, params, traffic);
    }

    /// Memory traffic is over its ceiling (T-13).
    fn cut(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &ThesisParams,
        traffic: &Traffic,
    ) {
        let excess = traffic.total - params.dram_limit();
        let mut inputs = traffic.inputs().to_vec();
        inputs.push(Input::new("dram_limit_bytes_per_s", params.dram_limit()));
        if params.dram_limiter == DramLimiter::Mba {
            let keep_frac = (1.0 - excess / traffic.batch.max(1.0)).max(0.0);
            let why = Reason::partition("throttle-dram-over-limit", inputs.clone());
            if self.mba.tighten(ledger, scene.setup, keep_frac, &why) {
                return;
            }
        }
        let steps = (excess / self.per_step(traffic).max(1.0)).floor() as u32;
        let why = Reason::partition("cut-dram-over-limit", inputs);
        self.lose(ledger, scene, steps, &why);
    }

    fn try_way(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &ThesisParams,
        traffic: Option<Traffic>,
    ) {
        self.settling = Some(Settling {
            until: scene.now() + seconds(params.settle_s),
            ways_before: self.share.ways,
            total_before: traffic.map(|t| t.total),
            slack_before: scene.worst.slack,
        });
        self.share.ways += 1;
        let inputs = [scene.worst.inputs(), ways_input(self.share.ways)].concat();
        let why = Reason::partition("grow-llc", inputs);
        self.partition.give(ledger, scene.setup, self.share, &why);
    }

    fn judge_way(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &ThesisParams,
        before: Settling,
    ) {
        let total = Traffic::of(scene.seen).map(|t| t.total);
        let change = total.zip(before.total_before).map(|(now, before)| now - before);
        let drop = scene.worst.slack.zip(before.slack_before).map(|(now, before)| before - now);
        let useless = |change: f64| {
            if params.literal_thesis_sign { change < 0.0 } else { change >= 0.0 }
        };
        let rule = if change.is_some_and(useless) {
            "llc-roll-back-traffic"
        } else if total.is_some_and(|total| total > params.dram_limit()) {
            "llc-roll-back-dram-limit"
        } else if drop.is_some_and(|drop| drop > params.slack_drop_frac) {
            "llc-roll-back-slack-drop"
        } else if scene.worst.slack_below(0.0) {
            "llc-roll-back-slack-negative"
        } else {
            // Without a measure of use, cores get their turn after every way.
            if change.is_none() {
                self.state = State::GrowCores;
            }
            return;
        };
        // A batch that once had a way keeps one (T-15).
        self.share.ways = before.ways_before.max(1);
        self.state = State::GrowCores;
        let mut inputs = scene.worst.inputs();
        inputs.extend(change.map(|c| Input::new("memory_change_bytes_per_s", c)));
        inputs.extend(drop.map(|d| Input::new("slack_drop_frac", d)));
        let why = Reason::partition(rule, [inputs, ways_input(self.share.ways)].concat());
        self.partition.give(ledger, scene.setup, self.share, &why);
    }

    fn grow_cores(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &ThesisParams,
        traffic: Option<Traffic>,
    ) {
        let fits = |t: &Traffic| t.service + t.batch + self.per_step(t) <= params.dram_limit();
        if traffic.as_ref().is_some_and(|t| !fits(t)) {
            self.state = State::GrowLlc;
            return;
        }
        let mut inputs = scene.worst.inputs();
        inputs.extend(traffic.iter().flat_map(Traffic::inputs));
        if !scene.worst.slack_above(params.slack_grow_frac) {
            return;
        }
        let why = Reason::partition("ease-throttle", inputs.clone());
        if self.mba.loosen(ledger, scene.setup, &why) {
            return;
        }
        let full = self.share.steps >= self.partition.steps_max(scene.setup);
        if !full && self.grow_safe(scene, params) {
            self.share.steps += 1;
            self.state = State::GrowLlc;
            inputs.push(Input::new("batch_cores", self.partition.batch_cores(self.share.steps)));
            let why = Reason::partition("grow-core", inputs);
            self.partition.give(ledger, scene.setup, self.share, &why);
        }
    }

    /// Whether services can spare one more step: load · all cores · margin ≤ what they would keep
    /// (T-14). Never safe while the load is not known.
    fn grow_safe(&self, scene: &Scene<'_>, params: &ThesisParams) -> bool {
        let all = f64::from(self.partition.cores(scene.setup).count());
        let kept = all - self.partition.batch_cores(self.share.steps + 1);
        let needed = scene.worst.load.map(|load| load * all * params.grow_safe_margin_ratio);
        needed.is_some_and(|needed| needed <= kept + 1e-9)
    }

    fn per_step(&self, traffic: &Traffic) -> f64 {
        traffic.batch / f64::from(self.share.steps.max(1))
    }
}

fn ways_input(ways: u32) -> Vec<Input> {
    vec![Input::new("batch_ways_count", f64::from(ways))]
}
