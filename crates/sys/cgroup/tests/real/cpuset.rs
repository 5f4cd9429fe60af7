//! Exclusive CPU sets (T-16).

use crate::common::Bench;
use quell_cgroup::{
    CgroupError, CpusKnob, Exclusivity, Group, GroupKnob, RawFile, Version, order_cpuset_writes,
    restore_raw,
};
use quell_types::{CpuSet, KnobRange, Setting};
use std::collections::BTreeMap;
use std::fs;

#[test]
fn exclusive_sets_are_kept_apart_by_order() {
    let bench = Bench::exclusive("exclusive");
    let cpus = bench.cpus();
    assert!(cpus.len() >= 2, "{cpus}: needs two CPUs, and one more in cgroup v2");
    let knobs: BTreeMap<&str, CpusKnob> = ["quell-lc", "quell-be"]
        .into_iter()
        .map(|name| (name, CpusKnob::new(&bench.child(name), Exclusivity::Exclusive).unwrap()))
        .collect();
    let saved: Vec<RawFile> = knobs.values().flat_map(|knob| knob.raw_files().unwrap()).collect();
    let set = |key: &str, cpus: &CpuSet| knobs[key].write(&Setting::Cpus(cpus.clone()));
    let (low, high) = (cpus.first(1), cpus.difference(&cpus.first(1)));
    let plan = |from: &BTreeMap<&'static str, CpuSet>, to: &BTreeMap<&'static str, CpuSet>| {
        for (key, cpus) in order_cpuset_writes(from, to).unwrap() {
            set(key, &cpus).unwrap();
            assert_eq!(knobs[key].read(), Ok(Setting::Cpus(cpus)));
        }
    };
    // New groups have all of the parent's CPUs, and overlap.
    let shared = BTreeMap::from([("quell-lc", cpus.clone()), ("quell-be", cpus.clone())]);
    let apart = BTreeMap::from([("quell-lc", high.clone()), ("quell-be", low.clone())]);
    plan(&shared, &apart);
    for knob in knobs.values() {
        knob.claim().unwrap();
        assert_eq!(knob.is_exclusive(), Ok(true));
    }
    let overlap = set("quell-be", &cpus);
    match overlap {
        Err(CgroupError::Write { hint, .. }) => assert!(hint.contains("exclusive"), "{hint}"),
        // A v2 kernel would take it and make the other partition invalid: it is not asked.
        Err(CgroupError::Refused { why, .. }) => assert!(why.contains("quell-lc"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(knobs["quell-lc"].read(), Ok(Setting::Cpus(high)));
    let range = knobs["quell-lc"].range();
    assert_eq!(range, Ok(KnobRange::Cpus { within: cpus.clone(), exclusive: true }));
    let report = restore_raw(&saved);
    assert!(report.is_complete(), "{report:?}");
    let after: Vec<RawFile> = knobs.values().flat_map(|knob| knob.raw_files().unwrap()).collect();
    assert_eq!(after, saved);
}

#[test]
fn swapped_exclusive_sets_come_back() {
    let bench = Bench::exclusive("swap");
    let cpus = bench.cpus();
    assert!(cpus.len() >= 2, "{cpus}: needs two CPUs, and one more in cgroup v2");
    let (a, b) = (bench.child("quell-a"), bench.child("quell-b"));
    let knob = |group: &Group| CpusKnob::new(group, Exclusivity::Exclusive).unwrap();
    let put = |group: &Group, cpus: CpuSet| knob(group).write(&Setting::Cpus(cpus)).unwrap();
    put(&a, cpus.first(1));
    put(&b, cpus.last(1));
    knob(&a).claim().unwrap();
    let saved = [knob(&a).raw_files().unwrap(), knob(&b).raw_files().unwrap()].concat();
    for group in [&a, &b] {
        let place = group.place("cpuset").unwrap();
        match place.version {
            Version::V1 => fs::write(place.file("cpuset.cpu_exclusive"), "0").unwrap(),
            Version::V2 => fs::write(place.file("cpuset.cpus.partition"), "member").unwrap(),
        }
    }
    put(&a, cpus.last(1));
    put(&b, cpus.first(1));
    knob(&a).claim().unwrap();
    assert_eq!((knob(&a).is_exclusive(), knob(&b).is_exclusive()), (Ok(true), Ok(true)));
    let report = restore_raw(&saved);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!([knob(&a).raw_files().unwrap(), knob(&b).raw_files().unwrap()].concat(), saved);
}
