//! Who stood before anybody looked.

use crate::common::{Cgroup, eventually};
use crate::contention::{
    A, VICTIM, at_work, behind, group, kernel_says, one_at_a_time, spinner, stood, watching,
};
use std::fs;

/// How a group has its turn beside others of the usual weight.
fn weigh(group: &Cgroup, [v1_shares, v2_weight]: [&str; 2]) {
    let of = |file: &str| group.0.join(file);
    let v1 = of("cpu.shares").exists();
    let (file, weight) = if v1 { ("cpu.shares", v1_shares) } else { ("cpu.weight", v2_weight) };
    fs::write(of(file), weight).unwrap();
}

#[test]
fn who_stood_before_it_was_watched_and_never_runs_is_seen() {
    let _one = one_at_a_time();
    let (victim, a) = (group("begun-v"), group("begun-a"));
    let _spinners = [spinner(&victim, "0"), spinner(&a, "0")];
    [&victim, &a].into_iter().for_each(|group| at_work(group, 1));
    weigh(&victim, ["2", "1"]);
    weigh(&a, ["262144", "10000"]);
    let ran = || [&a, &victim].map(|group| kernel_says(group)[0]);
    let mut since = ran();
    eventually("a victim that stands", || {
        let now = ran();
        if now[1] != since[1] {
            since = now;
        }
        let stands = now[0] - since[0] > 100_000_000;
        if stands { Ok(()) } else { Err(format!("it ran until {} ns", now[1])) }
    });
    let probes = watching(&[(&victim, VICTIM), (&a, A)]);
    let said = ran();
    // A CPU that goes on with one task is counted when it turns next.
    let ran = eventually("what was stood", || {
        let behind = behind(&stood(&probes), A);
        let now = ran();
        let ran = [0, 1].map(|i| (now[i] - said[i]) as f64);
        let is_all = ran[0] > 3e8 && (0.85..1.15).contains(&(behind / ran[0]));
        if is_all { Ok(ran) } else { Err(format!("behind A: {behind} of {} ns", ran[0])) }
    });
    assert!(ran[1] < 0.1 * ran[0], "it was to stand, and ran {} ns", ran[1]);
}
