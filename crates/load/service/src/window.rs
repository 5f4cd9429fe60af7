//! Windows of one second, joined while they hold too few requests to have a tail.

use crate::clock::SECOND_NS;
use crate::stats::{milliseconds, nearest_rank};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was measured in one window. Requests count in the window in which their answer came, so
/// each counts exactly once, late ones too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Its start in nanoseconds of `CLOCK_MONOTONIC`, to lay it beside other traces.
    pub start_monotonic_ns: u64,
    /// Its start in seconds since the measured phase began.
    pub start_s: f64,
    /// Its length; several seconds where windows were joined.
    pub length_s: f64,
    /// Requests whose scheduled arrival lies in it.
    pub offered: u64,
    /// Requests answered in it.
    pub answered: u64,
    /// Requests answered with an error, or lost with their connection.
    pub failed: u64,
    /// Requests due but not answered at its end.
    pub backlog: u64,
    /// Offered requests per second.
    pub offered_qps: f64,
    /// Answered requests per second.
    pub answered_qps: f64,
    /// Mean sojourn; none if nothing was answered.
    pub mean_ms: Option<f64>,
    /// Median sojourn.
    pub p50_ms: Option<f64>,
    /// 95 % of sojourns.
    pub p95_ms: Option<f64>,
    /// 99 % of sojourns.
    pub p99_ms: Option<f64>,
    /// 99.9 % of sojourns.
    pub p999_ms: Option<f64>,
    /// True only for the last one, if it ended with too few requests and had no next to join.
    pub short: bool,
}

impl Window {
    /// The percentile of this number (50, 95, 99 or 99.9), none for others or if empty.
    #[must_use]
    pub fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        let known =
            [(50.0, self.p50_ms), (95.0, self.p95_ms), (99.0, self.p99_ms), (99.9, self.p999_ms)];
        known.iter().find(|(p, _)| (p - percentile).abs() < 1e-9).and_then(|(_, value)| *value)
    }
}

/// How long a window is and how many answers it needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowRule {
    /// Length of a window before joining.
    pub length_s: f64,
    /// A window with fewer answers is joined to the next.
    pub min_requests: u64,
}

impl Default for WindowRule {
    fn default() -> Self {
        Self { length_s: 1.0, min_requests: 300 }
    }
}

/// The raw content of a slice of time, not yet joined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slice {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) offered: u64,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) backlog: u64,
    /// Of the answered requests and, with their age, of those that never were.
    pub(crate) sojourns_ns: Vec<u64>,
}

/// Joins slices that are too thin to the one that follows.
#[derive(Debug)]
pub(crate) struct Joiner {
    min_requests: u64,
    origin_ns: u64,
    open: Option<Slice>,
}

impl Joiner {
    pub(crate) fn new(rule: WindowRule, origin_ns: u64) -> Self {
        Self { min_requests: rule.min_requests, origin_ns, open: None }
    }

    /// Takes the next slice; gives a window if enough has come together.
    pub(crate) fn push(&mut self, slice: Slice) -> Option<Window> {
        let joined = match self.open.take() {
            Some(open) => join(open, slice),
            None => slice,
        };
        if (joined.sojourns_ns.len() as u64) < self.min_requests {
            self.open = Some(joined);
            return None;
        }
        Some(self.close(joined, false))
    }

    /// The rest, if any.
    pub(crate) fn finish(&mut self) -> Option<Window> {
        let rest = self.open.take()?;
        Some(self.close(rest, true))
    }

    fn close(&self, mut slice: Slice, short: bool) -> Window {
        slice.sojourns_ns.sort_unstable();
        let length_s = slice.end_ns.saturating_sub(slice.start_ns).max(1) as f64 / 1e9;
        let at = |p| nearest_rank(&slice.sojourns_ns, p).map(|ns| milliseconds(ns as f64));
        let count = slice.sojourns_ns.len();
        let sum: f64 = slice.sojourns_ns.iter().map(|&ns| ns as f64).sum();
        Window {
            start_monotonic_ns: slice.start_ns,
            start_s: slice.start_ns.saturating_sub(self.origin_ns) as f64 / SECOND_NS as f64,
            length_s,
            offered: slice.offered,
            answered: slice.answered,
            failed: slice.failed,
            backlog: slice.backlog,
            offered_qps: slice.offered as f64 / length_s,
            answered_qps: slice.answered as f64 / length_s,
            mean_ms: (count > 0).then(|| milliseconds(sum / count as f64)),
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            short,
        }
    }
}

fn join(mut first: Slice, second: Slice) -> Slice {
    first.end_ns = second.end_ns;
    first.offered += second.offered;
    first.answered += second.answered;
    first.failed += second.failed;
    first.backlog = second.backlog;
    first.sojourns_ns.extend(second.sojourns_ns);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slices(counts: &[usize]) -> Vec<Slice> {
        counts
            .iter()
            .enumerate()
            .map(|(second, &count)| Slice {
                start_ns: second as u64 * SECOND_NS,
                end_ns: (second as u64 + 1) * SECOND_NS,
                offered: count as u64,
                answered: count as u64,
                failed: 1,
                backlog: second as u64,
                sojourns_ns: (0..count as u64).map(|i| (i + 1) * 1000).collect(),
            })
            .collect()
    }

    fn windows(counts: &[usize], min_requests: u64) -> Vec<Window> {
        let mut joiner = Joiner::new(WindowRule { length_s: 1.0, min_requests }, 0);
        let mut windows: Vec<Window> =
            slices(counts).into_iter().filter_map(|slice| joiner.push(slice)).collect();
        windows.extend(joiner.finish());
        windows
    }

    #[test]
    fn thin_windows_join_the_next() {
        type Case = (&'static [usize], &'static [(f64, u64, bool)]);
        let table: &[Case] = &[
            (&[300, 300], &[(0.0, 300, false), (1.0, 300, false)]),
            (&[299, 300], &[(0.0, 599, false)]),
            (&[299, 1, 300], &[(0.0, 300, false), (2.0, 300, false)]),
            (&[100, 100, 100, 100], &[(0.0, 300, false), (3.0, 100, true)]),
            (&[0, 0, 900], &[(0.0, 900, false)]),
            (&[900, 0], &[(0.0, 900, false), (1.0, 0, true)]),
            (&[], &[]),
        ];
        for (counts, expected) in table {
            let got: Vec<_> =
                windows(counts, 300).iter().map(|w| (w.start_s, w.answered, w.short)).collect();
            assert_eq!(&got[..], *expected, "{counts:?}");
        }
    }

    #[test]
    fn a_joined_window_has_the_whole_length_and_the_last_backlog() {
        let joined = &windows(&[100, 100, 100], 300)[0];
        assert_eq!((joined.length_s, joined.backlog, joined.failed), (3.0, 2, 3));
        assert!((joined.answered_qps - 100.0).abs() < 1e-9);
        assert_eq!(joined.p95_ms, Some(0.095));
    }

    #[test]
    fn an_empty_window_has_no_percentiles() {
        let empty = &windows(&[0], 1)[0];
        assert_eq!((empty.mean_ms, empty.p99_ms, empty.short), (None, None, true));
    }

    #[test]
    fn percentiles_by_number() {
        let window = &windows(&[1000], 300)[0];
        assert_eq!(window.percentile_ms(95.0), window.p95_ms);
        assert_eq!(window.percentile_ms(99.9), window.p999_ms);
        assert_eq!(window.percentile_ms(42.0), None);
    }

    proptest! {
        #[test]
        fn no_request_is_lost_or_doubled(
            counts in proptest::collection::vec(0usize..500, 0..20),
            min in 1u64..800,
        ) {
            let windows = windows(&counts, min);
            let answered: u64 = windows.iter().map(|w| w.answered).sum();
            prop_assert_eq!(answered, counts.iter().sum::<usize>() as u64);
            let length: f64 = windows.iter().map(|w| w.length_s).sum();
            prop_assert!((length - counts.len() as f64).abs() < 1e-6);
            prop_assert!(windows.iter().all(|w| w.short || w.answered >= min));
        }
    }
}
