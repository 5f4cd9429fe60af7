//! What the kernel counts of a process and its children, or of a control group.

use quell_pressure::process_cpu_time;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processes that are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// A process and its descendants.
    Process(u32),
    /// The members of a control group, by its folder.
    Cgroup(PathBuf),
}

/// Where groups lie: the second version, or the first one's hierarchies.
const HIERARCHIES: [&str; 4] = [
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/unified",
    "/sys/fs/cgroup/cpu,cpuacct",
    "/sys/fs/cgroup/cpu",
];

impl Group {
    /// The group of this name: a folder, or a path below a hierarchy.
    ///
    /// # Errors
    /// There is none.
    pub fn cgroup(name: &str) -> io::Result<Group> {
        let below = |root: &str| Path::new(root).join(name.trim_start_matches('/'));
        let places =
            std::iter::once(PathBuf::from(name)).chain(HIERARCHIES.iter().map(|r| below(r)));
        let mut folders = places.filter(|place| place.join("cgroup.procs").is_file());
        folders.next().map(Group::Cgroup).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Its processes now.
    ///
    /// # Errors
    /// It is gone.
    pub fn processes(&self) -> io::Result<BTreeSet<u32>> {
        match self {
            Group::Process(pid) => {
                let mut found = BTreeSet::new();
                std::fs::metadata(format!("/proc/{pid}"))?;
                descend(*pid, &mut found);
                Ok(found)
            }
            Group::Cgroup(folder) => {
                let mut found = members(folder)?;
                inner(folder, &mut found);
                Ok(found)
            }
        }
    }

    /// CPU time so far, to the nanosecond where the kernel has it; none if it does not tell.
    #[must_use]
    pub fn cpu_time(&self) -> Option<Duration> {
        match self {
            Group::Cgroup(folder) => cgroup_cpu(folder),
            Group::Process(_) => {
                let times = self.processes().ok()?;
                let known: Vec<Duration> =
                    times.iter().filter_map(|pid| process_cpu_time(*pid)).collect();
                (!known.is_empty()).then(|| known.iter().sum())
            }
        }
    }

    /// Bytes that its system calls have read and written so far; none if the kernel does not tell.
    #[must_use]
    pub fn io_bytes(&self) -> Option<u64> {
        let counts: Vec<u64> = self.processes().ok()?.iter().filter_map(|p| io_bytes(*p)).collect();
        (!counts.is_empty()).then(|| counts.iter().sum())
    }
}

/// Bytes of system calls, added up process by process: one that ends takes nothing away again.
#[derive(Clone, Debug, Default)]
pub(super) struct IoTally {
    seen: BTreeMap<u32, u64>,
    total: u64,
}

impl IoTally {
    /// All so far; none if the kernel tells of no process.
    pub(super) fn count(&mut self, group: &Group) -> Option<u64> {
        let pids = group.processes().ok()?;
        let now: BTreeMap<u32, u64> =
            pids.into_iter().filter_map(|pid| Some((pid, io_bytes(pid)?))).collect();
        (!now.is_empty()).then(|| self.take(now))
    }

    fn take(&mut self, now: BTreeMap<u32, u64>) -> u64 {
        let grown = |(pid, bytes): (&u32, &u64)| {
            bytes.saturating_sub(self.seen.get(pid).copied().unwrap_or(0))
        };
        self.total += now.iter().map(grown).sum::<u64>();
        self.seen = now;
        self.total
    }
}

fn members(folder: &Path) -> io::Result<BTreeSet<u32>> {
    let text = std::fs::read_to_string(folder.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Those of the groups below, as containers and slices have them. What vanishes meanwhile is left out.
fn inner(folder: &Path, found: &mut BTreeSet<u32>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for below in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        found.extend(members(&below).unwrap_or_default());
        inner(&below, found);
    }
}

fn descend(pid: u32, found: &mut BTreeSet<u32>) {
    if !found.insert(pid) {
        return;
    }
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return };
    for task in tasks.flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .for_each(|p| descend(p, found));
    }
}

fn cgroup_cpu(folder: &Path) -> Option<Duration> {
    let number = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
    if let Some(ns) = number("cpuacct.usage").and_then(|text| text.trim().parse().ok()) {
        return Some(Duration::from_nanos(ns));
    }
    let stat = number("cpu.stat")?;
    let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    usage.trim().parse().ok().map(Duration::from_micros)
}

/// `rchar` and `wchar`: sockets, pipes and cached files too.
fn io_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse::<u64>().ok()
    };
    Some(field("rchar:")? + field("wchar:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_does_is_counted() {
        let me = Group::Process(std::process::id());
        let (cpu, bytes) = (me.cpu_time().unwrap(), me.io_bytes().unwrap());
        while me.cpu_time().unwrap() < cpu + Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        assert!(me.io_bytes().unwrap() > bytes, "reading /proc counts as well");
        assert!(me.processes().unwrap().contains(&std::process::id()));
    }

    #[test]
    fn who_is_not_there_is_told() {
        assert!(Group::Process(0x7fff_fff0).processes().is_err());
        assert!(Group::Process(0x7fff_fff0).cpu_time().is_none());
        assert!(Group::cgroup("quell-never-made").is_err());
    }

    #[test]
    fn a_group_is_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cgroup.procs"), "12\n7\n").unwrap();
        std::fs::write(folder.path().join("cpu.stat"), "usage_usec 1500\nuser_usec 1\n").unwrap();
        let group = Group::cgroup(folder.path().to_str().unwrap()).unwrap();
        assert_eq!(group.processes().unwrap(), [7, 12].into_iter().collect());
        assert_eq!(group.cpu_time(), Some(Duration::from_micros(1500)));
        let below = folder.path().join("inner/most");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join("cgroup.procs"), "30\n").unwrap();
        assert_eq!(group.processes().unwrap(), [7, 12, 30].into_iter().collect());
    }

    #[test]
    fn bytes_of_processes_that_end_stay_counted() {
        let mut tally = IoTally::default();
        let mut take = |now: &[(u32, u64)]| tally.take(now.iter().copied().collect());
        assert_eq!(take(&[(7, 100)]), 100);
        assert_eq!(take(&[(7, 150), (8, 20)]), 170);
        assert_eq!(take(&[(8, 25)]), 175, "the first has ended");
        assert_eq!(take(&[(8, 25), (7, 10)]), 185, "its number was given anew");
    }
}
