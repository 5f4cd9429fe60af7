//! What a run found, with units in the field names.

use crate::clock::Realtime;
use crate::profile::Profile;
use crate::stats::{Interval, LatencySummary};
use crate::window::Window;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema's name and version, first field of the report.
pub const LOAD_SCHEMA: &str = "quell.load/1";

/// Result of `quell load`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadReport {
    /// [`LOAD_SCHEMA`].
    pub schema: String,
    /// What was driven, in words.
    pub target: String,
    /// The offered rate over time.
    pub profile: Profile,
    /// Seed of the first run; each further one adds 1.
    pub seed: u64,
    /// One entry a run; several where repeats were asked for.
    pub runs: Vec<RunReport>,
    /// Of the judged percentile over the runs; none of a single run.
    pub tail: Option<TailInterval>,
}

/// The judged percentile over repeated runs (L-6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TailInterval {
    /// Which percentile, as 95 or 99.
    pub percentile: f64,
    /// Its mean over runs and the interval's half-width.
    #[serde(flatten)]
    pub interval: Interval,
    /// Whether the half-width came under the wanted limit before the runs were used up.
    pub narrow_enough: bool,
}

/// One measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunReport {
    /// Seed of arrivals and request contents.
    pub seed: u64,
    /// Length of the measured phase, without the drain after it.
    pub measured_s: f64,
    /// Requests that were due before the measured phase; not part of any figure below.
    pub warmup_requests: u64,
    /// Requests that were due in the measured phase.
    pub offered: u64,
    /// Of these, answered (by the end of the drain).
    pub answered: u64,
    /// Of these, answered by the end of the measured phase itself.
    pub answered_in_time: u64,
    /// Answered with an error, or lost with their connection.
    pub failed: u64,
    /// Not answered by the end of the drain. They count in `sojourn` with their age then.
    pub unanswered: u64,
    /// Offered requests per second.
    pub offered_qps: f64,
    /// Answered requests per second, the drain left out.
    pub answered_qps: f64,
    /// Answers per second during the measured phase, those to requests of the warm-up included:
    /// what an overloaded target can do.
    pub served_qps: f64,
    /// From the scheduled arrival to the whole answer.
    pub sojourn: LatencySummary,
    /// Sojourn less service; none if the protocol does not tell the service time.
    pub queue: Option<LatencySummary>,
    /// In the server, from the start of the work to its end; none if the protocol does not tell.
    pub service: Option<LatencySummary>,
    /// From the client's sending to the start of the work, as the server saw it (both on one
    /// clock); none if the protocol does not tell.
    pub server_queue: Option<LatencySummary>,
    /// Windows of the measured phase; the last one also holds the answers of the drain.
    pub windows: Vec<Window>,
    /// Requests due but not answered, ten times a second.
    pub backlog_samples: Vec<u64>,
    /// The generator itself.
    pub generator: GeneratorReport,
}

/// What the generator cost and how precise it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorReport {
    /// CPU time of its threads from the start of the measured phase to the end of the drain;
    /// counts neither as service nor as batch.
    pub cpu_s: f64,
    /// The same as a share of one CPU.
    pub cpu_frac: f64,
    /// CPU time of the service's threads where they run in this process (integrated mode).
    pub service_cpu_s: Option<f64>,
    /// Median lateness of the generator behind its schedule, its own fault or the machine's. It
    /// is part of every sojourn.
    pub late_p50_us: f64,
    /// 99 % of the same.
    pub late_p99_us: f64,
    /// Real-time priority.
    pub realtime: Realtime,
    /// Generator threads.
    pub threads: u32,
    /// Connections over all threads; 0 in integrated mode.
    pub connections: u32,
    /// Connections that were lost and made again.
    pub reconnects: u64,
}

impl RunReport {
    /// The sojourn's percentile (50, 90, 95, 99 or 99.9) in milliseconds; none for others.
    #[must_use]
    pub fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        let s = &self.sojourn;
        let known = [
            (50.0, s.p50_ms),
            (90.0, s.p90_ms),
            (95.0, s.p95_ms),
            (99.0, s.p99_ms),
            (99.9, s.p999_ms),
        ];
        known.iter().find(|(p, _)| (p - percentile).abs() < 1e-9).map(|(_, value)| *value)
    }

    /// Share of the offered requests that were answered in the measured phase.
    #[must_use]
    pub fn answered_frac(&self) -> f64 {
        if self.offered == 0 { 0.0 } else { self.answered_in_time as f64 / self.offered as f64 }
    }

    /// Share of windows whose percentile lies within `slo_ms`, windows without one and short ones
    /// left out; none if there is no window.
    #[must_use]
    pub fn slo_met_frac(&self, percentile: f64, slo_ms: f64) -> Option<f64> {
        let tails: Vec<f64> = self
            .windows
            .iter()
            .filter(|w| !w.short)
            .filter_map(|w| w.percentile_ms(percentile))
            .collect();
        let met = tails.iter().filter(|&&tail| tail <= slo_ms).count();
        (!tails.is_empty()).then(|| met as f64 / tails.len() as f64)
    }
}

/// A run of three requests, for tests of what reads reports.
#[cfg(test)]
pub(crate) const EXAMPLE: &str = include_str!("../tests/fixtures/run.json");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_example() {
        let mut run: RunReport = serde_json::from_str(EXAMPLE).unwrap();
        assert!((run.answered_frac() - 0.75).abs() < 1e-9);
        assert_eq!(run.percentile_ms(99.0), Some(3.0));
        assert_eq!(run.percentile_ms(42.0), None);
        assert_eq!(run.slo_met_frac(95.0, 2.5), Some(0.5));
        run.windows.clear();
        assert_eq!(run.slo_met_frac(95.0, 2.5), None);
    }

    #[test]
    fn the_schema_names_units() {
        let schema = serde_json::to_string(&schemars::schema_for!(LoadReport)).unwrap();
        for field in ["p95_ms", "offered_qps", "cpu_s", "late_p99_us", "start_monotonic_ns"] {
            assert!(schema.contains(field), "{field}");
        }
    }
}
