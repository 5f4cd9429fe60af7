//! CPU bandwidth: limits that really limit, and what the kernel refuses.

use crate::common::{Bench, limited};
use quell_cgroup::{BandwidthKnob, CpuUsage, Group, GroupKnob, GroupReader, Version, restore_raw};
use quell_types::{CpuBandwidth, Setting};
use std::fs;
use std::time::{Duration, Instant};

/// An emulated machine whose host is crowded may run a group for a second unseen, which the group
/// then pays back at its quota's pace.
const MOST_LOOKS: usize = 50;

fn usage_over(group: &Group, span: Duration) -> f64 {
    let mut usage = CpuUsage::new(group);
    // Lets the limit begin to bite.
    std::thread::sleep(Duration::from_millis(20));
    let (start, before) = (Instant::now(), usage.read().unwrap());
    std::thread::sleep(span);
    let used = usage.read().unwrap() - before;
    used as f64 / start.elapsed().as_nanos() as f64
}

/// The first of several looks that is within these bounds: a crowded machine may hold up the group,
/// or the kernel's accounts of it, in one look, not in all.
fn usage_within(group: &Group, bounds: std::ops::Range<f64>) -> f64 {
    let looks: Vec<f64> = (0..MOST_LOOKS)
        .map(|_| usage_over(group, Duration::from_millis(600)))
        .scan(false, |found, used| {
            let before = std::mem::replace(found, bounds.contains(&used));
            (!before).then_some(used)
        })
        .collect();
    let last = *looks.last().unwrap();
    assert!(bounds.contains(&last), "never in {bounds:?}: {looks:?}");
    last
}

#[test]
fn a_quota_limits_a_spinning_group() {
    let bench = Bench::new("quota", &["cpu", "cpuacct"]);
    bench.outweigh_others();
    let group = bench.group();
    let _spinner = bench.spinner(&group);
    let knob = BandwidthKnob::new(&group).unwrap();
    usage_within(&group, 0.2..f64::INFINITY);
    knob.write(&limited(0.2, 10)).unwrap();
    assert_eq!(knob.read(), Ok(limited(0.2, 10)));
    // A fifth of a CPU, and some grace.
    usage_within(&group, 0.04..0.26);
    let throttling = GroupReader::new(&group).read().throttling.unwrap();
    assert!(throttling.throttled_periods > 5 && throttling.throttled_ns > 0, "{throttling:?}");
    assert!(throttling.periods >= throttling.throttled_periods);
}

#[test]
fn every_rounded_bandwidth_is_taken_and_reads_back() {
    let bench = Bench::new("rounding", &["cpu", "cpuacct"]);
    let group = bench.group();
    let knob = BandwidthKnob::new(&group).unwrap();
    let mut steps: Vec<Setting> = Vec::new();
    for cpus in [0.0, 0.001, 0.02, 0.3, 1.0, 1.999, 64.0] {
        for period_ms in [0, 1, 3, 10, 100, 1000, 5000] {
            steps.push(limited(cpus, period_ms));
        }
    }
    // There and back again, so that each pair is passed in both directions.
    let back: Vec<Setting> = steps.iter().rev().cloned().collect();
    for wanted in steps.iter().chain(&back) {
        knob.write(wanted).unwrap_or_else(|error| panic!("{wanted}: {error}"));
        assert_eq!(knob.read().unwrap(), knob.round(wanted));
    }
    knob.write(&Setting::Bandwidth(CpuBandwidth::unlimited())).unwrap();
    assert_eq!(knob.read(), Ok(Setting::Bandwidth(CpuBandwidth::unlimited())));
}

#[test]
fn the_kernel_refuses_what_rounding_avoids() {
    let bench = Bench::new("refused", &["cpu", "cpuacct"]);
    let group = bench.group();
    let place = group.place("cpu").unwrap();
    let (name, texts) = match place.version {
        Version::V1 => ("cpu.cfs_quota_us", ["999", "0"]),
        Version::V2 => ("cpu.max", ["999 100000", "1000 999"]),
    };
    for text in texts {
        assert!(fs::write(place.file(name), text).is_err(), "{text}");
    }
    let place = group.place("cpu").unwrap();
    let quota = if place.version == Version::V1 { "1000" } else { "1000 100000" };
    fs::write(place.file(name), quota).unwrap();
}

#[test]
fn a_group_gets_no_more_than_the_one_above() {
    let bench = Bench::new("nested", &["cpu", "cpuacct"]);
    let (outer, inner) = (bench.group(), bench.child("quell-inner"));
    let (outer, inner) = (BandwidthKnob::new(&outer).unwrap(), BandwidthKnob::new(&inner).unwrap());
    outer.write(&limited(0.5, 100)).unwrap();
    inner.write(&limited(1.5, 10)).unwrap();
    let kept = inner.read().unwrap();
    assert_eq!(kept, inner.round(&limited(1.5, 10)));
    // Shorter and longer periods at equal shares: the kernel compares what stands in between.
    for period_ms in [2, 100, 20, 1000, 4] {
        inner.write(&limited(0.5, period_ms)).unwrap();
        outer.write(&limited(0.5, period_ms * 2 % 999 + 2)).unwrap();
        assert_eq!(inner.read(), Ok(limited(0.5, period_ms)));
    }
}

#[test]
fn a_burst_does_not_stand_in_the_way_of_a_smaller_quota() {
    let bench = Bench::new("burst", &["cpu", "cpuacct"]);
    let group = bench.group();
    let knob = BandwidthKnob::new(&group).unwrap();
    knob.write(&limited(0.5, 100)).unwrap();
    let place = group.place("cpu").unwrap();
    let name = if place.version == Version::V1 { "cpu.cfs_burst_us" } else { "cpu.max.burst" };
    fs::write(place.file(name), "40000").unwrap();
    let saved = knob.raw_files().unwrap();
    knob.write(&limited(0.1, 20)).unwrap();
    assert_eq!(fs::read_to_string(place.file(name)).unwrap(), "2000\n");
    let report = restore_raw(&saved);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(knob.raw_files().unwrap(), saved);
}
