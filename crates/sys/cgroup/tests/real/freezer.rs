//! Freezing in both versions.

use crate::common::Bench;
use quell_cgroup::{CpuUsage, FreezerKnob, GroupKnob, Layout, Version, restore_raw};
use quell_types::Setting;
use std::time::{Duration, Instant};

/// How long the running and the frozen phase are compared.
const PHASE: Duration = Duration::from_millis(200);

/// For a freeze on a crowded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the group uses in one phase, in ns.
fn used(usage: &mut CpuUsage) -> u64 {
    let before = usage.read().unwrap();
    std::thread::sleep(PHASE);
    usage.read().unwrap() - before
}

/// What it uses in a phase in which it gets to run. On a crowded machine it may have to wait for
/// its turn.
fn used_running(usage: &mut CpuUsage) -> u64 {
    let until = Instant::now() + PATIENCE;
    loop {
        let used = used(usage);
        if u128::from(used) > PHASE.as_nanos() / 20 {
            return used;
        }
        assert!(Instant::now() < until, "the spinner hardly runs: {used} ns");
    }
}

/// Kernels book a last moment late: frozen is who uses next to nothing of what it used running.
fn assert_idle(frozen: u64, running: u64) {
    assert!(frozen * 100 < running, "frozen it used {frozen} ns, running {running} ns");
}

/// A task counts as frozen on its way off the CPU: its last moment is booked just after.
fn settled(usage: &mut CpuUsage) -> u64 {
    let until = Instant::now() + Duration::from_secs(2);
    loop {
        let before = usage.read().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        if usage.read().unwrap() == before || Instant::now() > until {
            return before;
        }
    }
}

fn frozen_uses_nothing(name: &str, controllers: &[&str], version: Version) {
    let bench = Bench::new(name, controllers);
    let group = bench.group();
    assert!(group.places().iter().any(|place| place.version == version));
    let spinner = bench.spinner(&group);
    let knob = FreezerKnob::new(&group).unwrap().with_deadline(PATIENCE);
    let saved = knob.raw_files().unwrap();
    let mut usage = CpuUsage::new(&group);
    let running = used_running(&mut usage);
    knob.write(&Setting::Flag(true)).unwrap();
    assert_eq!(knob.read(), Ok(Setting::Flag(true)));
    settled(&mut usage);
    assert_idle(used(&mut usage), running);
    let before = usage.read().unwrap();
    assert!(restore_raw(&saved).is_complete());
    assert_eq!(knob.read(), Ok(Setting::Flag(false)));
    let until = Instant::now() + PATIENCE;
    while (usage.read().unwrap() - before) * 20 < running {
        assert!(Instant::now() < until, "it does not run again");
        std::thread::sleep(Duration::from_millis(1));
    }
    knob.write(&Setting::Flag(true)).unwrap();
    group.kill(Duration::from_secs(10)).unwrap();
    assert!(!group.is_populated());
    drop(spinner);
}

#[test]
fn freezing_in_the_v2_tree() {
    frozen_uses_nothing("freeze2", &[], Version::V2);
}

#[test]
fn freezing_in_v1() {
    if Layout::discover("/").v1("freezer").is_none() {
        // A pure v2 machine: the test above is the whole of it.
        return;
    }
    let layout = Layout::discover("/");
    let bench = Bench::only_v1("freeze1", &["freezer", "cpuacct"]);
    let group = bench.group();
    assert!(group.v2().is_none());
    let _spinner = bench.spinner(&group);
    let knob = FreezerKnob::new(&group).unwrap().with_deadline(PATIENCE);
    let mut usage = CpuUsage::new(&group);
    let running = used_running(&mut usage);
    for _ in 0..20 {
        knob.write(&Setting::Flag(true)).unwrap();
        assert_eq!(knob.read(), Ok(Setting::Flag(true)));
        knob.write(&Setting::Flag(false)).unwrap();
        assert_eq!(knob.read(), Ok(Setting::Flag(false)));
    }
    knob.write(&Setting::Flag(true)).unwrap();
    settled(&mut usage);
    assert_idle(used(&mut usage), running);
    assert!(layout.v1("freezer").is_some());
    group.kill(Duration::from_secs(10)).unwrap();
}
