//! Whence processes were taken into groups of Quell's, and where their kin belongs.

use quell_cgroup::{Layout, home_of};
use quell_platform::Undo;
use quell_topology::Machine;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// So far up a process' parents are followed.
const GENERATIONS: usize = 64;

/// A process that was taken.
#[derive(Debug, Default)]
struct Taken {
    start_ns: u64,
    into: Option<PathBuf>,
    /// The `cgroup.procs` files of its old groups, one a hierarchy.
    procs: Vec<PathBuf>,
}

/// Homes by process.
#[derive(Debug, Default)]
pub(crate) struct Homes(BTreeMap<u32, Taken>);

impl Homes {
    /// Learns from the journal's changes. What is taken back stays known: a group may be removed
    /// only later.
    pub(crate) fn learn(&mut self, changes: &[&Undo]) {
        for change in changes {
            let Undo::MoveProcess { pid, start_ns, procs, into } = change else { continue };
            let taken = self.0.entry(*pid).or_default();
            if taken.start_ns != *start_ns {
                *taken = Taken { start_ns: *start_ns, into: into.clone(), procs: Vec::new() };
            }
            if !taken.procs.contains(procs) {
                taken.procs.push(procs.clone());
            }
        }
    }

    /// Where a process belongs that was born in the group at `path`, in the hierarchy at `top`: where
    /// its next forebear came from that was taken; if none of them lives any more, where anybody who
    /// was taken into that group came from.
    pub(crate) fn of_kin(
        &self,
        machine: &Machine,
        pid: u32,
        path: &Path,
        top: &Path,
    ) -> Option<&PathBuf> {
        let parent = |pid: &u32| Some(machine.process(*pid).ok()?.parent).filter(|up| *up > 1);
        let line = std::iter::successors(Some(pid), parent).take(GENERATIONS);
        let taken = |pid: u32| {
            let taken = self.0.get(&pid)?;
            machine.process(pid).is_ok_and(|p| p.start_ns == taken.start_ns).then_some(taken)
        };
        let here = |taken: &&Taken| taken.into.as_deref() == Some(path);
        let kin = line.filter_map(taken).find(here).or_else(|| self.0.values().find(here))?;
        kin.procs.iter().find(|procs| procs.starts_with(top))
    }
}

/// The `cgroup.procs` file of the group that a process is in now, in the hierarchy of another such
/// file.
pub(crate) fn home_in_hierarchy_of(layout: &Layout, pid: u32, procs: &Path) -> Option<PathBuf> {
    let top = &top_of(layout, procs)?;
    home_of(layout, pid).ok()?.into_iter().find(|home| top_of(layout, home).as_ref() == Some(top))
}

/// Whether that is the group that Quell moves into, or one below it; where that was not written down,
/// one of a name of Quell's.
pub(crate) fn is_ours(layout: &Layout, procs: &Path, into: Option<&Path>) -> bool {
    let Some(inner) = top_of(layout, procs).and_then(|top| procs.strip_prefix(top).ok()) else {
        return false;
    };
    let of_ours = |part: &std::ffi::OsStr| part.as_encoded_bytes().starts_with(b"quell");
    match into {
        Some(into) => inner.starts_with(into.strip_prefix("/").unwrap_or(into)),
        None => inner.iter().any(of_ours),
    }
}

fn top_of(layout: &Layout, procs: &Path) -> Option<PathBuf> {
    let tops = layout.hierarchies().iter().map(|hierarchy| &hierarchy.dir);
    let above = tops.filter(|top| procs.starts_with(top));
    above.max_by_key(|top| top.components().count()).cloned()
}
