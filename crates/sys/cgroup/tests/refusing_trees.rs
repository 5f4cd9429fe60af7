//! Knobs on trees that refuse what the kernel refuses, v1 and v2 alike.
#![allow(clippy::unwrap_used)] // Helpers of tests may panic as tests do.

mod pretended;

use pretended::{Tree, Version};
use quell_cgroup::{
    BandwidthKnob, CgroupError, CpusKnob, Exclusivity, Group, GroupKnob, Layout, create, knobs_of,
    remove, restore_raw, subtree_files,
};
use quell_types::{CpuBandwidth, CpuSet, Setting};
use std::time::Duration;

const PID: u32 = 77;
const CONTROLLERS: [&str; 4] = ["cpu", "cpuacct", "cpuset", "freezer"];

fn on_each(test: impl Fn(Version, &Layout)) {
    for version in [Version::V1, Version::V2] {
        let Some(tree) = Tree::mount(version, 4, &[1, PID]) else { return };
        test(version, &Layout::discover(tree.root()));
    }
}

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn bandwidth(cpus: f64, period_ms: u64) -> Setting {
    Setting::Bandwidth(CpuBandwidth::limited(cpus, Duration::from_millis(period_ms)))
}

fn make(layout: &Layout, path: &str) -> Group {
    create(layout, path, &CONTROLLERS).unwrap()
}

#[test]
fn every_knob_takes_what_it_rounds_to_and_comes_back() {
    on_each(|version, layout| {
        let group = make(layout, "/quell-jobs");
        group.add_process(PID).unwrap();
        let mut saved = Vec::new();
        for (name, knob) in knobs_of(&group, Exclusivity::Shared) {
            let knob = knob.unwrap_or_else(|gap| panic!("{version:?} {name}: {gap}"));
            saved.extend(knob.raw_files().unwrap());
            let settings = match name {
                "cpus" => vec![Setting::Cpus(cpus("1-2")), Setting::Cpus(cpus("3,9"))],
                "bandwidth" => vec![bandwidth(0.5, 10), bandwidth(1e-9, 1), bandwidth(3.0, 9999)],
                "weight" => vec![Setting::Weight(1), Setting::Weight(20_000)],
                _ => vec![Setting::Flag(true), Setting::Flag(false)],
            };
            for wanted in settings {
                let rounded = knob.round(&wanted);
                knob.write(&wanted).unwrap_or_else(|e| panic!("{version:?} {name}: {e}"));
                assert_eq!(knob.read(), Ok(rounded.clone()), "{version:?} {name} {wanted}");
                assert_eq!(knob.round(&rounded), rounded, "{version:?} {name}");
            }
        }
        let report = restore_raw(&saved);
        assert!(report.is_complete(), "{version:?}: {report:?}");
        // A v2 list that was empty cannot be emptied again while a process is there.
        let words_only = usize::from(version == Version::V2);
        assert_eq!(report.equivalent.len(), words_only, "{version:?}: {report:?}");
    });
}

#[test]
fn a_limit_is_cut_to_that_of_the_group_above_where_the_kernel_would_refuse_it() {
    on_each(|version, layout| {
        let outer = BandwidthKnob::new(&make(layout, "/quell-a")).unwrap();
        let inner = BandwidthKnob::new(&make(layout, "/quell-a/quell-b")).unwrap();
        outer.write(&bandwidth(0.3, 100)).unwrap();
        inner.write(&bandwidth(0.5, 50)).unwrap();
        let wanted = match version {
            Version::V1 => bandwidth(0.3, 50),
            Version::V2 => bandwidth(0.5, 50),
        };
        assert_eq!(inner.read(), Ok(wanted), "{version:?}");
    });
}

#[test]
fn exclusive_sets_never_overlap_and_come_back() {
    on_each(|version, layout| {
        let group = |path| CpusKnob::new(&make(layout, path), Exclusivity::Exclusive).unwrap();
        // In v1 whoever is exclusive has an exclusive parent.
        let (first, second) = (group("/quell-a"), group("/quell-b"));
        let mut saved = first.raw_files().unwrap();
        saved.extend(second.raw_files().unwrap());
        let first_set = Setting::Cpus(cpus("0-1"));
        second.write(&Setting::Cpus(cpus("2"))).unwrap();
        first.write(&first_set).unwrap();
        first.claim().unwrap();
        second.claim().unwrap();
        assert_eq!((first.is_exclusive(), second.is_exclusive()), (Ok(true), Ok(true)));
        let error = second.write(&Setting::Cpus(cpus("1-2"))).unwrap_err();
        assert!(
            matches!(error, CgroupError::Refused { .. } | CgroupError::Write { .. }),
            "{version:?}: {error}"
        );
        assert_eq!(first.read(), Ok(first_set), "{version:?}");
        assert_eq!(second.read(), Ok(Setting::Cpus(cpus("2"))), "{version:?}");
        let report = restore_raw(&saved);
        assert!(report.is_complete(), "{version:?}: {report:?}");
        assert_eq!(first.is_exclusive(), Ok(false), "{version:?}");
    });
}

/// Both groups stand where the other one was found: neither can go back before the other.
#[test]
fn exclusive_sets_that_changed_places_come_back() {
    on_each(|version, layout| {
        let group = |path| CpusKnob::new(&make(layout, path), Exclusivity::Exclusive).unwrap();
        let (first, second) = (group("/quell-a"), group("/quell-b"));
        let set = |knob: &CpusKnob, text| {
            knob.write(&Setting::Cpus(cpus(text))).unwrap();
            knob.claim().unwrap();
        };
        // New v1 groups have all CPUs of the parent.
        second.write(&Setting::Cpus(cpus("2-3"))).unwrap();
        set(&first, "0-1");
        set(&second, "2-3");
        let mut saved = first.raw_files().unwrap();
        saved.extend(second.raw_files().unwrap());
        set(&first, "0");
        set(&second, "2");
        set(&first, "3");
        set(&second, "1-2");
        let report = restore_raw(&saved);
        assert!(report.is_complete(), "{version:?}: {report:?}");
        assert_eq!(first.read(), Ok(Setting::Cpus(cpus("0-1"))), "{version:?}");
        assert_eq!(second.read(), Ok(Setting::Cpus(cpus("2-3"))), "{version:?}");
    });
}

#[test]
fn a_group_with_processes_is_not_removed() {
    on_each(|version, layout| {
        let group = make(layout, "/quell-jobs");
        group.add_process(PID).unwrap();
        let soon = Duration::from_millis(20);
        assert!(remove(layout, "/quell-jobs", soon).is_err(), "{version:?}");
        assert!(Group::find(layout, "/quell-jobs").is_ok(), "{version:?}");
    });
}

#[test]
fn a_removed_group_is_gone() {
    on_each(|version, layout| {
        let knobs = knobs_of(&make(layout, "/quell-jobs"), Exclusivity::Shared);
        remove(layout, "/quell-jobs", Duration::from_secs(1)).unwrap();
        for (name, knob) in knobs {
            let wanted = match name {
                "cpus" => Setting::Cpus(cpus("1")),
                "bandwidth" => bandwidth(0.5, 10),
                "weight" => Setting::Weight(7),
                _ => Setting::Flag(true),
            };
            let error = knob.unwrap().write(&wanted).unwrap_err();
            assert!(error.is_gone(), "{version:?} {name}: {error}");
        }
    });
}

/// A v2 tree in which controllers were enabled for a group of ours that is removed again; the top and
/// what was saved of it.
fn enabled(tree: &Tree) -> (std::path::PathBuf, Vec<quell_cgroup::RawFile>) {
    let layout = Layout::discover(tree.root());
    let top = tree.hierarchy("cpu");
    std::fs::create_dir(top.join("others")).unwrap();
    let saved = subtree_files(&layout, "/quell-jobs").unwrap();
    make(&layout, "/quell-jobs");
    assert_eq!(controllers(&top), "cpu cpuset");
    (top, saved)
}

fn controllers(dir: &std::path::Path) -> String {
    std::fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap().trim().to_owned()
}

#[test]
fn controllers_are_disabled_again_but_not_those_that_others_use() {
    let limit: (&str, &str) = ("others/cpu.max", "50000 100000");
    let passes_on = ("others/cgroup.subtree_control", "+cpu");
    for used in [None, Some(limit), Some(passes_on)] {
        let Some(tree) = Tree::mount(Version::V2, 4, &[1, PID]) else { return };
        let (top, saved) = enabled(&tree);
        let still_ours = restore_raw(&saved);
        assert!(still_ours.is_complete() && still_ours.in_use.len() == 1, "{still_ours:?}");
        assert_eq!(controllers(&top), "cpu cpuset", "the group that needs them is there");
        remove(&Layout::discover(tree.root()), "/quell-jobs", Duration::from_secs(1)).unwrap();
        if let Some((file, text)) = used {
            std::fs::write(top.join(file), text).unwrap();
        }
        let report = restore_raw(&saved);
        assert!(report.is_complete(), "{used:?}: {report:?}");
        let Some((file, text)) = used else {
            assert_eq!((controllers(&top).as_str(), report.restored.len()), ("", 1));
            continue;
        };
        assert_eq!(controllers(&top), "cpu", "nobody uses the other one");
        let why = &report.in_use[0].1;
        assert!(why.contains("others") && why.contains("cpu"), "{why}");
        let now = std::fs::read_to_string(top.join(file)).unwrap();
        assert_eq!(now.trim(), text.trim_start_matches('+'), "as its owner wants it");
    }
}

#[test]
fn controllers_that_others_enabled_or_disabled_meanwhile_are_their_business() {
    let Some(tree) = Tree::mount(Version::V2, 4, &[1, PID]) else { return };
    let (top, mut saved) = enabled(&tree);
    remove(&Layout::discover(tree.root()), "/quell-jobs", Duration::from_secs(1)).unwrap();
    let file = top.join("cgroup.subtree_control");
    saved[0].1 = "cpu\n".into();
    std::fs::write(&file, "-cpu").unwrap();
    assert!(restore_raw(&saved).is_complete());
    assert_eq!(controllers(&top), "", "none is enabled anew");
}
