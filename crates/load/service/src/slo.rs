//! The SLO that follows from a peak.

use crate::LoadError;
use crate::report::RunReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How to derive the SLO.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SloPlan {
    /// Which percentile of the sojourn: 50, 90, 95, 99 or 99.9.
    pub percentile: f64,
    /// The low load, as a share of the peak.
    pub low_frac: f64,
    /// The SLO is at least so many times the percentile at low load.
    pub factor: f64,
    /// The SLO is at least the percentile at this share of the peak.
    pub high_frac: f64,
    /// Length of each run.
    pub seconds: f64,
    /// Runs at each load, in turns; the middle one counts, so that one moment in which the host
    /// stood still does not make an objective that nothing can miss.
    pub rounds: u32,
}

impl Default for SloPlan {
    fn default() -> Self {
        Self {
            percentile: 95.0,
            low_frac: 0.2,
            factor: 3.0,
            high_frac: 0.85,
            seconds: 5.0,
            rounds: 3,
        }
    }
}

/// The SLO and what it follows from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SloReport {
    /// The larger of `factor` × the percentile at low load and the percentile at high load.
    pub slo_ms: f64,
    /// Which percentile.
    pub percentile: f64,
    /// Its value at low load.
    pub low_ms: f64,
    /// Its value at high load.
    pub high_ms: f64,
    /// The middle run at low load.
    pub low: RunReport,
    /// The middle run at high load.
    pub high: RunReport,
}

/// Measures at low and at high load and takes the SLO from both.
pub fn find_slo(
    plan: &SloPlan,
    peak_qps: f64,
    measure: &mut dyn FnMut(f64) -> Result<RunReport, LoadError>,
) -> Result<SloReport, LoadError> {
    let mut at = |frac: f64| {
        let run = measure(peak_qps * frac)?;
        let unknown = || LoadError::option("percentile", "must be 50, 90, 95, 99 or 99.9");
        let tail_ms = run.percentile_ms(plan.percentile).ok_or_else(unknown)?;
        Ok::<_, LoadError>((tail_ms, run))
    };
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds.max(1) {
        low.push(at(plan.low_frac)?);
        high.push(at(plan.high_frac)?);
    }
    let ((low_ms, low), (high_ms, high)) = (middle(low)?, middle(high)?);
    let slo_ms = (low_ms * plan.factor).max(high_ms);
    Ok(SloReport { slo_ms, percentile: plan.percentile, low_ms, high_ms, low, high })
}

/// The run with the middle tail; of an even number the better one.
fn middle(mut runs: Vec<(f64, RunReport)>) -> Result<(f64, RunReport), LoadError> {
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let place = runs.len().saturating_sub(1) / 2;
    runs.into_iter().nth(place).ok_or_else(|| LoadError::option("rounds", "must be above zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slo_is_the_larger_of_both() {
        for (low, high, slo) in [(1.0, 2.0, 3.0), (1.0, 5.0, 5.0)] {
            let measure = &mut |qps: f64| {
                let mut run: RunReport = serde_json::from_str(crate::report::EXAMPLE).unwrap();
                run.sojourn.p95_ms = if qps < 500.0 { low } else { high };
                Ok(run)
            };
            let report = find_slo(&SloPlan::default(), 1000.0, measure).unwrap();
            assert!((report.slo_ms - slo).abs() < 1e-9);
        }
    }

    #[test]
    fn a_moment_in_which_the_host_stood_still_does_not_count() {
        let mut tails = [1.0, 4.0, 1.1, 1200.0, 0.9, 3.8].into_iter();
        let measure = &mut |_: f64| {
            let mut run: RunReport = serde_json::from_str(crate::report::EXAMPLE).unwrap();
            run.sojourn.p95_ms = tails.next().unwrap();
            Ok(run)
        };
        let report = find_slo(&SloPlan::default(), 1000.0, measure).unwrap();
        assert!((report.slo_ms - 4.0).abs() < 1e-9, "{}", report.slo_ms);
        assert!((report.low_ms - 1.0).abs() < 1e-9 && tails.next().is_none());
    }
}
