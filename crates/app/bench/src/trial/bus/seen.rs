//! What was seen in the course of the trial, and what it says of each burst.

use super::super::guarded::Said;
use super::super::watch::Moment;
use quell_pressure::BusBurst;
use quell_service::Window;
use std::collections::BTreeMap;

/// The quiet before a burst: from so long before its begin until so long before.
const QUIET_NS: (u64, u64) = (2_000_000_000, 200_000_000);

/// Whom the agent named and suspected, and when first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Names {
    pub(super) named: BTreeMap<String, u64>,
    pub(super) suspected: BTreeMap<String, u64>,
}

impl Names {
    /// Takes in what it says at a moment.
    pub(super) fn hear(&mut self, at_ns: u64, said: &Said) {
        for name in &said.named {
            self.named.entry(name.clone()).or_insert(at_ns);
        }
        for name in &said.suspected {
            self.suspected.entry(name.clone()).or_insert(at_ns);
        }
    }
}

/// Everything that was seen; times by `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) start_ns: u64,
    pub(super) bursts: Vec<BusBurst>,
    pub(super) names: Names,
    pub(super) windows: Vec<Window>,
    /// When, and how much CPU time the service had used, in nanoseconds.
    pub(super) used: Vec<(u64, u64)>,
    pub(super) moments: Vec<Moment>,
}

/// The service in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    /// Mean sojourn.
    pub(super) mean_ms: f64,
    /// Geometric mean of the p95 of the windows.
    pub(super) p95_ms: f64,
    /// Requests answered in a second.
    pub(super) answered_per_s: f64,
    /// Its CPU time for each answer.
    pub(super) cost_ms: f64,
}

impl Seen {
    /// The service from one moment to another; none if nothing was answered, or its CPU time was
    /// not read.
    pub(super) fn stretch(&self, from_ns: u64, to_ns: u64) -> Option<Stretch> {
        let within = |window: &&Window| {
            let middle = window.start_monotonic_ns + (window.length_s * 5e8) as u64;
            (from_ns..to_ns).contains(&middle)
        };
        let (mut answered, mut seconds, mut sojourns_ms, mut lns) = (0.0, 0.0, 0.0, Vec::new());
        for window in self.windows.iter().filter(within) {
            seconds += window.length_s;
            answered += window.answered as f64;
            sojourns_ms += window.mean_ms.unwrap_or(0.0) * window.answered as f64;
            lns.extend(window.p95_ms.map(f64::ln));
        }
        let used_ns = self.used_at(to_ns)? - self.used_at(from_ns)?;
        let lasts_s = to_ns.saturating_sub(from_ns) as f64 / 1e9;
        (answered > 0.0 && !lns.is_empty()).then(|| Stretch {
            mean_ms: sojourns_ms / answered,
            p95_ms: (lns.iter().sum::<f64>() / lns.len() as f64).exp(),
            answered_per_s: answered / seconds,
            cost_ms: used_ns / 1e6 / (answered / seconds * lasts_s),
        })
    }

    /// The quiet before a burst.
    pub(super) fn quiet(&self, burst: &BusBurst) -> Option<Stretch> {
        let before = |ns: u64| burst.from_ns.saturating_sub(ns);
        self.stretch(before(QUIET_NS.0), before(QUIET_NS.1))
    }

    /// CPU time that the service had used at a moment, linear between readings.
    fn used_at(&self, at_ns: u64) -> Option<f64> {
        let next = self.used.iter().position(|(time, _)| *time >= at_ns)?;
        let (to, to_used) = self.used[next];
        let (from, from_used) = *self.used.get(next.checked_sub(1)?)?;
        let part = (at_ns - from) as f64 / (to - from).max(1) as f64;
        Some(from_used as f64 + part * to_used.saturating_sub(from_used) as f64)
    }

    /// CPUs that a group might use at a moment; none where nothing limited it.
    pub(super) fn limit_at(&self, group: usize, at_ns: u64) -> Option<f64> {
        let last = self.moments.iter().rev().find(|moment| moment.at_ns <= at_ns)?;
        last.limit_cpus.get(group).copied().flatten()
    }

    /// When a group was first limited.
    pub(super) fn limited_ns(&self, group: usize) -> Option<u64> {
        let limited = |moment: &&Moment| moment.limit_cpus.get(group).copied().flatten().is_some();
        self.moments.iter().find(limited).map(|moment| moment.at_ns)
    }

    /// How many bursts had begun by a moment.
    pub(super) fn burst_at(&self, at_ns: u64) -> u32 {
        self.bursts.iter().filter(|burst| burst.from_ns <= at_ns).count() as u32
    }
}
