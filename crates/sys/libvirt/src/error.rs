//! What can go wrong between Quell and libvirt, at which call, and what to do about it.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The machine is not known (`VIR_ERR_NO_DOMAIN`).
const NO_DOMAIN: i32 = 42;
/// The call makes no sense in the machine's state: it does not run (`VIR_ERR_OPERATION_INVALID`).
const OPERATION_INVALID: i32 = 55;

/// A call to libvirt that failed.
#[derive(Debug, Error)]
pub enum LibvirtError {
    /// There is no socket of libvirt's on this machine.
    #[error("no libvirt here: {looked} is not there")]
    NoSocket {
        /// Where it was looked for.
        looked: String,
    },
    /// Nobody takes the connection.
    #[error("no libvirt answers at {socket}: {source}")]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// libvirt wants a log-in that Quell does not have.
    #[error(
        "libvirt at {socket} wants {wanted} to log in; let root in without (auth_unix_rw in \
         libvirtd.conf or virtqemud.conf)"
    )]
    Login {
        /// The socket.
        socket: PathBuf,
        /// The ways that it offers.
        wanted: String,
    },
    /// No answer in time. The connection is closed; libvirt may still do what it was asked.
    #[error("libvirt at {socket} did not answer {call} within {limit_ms} ms")]
    Timeout {
        /// The socket.
        socket: PathBuf,
        /// What was asked.
        call: &'static str,
        /// How long was waited.
        limit_ms: u64,
    },
    /// The connection broke.
    #[error("the connection to libvirt at {socket} broke at {call}: {source}")]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// What was asked.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The answer is none of libvirt's protocol. The connection is closed.
    #[error("libvirt at {socket} answered {call} with what cannot be understood: {why}")]
    Protocol {
        /// The socket.
        socket: PathBuf,
        /// What was asked.
        call: &'static str,
        /// What is wrong with the answer.
        why: String,
    },
    /// libvirt said no.
    #[error("libvirt refuses {call}: {message} (error {code} of part {part})")]
    Refused {
        /// What was asked.
        call: &'static str,
        /// libvirt's message.
        message: String,
        /// libvirt's number of the error (`virErrorNumber`).
        code: i32,
        /// The number of libvirt's part that it comes from (`virErrorDomain`; 10 is QEMU).
        part: i32,
    },
}

impl LibvirtError {
    /// Whether it failed because the machine is not there, or does not run.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, LibvirtError::Refused { code: NO_DOMAIN | OPERATION_INVALID, .. })
    }
}
