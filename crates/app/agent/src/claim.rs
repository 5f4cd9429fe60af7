//! One agent for each group and link, whatever state folder it works in.
//!
//! Each group and link has a lock of root's alone, named by its folder's device and inode: a lock on
//! the folder itself would be anybody's to take, since everybody may open it. The locks lie in `/run`,
//! which is empty after a boot, and are gone with their agent, or with the next start or `quell restore`
//! if it was killed; agents that see another `/run` (one in
//! a container beside one on the host) do not see each other's.

use crate::error::AgentError;
use crate::fit;
use quell_cgroup::Layout;
use quell_config::{Checked, Selector};
use quell_linux::NamedLock;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the locks lie.
const FOLDER: &str = "/run/quell-claims";

/// Held as long as it lives.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    _locks: Vec<NamedLock>,
}

impl Claims {
    /// Claims every group and link of the configuration.
    ///
    /// # Errors
    /// Another agent has one of them, or the locks cannot be made.
    pub(crate) fn take(config: &Checked) -> Result<Self, AgentError> {
        sweep_claims();
        let layout = Layout::discover("/");
        let services = config.services.iter().map(|s| (s.name.as_str(), &s.selector));
        let batch = config.batch.iter().map(|b| (b.name.as_str(), &b.selector));
        let groups = services.chain(batch).flat_map(|(name, selector)| {
            places(&layout, selector).into_iter().map(move |folder| (name, folder))
        });
        let links =
            config.links.iter().filter(|link| link.netns.is_none()).map(|link| {
                (link.name.as_str(), Path::new("/sys/class/net").join(link.name.as_str()))
            });
        let mut locks = Vec::new();
        for (name, folder) in groups.chain(links) {
            locks.extend(claim(Path::new(FOLDER), name, folder)?);
        }
        Ok(Self { _locks: locks })
    }
}

/// Removes the locks of agents that were killed; those of agents that live stay.
pub(crate) fn sweep_claims() {
    NamedLock::sweep(Path::new(FOLDER));
}

/// Folders of a selector's group; a root belongs to everybody.
fn places(layout: &Layout, selector: &Selector) -> Vec<PathBuf> {
    let Ok(group) = fit::group(layout, selector) else { return Vec::new() };
    let own = |place: &&quell_cgroup::Place| place.dir != place.top;
    group.places().iter().filter(own).map(|place| place.dir.clone()).collect()
}

/// None if it went away meanwhile, which opening it will say.
fn claim(locks: &Path, what: &str, path: PathBuf) -> Result<Option<NamedLock>, AgentError> {
    let Ok(folder) = path.metadata() else { return Ok(None) };
    let name = format!("quell-{:x}-{}", folder.dev(), folder.ino());
    match NamedLock::take(locks, &name)? {
        Some(lock) => Ok(Some(lock)),
        None => Err(AgentError::Claimed { what: what.to_owned(), path }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};
    use std::fs::File;

    #[test]
    fn a_folder_is_claimed_once_and_nobody_keeps_it_from_that() {
        let base = tempfile::tempdir().unwrap();
        let (locks, group) = (base.path().join("quell-claims"), base.path().join("group"));
        std::fs::create_dir(&group).unwrap();
        // Everybody may open it, and lock it then.
        let stranger = File::open(&group).unwrap();
        flock(&stranger, FlockOperation::NonBlockingLockExclusive).unwrap();
        let first = claim(&locks, "jobs", group.clone()).unwrap();
        assert!(first.is_some());
        let error = claim(&locks, "jobs", group.clone()).unwrap_err();
        assert!(matches!(&error, AgentError::Claimed { what, .. } if what == "jobs"), "{error}");
        drop(first);
        assert!(claim(&locks, "jobs", group).unwrap().is_some());
        assert!(claim(&locks, "gone", base.path().join("none")).unwrap().is_none());
    }

    #[test]
    fn what_an_agent_leaves_that_is_killed_is_swept_away_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let (locks, group) = (base.path().join("quell-claims"), base.path().join("group"));
        std::fs::create_dir(&group).unwrap();
        let alive = claim(&locks, "jobs", group.clone()).unwrap();
        std::fs::write(locks.join("quell-1-1"), "").unwrap();
        NamedLock::sweep(&locks);
        assert_eq!(std::fs::read_dir(&locks).unwrap().count(), 1, "the living one's");
        assert!(claim(&locks, "jobs", group).is_err());
        std::fs::write(locks.join("quell-1-1"), "").unwrap();
        drop(alive);
        NamedLock::sweep(&locks);
        assert!(!locks.exists());
    }
}
