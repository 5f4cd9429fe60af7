//! What can go wrong, and what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// A load run, a server or a search for the peak that could not be carried out.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum LoadError {
    /// A setting that makes no sense.
    #[error("load option {option}: {why}")]
    Option { option: &'static str, why: String },
    /// The service does not answer where it should.
    #[error("cannot connect to {address}: {source}; is the service running and listening there?")]
    Connect { address: SocketAddr, source: io::Error },
    /// The server's address cannot be taken.
    #[error("cannot listen on {address}: {source}; choose another port, or 0 for a free one")]
    Listen { address: SocketAddr, source: io::Error },
    /// A named network namespace that cannot be entered.
    #[error(
        "cannot enter network namespace {path}: {source}; it must exist (ip netns add NAME) and the caller be root"
    )]
    Netns { path: PathBuf, source: io::Error },
    /// A file of results.
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    /// The search engine or the key-value store refused.
    #[error("the {service} service failed to {action}: {why}")]
    Service { service: &'static str, action: &'static str, why: String },
    /// It answers that it reads its data yet.
    #[error("the key-value service still loads its data: {said}; try again once it has")]
    Loading { said: String },
    /// The server process did not start or ended early.
    #[error("server process {program}: {why}")]
    Server { program: PathBuf, why: String },
    /// A system call of the generator or the server.
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
    /// A thread ended by a panic.
    #[error("the {0} thread ended by a panic")]
    Panicked(&'static str),
    /// No rate at all could be sustained.
    #[error(
        "no rate down to {lowest_qps:.1} requests/s was sustained; is the service overloaded by others?"
    )]
    NoSustainedRate { lowest_qps: f64 },
    /// A search was stopped by its controls.
    #[error("stopped before the search was done")]
    Stopped,
    /// A run without a single answer has no percentiles.
    #[error("no request was answered in the measured phase ({offered} offered, {failed} failed)")]
    NothingAnswered { offered: u64, failed: u64 },
}

impl LoadError {
    pub(crate) fn option(option: &'static str, why: impl Into<String>) -> Self {
        LoadError::Option { option, why: why.into() }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| LoadError::System { what, source: errno.into() }
    }

    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| LoadError::System { what, source }
    }
}
