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
    /// Length of each of the two runs.
    pub seconds: f64,
}

impl Default for SloPlan {
    fn default() -> Self {
        Self { percentile: 95.0, low_frac: 0.2, factor: 3.0, high_frac: 0.85, seconds: 10.0 }
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
    /// The run at low load.
    pub low: RunReport,
    /// The run at high load.
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
    let (low_ms, low) = at(plan.low_frac)?;
    let (high_ms, high) = at(plan.high_frac)?;
    let slo_ms = (low_ms * plan.factor).max(high_ms);
    Ok(SloReport { slo_ms, percentile: plan.percentile, low_ms, high_ms, low, high })
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
}
