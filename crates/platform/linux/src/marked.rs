//! Processes by the mark that tasks carry in their environment.

use crate::clock;
use crate::tasks::MARK;
use quell_topology::Machine;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// So young a process may still be at its `exec`.
const YOUNG: Duration = Duration::from_secs(1);

/// What one look at all processes has found of some marks.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    pids: BTreeMap<String, Vec<u32>>,
    /// Whether a process showed no environment that may yet have one.
    unclear: bool,
}

impl Marked {
    /// Looks at the environment of all processes. Those that ended have none any more.
    pub(crate) fn find(machine: &Machine, marks: &BTreeSet<&str>) -> Self {
        let mut found = Self::default();
        for pid in machine.processes() {
            let path = machine.root().join(format!("proc/{pid}/environ"));
            let environment = std::fs::read(path).unwrap_or_default();
            match mark_in(&environment).filter(|mark| marks.contains(mark.as_str())) {
                Some(mark) => found.pids.entry(mark).or_default().push(pid),
                None if environment.is_empty() => found.unclear |= may_be_at_exec(machine, pid),
                None => {}
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

/// In the middle of `exec` a process shows no environment, for some microseconds. Threads of the
/// kernel never have one, nor a program.
fn may_be_at_exec(machine: &Machine, pid: u32) -> bool {
    let young = |start_ns| clock::boot_ns().saturating_sub(start_ns) < YOUNG.as_nanos() as u64;
    let program = machine.root().join(format!("proc/{pid}/exe"));
    std::fs::read_link(program).is_ok()
        && machine.process(pid).is_ok_and(|p| p.state != 'Z' && young(p.start_ns))
}
