//! The workload under measurement, and how its progress is seen.

mod group;
mod launch;
mod output;
mod repeated;
mod source;
mod started;
mod steady;

pub use group::Group;
pub use launch::{LaunchOptions, Progress, launch, words};
pub use repeated::Repeated;
pub use source::Counter;
pub use started::Counters;
pub use steady::{Steady, looped};

use crate::ProfileError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a workload's speed is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Whole runs of a command.
    Runs,
    /// Lines that it prints (or those with a pattern).
    OutputLines,
    /// Bytes that it prints.
    OutputBytes,
    /// Bytes that its system calls read and write.
    IoBytes,
    /// The inverse of its tail latency.
    InverseLatency,
    /// Work that the workload counts itself.
    OwnCount,
    /// Instructions that it retired.
    Instructions,
    /// Requests that it answered, on its sockets or to the load that it is under.
    Requests,
}

impl Metric {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Metric::Runs => "whole runs",
            Metric::OutputLines => "lines that it prints",
            Metric::OutputBytes => "bytes that it prints",
            Metric::IoBytes => "bytes of its system calls",
            Metric::InverseLatency => "the inverse of its tail latency",
            Metric::OwnCount => "its own count",
            Metric::Instructions => "instructions",
            Metric::Requests => "requests answered",
        }
    }
}

/// Speed over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Progress by wall time, per second.
    pub by_wall: f64,
    /// Progress by the CPU time that it took, per CPU second; none where that is not known.
    pub by_cpu: Option<f64>,
}

impl Speed {
    /// By CPU time, where that is known: what else takes the CPU does not count.
    #[must_use]
    pub fn of_cpu(self) -> f64 {
        self.by_cpu.unwrap_or(self.by_wall)
    }
}

/// A workload.
pub trait Subject {
    /// Its name, for reports.
    fn name(&self) -> &str;

    /// What its progress is counted in.
    fn metric(&self) -> Metric;

    /// Its speed over about `length` from now; longer where its unit of progress takes longer.
    ///
    /// # Errors
    /// It ended, stands still, or somebody asked to stop.
    fn speed(&mut self, length: Duration) -> Result<Speed, ProfileError>;

    /// The shortest window in which its progress means anything.
    fn least_window(&self) -> Duration {
        Duration::ZERO
    }

    /// CPU time so far; none if that is not known.
    fn cpu_time(&self) -> Option<Duration> {
        None
    }

    /// What is asked of it, in requests per second, if it is a service under load.
    fn requests_per_s(&self) -> Option<f64> {
        None
    }

    /// Whether [`Subject::rest`] stops it; a service in use must not be stopped.
    fn can_rest(&self) -> bool;

    /// Whether it stands still by itself whenever its speed is not measured.
    fn rests_between(&self) -> bool {
        false
    }

    /// Stands still until [`Subject::wake`].
    ///
    /// # Errors
    /// It is gone.
    fn rest(&mut self) -> Result<(), ProfileError>;

    /// Runs again, if it rests.
    ///
    /// # Errors
    /// It is gone.
    fn wake(&mut self) -> Result<(), ProfileError>;
}
