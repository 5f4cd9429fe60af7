//! What can go wrong, and what to do about it.

use aya::maps::MapError;
use aya::programs::ProgramError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a probe could not be loaded, attached, set or read.
#[derive(Debug, Error)]
pub enum EbpfError {
    /// The object did not fit this kernel.
    #[error("cannot load the eBPF object {object}: {why}; see `quell doctor`")]
    Object {
        /// Its name.
        object: &'static str,
        /// The chain of causes.
        why: String,
    },
    /// The kernel refused a program.
    #[error("the kernel refused the eBPF program {program}: {why}; see `quell doctor`")]
    Program {
        /// Its name.
        program: &'static str,
        /// The chain of causes, the verifier's last words among them.
        why: String,
    },
    /// The place to attach to is no cgroup2 directory.
    #[error(
        "cannot attach to {}: {why}; name a directory of the cgroup2 hierarchy", path.display()
    )]
    NotCgroup2 {
        /// The directory.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A program could not be attached.
    #[error("cannot attach {program} to {place}: {why}")]
    Attach {
        /// Its name.
        program: &'static str,
        /// The directory or interface.
        place: String,
        /// The chain of causes.
        why: String,
    },
    /// A map could not be read or written.
    #[error("cannot use the eBPF map {map}: {why}")]
    Map {
        /// Its name.
        map: &'static str,
        /// The chain of causes.
        why: String,
    },
    /// More than what was asked for when loading.
    #[error("{what} {index} is out of range: {limit} were asked for when loading")]
    OutOfRange {
        /// Service, slot or class.
        what: &'static str,
        /// The number given.
        index: u32,
        /// How many there are.
        limit: u32,
    },
    /// Two services claim the same address and port.
    #[error("services {first} and {second} both claim {claim}; give each its own")]
    Conflict {
        /// The service that has it.
        first: u32,
        /// The service that wants it.
        second: u32,
        /// The address or cgroup.
        claim: String,
    },
    /// This part could not be loaded at all.
    #[error("not available here: {0}")]
    Unavailable(String),
    /// A file under /proc could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
}

impl EbpfError {
    pub(crate) fn map(map: &'static str) -> impl Fn(MapError) -> Self {
        move |error| Self::Map { map, why: chain(&error) }
    }

    pub(crate) fn program(program: &'static str) -> impl Fn(ProgramError) -> Self {
        move |error| Self::Program { program, why: refusal(&error) }
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// Like [`chain`], but of a verifier's log, which may be pages long, only the end.
fn refusal(error: &ProgramError) -> String {
    let ProgramError::LoadError { io_error, verifier_log } = error else { return chain(error) };
    let log = verifier_log.to_string();
    let statistics = ["processed ", "verification time ", "stack depth "];
    let is_reason = |line: &&str| !statistics.iter().any(|start| line.starts_with(start));
    let mut end: Vec<&str> = log.lines().rev().filter(is_reason).take(3).collect();
    end.reverse();
    format!("{io_error}; the verifier says: {}", end.join(" | "))
}
