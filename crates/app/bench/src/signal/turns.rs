//! What a turn cost, and what its clients saw.

use crate::cost::waited_ns;
use quell_cgroup::CpuUsage;
use quell_service::{Window, now_ns};
use std::path::PathBuf;
use std::time::Duration;

/// From turning a cause on or off to the beginning of the turn that is counted.
pub(super) const EDGE: Duration = Duration::from_millis(50);

/// One turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Turn {
    pub(super) on: bool,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) cpu_ns: u64,
    pub(super) waited_ns: u64,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// CPU time of an answered request, in seconds.
    pub(super) cpu_per_request_s: f64,
    /// Time that its threads were ready and had no CPU, for each answered request, in seconds.
    pub(super) wait_per_request_s: f64,
    /// Mean sojourn from the scheduled arrival, in milliseconds.
    pub(super) sojourn_ms: f64,
    /// Answered requests per second.
    pub(super) qps: f64,
}

/// Counts turns of a service.
pub(super) struct Meter {
    cpu: CpuUsage,
    procs: PathBuf,
    turns: Vec<Turn>,
}

impl Meter {
    /// Over a group: its CPU time, and the file that lists its processes.
    pub(super) fn new(cpu: CpuUsage, procs: PathBuf) -> Self {
        Self { cpu, procs, turns: Vec::new() }
    }

    pub(super) fn turn(
        &mut self,
        on: bool,
        wait: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (waited, from_ns, before) = (waited_ns(&self.procs), now_ns(), self.cpu.read()?);
        wait()?;
        let (to_ns, after) = (now_ns(), self.cpu.read()?);
        let waited_ns = waited_ns(&self.procs).saturating_sub(waited);
        let cpu_ns = after.saturating_sub(before);
        self.turns.push(Turn { on, from_ns, to_ns, cpu_ns, waited_ns });
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<Turn> {
        self.turns
    }
}

/// Adjacent turns as (on, off), as far as something was answered in both.
pub(super) fn pairs(turns: &[Turn], windows: &[Window]) -> Vec<(Outcome, Outcome)> {
    let pair = |two: &[Turn]| {
        let [a, b] = two else { return None };
        let (on, off) = if a.on { (a, b) } else { (b, a) };
        Some((outcome(on, windows)?, outcome(off, windows)?))
    };
    turns.chunks_exact(2).filter_map(pair).collect()
}

/// The generator's slices do not begin where turns do: one counts for the part that overlaps.
fn outcome(turn: &Turn, windows: &[Window]) -> Option<Outcome> {
    let (mut answered, mut waited_ms) = (0.0, 0.0);
    for window in windows {
        let start = window.start_monotonic_ns;
        let end = start + (window.length_s * 1e9) as u64;
        let overlap_ns = end.min(turn.to_ns).saturating_sub(start.max(turn.from_ns));
        let part = overlap_ns as f64 / (end - start).max(1) as f64 * window.answered as f64;
        answered += part;
        waited_ms += part * window.mean_ms.unwrap_or(0.0);
    }
    let seconds = turn.to_ns.saturating_sub(turn.from_ns) as f64 / 1e9;
    (answered > 0.0 && seconds > 0.0).then(|| Outcome {
        cpu_per_request_s: turn.cpu_ns as f64 / 1e9 / answered,
        wait_per_request_s: turn.waited_ns as f64 / 1e9 / answered,
        sojourn_ms: waited_ms / answered,
        qps: answered / seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start_ms: u64, answered: u64, mean_ms: f64) -> Window {
        Window {
            start_monotonic_ns: start_ms * 1_000_000,
            start_s: 0.0,
            length_s: 0.05,
            offered: answered,
            answered,
            failed: 0,
            backlog: 0,
            offered_qps: 0.0,
            answered_qps: 0.0,
            mean_ms: (answered > 0).then_some(mean_ms),
            p50_ms: None,
            p95_ms: None,
            p99_ms: None,
            p999_ms: None,
            short: false,
        }
    }

    fn turn(on: bool, from_ms: u64, to_ms: u64, cpu_ms: u64) -> Turn {
        let ns = |ms: u64| ms * 1_000_000;
        Turn {
            on,
            from_ns: ns(from_ms),
            to_ns: ns(to_ms),
            cpu_ns: ns(cpu_ms),
            waited_ns: ns(2 * cpu_ms),
        }
    }

    #[test]
    fn a_slice_counts_for_the_part_that_overlaps() {
        let windows = [window(0, 20, 1.0), window(50, 10, 2.0), window(100, 40, 9.0)];
        let seen = outcome(&turn(true, 25, 100, 30), &windows).unwrap();
        assert!((seen.cpu_per_request_s - 0.0015).abs() < 1e-9, "{seen:?}");
        assert!((seen.wait_per_request_s - 0.003).abs() < 1e-9, "{seen:?}");
        assert!((seen.sojourn_ms - 1.5).abs() < 1e-9, "{seen:?}");
        assert!((seen.qps - 20.0 / 0.075).abs() < 1e-6, "{seen:?}");
    }

    #[test]
    fn pairs_are_on_and_off_whichever_came_first_and_silence_is_no_pair() {
        let windows: Vec<_> = (0..8).map(|i| window(50 * i, 10, 1.0)).collect();
        let turns = [
            turn(true, 0, 100, 40),
            turn(false, 100, 200, 20),
            turn(false, 200, 300, 20),
            turn(true, 300, 400, 40),
            turn(true, 900, 950, 1),
            turn(false, 950, 999, 1),
        ];
        let pairs = pairs(&turns, &windows);
        assert_eq!(pairs.len(), 2);
        for (on, off) in pairs {
            assert!((on.cpu_per_request_s / off.cpu_per_request_s - 2.0).abs() < 1e-9);
        }
    }
}
