//! Whose threads made the split and bus locks that the kernel trapped.
//!
//! The kernel's log tells a thread's number. Its group is asked for when the line is read, at the next
//! full sample; of a thread that has ended by then, that in which it was last seen counts, if it was seen
//! at all. Who is in no tenant's group is nobody's.

use quell_cgroup::{CgroupError, Group, Layout};
use quell_counters::KernelLog;
use quell_types::{Reading, Tenant, Time};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Threads are listed this seldom: many groups have many.
const LIST_EVERY: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct LockTraps {
    log: Reading<KernelLog>,
    counts: BTreeMap<Tenant, u64>,
    /// Whose each thread was when they were listed last, and the time before.
    members: [BTreeMap<u32, Tenant>; 2],
    listed: Option<Time>,
}

impl LockTraps {
    /// Nothing is read, nor any thread listed, where the kernel tells of no locks.
    pub(crate) fn open(root: &Path) -> Self {
        let log = KernelLog::open(root);
        Self { log, counts: BTreeMap::new(), members: Default::default(), listed: None }
    }

    /// Takes in what the kernel told since the last look.
    pub(crate) fn look<'a>(
        &mut self,
        layout: &Layout,
        groups: impl Iterator<Item = (&'a Tenant, &'a Group)> + Clone,
        now: Time,
    ) {
        let Ok(log) = &mut self.log else { return };
        match log.lock_traps() {
            Ok(traps) => {
                for trap in traps {
                    if let Some(tenant) = self.tenant_of(layout, groups.clone(), trap.tid) {
                        *self.counts.entry(tenant).or_default() += 1;
                    }
                }
            }
            Err(gap) => self.log = Err(gap),
        }
        if self.listed.is_none_or(|then| now.since(then) >= LIST_EVERY) {
            self.list(groups);
            self.listed = Some(now);
        }
    }

    /// Traps of each tenant since the log was opened; who had none is left out.
    pub(crate) fn of_tenants(&self) -> Reading<BTreeMap<Tenant, u64>> {
        self.log.as_ref().map(|_| self.counts.clone()).map_err(Clone::clone)
    }

    fn tenant_of<'a>(
        &self,
        layout: &Layout,
        groups: impl Iterator<Item = (&'a Tenant, &'a Group)>,
        tid: u32,
    ) -> Option<Tenant> {
        match Group::of_pid(layout, tid) {
            Ok(its) => innermost(groups, &its),
            Err(CgroupError::NoProcess { .. }) => {
                self.members.iter().find_map(|seen| seen.get(&tid)).cloned()
            }
            Err(_) => None,
        }
    }

    fn list<'a>(&mut self, groups: impl Iterator<Item = (&'a Tenant, &'a Group)>) {
        let mut members = BTreeMap::new();
        for (tenant, group) in groups {
            // Of a group that is gone there are none.
            let tids = group.tids().unwrap_or_default();
            members.extend(tids.into_iter().map(|tid| (tid, tenant.clone())));
        }
        let [last, before] = &mut self.members;
        *before = std::mem::replace(last, members);
    }
}

/// The tenant in or below whose group another one lies; the innermost where tenants lie in each other.
fn innermost<'a>(
    groups: impl Iterator<Item = (&'a Tenant, &'a Group)>,
    its: &Group,
) -> Option<Tenant> {
    let depth = |group: &Group| {
        let within = |dir: &Path| its.places().iter().any(|place| place.dir.starts_with(dir));
        let depths = group.places().iter().filter(|place| within(&place.dir));
        depths.map(|place| place.dir.components().count()).max()
    };
    let all = groups.filter_map(|(tenant, group)| Some((depth(group)?, tenant)));
    all.max_by_key(|(depth, _)| *depth).map(|(_, tenant)| tenant.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::Gap;
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    /// A machine with one v2 tree whose kernel traps split locks.
    struct Machine {
        root: tempfile::TempDir,
        groups: BTreeMap<Tenant, Group>,
        layout: Layout,
    }

    impl Machine {
        fn new(groups: &[(&str, &str)]) -> Self {
            let root = tempfile::tempdir().unwrap();
            write(&root, "proc/cpuinfo", "flags\t: split_lock_detect\n");
            write(&root, "proc/cmdline", "quiet\n");
            write(&root, "dev/kmsg", "");
            let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
            write(&root, "proc/mounts", mounts);
            write(&root, "proc/self/mounts", mounts);
            let mountinfo = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
            write(&root, "proc/self/mountinfo", mountinfo);
            write(&root, "sys/fs/cgroup/cgroup.controllers", "cpu cpuset\n");
            for (_, path) in groups {
                write(&root, &format!("sys/fs/cgroup{path}/cgroup.threads"), "");
            }
            let layout = Layout::discover(root.path());
            let find = |(name, path): &(&str, &str)| {
                (Tenant::from(*name), Group::find(&layout, path).unwrap())
            };
            Self { groups: groups.iter().map(find).collect(), layout, root }
        }

        /// A thread that runs in a group.
        fn run(&self, tid: u32, path: &str) {
            write(&self.root, &format!("proc/{tid}/cgroup"), &format!("0::{path}\n"));
            let list = format!("sys/fs/cgroup{path}/cgroup.threads");
            write(&self.root, &list, &format!("{tid}\n"));
        }

        fn end(&self, tid: u32, path: &str) {
            fs::remove_dir_all(self.root.path().join(format!("proc/{tid}"))).unwrap();
            write(&self.root, &format!("sys/fs/cgroup{path}/cgroup.threads"), "");
        }

        fn trap(&self, tid: u32) {
            let line = format!(
                "4,1,1,-;x86/split lock detection: #AC: a/{tid} took a split_lock trap at address: \
                 0x1\n"
            );
            let path = self.root.path().join("dev/kmsg");
            let mut log = OpenOptions::new().append(true).open(path).unwrap();
            log.write_all(line.as_bytes()).unwrap();
        }

        fn look(&self, traps: &mut LockTraps, second: u64) -> BTreeMap<Tenant, u64> {
            traps.look(&self.layout, self.groups.iter(), Time(second * 1_000_000_000));
            traps.of_tenants().unwrap()
        }
    }

    fn write(root: &tempfile::TempDir, path: &str, text: &str) {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn of<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<Tenant, u64> {
        counts.into_iter().map(|(name, count)| (name.into(), count)).collect()
    }

    #[test]
    fn a_thread_counts_for_the_innermost_tenant_whose_group_it_is_in() {
        let machine = Machine::new(&[
            ("outer", "/jobs"),
            ("inner", "/jobs/vm"),
            ("vcpu", "/jobs/vm/vcpu0"),
            ("like", "/jobs2"),
        ]);
        let mut traps = LockTraps::open(machine.root.path());
        assert_eq!(machine.look(&mut traps, 0), of([]));
        machine.run(10, "/jobs/other");
        machine.run(11, "/jobs/vm/emulator");
        machine.run(12, "/elsewhere");
        for tid in [10, 11, 11, 12] {
            machine.trap(tid);
        }
        let counts = of([("outer", 1), ("inner", 2)]);
        assert_eq!(machine.look(&mut traps, 1), counts);
        assert_eq!(machine.look(&mut traps, 2), counts, "once each");
    }

    #[test]
    fn a_thread_that_ended_counts_for_the_group_it_was_last_seen_in() {
        let machine = Machine::new(&[("jobs", "/jobs"), ("web", "/web")]);
        let mut traps = LockTraps::open(machine.root.path());
        machine.run(10, "/jobs");
        machine.look(&mut traps, 0);
        machine.end(10, "/jobs");
        machine.trap(10);
        machine.trap(99);
        assert_eq!(machine.look(&mut traps, 1), of([("jobs", 1)]), "99 was never seen");
        // Its number goes to another one, which is asked for itself.
        machine.run(10, "/web");
        machine.trap(10);
        assert_eq!(machine.look(&mut traps, 2), of([("jobs", 1), ("web", 1)]));
        machine.end(10, "/web");
        for second in [10, 20, 30] {
            machine.look(&mut traps, second);
        }
        machine.trap(10);
        let after = machine.look(&mut traps, 40);
        assert_eq!(after, of([("jobs", 1), ("web", 1)]), "what is long gone is forgotten");
    }

    #[test]
    fn a_kernel_that_tells_nothing_leaves_a_gap_and_lists_nobody() {
        let machine = Machine::new(&[("jobs", "/jobs")]);
        write(&machine.root, "proc/cpuinfo", "flags\t: fpu\n");
        let mut traps = LockTraps::open(machine.root.path());
        machine.run(10, "/jobs");
        traps.look(&machine.layout, machine.groups.iter(), Time(0));
        assert!(
            matches!(traps.of_tenants(), Err(Gap::Absent(why)) if why.contains("no such locks"))
        );
        assert!(traps.members[0].is_empty());
    }
}
