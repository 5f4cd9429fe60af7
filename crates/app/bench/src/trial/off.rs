//! Turns with Quell off: what the culprit does to the service.

use super::Ground;
use super::ahead::followed;
use super::crowd::Crowd;
use super::harm::{Latencies, Measured, Pair, Seen};
use quell_cgroup::CpuUsage;
use quell_service::{Controls, RunReport};
use std::time::{Duration, Instant};

/// Load of a turn before it counts, and while it does.
const WARM_S: f64 = 0.05;
const TURN_S: f64 = 0.4;
/// A turn's last answers come within this after its last arrival, unless nobody works them off.
const GRACE: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(1);
/// What a pair of turns takes at least.
const PAIR: Duration = Duration::from_millis(1100);
/// Of fewer pairs nothing is decided.
const FEWEST: usize = 3;

/// The load of one trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    /// Requests a second.
    pub(super) rate: f64,
    /// Each pair has arrivals of its own, drawn from this and its place.
    pub(super) seed: u64,
}

impl Arrivals {
    fn of_pair(self, place: u32) -> (f64, f64, f64, u64) {
        (self.rate, WARM_S, TURN_S, self.seed.wrapping_add(u64::from(place)))
    }
}

/// Pairs of turns that were played one after the other.
#[derive(Debug, Default)]
pub(super) struct OffTurns {
    played: u32,
    /// The longest took so long.
    longest: Duration,
    pairs: Vec<Pair>,
}

impl OffTurns {
    pub(super) fn harm(&self) -> Option<Measured> {
        Measured::of(&self.pairs)
    }

    pub(super) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Whether another pair would end by then.
    pub(super) fn fits(&self, until: Instant) -> bool {
        Instant::now() + self.longest.max(PAIR) <= until
    }
}

impl Ground<'_> {
    /// Plays pairs as long as they end by `until`, or until it is certain that the harm is of the
    /// wanted class, or that it is not. None are played where there is no culprit.
    pub(super) fn off_turns(
        &self,
        crowd: &Crowd,
        arrivals: Arrivals,
        (off, until): (&mut OffTurns, Instant),
        latencies: &Latencies,
    ) -> anyhow::Result<()> {
        while crowd.has_culprit() && off.fits(until) && !self.decided(off) {
            self.pair(crowd, arrivals, off, latencies)?;
        }
        Ok(())
    }

    fn decided(&self, off: &OffTurns) -> bool {
        let class = self.options.harm;
        let decided = || off.harm().is_some_and(|harm| class.is_decided(harm.interval));
        !self.options.control && off.pairs.len() >= FEWEST && decided()
    }

    /// Plays the next pair, and tells it; none if nothing was answered without the culprit. It runs
    /// afterwards.
    pub(super) fn pair(
        &self,
        crowd: &Crowd,
        arrivals: Arrivals,
        off: &mut OffTurns,
        latencies: &Latencies,
    ) -> anyhow::Result<Option<Pair>> {
        let begun = Instant::now();
        let load = arrivals.of_pair(off.played);
        // B W W B: what drifts steadily cancels out.
        let without_first = off.played % 2 == 1;
        let first = self.seen(crowd, without_first, load, latencies)?;
        let second = self.seen(crowd, !without_first, load, latencies)?;
        crowd.stop_culprit(false)?;
        let (beside, without) = if without_first { (second, first) } else { (first, second) };
        let pair = Pair::of(beside, without);
        off.pairs.extend(pair);
        off.played += 1;
        off.longest = off.longest.max(begun.elapsed());
        Ok(pair)
    }

    /// One turn, with the culprit stopped or not (a control never stops it).
    fn seen(
        &self,
        crowd: &Crowd,
        without: bool,
        load: (f64, f64, f64, u64),
        latencies: &Latencies,
    ) -> anyhow::Result<Seen> {
        crowd.stop_culprit(without && !self.options.control)?;
        let mut cpu = CpuUsage::new(self.groups.service());
        let before = cpu.read()?;
        let run = self.loaded(crowd, load, latencies)?;
        self.interrupt.check()?;
        let used_s = cpu.read()?.saturating_sub(before) as f64 / 1e9;
        let seen = Seen {
            mean_ms: run.sojourn.mean_ms,
            p95_ms: run.sojourn.p95_ms,
            cost_s: used_s / (run.answered + run.warmup_requests) as f64,
            answered_frac: run.answered_frac(),
        };
        Ok(if without { seen } else { seen.at_least(1e3 * TURN_S, run.offered) })
    }

    /// The load of a turn. Where it is not over a good while after the last arrival, the culprit is stopped: what it
    /// left behind is worked off without it, or there would be no time for more turns. So who starves the service is
    /// told to do less harm than he does, if anything.
    fn loaded(
        &self,
        crowd: &Crowd,
        load: (f64, f64, f64, u64),
        latencies: &Latencies,
    ) -> anyhow::Result<RunReport> {
        let controls = Controls::default();
        let overdue = Instant::now() + Duration::from_secs_f64(WARM_S + TURN_S) + GRACE;
        std::thread::scope(|scope| {
            let load = followed(|| scope.spawn(|| self.load(load, &controls, latencies)));
            while !load.is_finished() && Instant::now() < overdue {
                std::thread::sleep(LOOK);
            }
            if !load.is_finished() && !self.options.control {
                crowd.stop_culprit(true)?;
            }
            load.join().map_err(|_| anyhow::anyhow!("the generator failed"))?
        })
    }
}
