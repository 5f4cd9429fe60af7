//! The workload under measurement, and how its progress is seen.

mod group;
mod launch;
mod output;
mod repeated;
mod steady;

pub use group::Group;
pub use launch::{LaunchOptions, Progress, launch};
pub use repeated::Repeated;
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
}

/// Speed over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Progress by wall time, per second.
    pub by_wall: f64,
    /// Progress by the CPU time that it took, per CPU second; none where that is not known.
    pub by_cpu: Option<f64>,
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

    /// Whether [`Subject::rest`] stops it; a service in use must not be stopped.
    fn can_rest(&self) -> bool;

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
