//! What can go wrong, and what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// Why pressure could not be applied.
#[derive(Debug, Error)]
pub enum PressureError {
    /// No kernel has this name.
    #[error("no resource is called {0:?}: give one of {names}", names = names())]
    UnknownResource(String),
    /// An intensity that is no number from 0 to 100.
    #[error("intensity {0:?} is not a number from 0 to 100 (or a ramp like 0:100)")]
    Intensity(String),
    /// An option out of its range.
    #[error("{option} is {value}: {allowed}")]
    Option {
        /// Its name on the command line.
        option: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        allowed: &'static str,
    },
    /// A file for memory that cannot be used.
    #[error("cannot use {} as memory: {source}", path.display())]
    MemoryFile {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// CPUs that this process cannot use.
    #[error(
        "CPUs {unusable} are offline, absent or not allowed here: this process may use {allowed}"
    )]
    Cpus {
        /// The CPUs that were asked for in vain.
        unusable: String,
        /// The CPUs that could be asked for.
        allowed: String,
    },
    /// The kernel does not say how large the last-level cache is.
    #[error("the size of the last-level cache is unknown here: give it with --llc-bytes")]
    UnknownLlc,
    /// The kernel does not say how large a core's own cache is.
    #[error(
        "the size of the level-{level} cache of CPU {cpu} is unknown here: give it with --cache-bytes"
    )]
    UnknownCache {
        /// 1 is nearest to the core.
        level: u32,
        /// Whose cache.
        cpu: u32,
    },
    /// Messages from core to core need two.
    #[error("the interconnect needs two CPUs: name two or more with --cpus")]
    OneCpu,
    /// The kernel does not say how much memory there is.
    #[error("how much memory is free is unknown here: give what 100 % are with --region-bytes")]
    UnknownMemory,
    /// Even the reserve is not free.
    #[error(
        "no {what} to take: {} MiB are free, and {} MiB stay in reserve",
        free_bytes >> 20,
        reserve_bytes >> 20
    )]
    NoRoom {
        /// Memory or storage.
        what: &'static str,
        /// What is free.
        free_bytes: u64,
        /// What has to stay free.
        reserve_bytes: u64,
    },
    /// A core without a second hardware thread.
    #[error(
        "CPU {cpu} has no SMT sibling here: one hardware thread a core, nothing to share it with"
    )]
    NoSibling {
        /// Which one.
        cpu: u32,
    },
    /// Pressure that hurts strangers, without consent.
    #[error(
        "bus locks stop the memory accesses of the whole socket, of other tenants of the host too: \
         if that is meant, say --i-know-this-hurts-everyone"
    )]
    BusLockConsent,
    /// What this machine does not have.
    #[error("no {resource} here: {why}")]
    Absent {
        /// What was asked for.
        resource: crate::Resource,
        /// Why not.
        why: &'static str,
    },
    /// No memory for the footprint, even after scaling it down.
    #[error("cannot map {bytes} bytes of memory: {source}")]
    Memory {
        /// What the last attempt asked for.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Nobody accepts the flows.
    #[error("no peer accepts flows at {peer}: {source} (start a sink there, or check the address)")]
    Peer {
        /// The address.
        peer: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file, namespace or other system call failed.
    #[error("{what} {}: {source}", path.display())]
    System {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file that is no feed of a polluter.
    #[error("{} is not the feed of a polluter: {why}", path.display())]
    NotAFeed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A thread could not be set up.
    #[error("worker {index}: {why}")]
    Worker {
        /// Which one, from 0.
        index: usize,
        /// What it said.
        why: String,
    },
}

/// The names of all resources.
fn names() -> String {
    crate::Resource::ALL.map(crate::Resource::name).join(", ")
}

impl PressureError {
    /// A failed system call on a path or device.
    pub(crate) fn system(
        what: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        PressureError::System { what, path: path.into(), source: source.into() }
    }
}
