//! The real server: `sys/*` put together as a [`Platform`](quell_platform::Platform).
//!
//! * [`Linux`] reads tenants, knobs, links and tasks, and carries actions out.
//! * [`Queue`] is the batch queue, an SQLite file that the agent and `quell batch` share.
//! * [`restore_state`] puts back whatever an agent that died has left, from its journal alone.
//! * [`find_vm`] is the group of a virtual machine that libvirt runs.
//! * [`doctor`] says what this machine lets one measure and control.
//!
//! Invariant: before the first write to a knob its old text is in the journal and on disk.
//! Invariant: only groups that the options name are changed, and only names that begin with
//! `quell` are created.

mod adopt;
mod clock;
mod doctor;
mod experiment;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hardware;
mod homes;
mod knobs;
mod latency;
mod links;
mod linux;
mod lock;
mod lock_traps;
mod marked;
mod meter;
mod open;
mod options;
mod probe;
mod queue;
mod reporter;
mod resources;
mod restore;
mod tasks;
mod tenant;
mod undoer;
mod vms;

pub use doctor::{Doctor, doctor};
pub use latency::{LatencySource, PrometheusSource, PushedSource};
pub use linux::{Linux, Remarks};
pub use lock::{AgentLock, LockError, NamedLock};
pub use open::OpenError;
pub use options::{BatchBinding, Latency, LinkBinding, LinuxOptions, Selector, ServiceBinding};
pub use queue::{Queue, QueueError, TaskRow};
pub use restore::{StateDir, restore_state};
pub use tasks::KeptTasks;
pub use vms::find_vm;
