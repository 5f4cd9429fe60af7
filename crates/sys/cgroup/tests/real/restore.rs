//! All knobs at once, and back.

use crate::common::{Bench, limited};
use quell_cgroup::{
    BandwidthKnob, CpusKnob, Exclusivity, Group, GroupKnob, RawFile, WeightKnob, restore_raw,
};
use quell_types::{Reading, Setting};
use std::fs;

fn texts(group: &Group, names: &[&str]) -> Vec<RawFile> {
    let files = group.places().iter().flat_map(|p| names.iter().map(|n| p.file(n)));
    files.filter_map(|path| fs::read_to_string(&path).ok().map(|text| (path, text))).collect()
}

#[test]
fn restore_brings_every_byte_back() {
    let bench = Bench::new("restore", &["cpu", "cpuacct", "cpuset", "freezer", "memory"]);
    let group = bench.group();
    let names = [
        "cpu.cfs_quota_us",
        "cpu.cfs_period_us",
        "cpu.cfs_burst_us",
        "cpu.shares",
        "cpu.idle",
        "cpu.max",
        "cpu.max.burst",
        "cpu.weight",
        "cpuset.cpus",
        "cpuset.mems",
        "freezer.state",
        "cpuset.cpu_exclusive",
        "cgroup.freeze",
    ];
    WeightKnob::new(&group).unwrap().write(&Setting::Weight(77)).unwrap();
    BandwidthKnob::new(&group).unwrap().write(&limited(0.7, 30)).unwrap();
    let before = texts(&group, &names);
    assert!(before.len() >= 6, "{before:?}");
    let knobs = quell_cgroup::knobs_of(&group, Exclusivity::Shared);
    let mut journal: Vec<RawFile> = Vec::new();
    for (name, knob) in knobs {
        let knob: Box<dyn GroupKnob> = Reading::unwrap(knob);
        journal.extend(knob.raw_files().unwrap());
        let setting = match name {
            "cpus" => Setting::Cpus(bench.cpus().first(1)),
            "bandwidth" => limited(0.3, 2),
            "weight" => Setting::Weight(5),
            _ => Setting::Flag(true),
        };
        knob.write(&setting).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert_ne!(texts(&group, &names), before);
    // The weight's file is there twice, saved at different times: the older text counts.
    let report = restore_raw(&journal);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(texts(&group, &names), before);
    assert_eq!(restore_raw(&journal).restored.len(), 0, "nothing is left to do");
}

#[test]
fn cpus_of_a_group_with_processes_come_back() {
    let bench = Bench::new("occupied", &["cpuset"]);
    let group = bench.group();
    let _spinner = bench.spinner(&group);
    let knob = CpusKnob::new(&group, Exclusivity::Shared).unwrap();
    let (cpus, saved) = (knob.read().unwrap(), knob.raw_files().unwrap());
    let few = Setting::Cpus(bench.cpus().first(1));
    knob.write(&few).unwrap();
    assert_eq!(knob.read(), Ok(few));
    let report = restore_raw(&saved);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(knob.read(), Ok(cpus), "it may use as many as before");
    // Byte for byte, but for an empty list, which kernels refuse while there are processes.
    for (path, text) in saved.iter().filter(|(path, _)| !report.equivalent.contains(path)) {
        assert_eq!(&fs::read_to_string(path).unwrap(), text, "{}", path.display());
    }
    for path in &report.equivalent {
        let empty = saved.iter().any(|(at, text)| at == path && text.trim().is_empty());
        assert!(empty && path.ends_with("cpuset.cpus"), "{report:?}");
    }
    group.kill(std::time::Duration::from_secs(10)).unwrap();
}
