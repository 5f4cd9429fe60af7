//! Weight and idle class.

use crate::common::Bench;
use quell_cgroup::{
    CgroupError, CpuUsage, CpusKnob, Exclusivity, Group, GroupKnob, IdleKnob, WeightKnob,
    restore_raw,
};
use quell_types::Setting;
use std::time::{Duration, Instant};

#[test]
fn an_idle_group_yields_to_others_and_its_weight_comes_back() {
    let bench = Bench::new("idle", &["cpu", "cpuacct", "cpuset"]);
    bench.outweigh_others();
    let (idle, busy) = (bench.child("quell-idle"), bench.child("quell-busy"));
    let cpu = bench.cpus().first(1);
    let on_one = |group: &Group| {
        let knob = CpusKnob::new(group, Exclusivity::Shared).unwrap();
        knob.write(&Setting::Cpus(cpu.clone())).unwrap();
    };
    on_one(&idle);
    on_one(&busy);
    let weight = WeightKnob::new(&idle).unwrap();
    weight.write(&Setting::Weight(333)).unwrap();
    let knob = IdleKnob::new(&idle).unwrap();
    let saved = knob.raw_files().unwrap();
    knob.write(&Setting::Flag(true)).unwrap();
    assert_eq!((knob.read(), weight.read()), (Ok(Setting::Flag(true)), Ok(Setting::Weight(1))));
    let refused = weight.write(&Setting::Weight(50));
    assert!(matches!(refused, Err(CgroupError::Refused { .. })), "{refused:?}");
    let _spinners = (bench.spinner(&idle), bench.spinner(&busy));
    let mut usage = (CpuUsage::new(&idle), CpuUsage::new(&busy));
    let before = (usage.0.read().unwrap(), usage.1.read().unwrap());
    let mut used = (0, 0);
    let until = Instant::now() + Duration::from_secs(20);
    while used.1 < 300_000_000 {
        assert!(Instant::now() < until, "no CPU is left for this test: {used:?}");
        std::thread::sleep(Duration::from_millis(20));
        used = (usage.0.read().unwrap() - before.0, usage.1.read().unwrap() - before.1);
    }
    assert!(used.0 * 10 < used.1, "the idle group used {used:?} beside the other, in ns");
    assert!(restore_raw(&saved).is_complete());
    assert_eq!(weight.read(), Ok(Setting::Weight(333)));
    assert_eq!(knob.raw_files().unwrap(), saved);
}

#[test]
fn every_weight_reads_back() {
    let bench = Bench::new("weight", &["cpu"]);
    let knob = WeightKnob::new(&bench.group()).unwrap();
    for weight in [0, 1, 2, 39, 50, 99, 100, 101, 1000, 9999, 10_000, 50_000] {
        let wanted = Setting::Weight(weight);
        knob.write(&wanted).unwrap();
        assert_eq!(knob.read().unwrap(), knob.round(&wanted));
    }
}
