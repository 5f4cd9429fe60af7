//! CPUs and memory nodes (kernel/cgroup/cpuset.c).

use super::{Kernel, Refusal, Version, list, refuse, split};
use rustix::io::Errno;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub(super) struct Cpuset {
    cpus: BTreeSet<u32>,
    mems: BTreeSet<u32>,
    /// v1: no sibling may have these CPUs.
    exclusive: bool,
    /// v2: what was asked for, `root` or `isolated`; none = a plain member.
    partition: Option<&'static str>,
}

impl Cpuset {
    /// That of the top group.
    pub(super) fn top(cpus: &BTreeSet<u32>) -> Self {
        Self { cpus: cpus.clone(), mems: [0].into(), exclusive: true, partition: Some("root") }
    }

    /// Whether no task could live there (v1).
    pub(super) fn is_bare(&self) -> bool {
        self.cpus.is_empty() || self.mems.is_empty()
    }
}

pub(super) fn files(version: Version, top: bool) -> &'static [&'static str] {
    match (version, top) {
        (Version::V1, _) => &["cpuset.cpus", "cpuset.mems", "cpuset.cpu_exclusive"],
        (Version::V2, true) => &["cpuset.cpus.effective", "cpuset.mems.effective"],
        (Version::V2, false) => &[
            "cpuset.cpus",
            "cpuset.mems",
            "cpuset.cpus.effective",
            "cpuset.mems.effective",
            "cpuset.cpus.partition",
        ],
    }
}

impl Kernel {
    pub(super) fn cpuset_text(&self, group: &str, file: &str) -> String {
        let of = &self.groups[group].cpuset;
        match file {
            "cpuset.cpus" => list::print(&of.cpus),
            "cpuset.mems" => list::print(&of.mems),
            "cpuset.cpu_exclusive" => super::flag(of.exclusive),
            "cpuset.cpus.effective" => list::print(&self.effective(group)),
            "cpuset.mems.effective" => "0\n".into(),
            _ => match of.partition {
                None => "member\n".into(),
                Some(state) if self.is_partition(group) => format!("{state}\n"),
                Some(state) => format!("{state} invalid (Cpu list in cpuset.cpus not exclusive)\n"),
            },
        }
    }

    pub(super) fn write_cpuset(
        &mut self,
        group: &str,
        file: &str,
        text: &str,
    ) -> Result<(), Refusal> {
        if group.is_empty() {
            // The top group's sets are the machine's.
            return refuse(Errno::ACCESS);
        }
        let mut next = self.groups[group].cpuset.clone();
        match file {
            "cpuset.cpus" => next.cpus = self.list(text, &self.cpus)?,
            "cpuset.mems" => next.mems = self.list(text, &[0].into())?,
            "cpuset.cpu_exclusive" => match text {
                "0" | "1" => next.exclusive = text == "1",
                _ => return refuse(Errno::INVAL),
            },
            "cpuset.cpus.partition" => match text {
                "member" => next.partition = None,
                "root" => next.partition = Some("root"),
                "isolated" => next.partition = Some("isolated"),
                _ => return refuse(Errno::INVAL),
            },
            _ => return refuse(Errno::INVAL),
        }
        self.check_cpuset(group, &next)?;
        self.group(group).cpuset = next;
        Ok(())
    }

    /// A list of what the machine has.
    fn list(&self, text: &str, within: &BTreeSet<u32>) -> Result<BTreeSet<u32>, Refusal> {
        match list::parse(text) {
            Some(set) if set.is_subset(within) => Ok(set),
            _ => refuse(Errno::INVAL),
        }
    }

    /// As `validate_change`, in its order.
    fn check_cpuset(&self, group: &str, next: &Cpuset) -> Result<(), Refusal> {
        let now = &self.groups[group];
        if self.version == Version::V1 {
            let fits = |inner: &Cpuset, outer: &Cpuset| {
                inner.cpus.is_subset(&outer.cpus)
                    && inner.mems.is_subset(&outer.mems)
                    && (outer.exclusive || !inner.exclusive)
            };
            if !self.children(group).all(|child| fits(&self.groups[child].cpuset, next)) {
                return refuse(Errno::BUSY);
            }
            if !fits(next, &self.groups[split(group).0].cpuset) {
                return refuse(Errno::ACCESS);
            }
        }
        let emptied = !now.cpuset.cpus.is_empty() && next.cpus.is_empty()
            || !now.cpuset.mems.is_empty() && next.mems.is_empty();
        if emptied && !now.procs.is_empty() {
            return refuse(Errno::NOSPC);
        }
        let clashes = |other: &Cpuset| {
            (next.exclusive || other.exclusive) && !next.cpus.is_disjoint(&other.cpus)
        };
        let mut siblings = self.siblings(group);
        if self.version == Version::V1 && siblings.any(|s| clashes(&self.groups[s].cpuset)) {
            return refuse(Errno::INVAL);
        }
        Ok(())
    }

    fn siblings<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a String> + 'a {
        self.children(split(group).0).filter(move |other| *other != group)
    }

    /// Whether the CPUs are kept from the siblings now (v2).
    fn is_partition(&self, group: &str) -> bool {
        let of = &self.groups[group].cpuset;
        let alone = || {
            let mut others = self.siblings(group);
            others.all(|other| self.groups[other].cpuset.cpus.is_disjoint(&of.cpus))
        };
        let parent = split(group).0;
        of.partition.is_some()
            && (group.is_empty() || !of.cpus.is_empty() && alone() && self.is_partition(parent))
    }

    /// The CPUs that the group may use now: what is its own, without its children's partitions.
    fn effective(&self, group: &str) -> BTreeSet<u32> {
        let of = &self.groups[group].cpuset;
        let granted = if self.is_partition(group) {
            of.cpus.clone()
        } else {
            let above = self.effective(split(group).0);
            let own: BTreeSet<u32> = of.cpus.intersection(&above).copied().collect();
            if own.is_empty() { above } else { own }
        };
        let kept = self.children(group).filter(|child| self.is_partition(child));
        let kept: BTreeSet<u32> =
            kept.flat_map(|child| self.groups[child].cpuset.cpus.clone()).collect();
        granted.difference(&kept).copied().collect()
    }
}
