//! Putting back what an agent has left, knowing nothing but its state folder.

use crate::clock;
use crate::vms::Client;
use quell_cgroup::{Group, Layout, move_process, remove, restore_raw};
use quell_counters::RawRegister;
use quell_platform::{FileStore, KnobJournal, RestoreReport, StoreError, Undo, Undoer};
use quell_topology::Machine;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a group may take to become empty.
const REMOVAL: Duration = Duration::from_secs(2);
/// How long an ended process may take to go.
const END: Duration = Duration::from_secs(2);
/// So young a process may still be at its `exec`.
const YOUNG: Duration = Duration::from_secs(1);

/// The agent's state folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir(pub PathBuf);

impl StateDir {
    /// The knob journal.
    #[must_use]
    pub fn knob_journal(&self) -> PathBuf {
        self.0.join("knobs.journal")
    }

    /// The decision journal.
    #[must_use]
    pub fn decisions(&self) -> PathBuf {
        self.0.join("decisions.jsonl")
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> PathBuf {
        self.0.join("queue.sqlite")
    }

    /// The profiles.
    #[must_use]
    pub fn profiles(&self) -> PathBuf {
        self.0.join("profiles.sqlite")
    }

    /// Where the output of tasks is kept.
    #[must_use]
    pub fn task_output(&self) -> PathBuf {
        self.0.join("tasks")
    }
}

/// Puts everything back that the journal in `state_dir` names. Nothing to do is fine.
///
/// # Errors
/// The journal cannot be read or written. What could not be put back is in the report.
pub fn restore_state(root: &Path, state_dir: &StateDir) -> Result<RestoreReport, StoreError> {
    restore_state_except(root, state_dir, &BTreeSet::new())
}

/// As [`restore_state`], but the changes of these keys stay, and stay on record.
pub(crate) fn restore_state_except(
    root: &Path,
    state_dir: &StateDir,
    staying: &BTreeSet<String>,
) -> Result<RestoreReport, StoreError> {
    if !state_dir.knob_journal().exists() {
        return Ok(RestoreReport::default());
    }
    let mut journal = KnobJournal::open(FileStore::open(&state_dir.knob_journal())?)?;
    journal.restore_except(&mut LinuxUndoer::new(root), staying)
}

/// Takes changes back on the real machine.
pub(crate) struct LinuxUndoer {
    layout: Layout,
    machine: Machine,
    /// One for all machines: a libvirt that hangs is waited for once.
    libvirt: Client,
}

impl LinuxUndoer {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            layout: Layout::discover(root),
            machine: Machine::new(root),
            libvirt: Client::new(root),
        }
    }

    fn one(&mut self, undo: &Undo) -> Result<(), String> {
        match undo {
            Undo::File { .. } => Ok(()),
            Undo::RemoveGroup { path } => self.remove_group(&path.to_string_lossy()),
            Undo::RemoveResctrlGroup { path } => crate::resources::remove_group(path),
            Undo::UnmountResctrl { path, boot_id } => {
                crate::resources::unmount(self.layout.root(), path, boot_id)
            }
            Undo::MoveProcess { pid, start_ns, procs } => {
                if !self.is_same(*pid, *start_ns) {
                    return Ok(());
                }
                match move_process(procs, *pid) {
                    Err(error) if !error.is_gone() => Err(error.to_string()),
                    _ => Ok(()),
                }
            }
            Undo::EndProcess { pid, start_ns } => self.end(*pid, *start_ns),
            Undo::EndMarked { mark } => self.end_marked(mark),
            Undo::Register { path, register, value } => {
                RawRegister { path: path.clone(), register: *register, value: *value }.restore()
            }
            Undo::Link { snapshot } => crate::links::undo(snapshot),
            Undo::Vm { snapshot } => crate::vms::undo(&mut self.libvirt, &self.machine, snapshot),
            Undo::UnitProperty { unit, property, value } => {
                let systemctl = quell_cgroup::Systemctl::detect(self.layout.root())
                    .ok_or_else(|| "systemd no longer runs".to_string())?;
                quell_cgroup::SystemdUnit::new(unit.clone(), systemctl)
                    .restore(&[format!("{property}={value}")])
                    .map_err(|e| e.to_string())
            }
        }
    }

    /// Removes a group of ours; processes born in it since go to its parent.
    fn remove_group(&self, path: &str) -> Result<(), String> {
        let Ok(group) = Group::find(&self.layout, path) else { return Ok(()) };
        for place in group.places() {
            let inside = std::fs::read_to_string(place.file("cgroup.procs")).unwrap_or_default();
            let up = place.parent().unwrap_or(&place.top).join("cgroup.procs");
            for pid in inside.lines().filter_map(|line| line.trim().parse().ok()) {
                match move_process(&up, pid) {
                    Err(error) if !error.is_gone() => return Err(error.to_string()),
                    _ => {}
                }
            }
        }
        remove(&self.layout, path, REMOVAL).map_err(|e| e.to_string())
    }

    /// Whether the process is still the one that was meant.
    fn is_same(&self, pid: u32, start_ns: u64) -> bool {
        self.machine.process(pid).is_ok_and(|p| p.start_ns == start_ns && p.state != 'Z')
    }

    /// Ends all processes that were started under a mark.
    fn end_marked(&self, mark: &str) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let (marked, unclear) = self.marked(mark);
            if marked.is_empty() && !unclear {
                return Ok(());
            }
            if begun.elapsed() > END {
                let stays = |first| Err(format!("process {first} does not end"));
                return marked.first().map_or(Ok(()), stays);
            }
            marked.iter().for_each(|pid| crate::tasks::kill_process(*pid));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Processes with this mark in their environment, and whether another one may yet show it. Those
    /// that ended have none any more.
    fn marked(&self, mark: &str) -> (Vec<u32>, bool) {
        let entry = format!("{}={mark}", crate::tasks::MARK);
        let (mut marked, mut unclear) = (Vec::new(), false);
        for pid in self.machine.processes() {
            let path = self.layout.root().join(format!("proc/{pid}/environ"));
            let environment = std::fs::read(path).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|own| own == entry.as_bytes()) {
                marked.push(pid);
            } else if environment.is_empty() {
                unclear |= self.may_be_at_exec(pid);
            }
        }
        (marked, unclear)
    }

    /// In the middle of `exec` a process shows no environment, for some microseconds. Threads of the
    /// kernel never have one, nor a program.
    fn may_be_at_exec(&self, pid: u32) -> bool {
        let program = self.layout.root().join(format!("proc/{pid}/exe"));
        let young = |start_ns| clock::boot_ns().saturating_sub(start_ns) < YOUNG.as_nanos() as u64;
        std::fs::read_link(program).is_ok()
            && self.machine.process(pid).is_ok_and(|p| p.state != 'Z' && young(p.start_ns))
    }

    /// Ends a process of ours and its process group.
    fn end(&self, pid: u32, start_ns: u64) -> Result<(), String> {
        let begun = Instant::now();
        while self.is_same(pid, start_ns) {
            crate::tasks::kill_process_group(pid);
            if begun.elapsed() > END {
                return Err(format!("process {pid} does not end"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Undoer for LinuxUndoer {
    fn undo(&mut self, changes: &[&Undo]) -> Vec<Result<(), String>> {
        // Changes come newest first; of several texts of one file the oldest one counts (a weight
        // is saved by its own knob and again by that of the idle class).
        let files: Vec<(PathBuf, String)> = changes
            .iter()
            .rev()
            .filter_map(|undo| match undo {
                Undo::File { path, text } => Some((path.clone(), text.clone())),
                _ => None,
            })
            .collect();
        let report = restore_raw(&files);
        changes
            .iter()
            .map(|undo| match undo {
                Undo::File { path, .. } => match report.failed.iter().find(|(p, _)| p == path) {
                    Some((_, error)) => Err(error.to_string()),
                    None => Ok(()),
                },
                other => self.one(other),
            })
            .collect()
    }
}
