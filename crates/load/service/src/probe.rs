//! One short run at one rate, and whether the target sustained it.

use crate::report::RunReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// So many unanswered requests prove nothing: they are just on their way.
const ON_THE_WAY: f64 = 3.0;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeSpec {
    /// Counts probes from 0: makes seeds.
    pub number: u64,
    /// The offered rate.
    pub qps: f64,
    /// Load before the measured phase.
    pub warmup_s: f64,
    /// The measured phase.
    pub seconds: f64,
    /// Whether it confirms a peak.
    pub confirms: bool,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// The offered rate.
    pub qps: f64,
    /// Its length.
    pub length_s: f64,
    /// Whether it confirms a peak.
    pub confirms: bool,
    /// Requests due.
    pub offered: u64,
    /// Requests answered before its end.
    pub answered_in_time: u64,
    /// Answers per second, those to requests of the warm-up included: what the target can do.
    pub served_qps: f64,
    /// Mean backlog in the first half of the time.
    pub backlog_first_half: f64,
    /// Mean backlog in the second half.
    pub backlog_second_half: f64,
}

impl Probe {
    /// From a run.
    #[must_use]
    pub fn of(run: &RunReport, spec: ProbeSpec) -> Self {
        let (first, second) = run.backlog_samples.split_at(run.backlog_samples.len() / 2);
        Self {
            qps: spec.qps,
            length_s: run.measured_s,
            confirms: spec.confirms,
            offered: run.offered,
            answered_in_time: run.answered_in_time,
            served_qps: run.served_qps,
            backlog_first_half: mean(first),
            backlog_second_half: mean(second),
        }
    }

    /// One in which nothing was answered.
    pub(crate) fn unanswered(spec: ProbeSpec, offered: u64) -> Self {
        Self {
            qps: spec.qps,
            length_s: spec.seconds,
            confirms: spec.confirms,
            offered,
            answered_in_time: 0,
            served_qps: 0.0,
            backlog_first_half: 0.0,
            backlog_second_half: 0.0,
        }
    }

    /// Whether enough was answered, anything at all, and the backlog did not grow. A backlog that only fluctuates
    /// has like means in both halves; one that grows steadily has three times as much in the
    /// second. Half-way between them, plus 5 ms of arrivals, is the limit.
    #[must_use]
    pub fn sustained(&self, min_answered_frac: f64) -> bool {
        let offered = self.offered as f64;
        let missing = offered - self.answered_in_time as f64;
        let any = self.answered_in_time > 0;
        let answered = any && missing <= offered * (1.0 - min_answered_frac) + ON_THE_WAY;
        let limit = 1.5 * self.backlog_first_half + 0.005 * self.qps + ON_THE_WAY;
        answered && self.backlog_second_half <= limit
    }
}

fn mean(samples: &[u64]) -> f64 {
    samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growing_backlog_is_told_from_a_noisy_one() {
        let probe = |first, second, answered| Probe {
            qps: 1000.0,
            length_s: 10.0,
            confirms: true,
            offered: 10_000,
            answered_in_time: answered,
            served_qps: 1000.0,
            backlog_first_half: first,
            backlog_second_half: second,
        };
        for (first, second, answered, sustained) in [
            (0.5, 0.6, 9_999, true),
            (20.0, 30.0, 9_950, true),
            // 0.5 % more than it can: 50 requests pile up, still 99.5 % answered.
            (12.5, 37.5, 9_950, false),
            (5.0, 5.0, 9_890, false),
            (30.0, 2.0, 10_000, true),
        ] {
            assert_eq!(
                probe(first, second, answered).sustained(0.99),
                sustained,
                "{first} {second}"
            );
        }
    }
}
