//! Putting back what an agent has left, knowing nothing but its state folder.

use crate::undoer::LinuxUndoer;
use quell_platform::{FileStore, KnobJournal, RestoreReport, StoreError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The agent's state folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir(pub PathBuf);

impl StateDir {
    /// The knob journal.
    #[must_use]
    pub fn knob_journal(&self) -> PathBuf {
        self.0.join("knobs.journal")
    }

    /// The decision journal.
    #[must_use]
    pub fn decisions(&self) -> PathBuf {
        self.0.join("decisions.jsonl")
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> PathBuf {
        self.0.join("queue.sqlite")
    }

    /// The profiles.
    #[must_use]
    pub fn profiles(&self) -> PathBuf {
        self.0.join("profiles.sqlite")
    }

    /// Where the output of tasks is kept.
    #[must_use]
    pub fn task_output(&self) -> PathBuf {
        self.0.join("tasks")
    }
}

/// Puts everything back that the journal in `state_dir` names. Nothing to do is fine.
///
/// # Errors
/// The journal cannot be read or written. What could not be put back, or is left to others, is in the
/// report.
pub fn restore_state(root: &Path, state_dir: &StateDir) -> Result<RestoreReport, StoreError> {
    restore_state_except(root, state_dir, &BTreeSet::new())
}

/// As [`restore_state`], but the changes of these keys stay, and stay on record.
pub(crate) fn restore_state_except(
    root: &Path,
    state_dir: &StateDir,
    staying: &BTreeSet<String>,
) -> Result<RestoreReport, StoreError> {
    if !state_dir.knob_journal().exists() {
        return Ok(RestoreReport::default());
    }
    let mut journal = KnobJournal::open(FileStore::open(&state_dir.knob_journal())?)?;
    journal.restore_except(&mut LinuxUndoer::new(root), staying)
}
