//! Mounting resctrl where the configuration allows it, and unmounting it again.

use quell_platform::{KnobJournal, Store, StoreError, Undo};
use quell_resctrl::{ResctrlError, is_ours};
use quell_types::{Gap, Reading};
use std::path::Path;

const KEY: &str = "resctrl mount";
/// Folders of a resctrl tree that are no groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// Mounts resctrl if the machine has it and nobody mounted it; the journal knows before. The gap
/// says why it could not be mounted.
///
/// # Errors
/// The journal cannot be written: nothing was mounted.
pub(crate) fn mount_resctrl<S: Store>(
    journal: &mut KnobJournal<S>,
    root: &Path,
) -> Result<Reading<()>, StoreError> {
    mount_by(journal, root, quell_resctrl::mount)
}

fn mount_by<S: Store>(
    journal: &mut KnobJournal<S>,
    root: &Path,
    mount: impl FnOnce(&Path) -> Result<(), ResctrlError>,
) -> Result<Reading<()>, StoreError> {
    let Some(path) = quell_resctrl::mountable(root) else { return Ok(Ok(())) };
    let undo = Undo::UnmountResctrl { path: path.clone(), boot_id: boot_id(root) };
    journal.before_write(KEY, || vec![undo])?;
    if let Err(error) = mount(&path) {
        journal.forget(KEY)?;
        return Ok(Err(Gap::absent(format!("resctrl is supported but not mounted: {error}"))));
    }
    Ok(Ok(()))
}

/// Takes the mount back. One that is gone, that the machine's restart has ended, or in which
/// somebody else has made groups meanwhile counts as taken back.
///
/// # Errors
/// Somebody has files of it open.
pub(crate) fn unmount(root: &Path, path: &Path, boot_id: &str) -> Result<(), String> {
    let is_there = path.join("info").is_dir();
    if !is_there || boot_id != self::boot_id(root) || is_used_by_others(path) {
        return Ok(());
    }
    quell_resctrl::unmount(path)
        .map_err(|error| format!("{error}; end who uses it, then run `quell restore`"))
}

fn boot_id(root: &Path) -> String {
    let text = std::fs::read_to_string(root.join("proc/sys/kernel/random/boot_id"));
    text.unwrap_or_default().trim().to_owned()
}

/// Whether the tree has groups that are not Quell's.
fn is_used_by_others(mount: &Path) -> bool {
    [mount.to_owned(), mount.join("mon_groups")].iter().any(|dir| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().is_dir()).any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            !NO_GROUPS.contains(&name.as_str()) && !is_ours(&name)
        })
    })
}

#[cfg(test)]
mod tests;
