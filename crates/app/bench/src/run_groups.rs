//! Control groups under one home: made for a run, gone after it.

use anyhow::Context as _;
use quell_cgroup::{Group, Layout, create, remove};
use std::path::PathBuf;
use std::time::Duration;

const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "freezer"];
const END: Duration = Duration::from_secs(5);

/// Named groups. Dropping them ends what runs in them and removes them, also those that were made
/// before another could not be.
#[derive(Debug)]
pub(crate) struct RunGroups {
    layout: Layout,
    home: String,
    named: Vec<(String, Group)>,
}

impl RunGroups {
    /// Makes these under the group `name`.
    pub(crate) fn make(name: &str, members: &[&str]) -> anyhow::Result<Self> {
        let (layout, home) = (Layout::discover("/"), format!("/{name}"));
        let mut groups = Self { layout, home, named: Vec::new() };
        for member in members {
            let path = groups.path(member);
            let group = create(&groups.layout, &path, &CONTROLLERS)
                .with_context(|| format!("cannot make the group {path}; this needs root"))?;
            groups.named.push(((*member).to_owned(), group));
        }
        Ok(groups)
    }

    /// One of them.
    pub(crate) fn get(&self, member: &str) -> anyhow::Result<&Group> {
        let found = self.named.iter().find(|(name, _)| name == member);
        found.map(|(_, group)| group).with_context(|| format!("no group {member} was made"))
    }

    /// Its path in every hierarchy.
    pub(crate) fn path(&self, member: &str) -> String {
        format!("{}/quell-{member}", self.home)
    }

    /// Its `cgroup.procs` files.
    pub(crate) fn doors(&self, member: &str) -> anyhow::Result<Vec<PathBuf>> {
        Ok(self.get(member)?.places().iter().map(|place| place.file("cgroup.procs")).collect())
    }
}

impl Drop for RunGroups {
    fn drop(&mut self) {
        for (_, group) in &self.named {
            let _ = group.kill(END);
        }
        if let Err(error) = remove(&self.layout, &self.home, END) {
            eprintln!("quell: the groups of this run remain: {error}");
        }
    }
}
