//! Why an agent does not start, or cannot go on.

use quell_config::ConfigErrors;
use quell_linux::{LockError, OpenError};
use quell_platform::{PlatformError, StoreError};
use std::path::PathBuf;
use thiserror::Error;

/// Why an agent does not start, or cannot go on.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The configuration is wrong, or does not fit this machine.
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    /// Another agent works in the same state folder.
    #[error("{0}")]
    Lock(#[from] LockError),
    /// Another agent guards one of the groups or links.
    #[error("another agent guards {what} ({path}); stop it first, or leave {what} to it")]
    Claimed {
        /// The tenant or link.
        what: String,
        /// Its folder.
        path: PathBuf,
    },
    /// What is configured cannot be guarded.
    #[error("{}", all(.0))]
    Open(Vec<OpenError>),
    /// Metrics cannot be served where the configuration says.
    #[error("metrics cannot be served on {place}: {source}")]
    Metrics {
        /// The address or socket.
        place: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The decision journal cannot be written.
    #[error("the decision journal cannot be written: {0}")]
    Journal(#[from] StoreError),
    /// The status file cannot be written.
    #[error("cannot write the status file {path}: {source}")]
    Status {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The platform failed.
    #[error("{0}")]
    Platform(#[from] PlatformError),
    /// It was stopped while it could not write down what it does.
    #[error("stopped on the safe side, batch had been held since: {0}")]
    FailSafe(String),
    /// Something could not be put back.
    #[error("not everything could be put back: {0}; see `quell restore`")]
    NotRestored(String),
}

/// One a line.
fn all(errors: &[OpenError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
