//! The groups of a comparison: one for the service, one for each polluter.

use crate::Polluter;
use crate::files::{Snapshot, snapshot};
use crate::run_groups::RunGroups;
use quell_cgroup::Group;
use std::path::PathBuf;

const SERVICE: &str = "service";

/// One group for the service, one for each polluter. Dropping it ends what runs in them and
/// removes them.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: RunGroups,
    service: Group,
    batch: Vec<(Polluter, Group)>,
    before: Snapshot,
}

impl Groups {
    /// Makes them under the group `name`.
    pub(crate) fn make(name: &str) -> anyhow::Result<Self> {
        let polluters = Polluter::ALL.map(|polluter| (polluter, member(polluter)));
        let mut members = vec![SERVICE];
        members.extend(polluters.iter().map(|(_, member)| member.as_str()));
        let groups = RunGroups::make(name, &members)?;
        let service = groups.get(SERVICE)?.clone();
        let batch = polluters
            .iter()
            .map(|(polluter, member)| Ok((*polluter, groups.get(member)?.clone())))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut made = Self { groups, service, batch, before: Snapshot::default() };
        made.before = made.knobs();
        Ok(made)
    }

    pub(crate) fn service(&self) -> &Group {
        &self.service
    }

    pub(crate) fn service_path(&self) -> String {
        self.groups.path(SERVICE)
    }

    pub(crate) fn batch(&self, polluter: Polluter) -> Option<&Group> {
        self.batch.iter().find(|(kind, _)| *kind == polluter).map(|(_, group)| group)
    }

    pub(crate) fn batch_path(&self, polluter: Polluter) -> String {
        self.groups.path(&member(polluter))
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

fn member(polluter: Polluter) -> String {
    format!("batch-{}", polluter.name())
}
