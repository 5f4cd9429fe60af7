//! The platform on cgroup trees that refuse what the kernel refuses.
#![allow(clippy::unwrap_used)]

#[path = "../../../sys/cgroup/tests/pretended/mod.rs"]
mod pretended;

use pretended::{Tree, Version};
use quell_cgroup::{Group, Layout, create};
use quell_linux::*;
use quell_platform::{Platform, Scope, conformance};
use quell_types::*;
use std::path::Path;
use std::time::Duration;

/// A process in the batch group: then lists cannot be emptied and the group not be removed.
const PID: u32 = 77;
const CONTROLLERS: [&str; 4] = ["cpu", "cpuacct", "cpuset", "freezer"];

/// A tree with two batch groups, one of them with a process.
fn tree(version: Version) -> Option<Tree> {
    let tree = Tree::mount(version, 4, &[1, PID])?;
    let layout = Layout::discover(tree.root());
    for name in ["/quell-jobs", "/quell-more"] {
        create(&layout, name, &CONTROLLERS).unwrap();
    }
    Group::find(&layout, "/quell-jobs").unwrap().add_process(PID).unwrap();
    Some(tree)
}

fn open(root: &Path, state: &Path) -> Linux {
    let batch = |name: &str| BatchBinding {
        spec: BatchSpec { name: name.into(), links: vec![], takes_tasks: false, max_tasks: 0 },
        selector: Selector::Cgroup(format!("/quell-{name}")),
        adopt: false,
    };
    let options = LinuxOptions {
        root: root.to_owned(),
        batch: vec![batch("jobs"), batch("more")],
        ..LinuxOptions::new(state.to_owned())
    };
    Linux::open(options).unwrap()
}

#[test]
fn trees_that_refuse_conform() {
    for version in [Version::V1, Version::V2] {
        let mut kept = Vec::new();
        let Some(_) = tree(version) else { return };
        conformance::run(|| {
            let (tree, state) = (tree(version).unwrap(), tempfile::tempdir().unwrap());
            let linux = open(tree.root(), state.path());
            let of_jobs = linux.setup().knobs.keys().filter(|k| k.tenant() == Some(&"jobs".into()));
            assert_eq!(of_jobs.count(), 5, "{version:?}: {:?}", linux.setup().knobs);
            kept.push((tree, state));
            linux
        });
    }
}

#[test]
fn what_the_kernel_refuses_is_an_outcome_and_the_rest_comes_back_after_a_death() {
    for version in [Version::V1, Version::V2] {
        let Some(tree) = tree(version) else { return };
        let state = tempfile::tempdir().unwrap();
        let mut linux = open(tree.root(), state.path());
        let first = linux.sample(Duration::from_millis(1), Scope::Full).unwrap().knobs;
        let set = |knob, to| Action::Set { knob, to };
        let jobs = || Tenant::from("jobs");
        let quota = CpuBandwidth::limited(0.2, Duration::from_millis(10));
        for action in [
            set(Knob::CpuIdle { tenant: jobs() }, Setting::Flag(true)),
            // Refused: the idle class has no weight.
            set(Knob::CpuWeight { tenant: jobs() }, Setting::Weight(50)),
            set(Knob::CpuBandwidth { tenant: jobs() }, Setting::Bandwidth(quota)),
            set(Knob::Cpus { tenant: jobs() }, Setting::Cpus(CpuSet::of(2))),
            set(Knob::Frozen { tenant: jobs() }, Setting::Flag(true)),
        ] {
            linux.apply(&action).unwrap();
        }
        let sample = linux.sample(Duration::from_millis(1), Scope::Full).unwrap();
        let refused: Vec<&Outcome> = sample.outcomes.iter().filter(|o| o.error.is_some()).collect();
        assert_eq!(refused.len(), 1, "{version:?}: {refused:?}");
        assert!(refused[0].error.as_ref().unwrap().contains("idle"), "{version:?}: {refused:?}");
        assert_ne!(sample.knobs, first);
        // SIGKILL: no destructor runs.
        std::mem::forget(linux);
        let report = restore_state(tree.root(), &StateDir(state.path().to_owned())).unwrap();
        assert_eq!(report.failed, Vec::<String>::new(), "{version:?}");
        let mut linux = open(tree.root(), state.path());
        let after = linux.sample(Duration::from_millis(1), Scope::Full).unwrap().knobs;
        assert_eq!(after, first, "{version:?}");
    }
}

/// A v2 tree with a group of somebody else's, and a batch group that is adopted: controllers are
/// enabled for that. As a SIGKILL leaves it.
fn died_with_controllers_enabled(state: &Path) -> Option<Tree> {
    let tree = Tree::mount(Version::V2, 4, &[1, PID])?;
    let top = tree.hierarchy("cpu");
    for name in ["others", "jobs"] {
        std::fs::create_dir(top.join(name)).unwrap();
    }
    std::mem::forget(batch_on(&tree, state, "/jobs", true).unwrap());
    assert_eq!(controllers(&tree), "cpu cpuset");
    Some(tree)
}

fn batch_on(tree: &Tree, state: &Path, group: &str, adopt: bool) -> Result<Linux, Vec<OpenError>> {
    let spec = BatchSpec { name: "jobs".into(), links: vec![], takes_tasks: false, max_tasks: 0 };
    let batch = BatchBinding { spec, selector: Selector::Cgroup(group.into()), adopt };
    Linux::open(LinuxOptions {
        root: tree.root().to_owned(),
        batch: vec![batch],
        ..LinuxOptions::new(state.to_owned())
    })
}

fn controllers(tree: &Tree) -> String {
    let file = tree.hierarchy("cpu").join("cgroup.subtree_control");
    std::fs::read_to_string(file).unwrap().trim().to_owned()
}

#[test]
fn controllers_that_others_use_by_now_are_left_to_them_and_no_start_fails_for_it() {
    let others = [("others/cpu.max", "50000 100000"), ("others/cgroup.subtree_control", "+cpu")];
    for (file, text) in others {
        let state = tempfile::tempdir().unwrap();
        let folder = StateDir(state.path().to_owned());
        let Some(tree) = died_with_controllers_enabled(state.path()) else { return };
        let used = tree.hierarchy("cpu").join(file);
        std::fs::write(&used, text).unwrap();
        let report = restore_state(tree.root(), &folder).unwrap();
        assert_eq!(report.failed, Vec::<String>::new(), "{file}");
        assert!(report.left.len() == 1 && report.left[0].contains("others"), "{:?}", report.left);
        assert_eq!(controllers(&tree), "cpu", "the other one nobody uses");
        let now = std::fs::read_to_string(&used).unwrap();
        assert_eq!(now.trim(), text.trim_start_matches('+'), "as its owner wants it");
        assert!(!tree.hierarchy("cpu").join("quell-jobs").exists());
        let again = restore_state(tree.root(), &folder).unwrap();
        assert_eq!(again, quell_platform::RestoreReport::default(), "said once");
        // What was left is how the next agent finds it.
        drop(batch_on(&tree, state.path(), "/others", false).unwrap());
        assert_eq!(controllers(&tree), "cpu", "{file}");
    }
}

#[test]
fn controllers_that_nobody_uses_are_disabled_after_a_death() {
    let state = tempfile::tempdir().unwrap();
    let Some(tree) = died_with_controllers_enabled(state.path()) else { return };
    let report = restore_state(tree.root(), &StateDir(state.path().to_owned())).unwrap();
    assert_eq!((report.failed.len(), report.left.len()), (0, 0), "{report:?}");
    assert_eq!(controllers(&tree), "");
}
