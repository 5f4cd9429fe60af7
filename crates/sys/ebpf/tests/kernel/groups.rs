//! Run-queue waits, against what the kernel itself says of each task.

use crate::common::{Cgroup, Process, eventually, in_groups, probes_with};
use quell_ebpf::{CgroupIds, Probes};
use quell_types::LogHistogram;
use std::fs;

/// Two tasks that never sleep, bound to one CPU, so that they wait for each other. Should they
/// outlive the test, they end by themselves after so many seconds of CPU time.
fn rivals(group: &Cgroup) -> [Process; 2] {
    let spin = ["taskset", "-c", "0", "sh", "-c", "ulimit -t 20; while :; do :; done"];
    [(); 2].map(|()| Process::start(&mut in_groups(&[group], &spin)))
}

/// Run time and waits in nanoseconds, and number of runs, of all tasks in a group, from
/// /proc/PID/schedstat.
fn kernel_says(group: &Cgroup) -> [u64; 3] {
    let tasks = fs::read_to_string(group.0.join("cgroup.procs")).unwrap();
    let of = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        let fields: Vec<u64> = stat.split_whitespace().map(|n| n.parse().unwrap()).collect();
        Some([fields[0], fields[1], fields[2]])
    };
    let sums = tasks.lines().filter_map(of);
    sums.fold([0; 3], |sum, task| [0, 1, 2].map(|i| sum[i] + task[i]))
}

/// Least and greatest sum of values that a histogram can hold.
fn bounds(histogram: &LogHistogram) -> (u64, u64) {
    let slots = histogram.counts().iter().enumerate();
    slots.fold((0, 0), |(low, high), (slot, count)| {
        let bound = |slot| count * LogHistogram::lower_bound(slot);
        (low + bound(slot), high + bound(slot + 1))
    })
}

/// The histogram of slot 5 once it holds so many waits, and what the kernel says right after:
/// the histogram must not run ahead of what it is compared with.
fn after_waits(probes: &mut Probes, group: &Cgroup, count: u64) -> (LogHistogram, [u64; 3]) {
    eventually("some hundred waits", || {
        let histogram = probes.read_run_queue(5).unwrap();
        let says = kernel_says(group);
        assert!(histogram.count() <= says[2], "{} waits counted of {}", histogram.count(), says[2]);
        if histogram.count() < count {
            return Err(format!("{} of {}", histogram.count(), says[2]));
        }
        Ok((histogram, says))
    })
}

fn waits_are_those_of_the_kernel(probes: &mut Probes, group: &Cgroup, tracked: &Cgroup) {
    let idle = Cgroup::below(tracked.0.parent().unwrap(), "idle");
    probes.track_run_queue(tracked.id(), 5).unwrap();
    probes.track_run_queue(idle.id(), 6).unwrap();
    let rivals = rivals(group);
    // From here on both are up: one may have run alone while the other was still starting.
    let (first, [ran_first, ..]) = after_waits(probes, group, 20);
    let (histogram, [ran, waited, _]) = after_waits(probes, group, 220);
    let (low, high) = bounds(&histogram);
    // Waits from before a task joined, and of those that wait now, are not in the histogram.
    assert!(low <= waited, "{low}..{high} against {waited}");
    assert!(high as f64 > 0.7 * waited as f64, "{low}..{high} against {waited}");
    // While one of two runs the other waits.
    let (more, ran) = (high - bounds(&first).0, ran - ran_first);
    assert!(more as f64 > 0.5 * ran as f64, "{more} of waiting, {ran} of running");
    assert_eq!(probes.read_run_queue(6).unwrap().count(), 0, "nothing runs there");
    drop(rivals);
    probes.untrack_run_queue(tracked.id()).unwrap();
    assert!(probes.read_run_queue(5).is_err());
}

#[test]
fn run_queue_waits_of_a_v2_group() {
    let group = Cgroup::v2("runq");
    waits_are_those_of_the_kernel(&mut probes_with(CgroupIds::V2), &group, &group);
}

#[test]
fn run_queue_waits_below_a_v1_group() {
    // On a machine with v2 alone (an emulated one) there are no v1 ids to test.
    let Some(above) = Cgroup::v1_cpu("runq") else { return };
    let below = Cgroup::below(&above.0, "below");
    waits_are_those_of_the_kernel(&mut probes_with(CgroupIds::V1Cpu), &below, &above);
}
