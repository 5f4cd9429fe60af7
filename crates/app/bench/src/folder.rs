//! The folder of a run: its feeds, its agent's state, and what somebody else needs to know to clean
//! up after it if it is killed.
//!
//! It is made before the groups and removed after them, so whatever a run has left is found by it.
//! It bears the name of the run's groups, and only its owner may look into it: what stands in it
//! is believed.

use anyhow::Context as _;
use quell_cgroup::{Layout, RawFile, restore_raw, subtree_files};
use quell_topology::Machine;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What the names of runs begin with.
pub(crate) const PREFIX: &str = "quell-demo-";
const RECORD: &str = "run.json";

/// Who made a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    pid: u32,
    /// Tells the process from a later one of the same number.
    start_ns: u64,
    /// Files above the run's groups that making them may change.
    above: Vec<RawFile>,
}

/// A run's folder. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct RunFolder {
    name: String,
    path: PathBuf,
    above: Vec<RawFile>,
}

impl RunFolder {
    /// Makes one for this process, with a number where it makes several.
    pub(crate) fn make() -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let suffix = if number == 0 { String::new() } else { format!("-{number}") };
        let pid = std::process::id();
        let name = format!("{PREFIX}{pid}{suffix}");
        let above = subtree_files(&Layout::discover("/"), &format!("/{name}"))?;
        let start_ns = Machine::new("/").process(pid)?.start_ns;
        let record = serde_json::to_string(&Record { pid, start_ns, above: above.clone() })?;
        let folder = Self { path: make(&name)?, name, above };
        fs::write(folder.path.join(RECORD), record)
            .with_context(|| format!("cannot write into {}", folder.path.display()))?;
        Ok(folder)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        put_back_above(&self.above);
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("quell: {} remains: {error}", self.path.display());
        }
    }
}

/// Turns controllers of cgroup v2 off again that were turned on for a run's groups, unless other
/// groups of ours are there, which would lose them. A refusal means that somebody needs them now.
fn put_back_above(above: &[RawFile]) {
    let homes = above.iter().filter_map(|(path, _)| path.parent());
    let ours = |name: &String| name.starts_with("quell");
    if !homes.flat_map(folders_in).any(|name| ours(&name)) {
        let _ = restore_raw(above);
    }
}

/// The same for a dead run.
pub(crate) fn put_back_above_of(path: &Path) {
    if let Some(record) = record(path) {
        put_back_above(&record.above);
    }
}

/// Names of the folders in a folder.
pub(crate) fn folders_in(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Where folders of runs may lie. The first belongs to root and is empty after a boot.
fn bases() -> [PathBuf; 2] {
    ["/run".into(), std::env::temp_dir()]
}

pub(crate) fn make(name: &str) -> anyhow::Result<PathBuf> {
    let mut refused = Vec::new();
    for base in bases() {
        let path = base.join(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            // Never somebody else's, even if it is gone the next moment.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                anyhow::bail!("{} is there already; `quell restore` removes it", path.display())
            }
            Err(error) => refused.push(format!("{}: {error}", path.display())),
        }
    }
    anyhow::bail!("cannot make a folder for this run: {}", refused.join("; "))
}

/// The folders of all runs, dead and alive: (name, path).
pub(crate) fn all() -> Vec<(String, PathBuf)> {
    let named = bases().into_iter().flat_map(|base| {
        let names = folders_in(&base).into_iter().filter(|name| pid_of(name).is_some());
        names.map(move |name| (name.clone(), base.join(name)))
    });
    let mut found: Vec<_> = named.filter(|(_, path)| is_private(path)).collect();
    found.sort();
    found.dedup();
    found
}

/// Somebody else's folder could make us change any file of the machine.
fn is_private(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|m| m.is_dir() && m.uid() == own && m.mode() & 0o077 == 0)
}

/// The process in a run's name.
pub(crate) fn pid_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Whether the process that made a folder still lives. Without a record (it was killed just then,
/// or has not written it yet) its number has to do.
pub(crate) fn is_alive(machine: &Machine, name: &str, path: &Path) -> bool {
    match record(path) {
        Some(record) => machine
            .process(record.pid)
            .is_ok_and(|p| p.start_ns == record.start_ns && !matches!(p.state, 'Z' | 'X')),
        None => pid_of(name).is_some_and(|pid| machine.process(pid).is_ok()),
    }
}

fn record(path: &Path) -> Option<Record> {
    serde_json::from_str(&fs::read_to_string(path.join(RECORD)).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_process() {
        assert_eq!(pid_of("quell-demo-17"), Some(17));
        assert_eq!(pid_of("quell-demo-17-2"), Some(17));
        assert_eq!(pid_of("quell-demo-x"), None);
        assert_eq!(pid_of("quell-test-17"), None);
    }

    #[test]
    fn a_process_is_known_by_its_start_not_by_its_number_alone() {
        let machine = Machine::new("/");
        let folder = tempfile::tempdir().unwrap();
        let pid = std::process::id();
        let name = format!("{PREFIX}{pid}");
        let alive = |record: Option<Record>| {
            let text = record.map_or_else(|| "{".into(), |r| serde_json::to_string(&r).unwrap());
            fs::write(folder.path().join(RECORD), text).unwrap();
            is_alive(&machine, &name, folder.path())
        };
        let start_ns = machine.process(pid).unwrap().start_ns;
        let of = |start_ns| Record { pid, start_ns, above: Vec::new() };
        assert!(alive(Some(of(start_ns))));
        assert!(!alive(Some(of(start_ns + 10_000_000))));
        assert!(alive(None), "half a record: its maker may be writing it");
    }

    #[test]
    fn a_folder_that_others_can_write_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let allow = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(folder.path(), mode).unwrap();
        };
        allow(0o700);
        assert!(is_private(folder.path()));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(!is_private(&link));
        allow(0o770);
        assert!(!is_private(folder.path()));
    }
}
