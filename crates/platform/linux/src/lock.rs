//! One agent on a machine.
//!
//! The kernel's lock on a file (flock) is gone with its process. Whoever can open a file can lock it,
//! also for reading only: so lock files are root's alone, and lie where nobody else can put another
//! one in their place. Groups' folders, which everybody can open, are not locked.

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// So long a lock is asked for again before it counts as held: whoever looks whether an agent runs,
/// or sweeps the locks of dead ones away, has it for a moment too.
const MOMENT: Duration = Duration::from_millis(300);
const AGAIN: Duration = Duration::from_millis(2);

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
    /// Others could take the lock, or put another file in its place.
    #[error("{path} is no safe place for locks: {why}")]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The file cannot be made.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
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
    /// Another agent holds it, the file cannot be made, or the folder is somebody else's.
    pub fn take(state_dir: &Path) -> Result<Self, LockError> {
        let path = state_dir.join("agent.lock");
        let io = |source| LockError::Io { path: path.clone(), source };
        private_folder(state_dir, 0o755)?;
        let mut file = match lock(&path).map_err(io)? {
            Ok(file) => file,
            Err(mut held) => {
                let mut pid = String::new();
                let _ = held.read_to_string(&mut pid);
                let pid = if pid.trim().is_empty() { "?".into() } else { pid.trim().into() };
                return Err(LockError::Held { path, pid });
            }
        };
        file.set_len(0).map_err(io)?;
        file.rewind().map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(Self { _file: file })
    }
}

/// A lock of a name in a folder that only root can look into; the file is removed with it.
#[derive(Debug)]
pub struct NamedLock {
    path: PathBuf,
    _file: File,
}

impl NamedLock {
    /// Takes the lock of this name; none if somebody else holds it.
    ///
    /// # Errors
    /// The file cannot be made, or the folder is not root's alone.
    pub fn take(folder: &Path, name: &str) -> Result<Option<Self>, LockError> {
        let path = folder.join(name);
        loop {
            let io = |source| LockError::Io { path: path.clone(), source };
            match private_folder(folder, 0o700).and_then(|()| lock(&path).map_err(io)) {
                Ok(Ok(file)) => return Ok(Some(Self { path, _file: file })),
                Ok(Err(_)) => return Ok(None),
                // Whoever had the last lock has just removed the folder.
                Err(LockError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl NamedLock {
    /// Removes the files of those that died with a lock of theirs, and the folder if none is left. Locks
    /// that are held stay.
    pub fn sweep(folder: &Path) {
        let Ok(files) = std::fs::read_dir(folder) else { return };
        for path in files.flatten().map(|file| file.path()) {
            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(file) = rustix::fs::open(&path, flags, Mode::empty()).map(File::from) else {
                continue;
            };
            // The file goes while it is locked, and only if it is still the one of that name.
            let free = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            if free && is_named(&file, &path) {
                let _ = std::fs::remove_file(&path);
            }
        }
        let _ = std::fs::remove_dir(folder);
    }
}

/// Whether the file is the one that the path names.
fn is_named(file: &File, path: &Path) -> bool {
    let (own, named) = (file.metadata(), std::fs::symlink_metadata(path));
    let id = |m: std::fs::Metadata| (m.dev(), m.ino());
    matches!((own.map(id), named.map(id)), (Ok(own), Ok(named)) if own == named)
}

impl Drop for NamedLock {
    /// The file goes while it is locked, so that nobody holds one that another cannot find.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Opens or makes a file that is this user's alone and locks it; the file alone if it is locked.
fn lock(path: &Path) -> io::Result<Result<File, File>> {
    let until = Instant::now() + MOMENT;
    loop {
        let file = open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(AGAIN);
                continue;
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Err(file)),
            other => other?,
        }
        if !is_named(&file, path) {
            // Its holder has removed it while we waited for it.
            continue;
        }
        if file.metadata()?.mode() & 0o077 == 0 {
            return Ok(Ok(file));
        }
        // One that others could open, and may still have open: another takes its place.
        std::fs::remove_file(path)?;
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(File::from(rustix::fs::open(path, flags, mode)?))
}

/// Makes the folder if need be, and looks whether it is this user's, with no more rights for others
/// than `mode` allows.
fn private_folder(folder: &Path, mode: u32) -> Result<(), LockError> {
    let io = |source| LockError::Io { path: folder.to_owned(), source };
    let refuse = |why: String| Err(LockError::Unsafe { path: folder.to_owned(), why });
    DirBuilder::new().recursive(true).mode(mode).create(folder).map_err(io)?;
    let found = std::fs::metadata(folder).map_err(io)?;
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        return refuse(format!("it belongs to user {}; chown it to user {own}", found.uid()));
    }
    let more = found.mode() & 0o777 & !mode;
    if more & 0o022 == 0 {
        return Ok(());
    }
    refuse("others may write into it; chmod go-w it, or name another folder".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn allow(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn the_second_agent_is_told_who_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let first = AgentLock::take(folder.path()).unwrap();
        let error = AgentLock::take(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        drop(first);
        assert!(AgentLock::take(folder.path()).is_ok());
    }

    #[test]
    fn nobody_else_can_open_it_and_so_lock_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.lock");
        let lock = AgentLock::take(folder.path()).unwrap();
        assert_eq!(mode(&path), 0o600);
        drop(lock);
        // One of an earlier version, which somebody has open, and locks later.
        allow(&path, 0o644);
        let stranger = File::open(&path).unwrap();
        let first = AgentLock::take(folder.path()).unwrap();
        assert_eq!(mode(&path), 0o600);
        drop(first);
        flock(&stranger, FlockOperation::LockShared).unwrap();
        assert!(AgentLock::take(folder.path()).is_ok(), "that one is the lock no more");
    }

    /// Does something again and again beside something else, each some hundred times.
    fn beside(other: impl Fn() + Sync, tried: impl Fn()) {
        use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
        const TIMES: u32 = 300;
        let (done, others) = (AtomicBool::new(false), AtomicU32::new(0));
        /// Also if what is tried panics.
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    other();
                    others.fetch_add(1, Relaxed);
                }
            });
            let _done = Done(&done);
            let mut tries = 0;
            while tries < TIMES || others.load(Relaxed) < TIMES {
                tried();
                tries += 1;
            }
        });
    }

    #[test]
    fn who_only_looks_keeps_nobody_from_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        drop(AgentLock::take(folder.path()).unwrap());
        let look = || {
            let file = File::open(folder.path().join("agent.lock")).unwrap();
            let _ = flock(&file, FlockOperation::NonBlockingLockShared);
            std::thread::yield_now();
        };
        beside(look, || drop(AgentLock::take(folder.path()).unwrap()));
    }

    #[test]
    fn who_sweeps_keeps_nobody_from_a_lock() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("quell-claims");
        // Keeps the folder.
        let _other = NamedLock::take(&folder, "quell-b").unwrap().unwrap();
        // The moment of a sweep in which it has the lock and has not removed the file yet.
        let sweep = || {
            if let Ok(file) = File::open(folder.join("quell-a")) {
                let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                std::thread::yield_now();
            }
            NamedLock::sweep(&folder);
        };
        beside(sweep, || {
            // One that somebody left who was killed.
            std::fs::write(folder.join("quell-a"), "").unwrap();
            assert!(NamedLock::take(&folder, "quell-a").unwrap().is_some());
        });
    }

    #[test]
    fn a_folder_that_others_can_write_or_own_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        allow(folder.path(), 0o777);
        let error = AgentLock::take(folder.path()).unwrap_err();
        assert!(matches!(error, LockError::Unsafe { .. }), "{error}");
        assert!(!folder.path().join("agent.lock").exists());
        allow(folder.path(), 0o700);
        std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
        let error = AgentLock::take(folder.path()).unwrap_err().to_string();
        assert!(error.contains("user 65534"), "{error}");
    }

    #[test]
    fn a_link_in_place_of_the_lock_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("somebody's");
        std::fs::write(&target, "text").unwrap();
        std::os::unix::fs::symlink(&target, folder.path().join("agent.lock")).unwrap();
        assert!(AgentLock::take(folder.path()).is_err());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "text");
    }

    #[test]
    fn a_named_lock_is_had_once_and_leaves_nothing() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("quell-claims");
        let first = NamedLock::take(&folder, "quell-a").unwrap().unwrap();
        assert_eq!((mode(&folder), mode(&folder.join("quell-a"))), (0o700, 0o600));
        assert!(NamedLock::take(&folder, "quell-a").unwrap().is_none());
        let other = NamedLock::take(&folder, "quell-b").unwrap().unwrap();
        drop(first);
        assert!(NamedLock::take(&folder, "quell-a").unwrap().is_some());
        drop(other);
        assert!(!folder.exists());
    }
}
