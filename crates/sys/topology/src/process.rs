//! What `/proc/PID` tells of a process.

use crate::TICK_NS;
use crate::text::Tree;
use quell_types::{Gap, Reading};

/// One line of `/proc/PID/cgroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupMembership {
    /// The hierarchy's number; 0 for cgroup v2.
    pub hierarchy: u32,
    /// The controllers of a v1 hierarchy (`name=systemd` for a named one); empty for v2.
    pub controllers: Vec<String>,
    /// The group's path below the hierarchy's mount, beginning with `/`.
    pub path: String,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its number.
    pub pid: u32,
    /// Its name, 15 bytes at most.
    pub comm: String,
    /// Its state's letter (`R`, `S`, `D`, `T`, `Z` …).
    pub state: char,
    /// Its parent.
    pub parent: u32,
    /// When it started, in nanoseconds after boot (10 ms steps). With the pid and the boot id it
    /// names a process for good.
    pub start_ns: u64,
    /// CPU time of all its threads in nanoseconds (10 ms steps).
    pub cpu_ns: u64,
    /// Minor page faults of children that it has waited for: 0 as long as there were none.
    pub child_faults: u64,
    /// Its threads, rising.
    pub threads: Vec<u32>,
    /// The groups that it belongs to, one a hierarchy.
    pub cgroups: Vec<CgroupMembership>,
}

/// Reads a process.
pub(crate) fn read(tree: &Tree, pid: u32) -> Reading<ProcessInfo> {
    let text = tree.read(&format!("proc/{pid}/stat")).map_err(|gap| gone(pid, &gap))?;
    let stat = parse_stat(&text)
        .ok_or_else(|| Gap::failed(format!("/proc/{pid}/stat cannot be understood")))?;
    let cgroup = tree.read(&format!("proc/{pid}/cgroup")).map_err(|gap| gone(pid, &gap))?;
    Ok(ProcessInfo {
        pid,
        comm: stat.comm,
        state: stat.state,
        parent: stat.parent,
        start_ns: stat.start_ticks.saturating_mul(TICK_NS),
        cpu_ns: stat.cpu_ticks.saturating_mul(TICK_NS),
        child_faults: stat.child_faults,
        threads: tree.numbered(&format!("proc/{pid}/task"), ""),
        cgroups: parse_cgroups(&cgroup),
    })
}

/// ESRCH and ENOENT alike mean that the process has ended.
fn gone(pid: u32, why: &Gap) -> Gap {
    Gap::Gone(format!("process {pid}: {why}"))
}

pub(crate) struct Stat {
    pub(crate) comm: String,
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) child_faults: u64,
    pub(crate) cpu_ticks: u64,
    pub(crate) start_ticks: u64,
}

/// The name stands in parentheses and may hold any byte, parentheses and spaces included: it ends
/// at the last `)`.
pub(crate) fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.split_once('(')?;
    let (comm, rest) = rest.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The first field here is the third of proc_pid_stat(5).
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |n: usize| field(n)?.parse::<u64>().ok();
    Some(Stat {
        comm: comm.to_owned(),
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        child_faults: number(11)?,
        cpu_ticks: number(14)?.saturating_add(number(15)?),
        start_ticks: number(22)?,
    })
}

/// `HIERARCHY:CONTROLLERS:PATH`; the path may hold colons.
pub(crate) fn parse_cgroups(text: &str) -> Vec<CgroupMembership> {
    let one = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let hierarchy = parts.next()?.parse().ok()?;
        let controllers = parts.next()?.split(',').filter(|c| !c.is_empty());
        let controllers = controllers.map(str::to_owned).collect();
        let path = parts.next().filter(|path| path.starts_with('/'))?.to_owned();
        Some(CgroupMembership { hierarchy, controllers, path })
    };
    text.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_answered(text in "([0-9]{1,3}|\\(|\\)| |:|/|cpu|\n){0,60}") {
            let _ = parse_stat(&text);
            prop_assert!(parse_cgroups(&text).iter().all(|m| m.path.starts_with('/')));
        }
    }
}
