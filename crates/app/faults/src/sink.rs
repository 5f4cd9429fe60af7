//! The decision journal, in memory, with faults.

use crate::director::{Stage, Throw};
use crate::{FaultKind, Site};
use quell_agent::Decisions;
use quell_control::{Entry, Note};
use quell_platform::{Life, Medium, StoreError};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries after which older ones are put aside.
const ROTATES_AFTER: usize = 150;
/// With these words a note begins that says: all knobs are as they were found.
const BEGINNINGS: [&str; 4] = ["started", "reloaded", "recovered", "restored"];

/// What is written down.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Entries of the present file, since the last beginning.
    pub(crate) entries: Vec<Entry>,
    /// Entries that were appended since [`Written::take_new`].
    fresh: Vec<Entry>,
    /// Entries in the file.
    length: usize,
}

impl Written {
    /// Entries since this was last called.
    pub(crate) fn take_new(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.fresh)
    }

    fn append(&mut self, entry: &Entry) -> bool {
        let rotates = self.length >= ROTATES_AFTER;
        if rotates {
            self.entries.clear();
            self.length = 0;
        }
        if entry.notes.iter().any(is_beginning) {
            self.entries.clear();
        }
        self.entries.push(entry.clone());
        self.fresh.push(entry.clone());
        self.length += 1;
        rotates
    }
}

fn is_beginning(note: &Note) -> bool {
    matches!(note, Note::Agent { what } if BEGINNINGS.iter().any(|word| what.starts_with(word)))
}

/// The journal's medium, which outlives agents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Arc<Mutex<Written>>);

impl Journal {
    pub(crate) fn written(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One agent's way to it.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) journal: Journal,
    pub(crate) stage: Stage,
    pub(crate) life: Life,
    /// The disk that all journals share.
    pub(crate) disk: Medium,
}

impl Sink {
    fn fault(&self) -> Option<FaultKind> {
        let mut director = self.stage.director();
        let throw = director.at(Site::Decision)?;
        let of_write = throw.kinds.iter().copied().find(|kind| kind.is_of_write());
        let rest: Vec<FaultKind> =
            throw.kinds.iter().copied().filter(|kind| Some(*kind) != of_write).collect();
        if let Some(kind) = of_write {
            director.note(kind, throw.site, "");
            if !rest.is_empty() {
                director.note_two(throw.site);
            }
        }
        if !rest.is_empty() {
            director.deferred.push(Throw { kinds: rest, ..throw });
        }
        of_write
    }

    fn fail(&self, kind: io::ErrorKind) -> StoreError {
        self.stage.director().trouble = true;
        StoreError { doing: "append to", name: "the decision journal".into(), source: kind.into() }
    }
}

impl Decisions for Sink {
    fn append(&mut self, entry: &Entry) -> Result<bool, StoreError> {
        if self.life.is_over() {
            return Err(self.fail(io::ErrorKind::BrokenPipe));
        }
        let fault = self.fault();
        if self.disk.is_full() {
            return Err(self.fail(io::ErrorKind::StorageFull));
        }
        match fault {
            Some(FaultKind::DeathBefore) => {
                self.life.end();
                Err(self.fail(io::ErrorKind::BrokenPipe))
            }
            Some(FaultKind::DeathAfter) => {
                self.journal.written().append(entry);
                self.life.end();
                Err(self.fail(io::ErrorKind::BrokenPipe))
            }
            Some(FaultKind::LateWrite) => {
                self.journal.written().append(entry);
                Err(self.fail(io::ErrorKind::Other))
            }
            Some(_) => Err(self.fail(io::ErrorKind::Other)),
            None => Ok(self.journal.written().append(entry)),
        }
    }
}
