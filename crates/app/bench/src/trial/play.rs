//! Plays turns: runs of the generator in which some of the crowd are stopped.

use super::Ground;
use super::crowd::Crowd;
use super::harm::Latencies;
use super::turns::{Turn, TurnKind};
use super::watch::limit_cpus;
use quell_service::Controls;
use std::time::{Duration, Instant};

/// Load of a turn before it counts, and while it does.
const WARM_S: f64 = 0.2;
const TURN_S: f64 = 0.9;
/// Who goes on in it has caught up by then.
const CAUGHT_UP: Duration = Duration::from_millis(100);
/// What a turn takes besides its load: signals, connections, the last answers, and this.
const MARGIN_S: f64 = 0.25;
/// Turns once the law has ended.
const AFTERWARDS: usize = 2;

/// The load of all turns of one trial: the same arrivals, other ones than in any other trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnLoad {
    /// Requests a second.
    pub(super) rate: f64,
    pub(super) seed: u64,
}

impl TurnLoad {
    /// How long so many turns take.
    pub(super) fn lasts(turns: usize) -> Duration {
        Duration::from_secs_f64(turns as f64 * (WARM_S + TURN_S + MARGIN_S))
    }
}

impl Ground<'_> {
    /// One turn.
    pub(super) fn turn(
        &self,
        crowd: &Crowd,
        kind: TurnKind,
        load: TurnLoad,
        latencies: &Latencies,
    ) -> anyhow::Result<Turn> {
        crowd.let_run(kind)?;
        self.interrupt.sleep(CAUGHT_UP)?;
        let work = crowd.begin();
        let load = (load.rate, WARM_S, TURN_S, load.seed);
        let run = self.load(load, &Controls::default(), latencies)?;
        let work_per_s = work.per_s(crowd);
        self.interrupt.check()?;
        Ok(Turn {
            kind,
            requests: run.offered,
            p95_ms: run.sojourn.p95_ms,
            p99_ms: run.sojourn.p99_ms,
            work_per_s,
            limit_cpus: self.groups.batch().iter().map(limit_cpus).collect(),
        })
    }

    /// Turns without the culprit once the law has ended, if there were turns before and these end by
    /// `until`: what innocents do where nothing of Quell is in force.
    pub(super) fn afterwards(
        &self,
        crowd: &Crowd,
        (turns, load): (&mut Vec<Turn>, TurnLoad),
        until: Instant,
        latencies: &Latencies,
    ) -> anyhow::Result<()> {
        if turns.is_empty() || Instant::now() + TurnLoad::lasts(AFTERWARDS) > until {
            return Ok(());
        }
        for _ in 0..AFTERWARDS {
            turns.push(self.turn(crowd, TurnKind::Off, load, latencies)?);
        }
        crowd.go_on()
    }
}
