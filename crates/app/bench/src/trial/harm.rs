//! Latency in turns: what the culprit does to the service's tail, with Quell off.

use quell_service::Window;
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long each turn is.
pub(super) const TURN: Duration = Duration::from_millis(800);
/// Length of a window of latencies: several lie within a turn.
pub(super) const WINDOW_S: f64 = 0.2;
/// Who was stopped may have left requests behind that it made wait: the begin of a turn does not
/// count.
const LEFT_BEHIND_NS: u64 = 100_000_000;

/// `CLOCK_MONOTONIC`, the clock of windows.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The p95 of each window so far, with its begin and end.
#[derive(Debug, Default)]
pub(super) struct Latencies(Mutex<Vec<(u64, u64, f64)>>);

impl Latencies {
    pub(super) fn add(&self, window: &Window) {
        let Some(p95_ms) = window.p95_ms else { return };
        let from = window.start_monotonic_ns;
        let to = from + (window.length_s * 1e9) as u64;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((from, to, p95_ms));
    }

    /// Geometric mean of the windows in turns in which the culprit ran over that of those in which
    /// it was stopped; turns are (begin, end, stopped). None if there is no window of one kind.
    pub(super) fn ratio(&self, turns: &[(u64, u64, bool)]) -> Option<f64> {
        let windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mean_ln = |wanted: bool| {
            let within = |window: &&(u64, u64, f64)| {
                turns.iter().any(|(from, to, stopped)| {
                    *stopped == wanted && window.0 >= from + LEFT_BEHIND_NS && window.1 <= *to
                })
            };
            let lns: Vec<f64> = windows.iter().filter(within).map(|w| w.2.ln()).collect();
            (!lns.is_empty()).then(|| lns.iter().sum::<f64>() / lns.len() as f64)
        };
        Some((mean_ln(false)? - mean_ln(true)?).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn only_windows_well_within_a_turn_count() {
        let turns = [(0, 800 * MS, false), (800 * MS, 1600 * MS, true)];
        let windows = [
            (0, 200, 90.0),
            (200, 400, 4.0),
            (400, 600, 9.0),
            (700, 900, 70.0),
            (850, 1050, 80.0),
            (950, 1150, 2.0),
            (1500, 1700, 60.0),
        ];
        let all = windows.map(|(from, to, p95)| (from * MS, to * MS, p95));
        let latencies = Latencies(Mutex::new(all.into()));
        assert!((latencies.ratio(&turns).unwrap() - 3.0).abs() < 1e-9, "6 against 2");
        assert_eq!(latencies.ratio(&turns[..1]), None);
    }
}
