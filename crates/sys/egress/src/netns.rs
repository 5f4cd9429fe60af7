//! Network namespaces: work inside one without leaving one's own.
//!
//! A network namespace belongs to a thread. [`Netns::run`] therefore works on a thread of its own,
//! so that no caller ever finds itself elsewhere, whatever happens inside. Sockets stay in the
//! namespace in which they were made.

use crate::error::{EgressError, Result};
use crate::sys;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Where `ip netns add` and container runtimes put named namespaces.
const NAMED: &str = "/run/netns";

/// A network namespace, held open as long as this value (or a clone of it) lives.
#[derive(Clone, Debug)]
pub struct Netns {
    handle: Option<Arc<OwnedFd>>,
    path: Option<PathBuf>,
}

impl Netns {
    /// The caller's own namespace.
    #[must_use]
    pub fn current() -> Self {
        Self { handle: None, path: None }
    }

    /// A namespace by the path of its file: `/run/netns/NAME`, `/proc/PID/ns/net`, …
    ///
    /// # Errors
    /// If there is no such file, or it may not be opened.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        match File::open(&path) {
            Ok(file) => Ok(Self { handle: Some(Arc::new(file.into())), path: Some(path) }),
            Err(source) => Err(EgressError::Namespace { path, source }),
        }
    }

    /// A namespace by the name that `ip netns` knows it by.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn named(name: &str) -> Result<Self> {
        Self::open(Path::new(NAMED).join(name))
    }

    /// Opens `path`, or gives the caller's own namespace if there is none.
    ///
    /// # Errors
    /// If the namespace cannot be opened.
    pub fn at(path: Option<&Path>) -> Result<Self> {
        path.map_or_else(|| Ok(Self::current()), Self::open)
    }

    /// A new, empty namespace without a name. The kernel removes it with all its links as soon as
    /// the last holder (this value, a process or a socket inside) is gone, even by SIGKILL.
    ///
    /// # Errors
    /// If the kernel refuses (no root).
    pub fn create() -> Result<Self> {
        let made = std::thread::spawn(|| -> io::Result<OwnedFd> {
            sys::new_network_namespace()?;
            Ok(File::open("/proc/thread-self/ns/net")?.into())
        })
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("thread panicked")));
        let fd = made.map_err(EgressError::system("make a network namespace (needs root)"))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        Ok(Self { handle: Some(Arc::new(fd)), path: Some(path.into()) })
    }

    /// A path by which any process of root can open it while it is held; none for the caller's own.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The number by which the kernel tells namespaces apart; none for the caller's own.
    ///
    /// # Errors
    /// If the open file cannot be looked at.
    pub fn inode(&self) -> Result<Option<u64>> {
        let Some(handle) = &self.handle else { return Ok(None) };
        let meta = handle.try_clone().map(File::from).and_then(|file| file.metadata());
        meta.map(|meta| Some(meta.ino())).map_err(|source| self.refused(source))
    }

    /// Runs `work` inside and gives its result.
    ///
    /// # Errors
    /// If the namespace cannot be entered. A panic of `work` goes on in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let Some(handle) = &self.handle else { return Ok(work()) };
        let inside = || sys::enter_network_namespace(handle).map(|()| work());
        match std::thread::scope(|scope| scope.spawn(inside).join()) {
            Ok(result) => result.map_err(|source| self.refused(source)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Starts a thread that works inside. It gives none if the namespace could not be entered.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Option<T>>> {
        let handle = self.handle.clone();
        let inside = move || {
            let entered = handle.as_deref().map_or(Ok(()), sys::enter_network_namespace);
            entered.ok().map(|()| work())
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(inside)
            .map_err(EgressError::system(format!("start thread {name}")))
    }

    /// Makes `command` start inside. The namespace must outlive the start, not the process.
    pub fn enter<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let Some(handle) = self.handle.clone() else { return command };
        // SAFETY: between fork and exec the closure only calls setns, which is async-signal-safe,
        // on a descriptor that the closure keeps open; it neither allocates nor locks.
        unsafe { command.pre_exec(move || sys::enter_network_namespace(&*handle)) }
    }

    /// The open descriptor, for messages that name a namespace by it.
    pub(crate) fn raw_fd(&self) -> Option<RawFd> {
        self.handle.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn refused(&self, source: io::Error) -> EgressError {
        EgressError::Namespace { path: self.path.clone().unwrap_or_default(), source }
    }
}

impl std::fmt::Display for Netns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.path {
            Some(path) => write!(f, "namespace {}", path.display()),
            None => f.write_str("this namespace"),
        }
    }
}
