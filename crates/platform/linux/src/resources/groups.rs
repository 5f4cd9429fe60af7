//! resctrl groups of tenants: names, making, filling and removing them.

use crate::adopt::plain_name;
use quell_resctrl::{Group, RawFile, Resctrl, ResctrlError, SchemataKnob};
use quell_types::{Gap, Knob, Reading, Tenant};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) fn group_name(tenant: &Tenant) -> String {
    format!("{}-{}", quell_resctrl::PREFIX, plain_name(tenant))
}

pub(super) fn key(tenant: &Tenant) -> String {
    format!("resctrl group {}", group_name(tenant))
}

pub(super) fn schemata(tree: &Resctrl, group: &Group, knob: &Knob) -> Option<SchemataKnob> {
    match knob {
        Knob::LlcWays { domain, .. } => tree.llc_ways(group, *domain).ok(),
        Knob::MemoryBandwidth { domain, .. } => tree.memory_bandwidth(group, *domain).ok(),
        _ => None,
    }
}

/// The kinds of groups that tenants get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A class of service, that is allotted something.
    Class,
    /// A part of the default class that is counted apart.
    Monitoring,
}

impl Kind {
    /// The folder in which such groups are made.
    pub(super) fn dir(self, tree: &Resctrl) -> PathBuf {
        match self {
            Kind::Class => tree.mount().path.clone(),
            Kind::Monitoring => tree.mount().path.join("mon_groups"),
        }
    }
}

/// A tree whose classes cannot be told, but for want of any, is not to be counted by groups.
pub(super) fn has_classes_or_none(tree: &Resctrl) -> Reading<()> {
    match tree.classes() {
        Ok(_) | Err(Gap::Absent(_)) => Ok(()),
        Err(gap) => Err(gap),
    }
}

/// How many classes there are for these tenants: those that are free, and those of leftovers that
/// are made anew under the same names.
pub(super) fn classes_for(tree: &Resctrl, tenants: &[&Tenant]) -> usize {
    let free = tree.classes().map_or(0, |budget| budget.free() as usize);
    let ours: BTreeSet<String> = tenants.iter().map(|tenant| group_name(tenant)).collect();
    let groups = tree.groups().unwrap_or_default();
    let left = groups.iter().filter(|group| group.name().is_some_and(|name| ours.contains(name)));
    free + left.count()
}

/// A group allotted what the default one is, or a part of that. One of the same name is a leftover
/// and made anew.
pub(super) fn make(tree: &Resctrl, name: &str, kind: Kind) -> Result<Group, ResctrlError> {
    if kind == Kind::Monitoring {
        tree.remove_monitoring(name)?;
        return tree.create_monitoring(name);
    }
    tree.remove(name)?;
    let group = tree.create(name)?;
    let like_default = || {
        let (fresh, text) = (group.snapshot()?, tree.default_group().snapshot()?.text);
        group.restore(&RawFile { path: fresh.path, text })
    };
    match like_default() {
        Ok(()) => Ok(group),
        Err(error) => {
            // The first error is the one to tell; what is left here, the journal removes.
            let _ = tree.remove(name);
            Err(error)
        }
    }
}

/// Threads that belong to a group by name already, ours or somebody else's. The default group's own
/// list would not do: it has the threads of its monitoring groups, and on a machine that allots
/// nothing the kernel leaves it empty.
#[derive(Default)]
pub(super) struct Taken(BTreeSet<u32>);

impl Taken {
    /// Groups that end meanwhile are passed over.
    pub(super) fn read(tree: &Resctrl) -> Self {
        let groups = [tree.groups(), tree.monitoring_groups()].into_iter().flatten().flatten();
        Self(groups.filter_map(|group| group.tasks().ok()).flatten().collect())
    }
}

/// Moves the cgroup's threads that are in the default group alone into this one.
pub(super) fn gather(group: &Group, cgroup: &quell_cgroup::Group, taken: &Taken) -> Reading<()> {
    for thread in cgroup.tids()?.iter().filter(|thread| !taken.0.contains(thread)) {
        match group.add_task(*thread) {
            // Ended meanwhile.
            Err(error) if error.errno() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            done => done.map_err(|error| Gap::from(&error))?,
        }
    }
    Ok(())
}

/// Removes a resctrl group of ours.
///
/// # Errors
/// It is not ours, or the kernel refuses. One that is gone counts as removed.
pub(crate) fn remove_group(path: &Path) -> Result<(), String> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !quell_resctrl::is_ours(name) {
        return Err(format!("{} is no resctrl group of Quell's", path.display()));
    }
    match std::fs::remove_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{} cannot be removed: {error}", path.display()))
        }
        _ => Ok(()),
    }
}
