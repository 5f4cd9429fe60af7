//! Processes by the mark that tasks carry in their environment.

use crate::clock;
use crate::tasks::MARK;
use quell_topology::Machine;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// So young a process may still be at its `exec`.
const YOUNG: Duration = Duration::from_secs(1);

/// What one look at all processes has found of some marks.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    pids: BTreeMap<String, Vec<u32>>,
    /// Whether a process showed none of its own that may yet have one.
    unclear: bool,
}

impl Marked {
    /// Looks at the environment of all processes. Those that ended have none any more.
    pub(crate) fn find(machine: &Machine, marks: &BTreeSet<&str>) -> Self {
        let mut found = Self::default();
        let ours = program_of(machine, "self");
        for pid in machine.processes() {
            // Before the environment: whose that was is then known, whatever the process does meanwhile.
            let program = program_of(machine, &pid.to_string());
            let path = machine.root().join(format!("proc/{pid}/environ"));
            let environment = std::fs::read(path).unwrap_or_default();
            match mark_in(&environment).filter(|mark| marks.contains(mark.as_str())) {
                Some(mark) => found.pids.entry(mark).or_default().push(pid),
                None => {
                    let shows_ours = pid != std::process::id() && program == ours;
                    let is_before_its_own = environment.is_empty() || shows_ours;
                    found.unclear |=
                        program.is_some() && is_before_its_own && is_young(machine, pid);
                }
            }
        }
        found
    }

    /// All that carry one of the marks.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.pids.values().flatten().copied()
    }

    /// The first process with a mark.
    pub(crate) fn first(&self, mark: &str) -> Option<u32> {
        self.pids.get(mark)?.first().copied()
    }

    /// Whether a process carries the mark, or may yet show it.
    pub(crate) fn may_have(&self, mark: &str) -> bool {
        self.unclear || self.pids.contains_key(mark)
    }
}

fn mark_in(environment: &[u8]) -> Option<String> {
    let entry = |own: &[u8]| Some(own.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=")?.to_vec());
    let mark = environment.split(|byte| *byte == 0).find_map(entry)?;
    String::from_utf8(mark).ok()
}

/// In the middle of `exec` a process shows no environment, for some microseconds. Before that one that was started by
/// sharing the memory of whoever starts it (`vfork`) shows that one's, and its program: ours, or that of an agent that
/// died, which is ours too. Whoever started it goes on already. Threads of the kernel never have an environment, nor a
/// program.
fn is_young(machine: &Machine, pid: u32) -> bool {
    let young = |start_ns| clock::boot_ns().saturating_sub(start_ns) < YOUNG.as_nanos() as u64;
    machine.process(pid).is_ok_and(|p| p.state != 'Z' && young(p.start_ns))
}

fn program_of(machine: &Machine, process: &str) -> Option<PathBuf> {
    std::fs::read_link(machine.root().join(format!("proc/{process}/exe"))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A machine on which process 7 is so old, shows such an environment and such a program, and we are `quell`.
    fn look(age: Duration, environment: &str, program: Option<&str>) -> (bool, Option<u32>) {
        let tree = tempfile::tempdir().unwrap();
        let (own, other) = (tree.path().join("proc/self"), tree.path().join("proc/7"));
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(&other).unwrap();
        symlink("/usr/bin/quell", own.join("exe")).unwrap();
        program.map_or(Ok(()), |program| symlink(program, other.join("exe"))).unwrap();
        fs::write(other.join("environ"), environment).unwrap();
        let ticks = clock::boot_ns().saturating_sub(age.as_nanos() as u64) / 10_000_000;
        let zeroes = "0 ".repeat(17);
        fs::write(other.join("stat"), format!("7 (x) S 1 {zeroes}{ticks} 0 0\n")).unwrap();
        fs::write(other.join("cgroup"), "0::/\n").unwrap();
        let machine = Machine::new(tree.path());
        let found = Marked::find(&machine, &BTreeSet::from(["m"]));
        (found.may_have("m"), found.first("m"))
    }

    #[test]
    fn who_may_be_at_its_exec_is_looked_at_again() {
        let (now, long) = (Duration::ZERO, Duration::from_secs(60));
        let (ours, other) = (Some("/usr/bin/quell"), Some("/usr/bin/xz"));
        let marked = format!("A=1\0{MARK}=m\0");
        for (what, age, environment, program, told) in [
            ("it is marked", long, marked.as_str(), other, (true, Some(7))),
            ("in the middle of it", now, "", other, (true, None)),
            ("it emptied its environment long ago", long, "", other, (false, None)),
            ("a thread of the kernel", now, "", None, (false, None)),
            ("it still shows whoever started it", now, "A=1\0", ours, (true, None)),
            ("another agent, for long", long, "A=1\0", ours, (false, None)),
            ("somebody else's", now, "A=1\0", other, (false, None)),
        ] {
            assert_eq!(look(age, environment, program), told, "{what}");
        }
    }
}
