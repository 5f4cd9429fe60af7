//! One agent on a machine.

use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why the lock is not to be had.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another agent holds it.
    #[error("another agent (pid {pid}) guards this machine with {path}; stop it first")]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The other's process id, or `?`.
        pid: String,
    },
    /// The file cannot be made.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Held as long as it lives; the kernel lets go of it when the process dies.
#[derive(Debug)]
pub struct AgentLock {
    _file: File,
}

impl AgentLock {
    /// Takes the lock in `state_dir`.
    ///
    /// # Errors
    /// Another agent holds it, or the file cannot be made.
    pub fn take(state_dir: &Path) -> Result<Self, LockError> {
        let path = state_dir.join("agent.lock");
        let io = |source| LockError::Io { path: path.clone(), source };
        std::fs::create_dir_all(state_dir).map_err(io)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            let pid = if pid.trim().is_empty() { "?".into() } else { pid.trim().into() };
            return Err(LockError::Held { path, pid });
        }
        file.set_len(0).map_err(io)?;
        file.rewind().map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_agent_is_told_who_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let first = AgentLock::take(folder.path()).unwrap();
        let error = AgentLock::take(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        drop(first);
        assert!(AgentLock::take(folder.path()).is_ok());
    }
}
