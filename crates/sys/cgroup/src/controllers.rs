//! Controllers of cgroup v2 that were enabled for groups of Quell's, and who uses them by now.
//!
//! # Problem
//! A group has a controller only if all groups above it pass that on, by `cgroup.subtree_control`.
//! What is enabled for a group of Quell's all its siblings get too. Once somebody else counts on it,
//! it is not ours to disable: the kernel refuses if a group below passes it on in turn (EBUSY), and
//! where none does it throws away, without a word, all limits that the groups below have set by it.
//!
//! # Idea
//! Only what [`create`](crate::create) enables is ever disabled, and only if no group right below
//! passes it on, has a limit that a new group has not, or is one of Quell's (which another agent may
//! need). Nothing tells of those who only read what a controller counts: they lose that.

use crate::{CgroupError, file, search};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The v2 controllers that Quell ever enables.
const ENABLED: [&str; 4] = ["cpu", "cpuset", "memory", "io"];

/// The file that passes controllers on.
pub(crate) const FILE: &str = "cgroup.subtree_control";

/// What the files of a new group hold.
const NEW: [(&str, &str); 24] = [
    ("cpu.weight", "100"),
    ("cpu.max", "max 100000"),
    ("cpu.max.burst", "0"),
    ("cpu.idle", "0"),
    ("cpu.uclamp.min", "0.00"),
    ("cpu.uclamp.max", "max"),
    ("cpuset.cpus", ""),
    ("cpuset.mems", ""),
    ("cpuset.cpus.exclusive", ""),
    ("cpuset.cpus.partition", "member"),
    ("memory.min", "0"),
    ("memory.low", "0"),
    ("memory.high", "max"),
    ("memory.max", "max"),
    ("memory.oom.group", "0"),
    ("memory.swap.high", "max"),
    ("memory.swap.max", "max"),
    ("memory.zswap.max", "max"),
    ("memory.zswap.writeback", "1"),
    ("io.max", ""),
    ("io.weight", "default 100"),
    ("io.bfq.weight", "default 100"),
    ("io.latency", ""),
    ("io.prio.class", "no-change"),
];

/// Ends of names of files that count, or say again what another one holds: they are no limits.
const NO_LIMITS: [&str; 11] = [
    ".stat",
    ".stat.local",
    ".effective",
    ".current",
    ".events",
    ".events.local",
    ".peak",
    ".pressure",
    ".reclaim",
    ".numa_stat",
    "cpu.weight.nice",
];

/// Controllers that are enabled now and were not in the saved text, and that Quell enables.
pub(crate) fn added<'a>(now: &'a str, saved: &str) -> Vec<&'a str> {
    let before: Vec<&str> = saved.split_ascii_whitespace().collect();
    let ours = |word: &&str| ENABLED.contains(word) && !before.contains(word);
    now.split_ascii_whitespace().filter(ours).collect()
}

/// Disables what was added since the text was saved, each controller whatever becomes of the others.
///
/// # Errors
/// Somebody uses one by now, or the kernel refuses.
pub(crate) fn disable_added(path: &Path, saved: &str) -> Result<(), CgroupError> {
    let now = file::read(path)?;
    let disable = |controller: &str| match used(path, controller) {
        Some(why) => Err(CgroupError::Refused { path: path.to_owned(), why }),
        None => file::write(path, &format!("-{controller}")),
    };
    let done: Vec<_> = added(&now, saved).into_iter().map(disable).collect();
    done.into_iter().collect()
}

/// Why none of those that are still enabled is to be disabled; none if one of them is.
pub(crate) fn all_used(path: &Path, saved: &str) -> Option<String> {
    let now = file::read(path).ok()?;
    let why: Option<Vec<String>> =
        added(&now, saved).into_iter().map(|controller| used(path, controller)).collect();
    Some(why?.join("; "))
}

/// Whether a group right below that of this file uses a controller that is passed on to it.
fn used(path: &Path, controller: &str) -> Option<String> {
    let above = path.parent()?;
    let mut below = search::subdirs(above);
    below.sort_unstable();
    let user = |name: &String| Some((above.join(name), use_of(&above.join(name), controller)?));
    let (dir, how) = below.iter().find_map(user)?;
    let (above, dir) = (above.display(), dir.display());
    Some(format!("controller {controller} stays enabled below {above}: {dir} {how}"))
}

fn use_of(dir: &Path, controller: &str) -> Option<String> {
    let passed_on = file::read(&dir.join(FILE)).unwrap_or_default();
    if passed_on.split_ascii_whitespace().any(|word| word == controller) {
        return Some("passes it on".to_owned());
    }
    if dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"quell")) {
        return Some("is a group that Quell made".to_owned());
    }
    limits(dir, controller).into_iter().find_map(|path| limit(&path))
}

/// The files by which a group is limited through this controller.
fn limits(dir: &Path, controller: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let of_controller = |entry: &std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap_or_default();
        let own = name.strip_prefix(controller).is_some_and(|rest| rest.starts_with('.'));
        let writable = entry.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o200 != 0);
        own && writable && !NO_LIMITS.iter().any(|end| name.ends_with(end))
    };
    let mut paths: Vec<PathBuf> = entries.filter(of_controller).map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

/// What is set there that no new group has. Of a file that is not known nobody can tell.
fn limit(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let Some((_, new)) = NEW.iter().find(|(known, _)| *known == name) else {
        return Some(format!("has {name}, of which it is not known whether it is set"));
    };
    // A file that went meanwhile limits nobody.
    let text = file::read(path).ok()?;
    (text.trim() != *new).then(|| format!("has {name} set to {:?}", text.trim()))
}
