//! Latency in turns: what the culprit does to the service's tail, with Quell off.

use quell_service::Window;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long each turn is.
pub(super) const TURN: Duration = Duration::from_millis(800);
/// Length of a window of latencies: several lie within a turn.
pub(super) const WINDOW_S: f64 = 0.2;
/// Who was stopped may have left requests behind that it made wait: the begin of a turn does not
/// count.
const LEFT_BEHIND_NS: u64 = 100_000_000;

/// A window: its begin and end, what was answered in it, and the p95 of that.
#[derive(Clone, Copy, Debug)]
struct Seen {
    from_ns: u64,
    to_ns: u64,
    answered: u64,
    p95_ms: Option<f64>,
}

/// What the client saw in the turns of one kind.
#[derive(Clone, Copy, Debug)]
struct Side {
    answered_per_s: f64,
    p95_mean_ln: f64,
}

/// Factors by which the culprit slows the service, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slowed {
    /// On the p95 of latency.
    pub(super) p95_ratio: f64,
    /// On requests that are answered in a second, upside down: a service that is starved answers
    /// fewer.
    pub(super) answered_ratio: f64,
}

/// All windows so far.
#[derive(Debug, Default)]
pub(super) struct Latencies(Mutex<Vec<Seen>>);

impl Latencies {
    pub(super) fn add(&self, window: &Window) {
        let from_ns = window.start_monotonic_ns;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Seen {
            from_ns,
            to_ns: from_ns + (window.length_s * 1e9) as u64,
            answered: window.answered,
            p95_ms: window.p95_ms,
        });
    }

    /// The p95 of each window, and when it ended.
    pub(super) fn tail(&self) -> Vec<(u64, f64)> {
        let windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        windows.iter().filter_map(|seen| Some((seen.to_ns, seen.p95_ms?))).collect()
    }

    /// The turns in which the culprit ran against those in which it was stopped; turns are (begin,
    /// end, stopped). None if no answer was seen in the turns of one kind.
    pub(super) fn slowed(&self, turns: &[(u64, u64, bool)]) -> Option<Slowed> {
        let (beside, without) = (self.side(turns, false)?, self.side(turns, true)?);
        Some(Slowed {
            p95_ratio: (beside.p95_mean_ln - without.p95_mean_ln).exp(),
            answered_ratio: without.answered_per_s / beside.answered_per_s,
        })
    }

    /// Windows belong to the turn in which their middle lies.
    fn side(&self, turns: &[(u64, u64, bool)], stopped: bool) -> Option<Side> {
        let windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let within = |window: &&Seen| {
            let middle = window.from_ns + (window.to_ns - window.from_ns) / 2;
            turns.iter().any(|(from, to, kind)| {
                *kind == stopped && middle >= from + LEFT_BEHIND_NS && middle <= *to
            })
        };
        let (mut seconds, mut answered, mut lns) = (0.0, 0, Vec::new());
        for window in windows.iter().filter(within) {
            seconds += (window.to_ns - window.from_ns) as f64 / 1e9;
            answered += window.answered;
            lns.extend(window.p95_ms.map(f64::ln));
        }
        (answered > 0 && !lns.is_empty()).then(|| Side {
            answered_per_s: answered as f64 / seconds,
            p95_mean_ln: lns.iter().sum::<f64>() / lns.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn windows_count_in_the_turn_of_their_middle_but_at_its_begin() {
        let turns = [(0, 800 * MS, false), (800 * MS, 1600 * MS, true)];
        let windows = [
            (0, 190, 90.0, 500),
            (200, 400, 4.0, 10),
            (400, 600, 9.0, 10),
            (790, 990, 80.0, 500),
            (950, 1150, 2.0, 40),
            (1500, 1720, 60.0, 500),
        ];
        let seen = |(from, to, p95, answered)| Seen {
            from_ns: from * MS,
            to_ns: to * MS,
            answered,
            p95_ms: Some(p95),
        };
        let latencies = Latencies(Mutex::new(windows.map(seen).into()));
        let slowed = latencies.slowed(&turns).unwrap();
        assert!((slowed.p95_ratio - 3.0).abs() < 1e-9, "6 against 2: {slowed:?}");
        assert!((slowed.answered_ratio - 4.0).abs() < 1e-9, "50 a second against 200");
        assert_eq!(latencies.slowed(&turns[..1]), None);
    }
}
