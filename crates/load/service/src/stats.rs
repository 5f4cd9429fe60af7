//! Latency summaries and confidence intervals.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Three significant digits: a thousandth of the value.
const DIGITS: u8 = 3;
const HOUR_NS: u64 = 3_600_000_000_000;

/// Latencies of a whole phase, right to a thousandth.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // The bounds are constants that the histogram accepts; should that ever change, a
        // resizing histogram does the same work.
        let fixed = Histogram::new_with_bounds(1, HOUR_NS, DIGITS);
        Self(fixed.or_else(|_| Histogram::new(DIGITS)).unwrap_or_else(|_| unreachable!()))
    }
}

impl Latencies {
    /// Counts one latency in nanoseconds; above an hour counts as an hour.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Latencies) {
        // Both have the same bounds, so this cannot fail.
        let _ = self.0.add(&other.0);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency in milliseconds that the share `p` (0..1) does not exceed; none if empty.
    #[must_use]
    pub fn percentile_ms(&self, p: f64) -> Option<f64> {
        (self.count() > 0).then(|| milliseconds(self.0.value_at_quantile(p) as f64))
    }

    /// All that is usually asked; none if empty.
    #[must_use]
    pub fn summary(&self) -> Option<LatencySummary> {
        let at = |p| milliseconds(self.0.value_at_quantile(p) as f64);
        (self.count() > 0).then(|| LatencySummary {
            count: self.count(),
            mean_ms: milliseconds(self.0.mean()),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: milliseconds(self.0.max() as f64),
        })
    }
}

pub(crate) fn milliseconds(ns: f64) -> f64 {
    ns / 1e6
}

/// Percentiles of one kind of latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// How many requests.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90 %.
    pub p90_ms: f64,
    /// 95 %.
    pub p95_ms: f64,
    /// 99 %.
    pub p99_ms: f64,
    /// 99.9 %.
    pub p999_ms: f64,
    /// The largest.
    pub max_ms: f64,
}

/// The value of a sorted slice that the share `p` does not exceed (nearest rank); none if empty.
#[must_use]
pub fn nearest_rank(sorted: &[u64], p: f64) -> Option<u64> {
    let rank = (p.clamp(0.0, 1.0) * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

/// A mean with its 95 % confidence half-width (L-6).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The mean of the runs.
    pub mean_ms: f64,
    /// Half the width of the 95 % interval of the mean, by Student's t.
    pub half_width_ms: f64,
    /// The same as a share of the mean.
    pub half_width_frac: f64,
}

/// Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom.
const STUDENT: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
];
const STUDENT_FAR: f64 = 1.96;

/// Half the width of a 95 % interval in standard errors: the two-sided quantile of Student's t with
/// so many degrees of freedom; infinite with none.
#[must_use]
pub fn student_95(freedom: usize) -> f64 {
    let Some(place) = freedom.checked_sub(1) else { return f64::INFINITY };
    // Beyond the table the quantile falls about like this towards the normal one (error < 0.1 %).
    let far = STUDENT_FAR + 2.4 / freedom as f64;
    STUDENT.get(place).copied().unwrap_or(far)
}

/// The interval of the mean of repeated measurements; none of fewer than two.
#[must_use]
pub fn interval(values_ms: &[f64]) -> Option<Interval> {
    let n = values_ms.len() as f64;
    let freedom = values_ms.len().checked_sub(1).filter(|&f| f > 0)?;
    let mean = values_ms.iter().sum::<f64>() / n;
    let variance = values_ms.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / freedom as f64;
    let half = student_95(freedom) * (variance / n).sqrt();
    let frac = if mean > 0.0 { half / mean } else { f64::INFINITY };
    Some(Interval { mean_ms: mean, half_width_ms: half, half_width_frac: frac })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nearest_ranks() {
        let values: Vec<u64> = (1..=100).collect();
        for (p, value) in [(0.0, 1), (0.5, 50), (0.95, 95), (0.999, 100), (1.0, 100)] {
            assert_eq!(nearest_rank(&values, p), Some(value), "{p}");
        }
        assert_eq!(nearest_rank(&[], 0.5), None);
        assert_eq!(nearest_rank(&[7], 0.01), Some(7));
    }

    #[test]
    fn intervals_of_textbook_samples() {
        assert_eq!(interval(&[1.0]), None);
        let three = interval(&[9.0, 10.0, 11.0]).unwrap();
        assert!((three.half_width_ms - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert!((three.half_width_frac - three.half_width_ms / 10.0).abs() < 1e-12);
        assert_eq!(interval(&[5.0; 8]).unwrap().half_width_ms, 0.0);
        // 30 degrees of freedom: 2.042 in the tables.
        let many: Vec<f64> = (0..31).map(f64::from).collect();
        let sd = 9.092_121;
        let t = interval(&many).unwrap().half_width_ms * 31f64.sqrt() / sd;
        assert!((t - 2.042).abs() < 0.005, "{t}");
    }

    proptest! {
        #[test]
        fn histogram_percentiles_are_right_to_a_thousandth(
            mut values in proptest::collection::vec(1u64..10_000_000_000, 1..300),
            p in 0.01..1.0f64,
        ) {
            let mut latencies = Latencies::default();
            values.iter().for_each(|&v| latencies.record(v));
            values.sort_unstable();
            let exact = nearest_rank(&values, p).unwrap() as f64 / 1e6;
            let told = latencies.percentile_ms(p).unwrap();
            prop_assert!((told - exact).abs() <= exact * 0.0011 + 1e-6, "{told} for {exact}");
        }
    }
}
