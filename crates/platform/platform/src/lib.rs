//! The one seam between deciding and doing, and what is common to all platforms.
//!
//! * [`Platform`]: a server as the agent sees it. The real one is `quell-linux`.
//! * [`KnobJournal`]: old settings on disk before the first write, played back after any death.
//! * [`Recorder`], [`Replay`]: a run written down, and gone through again.
//! * [`Faulty`], [`FaultyStore`]: any platform, any store, with faults thrown at it.
//! * [`IdleCpus`]: where a reporter may run.
//! * [`Table`]: the smallest platform: knobs in a map. For tests of whatever sits above the seam.
//! * [`conformance`]: what every platform must keep, as one test body.

pub mod conformance;
mod faulty;
mod faulty_store;
mod file_store;
mod idle_cpus;
mod life;
mod memory_store;
mod platform;
mod recorder;
mod replay;
mod report;
mod table;
mod undo;

pub use faulty::{Fault, Faulty};
pub use faulty_store::{FaultyStore, Medium, OnChange, StoreFault};
pub use file_store::FileStore;
pub use idle_cpus::IdleCpus;
pub use life::Life;
pub use memory_store::MemoryStore;
pub use platform::{Platform, PlatformError, Scope, Store, StoreError};
pub use recorder::Recorder;
pub use replay::Replay;
pub use report::{RestoreReport, Unreadable};
pub use table::Table;
pub use undo::{FileIdentity, KnobJournal, NotUndone, Undo, Undoer};
