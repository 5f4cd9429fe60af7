//! Cache ways and memory bandwidth, on trees that refuse what the kernel's resctrl refuses.
#![allow(clippy::unwrap_used)]

#[path = "../../../sys/resctrl/tests/common/mod.rs"]
mod common;

use common::Tree;
use quell_linux::*;
use quell_platform::{Platform, Scope, conformance};
use quell_types::*;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// A resctrl tree beside a cgroup v2 tree with one batch group that holds these threads.
fn machine(mut tree: Tree, threads: &[u32]) -> (Tree, tempfile::TempDir) {
    tree.refuses = true;
    let put = |path: &str, text: &str| {
        let path = tree.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let mounts = std::fs::read_to_string(tree.root().join("proc/mounts")).unwrap();
    put("proc/mounts", &format!("{mounts}cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"));
    let threads: String = threads.iter().map(|thread| format!("{thread}\n")).collect();
    for (name, text) in [
        ("cgroup.controllers", "cpu memory\n"),
        ("jobs/cgroup.controllers", "cpu memory\n"),
        ("jobs/cgroup.procs", &threads),
        ("jobs/cgroup.threads", &threads),
        ("jobs/cpu.max", "max 100000\n"),
        ("jobs/cpu.weight", "100\n"),
        ("jobs/cpu.stat", "usage_usec 7\nnr_periods 0\nnr_throttled 0\n"),
    ] {
        put(&format!("sys/fs/cgroup/{name}"), text);
    }
    (tree, tempfile::tempdir().unwrap())
}

fn open(root: &Path, state: &Path) -> Linux {
    let batch = BatchBinding {
        spec: BatchSpec { name: "jobs".into(), links: vec![], takes_tasks: false, max_tasks: 0 },
        selector: Selector::Cgroup("/jobs".into()),
        adopt: false,
    };
    let options =
        LinuxOptions { root: root.to_owned(), batch: vec![batch], ..LinuxOptions::new(state) };
    Linux::open(options).unwrap()
}

fn full(linux: &mut Linux) -> Sample {
    linux.sample(Duration::from_millis(1), Scope::Full).unwrap()
}

fn group(root: &Path) -> PathBuf {
    root.join("sys/fs/resctrl/quell-jobs")
}

fn tasks(group: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(group.join("tasks")).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn trees_that_allot_conform() {
    for name in common::ALLOCATING {
        let mut kept = Vec::new();
        let Some(_) = Tree::kernel(name) else { return };
        conformance::run(|| {
            let (tree, state) = machine(Tree::kernel(name).unwrap(), &[1]);
            let linux = open(tree.root(), state.path());
            let ways = |k: &&Knob| matches!(k, Knob::LlcWays { .. });
            assert!(linux.setup().knobs.keys().any(|k| ways(&k)), "{name}");
            kept.push((tree, state));
            linux
        });
    }
}

/// A process that only waits.
struct Waiting(Child);

impl Waiting {
    fn start() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_tenant_is_counted_in_its_group_and_the_default_group_gets_its_threads_back() {
    let Some(tree) = Tree::kernel("intel-skx-full") else { return };
    let late = Waiting::start();
    let (tree, state) = machine(tree, &[1]);
    let default = tree.root().join("sys/fs/resctrl");
    let mut linux = open(tree.root(), state.path());
    assert!(!group(tree.root()).exists(), "opening changes nothing");
    full(&mut linux);
    let sample = full(&mut linux);
    let jobs = &sample.tenants[&"jobs".into()];
    let mine = jobs.memory.clone().unwrap().bytes;
    assert!(mine > 0 && sample.host.memory.unwrap().bytes > mine);
    assert!(jobs.llc_bytes.clone().unwrap() > 0);
    assert_eq!(tasks(&group(tree.root())), [1]);

    std::fs::write(default.join("tasks"), format!("{}\n", late.0.id())).unwrap();
    let both = format!("1\n{}\n", late.0.id());
    std::fs::write(tree.root().join("sys/fs/cgroup/jobs/cgroup.threads"), both).unwrap();
    let _ = full(&mut linux);
    assert_eq!(tasks(&group(tree.root())), [1, late.0.id()]);

    linux.restore().unwrap();
    assert!(!group(tree.root()).exists());
    assert!(tasks(&default).contains(&late.0.id()) && tasks(&default).contains(&1));
}

#[test]
fn what_a_killed_agent_left_is_removed_from_its_journal_alone() {
    let Some(tree) = Tree::kernel("amd-milan") else { return };
    let (tree, state) = machine(tree, &[1]);
    let mut linux = open(tree.root(), state.path());
    let knob = Knob::LlcWays { tenant: "jobs".into(), domain: 0 };
    linux.apply(&Action::Set { knob, to: Setting::Ways(0b11) }).unwrap();
    std::mem::forget(linux);
    assert!(group(tree.root()).exists());
    let report = restore_state(tree.root(), &StateDir(state.path().to_owned())).unwrap();
    assert_eq!((report.restored, report.failed), (1, vec![]));
    assert!(!group(tree.root()).exists());
}

#[test]
fn what_is_not_counted_says_why() {
    for (name, reason) in
        [("not-mounted", "not mounted"), ("no-support", "offers no cache or bandwidth control")]
    {
        let (tree, state) = machine(Tree::plain(name), &[]);
        let mut linux = open(tree.root(), state.path());
        let sample = full(&mut linux);
        let memory = &sample.tenants[&"jobs".into()].memory;
        let Err(Gap::Absent(why)) = memory else { panic!("{name}: {memory:?}") };
        assert!(why.contains(reason), "{name}: {why}");
    }
}

fn monitoring_group(root: &Path) -> PathBuf {
    root.join("sys/fs/resctrl/mon_groups/quell-jobs")
}

#[test]
fn a_machine_that_only_monitors_counts_each_tenant_in_a_monitoring_group() {
    let Some(tree) = Tree::kernel("monitoring-only") else { return };
    let (ours, others) = (Waiting::start(), Waiting::start());
    let threads = [1, ours.0.id(), others.0.id()];
    let (tree, state) = machine(tree, &threads[..2]);
    let (root, group) = (tree.root(), monitoring_group(tree.root()));
    // Somebody else watches one of the threads.
    let foreign = root.join("sys/fs/resctrl/mon_groups/research");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("tasks"), "1\n").unwrap();
    let mut linux = open(root, state.path());
    assert!(linux.setup().knobs.keys().all(|k| !matches!(k, Knob::LlcWays { .. })));
    assert!(!group.exists(), "opening changes nothing");
    full(&mut linux);
    assert_eq!(tasks(&group), [ours.0.id()]);
    let (first, second) = (full(&mut linux), full(&mut linux));
    let moved = |sample: &Sample| {
        let tenant = sample.tenants[&"jobs".into()].memory.clone().unwrap().bytes;
        (tenant, sample.host.memory.clone().unwrap().bytes)
    };
    let ((mine, all), (later, all_later)) = (moved(&first), moved(&second));
    assert!(0 < mine && mine < later && later < all_later, "{mine} {later} {all_later}");
    // The fresh group's counters held what their former owner moved: nobody moved that now.
    assert!(all < common::STALE_BYTES && all_later < common::STALE_BYTES, "{all} {all_later}");
    assert!(first.tenants[&"jobs".into()].llc_bytes.clone().unwrap() > 0);

    // A thread that came later joins.
    let list = threads.map(|thread| format!("{thread}\n")).concat();
    std::fs::write(root.join("sys/fs/cgroup/jobs/cgroup.threads"), list).unwrap();
    full(&mut linux);
    assert_eq!(tasks(&group), sorted([ours.0.id(), others.0.id()]));
    linux.restore().unwrap();
    assert!(!group.exists() && foreign.exists());
    assert_eq!(tasks(&foreign), [1], "somebody else's group is left alone");
}

fn sorted(mut threads: [u32; 2]) -> [u32; 2] {
    threads.sort_unstable();
    threads
}

#[test]
fn a_group_made_later_adds_nothing_to_the_machines_traffic() {
    let Some(tree) = Tree::kernel("monitoring-only") else { return };
    let (tree, state) = machine(tree, &[1]);
    let mut linux = open(tree.root(), state.path());
    full(&mut linux);
    let before = full(&mut linux).host.memory.unwrap().bytes;
    // Somebody takes it away: it is made anew with another's old counts in it.
    std::fs::remove_dir(monitoring_group(tree.root())).unwrap();
    full(&mut linux);
    let sample = full(&mut linux);
    let jump = sample.host.memory.clone().unwrap().bytes - before;
    assert!(jump < common::STALE_BYTES, "{jump}");
    let mine = sample.tenants[&"jobs".into()].memory.clone().unwrap().bytes;
    assert!(mine < common::STALE_BYTES, "{mine}");
}

#[test]
fn a_killed_agents_monitoring_group_is_removed_from_its_journal_alone() {
    let Some(tree) = Tree::kernel("monitoring-only") else { return };
    let (tree, state) = machine(tree, &[1]);
    let mut linux = open(tree.root(), state.path());
    full(&mut linux);
    std::mem::forget(linux);
    assert!(monitoring_group(tree.root()).exists());
    let report = restore_state(tree.root(), &StateDir(state.path().to_owned())).unwrap();
    assert_eq!((report.restored, report.failed), (1, vec![]));
    assert!(!monitoring_group(tree.root()).exists());
}

#[test]
fn a_machine_that_only_monitors_conforms() {
    let mut kept = Vec::new();
    let Some(_) = Tree::kernel("monitoring-only") else { return };
    conformance::run(|| {
        let (tree, state) = machine(Tree::kernel("monitoring-only").unwrap(), &[1]);
        let linux = open(tree.root(), state.path());
        kept.push((tree, state));
        linux
    });
}

#[test]
fn without_room_for_one_more_group_the_tenant_is_a_gap() {
    let Some(tree) = Tree::kernel("monitoring-only") else { return };
    let (tree, state) = machine(tree, &[1]);
    let groups = tree.root().join("sys/fs/resctrl/mon_groups");
    let rmids = 64;
    for other in 1..rmids {
        std::fs::create_dir(groups.join(format!("other-{other}"))).unwrap();
    }
    let mut linux = open(tree.root(), state.path());
    let sample = full(&mut linux);
    let gap = sample.tenants[&"jobs".into()].memory.clone().unwrap_err();
    assert!(gap.to_string().contains("Out of RMIDs"), "{gap}");
    assert!(sample.host.memory.is_ok());
    drop(linux);
    // One that was just given back is to be had later, and then the tenant is counted.
    std::fs::remove_dir(groups.join("other-1")).unwrap();
    let mut linux = open(tree.root(), state.path());
    let sample = full(&mut linux);
    let memory = sample.tenants[&"jobs".into()].memory.clone();
    assert!(matches!(memory, Err(Gap::NotYet(_))), "{memory:?}");
    full(&mut linux);
    assert!(full(&mut linux).tenants[&"jobs".into()].memory.is_ok());
}

#[test]
fn without_a_class_left_a_tenant_has_no_ways_and_is_counted_apart() {
    let Some(tree) = Tree::kernel("intel-skx-full") else { return };
    let (tree, state) = machine(tree, &[1]);
    let classes = tree.root().join("sys/fs/resctrl");
    let mut others = Vec::new();
    while std::fs::create_dir(classes.join(format!("other-{}", others.len()))).is_ok() {
        others.push(classes.join(format!("other-{}", others.len())));
    }
    let mut linux = open(tree.root(), state.path());
    let allots = |k: &Knob| matches!(k, Knob::LlcWays { .. } | Knob::MemoryBandwidth { .. });
    assert!(!linux.setup().knobs.keys().any(allots));
    full(&mut linux);
    let sample = full(&mut linux);
    assert!(sample.tenants[&"jobs".into()].memory.clone().unwrap().bytes > 0);
    assert_eq!(tasks(&monitoring_group(tree.root())), [1]);
    linux.restore().unwrap();
    assert!(!monitoring_group(tree.root()).exists());
    // One class more, and the tenant has it.
    std::fs::remove_dir(&others[0]).unwrap();
    drop(linux);
    let linux = open(tree.root(), state.path());
    assert!(linux.setup().knobs.keys().any(allots));
}

#[test]
fn a_group_of_ours_is_removed_although_one_of_its_knobs_was_given_up() {
    let Some(tree) = Tree::kernel("intel-skx-full") else { return };
    let (tree, state) = machine(tree, &[1]);
    let mut linux = open(tree.root(), state.path());
    let knob = Knob::LlcWays { tenant: "jobs".into(), domain: 0 };
    linux.apply(&Action::Set { knob: knob.clone(), to: Setting::Ways(0b11) }).unwrap();
    assert!(group(tree.root()).exists());
    linux.disown(&knob).unwrap();
    std::mem::forget(linux);
    let report = restore_state(tree.root(), &StateDir(state.path().to_owned())).unwrap();
    assert_eq!((report.restored, report.failed), (1, vec![]));
    assert!(!group(tree.root()).exists());
}
