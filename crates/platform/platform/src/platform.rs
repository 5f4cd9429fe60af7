//! What every platform offers: the real server, a replay, a faulty one, later a simulated one.

use quell_types::{Action, CapabilityReport, Knob, Sample, Setup};
use std::io;
use std::time::Duration;
use thiserror::Error;

/// How much of a sample is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Services, knobs, ends of experiments and tasks: cheap enough for several times a second.
    /// What was left out keeps its last reading's gap `NotYet`.
    Fast,
    /// Everything.
    Full,
}

/// A platform that can no longer be used. Single readings and writes never raise it: they are
/// gaps in the sample and outcomes in the journal.
#[derive(Debug, Error)]
pub enum PlatformError {
    /// The journal cannot be written, so no knob may be touched any more.
    #[error("the knob journal cannot be written, so nothing is changed any more: {0}")]
    Journal(#[from] StoreError),
    /// Anything else that makes going on pointless.
    #[error("{0}")]
    Lost(String),
}

/// A server: sensors, knobs, tasks and a small store.
pub trait Platform {
    /// Names, ranges and topology: what the policies may count on until the next reload.
    fn setup(&self) -> &Setup;

    /// What can be measured and controlled here.
    fn capabilities(&self) -> Vec<CapabilityReport>;

    /// Waits until `after` since the last sample (or an urgent event) and reads. The time in the
    /// sample is the platform's only clock.
    ///
    /// # Errors
    /// Only if the platform is lost altogether.
    fn sample(&mut self, after: Duration, scope: Scope) -> Result<Sample, PlatformError>;

    /// Carries an action out, or sends it on its way if it is slow. What came of it is in the next
    /// sample (`outcomes`, `knobs`). The old setting of a knob is on disk before its first write.
    ///
    /// # Errors
    /// Only if the platform is lost or its journal cannot be written.
    fn apply(&mut self, action: &Action) -> Result<(), PlatformError>;

    /// Puts every knob back as it was found, ends tasks and experiments.
    ///
    /// # Errors
    /// Lists what could not be put back.
    fn restore(&mut self) -> Result<(), PlatformError>;

    /// Leaves a knob to others for good: a restore will not touch it.
    ///
    /// # Errors
    /// If the journal cannot be written.
    fn disown(&mut self, knob: &Knob) -> Result<(), PlatformError>;
}

/// A store that failed.
#[derive(Debug, Error)]
#[error("{doing} {name}: {source}")]
pub struct StoreError {
    /// What was being done.
    pub doing: &'static str,
    /// To which record.
    pub name: String,
    /// Why it failed.
    #[source]
    pub source: io::Error,
}

/// A small append-only store for journals, so that faults can be thrown at it.
pub trait Store: Send {
    /// Appends one record (a line without line break). Before [`Store::sync`] it may not outlive the process.
    ///
    /// # Errors
    /// If the record cannot be written (disk full).
    fn append(&mut self, record: &str) -> Result<(), StoreError>;

    /// Lets everything appended outlive this process, however that ends.
    ///
    /// # Errors
    /// If the medium refuses.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// All whole records in order. A torn last record (death in the middle of a write) is left out.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&mut self) -> Result<Vec<String>, StoreError>;

    /// Puts these records in the place of all, at once: whoever reads finds all the
    /// old ones or all the new ones, also after a death in between.
    ///
    /// # Errors
    /// If the medium refuses; then the old ones are there. To empty it needs no room.
    fn replace(&mut self, records: &[String]) -> Result<(), StoreError>;

    /// Keeps a copy of all records beside the store for people to look at, and says where.
    ///
    /// # Errors
    /// If the medium refuses.
    fn keep_aside(&mut self) -> Result<String, StoreError>;
}
