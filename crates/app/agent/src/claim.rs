//! One agent for each group and link, whatever state folder it works in.
//!
//! The kernel's own lock on the group's folder: nothing is created, and it is gone with the
//! process.

use crate::error::AgentError;
use crate::fit;
use quell_cgroup::Layout;
use quell_config::{Checked, Selector};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Held as long as it lives.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    _folders: Vec<File>,
}

impl Claims {
    /// Claims every group and link of the configuration.
    ///
    /// # Errors
    /// Another agent has one of them.
    pub(crate) fn take(config: &Checked) -> Result<Self, AgentError> {
        let layout = Layout::discover("/");
        let mut folders = Vec::new();
        let services = config.services.iter().map(|s| (s.name.as_str(), &s.selector));
        let batch = config.batch.iter().map(|b| (b.name.as_str(), &b.selector));
        for (name, selector) in services.chain(batch) {
            for folder in places(&layout, selector) {
                folders.push(claim(name, folder)?);
            }
        }
        for link in config.links.iter().filter(|link| link.netns.is_none()) {
            let folder = Path::new("/sys/class/net").join(link.name.as_str());
            folders.push(claim(link.name.as_str(), folder)?);
        }
        Ok(Self { _folders: folders.into_iter().flatten().collect() })
    }
}

/// Folders of a selector's group; a root belongs to everybody.
fn places(layout: &Layout, selector: &Selector) -> Vec<PathBuf> {
    let Ok(group) = fit::group(layout, selector) else { return Vec::new() };
    let own = |place: &&quell_cgroup::Place| place.dir != place.top;
    group.places().iter().filter(own).map(|place| place.dir.clone()).collect()
}

/// None if it went away meanwhile, which opening it will say.
fn claim(what: &str, path: PathBuf) -> Result<Option<File>, AgentError> {
    let Ok(folder) = File::open(&path) else { return Ok(None) };
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(AgentError::Claimed { what: what.to_owned(), path })
        }
        _ => Ok(Some(folder)),
    }
}
