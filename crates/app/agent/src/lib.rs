//! The agent: one thread that samples, decides, acts and writes down why.
//!
//! * [`Agent`] guards what a checked configuration names, until it is told to stop.
//! * [`Session`] is the loop's body, the same on the real server and on a simulated one.
//! * [`DecisionLog`] is the journal of decisions, [`explain`] reads it.
//! * [`who`] finds out who slows each service, and changes nothing else.
//! * [`Status`] is what the agent shows of itself: as a file, and as metrics.
//!
//! Invariant: whatever cannot be written down is not done. If a journal cannot be written the agent
//! goes to the safe side: batch is held, services are free, and it says so.
//! Invariant: nothing is left behind: a clean stop puts every knob back, and `quell restore` does
//! it after any other death.

mod agent;
mod ask;
mod claim;
mod cost;
mod decisions;
mod error;
mod explain;
mod fit;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod heart;
mod laws;
mod metrics;
mod options;
mod pace;
mod profiles;
mod reserve;
mod serve;
mod session;
mod signals;
mod state;
mod status;
mod status_file;
mod who;

pub use agent::{Agent, AgentOptions, Ended, Reloaded};
pub use ask::ask;
pub use cost::AgentCost;
pub use decisions::{DecisionLog, Decisions};
pub use error::AgentError;
pub use explain::{Explained, Limit, Probed, explain};
pub use laws::{check_laws, known_laws};
pub use options::linux_options;
pub use profiles::{ProfileKeeper, with_profiles};
pub use session::{Introduction, Session, SessionError};
pub use signals::Signals;
pub use state::{AgentState, note, restore};
pub use status::{
    BatchStatus, GuardState, HostStatus, KnobStatus, ServiceStatus, Shown, Status, ToleratedStatus,
};
pub use who::{VictimReport, WhoOptions, WhoReport, who};
