//! Putting back what an agent has left, knowing nothing but its state folder.

use crate::clock;
use crate::vms::Client;
use quell_cgroup::{CgroupError, Group, Layout, move_process, remove, restore_raw};
use quell_counters::RawRegister;
use quell_platform::{
    FileIdentity, FileStore, KnobJournal, RestoreReport, StoreError, Undo, Undoer,
};
use quell_topology::Machine;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
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

/// How a write to a file is taken back: its text, of this very file. A group that is made anew under
/// the same path, or one after the next start of the machine, is not touched.
pub(crate) fn file_undo(path: PathBuf, text: String) -> Undo {
    let of = identity(&path);
    Undo::File { path, text, of }
}

/// Trees that stand for a machine in tests are of this start of the kernel too.
fn identity(path: &Path) -> Option<FileIdentity> {
    let boot_id = Machine::new("/").boot_id().ok()?;
    let folder = path.parent()?.metadata().ok()?.ino();
    Some(FileIdentity { boot_id, folder })
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
                let stands = systemctl.control_group(unit);
                if matches!(stands, Err(CgroupError::NoUnit { .. })) {
                    return Ok(());
                }
                quell_cgroup::SystemdUnit::new(unit.clone(), systemctl)
                    .restore(&[format!("{property}={value}")])
                    .map_err(|e| e.to_string())
            }
        }
    }

    /// Whether the file is still the one whose text was saved. One whose group is gone counts, which
    /// restoring it says.
    fn is_that(path: &Path, of: Option<&FileIdentity>) -> bool {
        let Some(of) = of else { return true };
        let now = identity(path);
        now.is_none_or(|now| now == *of)
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
                Undo::File { path, text, of } => {
                    Self::is_that(path, of.as_ref()).then(|| (path.clone(), text.clone()))
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_of_a_folder_that_was_made_anew_or_of_another_boot_is_left_alone() {
        let tree = tempfile::tempdir().unwrap();
        let (folder, other) = (tree.path().join("group"), tree.path().join("anew"));
        let file = folder.join("cpu.weight");
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "100\n").unwrap();
        let undo = file_undo(file.clone(), "100\n".into());
        let text = || fs::read_to_string(&file).unwrap();
        let take_back =
            |undo: &Undo| LinuxUndoer::new(tree.path()).undo(&[undo]).pop().unwrap().unwrap();

        fs::write(&file, "5\n").unwrap();
        take_back(&undo);
        assert_eq!(text(), "100\n");

        fs::write(&file, "5\n").unwrap();
        let Undo::File { path, text: old, of } = undo.clone() else { panic!("{undo:?}") };
        let of = of.map(|of| FileIdentity { boot_id: "another".into(), ..of });
        take_back(&Undo::File { path, text: old, of });
        assert_eq!(text(), "5\n", "of another start of the machine");

        // Both are there at once, so that they differ.
        fs::create_dir(&other).unwrap();
        fs::write(other.join("cpu.weight"), "300\n").unwrap();
        fs::remove_dir_all(&folder).unwrap();
        fs::rename(&other, &folder).unwrap();
        take_back(&undo);
        assert_eq!(text(), "300\n", "its owner made it anew");
    }
}
