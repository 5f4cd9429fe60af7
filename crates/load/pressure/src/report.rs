//! What a polluter tells: one line of JSON at each interval, and a report at the end.

use crate::{HugePages, Plan, Resource, Unit};
use quell_types::CpuSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of [`Report`]'s schema.
pub(crate) const SCHEMA: &str = "quell.pressure/1";

/// How it goes. As JSON one line of the progress feed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// What is pressed on.
    pub kernel: Resource,
    /// Seconds since the start.
    pub t_s: f64,
    /// Intensity now.
    pub intensity_percent: f64,
    /// Work since the start.
    pub work: u64,
    /// What it is counted in.
    pub unit: Unit,
    /// Work per second since the line before.
    pub work_per_s: f64,
    /// Mean latency of the accesses sampled since the line before; null if none was.
    pub latency_ns: Option<f64>,
    /// Bytes occupied now.
    pub footprint_bytes: u64,
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum End {
    /// The time was over.
    #[serde(rename = "time")]
    Time,
    /// Whoever started it had enough.
    #[serde(rename = "caller")]
    Caller,
    /// A signal asked for it.
    #[serde(rename = "SIGTERM")]
    Sigterm,
    /// Ctrl-C.
    #[serde(rename = "SIGINT")]
    Sigint,
    /// The terminal is gone.
    #[serde(rename = "SIGHUP")]
    Sighup,
}

impl End {
    /// The end that this signal makes.
    pub(crate) fn of_signal(signal: i32) -> End {
        match signal {
            libc::SIGINT => End::Sigint,
            libc::SIGHUP => End::Sighup,
            _ => End::Sigterm,
        }
    }
}

/// One thread's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadReport {
    /// The CPU that it was bound to; null if to none.
    pub cpu: Option<u32>,
    /// Its work.
    pub work: u64,
    /// Wall time spent in bursts of work.
    pub busy_s: f64,
    /// CPU time, idle spinning included.
    pub cpu_s: f64,
    /// Mean latency of its sampled accesses; null if none was sampled.
    pub latency_ns: Option<f64>,
}

/// How fast pressure came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    /// From the wish until everything was mapped, touched and connected.
    pub arm_ms: f64,
    /// From the start of the armed polluter until its last thread had done a burst of work; null if
    /// one never worked (intensity 0).
    pub start_ms: Option<f64>,
    /// From the wish to end (or the end of the time) until the last thread had stopped pressing,
    /// before anything is unmapped; null where a signal ended it, whose moment is not known.
    pub stop_ms: Option<f64>,
}

/// What was done, in all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `quell.pressure/1`.
    pub schema: String,
    /// What was pressed on.
    pub kernel: Resource,
    /// Intensity at the start.
    pub from_percent: f64,
    /// Intensity at the end of the ramp, and afterwards; the same if there was none.
    pub to_percent: f64,
    /// Duration of the ramp, 0 if there was none.
    pub ramp_s: f64,
    /// The CPUs that threads were bound to.
    pub cpus: CpuSet,
    /// From full readiness to the end.
    pub seconds: f64,
    /// All work.
    pub work: u64,
    /// What it is counted in.
    pub unit: Unit,
    /// Work by time.
    pub work_per_s: f64,
    /// Share of the time in which the threads were at work, 0..1.
    pub busy_frac: f64,
    /// Mean latency of all sampled accesses; null if none was sampled. For the network: TCP's
    /// smoothed round trip.
    pub latency_ns: Option<f64>,
    /// Bytes occupied at the end.
    pub footprint_bytes: u64,
    /// Whether huge pages were had; null if the kernel has no footprint.
    pub huge_pages: Option<HugePages>,
    /// Why it ended.
    pub ended_by: End,
    /// How fast it came and went.
    pub timing: Timing,
    /// Each thread.
    pub threads: Vec<ThreadReport>,
    /// What else a reader should know.
    pub notes: Vec<String>,
}

/// Start, end and duration in seconds of a plan.
pub(crate) fn course(plan: &Plan) -> (f64, f64, f64) {
    match *plan {
        Plan::Hold(at) => (at.percent(), at.percent(), 0.0),
        Plan::Ramp { from, to, over } => (from.percent(), to.percent(), over.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_progress_line_has_the_promised_names() {
        let line = Progress {
            kernel: Resource::LlcCapacity,
            t_s: 1.5,
            intensity_percent: 50.0,
            work: 300,
            unit: Unit::Accesses,
            work_per_s: 200.0,
            latency_ns: None,
            footprint_bytes: 64,
        };
        assert_eq!(
            serde_json::to_value(&line).unwrap(),
            json!({"kernel": "llc-capacity", "t_s": 1.5, "intensity_percent": 50.0, "work": 300,
                   "unit": "accesses", "work_per_s": 200.0, "latency_ns": null,
                   "footprint_bytes": 64})
        );
    }

    #[test]
    fn ends_have_the_names_of_their_signals() {
        for (signal, name) in [(2, "SIGINT"), (1, "SIGHUP"), (15, "SIGTERM")] {
            assert_eq!(serde_json::to_value(End::of_signal(signal)).unwrap(), json!(name));
        }
    }
}
