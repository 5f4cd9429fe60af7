//! What a state folder tells of its agent, and putting back what that left.

use crate::decisions::{DecisionLog, Decisions};
use quell_control::{Entry, Note};
use quell_linux::{AgentLock, LockError, StateDir, restore_state};
use quell_platform::{RestoreReport, StoreError};
use quell_types::Time;
use rustix::fs::{FlockOperation, flock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What became of the agent of a state folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AgentState {
    /// None ever worked here.
    Never,
    /// It runs.
    Running {
        /// Its process id; null if it did not say.
        pid: Option<u32>,
    },
    /// It ended, and nothing of it is left.
    Stopped,
    /// It died and left knobs changed: `quell restore` puts them back.
    Died,
    /// The state folder is root's, and who asks is not: whether an agent runs it does not tell.
    Unknown,
}

impl AgentState {
    /// Looks at a state folder.
    #[must_use]
    pub fn of(state: &StateDir) -> Self {
        let lock = state.0.join("agent.lock");
        let mut file = match File::open(&lock) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Self::Unknown,
            Err(_) => {
                let any = state.decisions().exists() || state.knob_journal().exists();
                return if any { Self::ended(state) } else { Self::Never };
            }
        };
        if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            return Self::Running { pid: text.trim().parse().ok() };
        }
        Self::ended(state)
    }

    /// A journal with content means knobs that were not put back.
    fn ended(state: &StateDir) -> Self {
        let left = std::fs::metadata(state.knob_journal()).is_ok_and(|m| m.len() > 0);
        if left { Self::Died } else { Self::Stopped }
    }
}

/// Puts back what an agent that died has left, and writes that down.
///
/// # Errors
/// The agent still runs, or the journal cannot be read or written.
pub fn restore(state: &StateDir) -> Result<RestoreReport, RestoreError> {
    crate::claim::sweep_claims();
    if !state.0.exists() {
        return Ok(RestoreReport::default());
    }
    let _lock = AgentLock::take(&state.0)?;
    let report = restore_state(Path::new("/"), state)?;
    for what in &report.left {
        let _ = note(state, &format!("left as it is: {what}"));
    }
    if report.restored > 0 && report.troubles().is_empty() {
        // That it is not written down changes nothing of what was put back.
        let _ = note(state, "restored: every knob was put back by `quell restore`");
    }
    Ok(report)
}

/// Why nothing was put back.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// An agent runs.
    #[error("{0}")]
    Lock(#[from] LockError),
    /// The journal cannot be used.
    #[error("{0}")]
    Journal(#[from] StoreError),
}

/// Writes a note about the agent into the decision journal.
///
/// # Errors
/// It cannot be written.
pub fn note(state: &StateDir, what: &str) -> Result<(), StoreError> {
    let notes = vec![Note::Agent { what: what.to_owned() }];
    let entry = Entry { time: Time(0), wall_unix_ms: unix_ms(), notes, ..Entry::default() };
    DecisionLog::open(state)?.append(&entry).map(drop)
}

/// Milliseconds since 1970, for people.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_folder_tells_of_its_agent() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir(folder.path().join("state"));
        assert_eq!(AgentState::of(&state), AgentState::Never);
        assert_eq!(restore(&state).unwrap(), RestoreReport::default());
        assert!(!state.0.exists(), "asking creates nothing");
        let lock = AgentLock::take(&state.0).unwrap();
        assert_eq!(AgentState::of(&state), AgentState::Running { pid: Some(std::process::id()) });
        assert!(matches!(restore(&state), Err(RestoreError::Lock(_))));
        drop(lock);
        assert_eq!(AgentState::of(&state), AgentState::Stopped);
        std::fs::write(state.knob_journal(), "{\"key\":\"k\",\"undo\":[]}\n").unwrap();
        assert_eq!(AgentState::of(&state), AgentState::Died);
    }
}
