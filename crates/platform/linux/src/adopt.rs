//! Moving a tenant's processes into a group of Quell's, only where `adopt` says so.

use crate::undoer::file_undo;
use quell_cgroup::{CgroupError, Group, Layout, create, home_of, subtree_files};
use quell_platform::{KnobJournal, Store, StoreError, Undo};
use quell_topology::Machine;
use quell_types::Tenant;
use std::path::PathBuf;

/// Controllers that an adopted group gets.
const CONTROLLERS: [&str; 6] = ["cpu", "cpuacct", "cpuset", "memory", "freezer", "io"];

/// The path of the group that a tenant is adopted into.
pub(crate) fn adopted_path(tenant: &Tenant) -> String {
    format!("/quell-{}", plain_name(tenant))
}

/// The tenant's name as a part of a folder's name.
pub(crate) fn plain_name(tenant: &Tenant) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    tenant.as_str().chars().map(plain).collect()
}

/// Makes the group and moves these processes into it; all of it is in the journal before.
///
/// # Errors
/// The journal cannot be written, or the kernel refuses the group. A process that ended on the way
/// is passed over.
pub(crate) fn adopt<S: Store>(
    layout: &Layout,
    machine: &Machine,
    journal: &mut KnobJournal<S>,
    tenant: &Tenant,
    pids: &[u32],
) -> Result<Result<Group, CgroupError>, StoreError> {
    let path = adopted_path(tenant);
    let above = match subtree_files(layout, &path) {
        Ok(files) => files,
        Err(error) => return Ok(Err(error)),
    };
    journal.before_write(&format!("group {path}"), || {
        let files = above.into_iter().map(|(path, text)| file_undo(path, text));
        let group = Undo::RemoveGroup { path: PathBuf::from(&path) };
        files.chain([group]).collect()
    })?;
    let group = match create(layout, &path, &CONTROLLERS) {
        Ok(group) => group,
        Err(error) => return Ok(Err(error)),
    };
    for &pid in pids {
        let Ok(process) = machine.process(pid) else { continue };
        let Ok(homes) = home_of(layout, pid) else { continue };
        let moved = |procs: PathBuf| {
            let into = Some(PathBuf::from(&path));
            Undo::MoveProcess { pid, start_ns: process.start_ns, procs, into }
        };
        let key = format!("process {pid} started at {}", process.start_ns);
        journal.before_write(&key, || homes.into_iter().map(moved).collect())?;
        if let Err(error) = group.add_process(pid)
            && !error.is_gone()
        {
            return Ok(Err(error));
        }
    }
    Ok(Ok(group))
}
