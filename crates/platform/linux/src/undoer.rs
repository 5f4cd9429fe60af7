//! Taking changes back on the real machine, in the kernel's own words.

use crate::homes::{Homes, home_in_hierarchy_of, is_ours};
use crate::marked::Marked;
use crate::vms::Client;
use quell_cgroup::{
    CgroupError, Group, Layout, RestoreReport as RawReport, Systemctl, move_process, remove,
    restore_raw,
};
use quell_counters::RawRegister;
use quell_platform::{FileIdentity, NotUndone, Undo, Undoer};
use quell_topology::Machine;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a group may take to become empty.
const REMOVAL: Duration = Duration::from_secs(2);
/// How long an ended process may take to go.
const END: Duration = Duration::from_secs(2);

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

/// Whether a change is owed to nobody any more: its file's group is gone, or another one has its path;
/// its virtual machine has ended, or was started anew.
pub(crate) fn is_moot(undo: &Undo, machine: &Machine) -> bool {
    match undo {
        Undo::File { path, of: Some(of), .. } => identity(path).is_none_or(|now| now != *of),
        Undo::Vm { snapshot } => crate::vms::is_moot(machine, snapshot),
        _ => false,
    }
}

/// Takes changes back on the real machine.
pub(crate) struct LinuxUndoer {
    layout: Layout,
    machine: Machine,
    /// One for all machines: a libvirt that hangs is waited for once.
    libvirt: Client,
    /// None where systemd does not run.
    systemctl: Option<Systemctl>,
    /// Whence processes were taken, oldest first: their children belong there too.
    homes: Homes,
}

impl LinuxUndoer {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            layout: Layout::discover(root),
            machine: Machine::new(root),
            libvirt: Client::new(root),
            systemctl: Systemctl::detect(root),
            homes: Homes::default(),
        }
    }

    fn one(&mut self, undo: &Undo) -> Result<(), String> {
        match undo {
            // Taken back together.
            Undo::File { .. } | Undo::EndMarked { .. } => Ok(()),
            Undo::RemoveGroup { path } => self.remove_group(&path.to_string_lossy()),
            Undo::RemoveResctrlGroup { path } => crate::resources::remove_group(path),
            Undo::UnmountResctrl { path, boot_id } => {
                crate::resources::unmount(self.layout.root(), path, boot_id)
            }
            Undo::MoveProcess { pid, start_ns, procs, into } => {
                match is_same(&self.machine, *pid, *start_ns) {
                    true => self.move_back(*pid, procs, into.as_deref()),
                    false => Ok(()),
                }
            }
            Undo::EndProcess { pid, start_ns } => self.end(*pid, *start_ns),
            Undo::Register { path, register, value } => {
                RawRegister { path: path.clone(), register: *register, value: *value }.restore()
            }
            Undo::Link { snapshot } => crate::links::undo(snapshot),
            Undo::Vm { snapshot } => crate::vms::undo(&mut self.libvirt, &self.machine, snapshot),
            Undo::UnitProperty { unit, property, value } => {
                let systemctl =
                    self.systemctl.clone().ok_or_else(|| "systemd no longer runs".to_string())?;
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

    /// Moves a process back to where it was, unless somebody else has moved it on since.
    fn move_back(&self, pid: u32, procs: &Path, into: Option<&Path>) -> Result<(), String> {
        let now = home_in_hierarchy_of(&self.layout, pid, procs);
        if !now.is_some_and(|now| is_ours(&self.layout, &now, into)) {
            return Ok(());
        }
        match move_process(procs, pid) {
            Err(error) if !error.is_gone() => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    /// Removes a group of ours; processes born in it since go where their parents came from, or to
    /// its parent where nobody can tell.
    fn remove_group(&self, path: &str) -> Result<(), String> {
        let Ok(group) = Group::find(&self.layout, path) else { return Ok(()) };
        for place in group.places() {
            let inside = std::fs::read_to_string(place.file("cgroup.procs")).unwrap_or_default();
            let up = place.parent().unwrap_or(&place.top).join("cgroup.procs");
            for pid in inside.lines().filter_map(|line| line.trim().parse().ok()) {
                let home = self.homes.of_kin(&self.machine, pid, Path::new(path), &place.top);
                // A home that is gone by now, or takes nobody any more, is none.
                if home.is_some_and(|home| move_process(home, pid).is_ok()) {
                    continue;
                }
                match move_process(&up, pid) {
                    Err(error) if !error.is_gone() => return Err(error.to_string()),
                    _ => {}
                }
            }
        }
        remove(&self.layout, path, REMOVAL).map_err(|e| e.to_string())
    }

    /// Ends a process of ours and its process group.
    fn end(&self, pid: u32, start_ns: u64) -> Result<(), String> {
        let begun = Instant::now();
        while is_same(&self.machine, pid, start_ns) {
            crate::tasks::kill_process_group(pid);
            if begun.elapsed() > END {
                return Err(format!("process {pid} does not end"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Whether the process is still the one that was meant.
fn is_same(machine: &Machine, pid: u32, start_ns: u64) -> bool {
    machine.process(pid).is_ok_and(|p| p.start_ns == start_ns && p.state != 'Z')
}

/// Ends all processes that were started under these marks; why one mark's could not be.
fn end_marked<'a>(machine: &Machine, marks: &BTreeSet<&'a str>) -> BTreeMap<&'a str, String> {
    let begun = Instant::now();
    while !marks.is_empty() {
        let found = Marked::find(machine, marks);
        if !marks.iter().any(|mark| found.may_have(mark)) {
            break;
        }
        if begun.elapsed() > END {
            let stays = |mark: &&'a str| {
                Some((*mark, format!("process {} does not end", found.first(mark)?)))
            };
            return marks.iter().filter_map(stays).collect();
        }
        found.pids().for_each(crate::tasks::kill_process);
        std::thread::sleep(Duration::from_millis(5));
    }
    BTreeMap::new()
}

impl LinuxUndoer {
    /// Changes come newest first; of several texts of one file the oldest one counts (a weight is
    /// saved by its own knob and again by that of the idle class).
    fn put_texts_back(changes: &[&Undo]) -> RawReport {
        let that = |undo: &&&Undo| match undo {
            Undo::File { path, of, .. } => Self::is_that(path, of.as_ref()),
            _ => false,
        };
        let files = changes.iter().rev().filter(that).filter_map(|undo| match undo {
            Undo::File { path, text, .. } => Some((path.clone(), text.clone())),
            _ => None,
        });
        restore_raw(&files.collect::<Vec<_>>())
    }
}

impl Undoer for LinuxUndoer {
    fn undo(&mut self, changes: &[&Undo]) -> Vec<Result<(), NotUndone>> {
        self.homes.learn(changes);
        let texts = Self::put_texts_back(changes);
        let marks = changes.iter().filter_map(|undo| match undo {
            Undo::EndMarked { mark } => Some(mark.as_str()),
            _ => None,
        });
        let stay = end_marked(&self.machine, &marks.collect());
        let answer = |undo: &&Undo| match undo {
            Undo::File { path, .. } => of_text(&texts, path),
            Undo::EndMarked { mark } => {
                stay.get(mark.as_str()).map_or(Ok(()), |why| Err(NotUndone::Failed(why.clone())))
            }
            other => Ok(self.one(other)?),
        };
        changes.iter().map(answer).collect()
    }
}

fn of_text(texts: &RawReport, path: &Path) -> Result<(), NotUndone> {
    if let Some((_, error)) = texts.failed.iter().find(|(at, _)| at == path) {
        return Err(NotUndone::Failed(error.to_string()));
    }
    match texts.in_use.iter().find(|(at, _)| at == path) {
        Some((_, why)) => Err(NotUndone::InUse(why.clone())),
        None => Ok(()),
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

    /// A program that was just written cannot be run while another thread's child still has it open.
    fn runs(program: &Path) {
        let begun = Instant::now();
        while std::process::Command::new(program).arg("nothing").output().is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{} cannot be run",
                program.display()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_unit_that_ended_is_owed_nothing_and_one_that_runs_gets_its_value_back() {
        use std::os::unix::fs::PermissionsExt;
        const SYSTEMCTL: &str = r#"#!/bin/sh
case "$*" in
  show*runs.service) echo "ControlGroup=/system.slice/runs.service" ;;
  show*) echo "ControlGroup="; echo "LoadState=not-found"; echo "ActiveState=inactive" ;;
  set-property*) echo "$@" >> "$(dirname "$0")/log" ;;
esac
"#;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("systemctl");
        fs::write(&program, SYSTEMCTL).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        runs(&program);
        let systemctl = Some(Systemctl::with_program(&program));
        let mut undoer = LinuxUndoer { systemctl, ..LinuxUndoer::new(folder.path()) };
        let weight = |unit: &str| Undo::UnitProperty {
            unit: unit.into(),
            property: "CPUWeight".into(),
            value: "50".into(),
        };
        let (ended, runs) = (weight("ended.service"), weight("runs.service"));
        assert_eq!(undoer.undo(&[&ended, &runs]), [Ok(()), Ok(())]);
        let log = fs::read_to_string(folder.path().join("log")).unwrap();
        assert_eq!(log, "set-property --runtime -- runs.service CPUWeight=50\n");
    }
}
