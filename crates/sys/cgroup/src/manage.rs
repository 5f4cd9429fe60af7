//! Making and removing Quell's own groups, and moving processes.

use crate::group::{Group, any_member_place, inner_path};
use crate::layout::{Hierarchy, Layout, Version};
use crate::raw::{self, RawFile};
use crate::{CgroupError, controllers, file, parse, search};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What Quell's own groups' names begin with.
const PREFIX: &str = "quell";

fn is_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

/// The hierarchies in which a group with these controllers lives: those that serve them, and the
/// v2 tree wherever there is one (for PSI, freezing and eBPF).
fn hierarchies<'a>(
    layout: &'a Layout,
    controllers: &'a [&str],
) -> impl Iterator<Item = &'a Hierarchy> {
    layout.hierarchies().iter().filter(|hierarchy| {
        let serves = controllers.iter().any(|controller| hierarchy.has(controller));
        hierarchy.version == Version::V2 || serves
    })
}

/// Makes a group in every hierarchy that serves one of `controllers`, and in the v2 tree. Groups
/// on the way that are missing are made too; each that is made must be called `quell…`. One that is
/// there already is taken as it is.
///
/// In v2 the controllers are enabled in the groups above; in v1 a new cpuset gets its parent's CPUs
/// and memory nodes, without which no task could enter it.
///
/// # Errors
/// A name that is not Quell's, or the kernel refuses; then nothing new is left behind.
pub fn create(layout: &Layout, path: &str, controllers: &[&str]) -> Result<Group, CgroupError> {
    let inner = inner_path(layout, path)?;
    if !is_ours(&inner) {
        return Err(CgroupError::NotOurs { path: PathBuf::from(path) });
    }
    let mut made = Vec::new();
    let done = hierarchies(layout, controllers)
        .try_for_each(|hierarchy| create_in(hierarchy, &inner, controllers, &mut made));
    if let Err(error) = done {
        for dir in made.iter().rev() {
            let _ = std::fs::remove_dir(dir);
        }
        return Err(error);
    }
    Group::find(layout, path)
}

fn create_in(
    hierarchy: &Hierarchy,
    inner: &Path,
    controllers: &[&str],
    made: &mut Vec<PathBuf>,
) -> Result<(), CgroupError> {
    let mut parent = hierarchy.dir.clone();
    for part in inner.components() {
        if hierarchy.version == Version::V2 {
            enable(hierarchy, &parent, controllers)?;
        }
        let dir = parent.join(part);
        if !dir.is_dir() {
            if !is_ours(&dir) {
                return Err(CgroupError::NotOurs { path: dir });
            }
            std::fs::create_dir(&dir).map_err(|e| file::write_error(&dir, "a new group", e))?;
            made.push(dir.clone());
            if hierarchy.version == Version::V1 && hierarchy.has("cpuset") {
                inherit_cpuset(&parent, &dir)?;
            }
        }
        parent = dir;
    }
    Ok(())
}

/// A new v1 cpuset is empty. Where an exclusive sibling holds some of the parent's CPUs, it stays
/// so until its knob is set.
fn inherit_cpuset(parent: &Path, dir: &Path) -> Result<(), CgroupError> {
    let mems = file::read(&parent.join("cpuset.mems"))?;
    file::write(&dir.join("cpuset.mems"), &mems)?;
    let cpus = file::read(&parent.join("cpuset.cpus"))?;
    match file::write(&dir.join("cpuset.cpus"), &cpus) {
        Err(CgroupError::Write { .. }) | Ok(()) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Lets a v2 group's children have these controllers, as far as the tree has them.
fn enable(hierarchy: &Hierarchy, dir: &Path, controllers: &[&str]) -> Result<(), CgroupError> {
    let path = dir.join(controllers::FILE);
    let enabled = file::read(&path)?;
    let enabled: Vec<&str> = enabled.split_ascii_whitespace().collect();
    let wanted = controllers.iter().filter(|c| hierarchy.has(c) && !enabled.contains(c));
    wanted.into_iter().try_for_each(|controller| file::write(&path, &format!("+{controller}")))
}

/// The files that [`create`] may change besides the new group itself: `cgroup.subtree_control` of
/// the v2 groups above it, with their present text.
///
/// # Errors
/// One cannot be read.
pub fn subtree_files(layout: &Layout, path: &str) -> Result<Vec<RawFile>, CgroupError> {
    let inner = inner_path(layout, path)?;
    let Some(v2) = layout.v2() else { return Ok(Vec::new()) };
    let above = inner.ancestors().skip(1).map(|part| v2.dir.join(part));
    let existing = above.filter(|dir| dir.is_dir());
    raw::save(existing.map(|dir| dir.join(controllers::FILE)))
}

/// Removes a group of Quell's and those below it from every hierarchy. Processes that just ended
/// keep a group for a moment, so it is tried until `deadline` has passed. One that is gone already
/// is no error.
///
/// # Errors
/// A name that is not Quell's (also below it), or processes are still inside.
pub fn remove(layout: &Layout, path: &str, deadline: Duration) -> Result<(), CgroupError> {
    let inner = inner_path(layout, path)?;
    let start = Instant::now();
    for hierarchy in layout.hierarchies() {
        let mut dirs = Vec::new();
        let top = hierarchy.dir.join(&inner);
        if top.is_dir() {
            search::walk(&top, &mut |dir| dirs.push(dir.to_owned()));
        }
        if let Some(foreign) = dirs.iter().find(|dir| !is_ours(dir)) {
            return Err(CgroupError::NotOurs { path: foreign.clone() });
        }
        dirs.iter().rev().try_for_each(|dir| remove_dir(dir, start, deadline))?;
    }
    Ok(())
}

fn remove_dir(dir: &Path, start: Instant, deadline: Duration) -> Result<(), CgroupError> {
    loop {
        match std::fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) if start.elapsed() > deadline => {
                return Err(file::write_error(dir, "removal of the group", error));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Moves a process with all its threads, by writing its number to a `cgroup.procs` file.
///
/// # Errors
/// The process has ended, or the group does not take it.
pub fn move_process(procs: &Path, pid: u32) -> Result<(), CgroupError> {
    file::write(procs, &pid.to_string())
}

/// The `cgroup.procs` files of the groups that a process is in, root groups included: where
/// [`move_process`] brings it back to.
///
/// # Errors
/// No such process.
pub fn home_of(layout: &Layout, pid: u32) -> Result<Vec<PathBuf>, CgroupError> {
    let path = layout.root().join(format!("proc/{pid}/cgroup"));
    let bytes = std::fs::read(path).map_err(|source| CgroupError::NoProcess { pid, source })?;
    let text = String::from_utf8_lossy(&bytes);
    let places = text.lines().filter_map(parse::membership);
    let places = places.filter_map(|(words, path)| any_member_place(layout, &words, path));
    Ok(places.map(|place| place.file("cgroup.procs")).collect())
}

impl Group {
    /// The group's place in every hierarchy of `layout`, whether it is there or not.
    pub(crate) fn procs_files(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.places().iter().map(|place| place.file("cgroup.procs"))
    }

    /// Moves a process with all its threads into this group, in every hierarchy that has it.
    ///
    /// # Errors
    /// The process has ended, or the group does not take it; hierarchies may then differ.
    pub fn add_process(&self, pid: u32) -> Result<(), CgroupError> {
        self.procs_files().try_for_each(|file| move_process(&file, pid))
    }

    /// Moves one thread into this group's v1 hierarchies (v2 moves whole processes, unless the
    /// group is threaded).
    ///
    /// # Errors
    /// The thread has ended, or the group does not take it.
    pub fn add_thread(&self, tid: u32) -> Result<(), CgroupError> {
        for place in self.places() {
            let threaded = || {
                let kind = file::read(&place.file("cgroup.type")).unwrap_or_default();
                kind.trim() == "threaded"
            };
            match place.version {
                Version::V1 => file::write(&place.file("tasks"), &tid.to_string())?,
                Version::V2 if threaded() => {
                    file::write(&place.file("cgroup.threads"), &tid.to_string())?;
                }
                Version::V2 => {}
            }
        }
        Ok(())
    }

    /// Ends every process in this group and below it, which must be one of Quell's: by
    /// `cgroup.kill`, else one by one, again and again until none is left. A frozen v1 group is
    /// thawed first, since its processes could not end.
    ///
    /// # Errors
    /// A group that is not Quell's, or processes that outlive the deadline.
    pub fn kill(&self, deadline: Duration) -> Result<(), CgroupError> {
        if let Some(foreign) = self.places().iter().find(|place| !is_ours(&place.dir)) {
            return Err(CgroupError::NotOurs { path: foreign.dir.clone() });
        }
        let start = Instant::now();
        for place in self.places().iter().filter(|place| place.version == Version::V1) {
            let state = place.file("freezer.state");
            if state.exists() {
                file::write(&state, "THAWED")?;
            }
        }
        while self.is_populated() {
            self.signal_all();
            if start.elapsed() > deadline {
                return Err(CgroupError::Timeout {
                    path: self.places()[0].dir.clone(),
                    what: "the end of all processes",
                    limit_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
                });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn signal_all(&self) {
        for place in self.places() {
            if place.version == Version::V2 && file::write(&place.file("cgroup.kill"), "1").is_ok()
            {
                continue;
            }
            search::walk(&place.dir, &mut |dir| {
                for pid in search::numbers(&dir.join("cgroup.procs")) {
                    kill_one(pid);
                }
            });
        }
    }
}

fn kill_one(pid: u32) {
    // Not our own number and not 1, whatever a file says.
    let number =
        i32::try_from(pid).ok().filter(|&pid| pid > 1 && pid.unsigned_abs() != std::process::id());
    if let Some(pid) = number.and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
