//! The gauge of bus locks on the running kernel: that it counts, and beside whom.

use crate::common::{Cgroup, eventually, probes_with};
use crate::contention::{
    A, B, VICTIM, at_work, group, kernel_says, one_at_a_time, spinner, watching,
};
use quell_ebpf::{CgroupIds, GAUGE_SLOTS, Probes, Samples};

/// Samples of the gauge between two looks, by slot: all, and those beside B.
fn samples_while(probes: &Probes, group: &Cgroup, ns: u64) -> (Vec<u32>, Vec<u32>) {
    let less = |new: &Samples, old: &Samples| {
        new.slots.iter().zip(&old.slots).map(|(new, old)| new - old).collect::<Vec<u32>>()
    };
    let (before, [ran, _]) = (probes.read_gauge().unwrap(), kernel_says(group));
    eventually("run time", || {
        let more = kernel_says(group)[0] - ran;
        if more >= ns { Ok(()) } else { Err(format!("{more} of {ns} ns")) }
    });
    let after = probes.read_gauge().unwrap();
    let none = Samples::default();
    let old = before.slots.get(&B).unwrap_or(&none);
    (less(&after.all, &before.all), less(&after.slots[&B], old))
}

/// Who computes and streams holds no access to others' own caches back; and it is told who had the other
/// CPU. (What bus locks do is not tried here: it would hurt all tenants of the host.)
#[test]
fn the_gauge_counts_beside_whom_accesses_took_how_long() {
    let _one = one_at_a_time();
    let (victim, a, b) = (group("gauge-v"), group("gauge-a"), group("gauge-b"));
    let probes = watching(&[(&victim, VICTIM), (&a, A), (&b, B)]);
    // Two share one CPU, which turns from one to the other; B has the other one.
    let _spinners = [spinner(&victim, "0"), spinner(&a, "0"), spinner(&b, "1")];
    [&victim, &a, &b].into_iter().for_each(|group| at_work(group, 1));
    let (all, beside) = samples_while(&probes, &b, 1_000_000_000);
    let sum = |samples: &[u32]| samples.iter().sum::<u32>();
    assert!(sum(&all) >= 50, "{all:?}");
    assert!(sum(&beside) >= sum(&all) / 4, "{all:?} {beside:?}");
    // The usual slot, and those from which a sample counts as held back.
    let usual = (0..GAUGE_SLOTS).max_by_key(|slot| all[*slot]).unwrap();
    // Four reads of memory take more than one of the first cache, and less than a millisecond.
    let memory = probes.read_gauge().unwrap().all;
    let mean = memory.memory as f64 / f64::from(sum(&memory.slots));
    assert!((1.0..60.0).contains(&mean), "{memory:?}");
    let slow: u32 = all.iter().skip(usual + 5).sum();
    assert!(slow <= sum(&all) / 10, "usual slot {usual}: {all:?}");
}

#[test]
fn before_a_slot_is_watched_the_gauge_is_a_gap() {
    let v1 = Cgroup::v1_cpu("is-there").is_some();
    let probes = probes_with(if v1 { CgroupIds::V1Cpu } else { CgroupIds::V2 });
    assert!(probes.read_gauge().is_err());
}
