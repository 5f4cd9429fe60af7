//! The groups of a run: made for it, gone after it.

use crate::Polluter;
use crate::files::{Snapshot, snapshot};
use anyhow::Context as _;
use quell_cgroup::{Group, Layout, create, remove};
use std::path::PathBuf;
use std::time::Duration;

const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "freezer"];
const END: Duration = Duration::from_secs(5);

/// One group for the service, one for each polluter. Dropping it ends what runs in them and
/// removes them.
#[derive(Debug)]
pub(crate) struct Groups {
    layout: Layout,
    home: String,
    service: Group,
    batch: Vec<(Polluter, Group)>,
    before: Snapshot,
}

/// Removes the groups that were made before something failed.
struct Undo<'a>(&'a Layout, &'a str);

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        // The error that led here is what the caller hears of.
        let _ = remove(self.0, self.1, END);
    }
}

impl Groups {
    /// Makes them under the group `name`.
    pub(crate) fn make(name: &str) -> anyhow::Result<Self> {
        let home = format!("/{name}");
        let layout = Layout::discover("/");
        let undo = Undo(&layout, &home);
        let make = |name: &str| {
            let path = format!("{home}/{name}");
            create(&layout, &path, &CONTROLLERS)
                .with_context(|| format!("cannot make the group {path}; this needs root"))
        };
        let service = make("quell-service")?;
        let batch = Polluter::ALL
            .into_iter()
            .map(|polluter| Ok((polluter, make(&format!("quell-batch-{}", polluter.name()))?)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        std::mem::forget(undo);
        let mut groups = Self { layout, home, service, batch, before: Snapshot::default() };
        groups.before = groups.knobs();
        Ok(groups)
    }

    pub(crate) fn service(&self) -> &Group {
        &self.service
    }

    pub(crate) fn service_path(&self) -> String {
        format!("{}/quell-service", self.home)
    }

    pub(crate) fn batch(&self, polluter: Polluter) -> Option<&Group> {
        self.batch.iter().find(|(kind, _)| *kind == polluter).map(|(_, group)| group)
    }

    pub(crate) fn batch_path(&self, polluter: Polluter) -> String {
        format!("{}/quell-batch-{}", self.home, polluter.name())
    }

    /// The `cgroup.procs` files of the service's group.
    pub(crate) fn service_doors(&self) -> Vec<PathBuf> {
        self.service.places().iter().map(|place| place.file("cgroup.procs")).collect()
    }

    /// Knob files whose text is not what it was when the groups were made, with both texts.
    pub(crate) fn changed_knobs(&self) -> Vec<String> {
        self.before.differences(&self.knobs())
    }

    fn knobs(&self) -> Snapshot {
        let groups = std::iter::once(&self.service).chain(self.batch.iter().map(|(_, g)| g));
        let folders = groups.flat_map(|group| group.places().iter().map(|place| &place.dir));
        snapshot(folders)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for (_, group) in &self.batch {
            let _ = group.kill(END);
        }
        let _ = self.service.kill(END);
        if let Err(error) = remove(&self.layout, &self.home, END) {
            eprintln!("quell: the groups of this run remain: {error}");
        }
    }
}
