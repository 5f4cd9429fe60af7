//! What can go wrong, and what to do about it.

use quell_pressure::{PressureError, Resource};
use std::io;
use thiserror::Error;

/// Why a measurement could not be made.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// Pressure could not be applied.
    #[error(transparent)]
    Pressure(#[from] PressureError),
    /// The same, and on what.
    #[error("cannot press on {resource}: {source}")]
    Resource {
        /// On what.
        resource: Resource,
        /// Why.
        source: PressureError,
    },
    /// Somebody asked to stop. What was begun has been put back.
    #[error("stopped before the end")]
    Stopped,
    /// The program cannot be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// What was to be started.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// The program ended with an error.
    #[error(
        "{program} ended with {status} after {after_s:.2} s{hint}: it has to succeed, over and over"
    )]
    Failed {
        /// What was started.
        program: String,
        /// Its exit status or signal.
        status: String,
        /// Its life.
        after_s: f64,
        /// Its last words.
        hint: String,
    },
    /// No progress can be seen.
    #[error(
        "{program} shows no steady progress in {seconds:.1} s ({tried}): name what it prints with \
         --progress, or give a command that ends within {longest_s:.0} s"
    )]
    NoProgress {
        /// What was started or watched.
        program: String,
        /// For how long it was watched.
        seconds: f64,
        /// Which signals were tried.
        tried: String,
        /// The longest run that is repeated.
        longest_s: f64,
    },
    /// Nothing shows the progress of a workload that runs already.
    #[error(
        "{what} shows no progress in {seconds:.1} s ({tried}): give the command itself after --, \
         or a service with a port that is asked while it is measured"
    )]
    Unseen {
        /// What was watched.
        what: String,
        /// For how long.
        seconds: f64,
        /// Which signals were tried.
        tried: String,
    },
    /// The progress went to nothing during the measurement.
    #[error(
        "{0} made no progress any more: it ended, it waits, or it does work that is not counted; \
         whole runs of a command count with --progress runs"
    )]
    Stalled(String),
    /// A service does not keep up with the rate at which it is asked.
    #[error(
        "{what} answered too few of {per_second} requests a second, or none: it has no CPU \
         for them beside what else runs here; ask it at a lower rate"
    )]
    Overloaded {
        /// Which service.
        what: String,
        /// At how many requests a second it was asked.
        per_second: f64,
    },
    /// There is no such process or group.
    #[error("{what}: {source}")]
    Subject {
        /// What was to be watched.
        what: String,
        /// Why it cannot be.
        source: io::Error,
    },
    /// There is no CPU for the pressure.
    #[error(
        "this process may use CPU {allowed} only: pressure needs a CPU beside the workload's \
         (--same-core shares one by time, which is marked so)"
    )]
    OneCpu {
        /// What may be used.
        allowed: String,
    },
    /// A file.
    #[error("{action} {path}: {source}")]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// An option out of its range.
    #[error("{option} is {value}: {allowed}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        allowed: &'static str,
    },
}

impl ProfileError {
    /// Something about a subject that the kernel refused.
    pub fn subject(what: impl Into<String>, source: io::Error) -> ProfileError {
        ProfileError::Subject { what: what.into(), source }
    }
}
