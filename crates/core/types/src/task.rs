//! Batch tasks: what the queue holds (T-22, T-23).

use crate::{TaskId, Tenant, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskSpec {
    /// Program and arguments; the program is looked up in PATH.
    pub command: Vec<String>,
    /// The batch group it shall run in; the first configured one if none.
    pub tenant: Option<Tenant>,
    /// Working directory; the agent's if none.
    pub directory: Option<String>,
    /// How often a failed run is tried again.
    pub retries: u32,
}

/// Where a task stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Waits for its turn. A task that the controller stopped comes back here, not to `Failed`.
    Ready,
    /// Runs now.
    Running,
    /// Ended with status 0.
    Finished,
    /// Ended otherwise, and no retry is left.
    Failed,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TaskEnd {
    /// By itself, with this status.
    Exited {
        /// The exit status.
        status: i32,
    },
    /// By a signal that Quell did not send.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// Stopped by the controller: goes back to ready, no retry is spent.
    Stopped,
    /// Could not be started.
    NotStarted {
        /// Why.
        why: String,
    },
}

/// A task as the queue shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRecord {
    /// Its number.
    pub id: TaskId,
    /// What it runs.
    pub spec: TaskSpec,
    /// Where it stands.
    pub state: TaskState,
    /// Runs so far that counted against the retries.
    pub attempts: u32,
    /// Process id while it runs.
    pub pid: Option<u32>,
    /// When the present or last run began, in the platform's time.
    pub started: Option<Time>,
    /// How the last run ended.
    pub last_end: Option<TaskEnd>,
}
