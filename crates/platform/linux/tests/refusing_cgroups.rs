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
