//! Behind whom tasks stand, against what the kernel itself says of who ran and who waited. What else
//! runs on the machine takes part: so all is compared with what was really run or waited, never
//! with what would be fair.

use crate::common::{Cgroup, Process, Redis, eventually, in_groups, probes_with};
use quell_ebpf::{CgroupIds, EbpfError, Elsewhere, MAX_VICTIMS, Probes, Stood};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) const VICTIM: u32 = 1;
pub(crate) const A: u32 = 2;
pub(crate) const B: u32 = 3;

/// A task that never sleeps, on these CPUs. Should it outlive the test, it ends by itself after so
/// many seconds of CPU time.
pub(crate) fn spinner(group: &Cgroup, cpus: &str) -> Process {
    let spin = ["taskset", "-c", cpus, "sh", "-c", "ulimit -t 30; while :; do :; done"];
    Process::start(&mut in_groups(&[group], &spin))
}

/// One after the other: who takes all CPUs for a second leaves another test few turns to compare.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn group(what: &str) -> Cgroup {
    Cgroup::v1_if_any(what)
}

/// Probes that track these groups in these slots and watch the victim's.
pub(crate) fn watching(groups: &[(&Cgroup, u32)]) -> Probes {
    let v1 = Cgroup::v1_cpu("is-there").is_some();
    let mut probes = probes_with(if v1 { CgroupIds::V1Cpu } else { CgroupIds::V2 });
    for (group, slot) in groups {
        probes.track_run_queue(group.id(), *slot).unwrap();
    }
    probes.watch_waits(VICTIM).unwrap();
    probes
}

/// Run time and waits in nanoseconds of all threads in a group, from schedstat.
pub(crate) fn kernel_says(group: &Cgroup) -> [u64; 2] {
    let tasks = fs::read_to_string(group.0.join("cgroup.procs")).unwrap();
    let of_thread = |path: std::path::PathBuf| {
        let stat = fs::read_to_string(path.join("schedstat")).ok()?;
        let fields: Vec<u64> = stat.split_whitespace().map(|n| n.parse().unwrap()).collect();
        Some([fields[0], fields[1]])
    };
    let threads = tasks.lines().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    let each = threads.flatten().filter_map(|entry| of_thread(entry.ok()?.path()));
    each.fold([0; 2], |sum, thread| [sum[0] + thread[0], sum[1] + thread[1]])
}

/// Until that group has so many spinners at work: shells become them only after joining it.
pub(crate) fn at_work(group: &Cgroup, count: usize) {
    eventually("spinners", || {
        let tasks = fs::read_to_string(group.0.join("cgroup.procs")).unwrap();
        let [ran, _] = kernel_says(group);
        let all = tasks.lines().count() == count && ran > 50_000_000;
        if all { Ok(()) } else { Err(format!("{} tasks ran {ran} ns", tasks.lines().count())) }
    });
}

pub(crate) fn stood(probes: &Probes) -> Stood {
    probes.read_waits(VICTIM).unwrap()
}

pub(crate) fn behind(stood: &Stood, slot: u32) -> f64 {
    stood.behind_ns.get(&slot).copied().unwrap_or(0) as f64
}

fn all(stood: &Stood) -> f64 {
    let groups: u64 = stood.behind_ns.values().sum();
    (groups + stood.others_ns + stood.nobody_ns) as f64
}

/// Who had the other CPUs between two looks.
fn between(old: &Elsewhere, new: &Elsewhere) -> Elsewhere {
    let less = |slot: &u32| old.slots_ns.get(slot).copied().unwrap_or(0);
    Elsewhere {
        cpus: new.cpus,
        slots_ns: new.slots_ns.iter().map(|(slot, ns)| (*slot, ns - less(slot))).collect(),
        others_ns: new.others_ns - old.others_ns,
        nobody_ns: new.nobody_ns - old.nobody_ns,
    }
}

fn all_elsewhere(elsewhere: &Elsewhere) -> f64 {
    let groups: u64 = elsewhere.slots_ns.values().sum();
    (groups + elsewhere.others_ns + elsewhere.nobody_ns) as f64
}

/// What was stood, and what each of these groups ran and waited, while the first ran for so long.
pub(crate) fn while_running(
    probes: &Probes,
    groups: &[&Cgroup],
    ns: u64,
) -> (Stood, Vec<[f64; 2]>) {
    let look = || (stood(probes), groups.iter().map(|g| kernel_says(g)).collect::<Vec<_>>());
    let (before, said) = look();
    let (after, says) = eventually("run time", || {
        let (after, says) = look();
        let ran = says[0][0] - said[0][0];
        if ran >= ns { Ok((after, says)) } else { Err(format!("{ran} of {ns} ns")) }
    });
    let less = |slot: &u32| before.behind_ns.get(slot).copied().unwrap_or(0);
    let grown = Stood {
        behind_ns: after.behind_ns.iter().map(|(slot, ns)| (*slot, ns - less(slot))).collect(),
        others_ns: after.others_ns - before.others_ns,
        nobody_ns: after.nobody_ns - before.nobody_ns,
        elsewhere: between(&before.elsewhere, &after.elsewhere),
        company: after.company,
    };
    let grew = |(old, new): (&[u64; 2], &[u64; 2])| [0, 1].map(|i| (new[i] - old[i]) as f64);
    (grown, said.iter().zip(&says).map(grew).collect())
}

#[track_caller]
pub(crate) fn about(what: &str, ours: f64, theirs: f64) {
    assert!((0.85..1.15).contains(&(ours / theirs)), "{what}: {ours} against {theirs}");
}

#[test]
fn who_runs_in_its_place_is_blamed_and_nobody_elsewhere() {
    let (victim, a, b) = (group("stood-v"), group("stood-a"), group("stood-b"));
    let probes = watching(&[(&victim, VICTIM), (&a, A), (&b, B)]);
    let _spinners = [spinner(&victim, "0"), spinner(&a, "0"), spinner(&b, "1")];
    [&victim, &a, &b].into_iter().for_each(|group| at_work(group, 1));
    let (stood, ran) = while_running(&probes, &[&a, &victim], 1_000_000_000);
    // The victim never sleeps: while A runs on its CPU it stands.
    about("behind A", behind(&stood, A), ran[0][0]);
    about("all waits", all(&stood), ran[1][1]);
    assert!(behind(&stood, B) < 0.02 * behind(&stood, A), "{stood:?}");
    assert!(behind(&stood, VICTIM) < 0.02 * behind(&stood, A), "{stood:?}");
    // It may not use B's CPU, so B has nothing to do with it.
    assert_eq!(all_elsewhere(&stood.elsewhere), 0.0, "{stood:?}");
}

#[test]
fn who_has_another_cpu_is_told_while_a_task_that_could_use_it_stands_behind_others() {
    let _one = one_at_a_time();
    let (victim, a, b) = (group("else-v"), group("else-a"), group("else-b"));
    let probes = watching(&[(&victim, VICTIM), (&a, A), (&b, B)]);
    let everywhere = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let victims = [(); 2].map(|()| spinner(&victim, everywhere.trim()));
    let _others = [spinner(&a, "0"), spinner(&a, "0"), spinner(&b, "1"), spinner(&b, "1")];
    at_work(&victim, 2);
    [&a, &b].into_iter().for_each(|group| at_work(group, 2));
    let (stood, _) = while_running(&probes, &[&victim], 1_000_000_000);
    let others = behind(&stood, A) + behind(&stood, B) + stood.others_ns as f64;
    about("elsewhere, while it stood behind others", all_elsewhere(&stood.elsewhere), others);
    let cpus = std::thread::available_parallelism().unwrap().get() as u32;
    assert_eq!(stood.elsewhere.cpus, cpus - 1);
    if cpus == 2 {
        // While it stands behind A, the other CPU is B's, its own other task's, or another test's.
        let there = |slot: u32| stood.elsewhere.slots_ns.get(&slot).copied().unwrap_or(0) as f64;
        assert!(there(B) >= 0.1 * behind(&stood, A), "{stood:?}");
        assert!(there(A) >= 0.1 * behind(&stood, B), "{stood:?}");
    }
    drop(victims);
}

#[test]
fn tasks_that_stand_behind_each_other_are_blamed_on_themselves() {
    let (victim, a) = (group("stood-own"), group("stood-else"));
    let probes = watching(&[(&victim, VICTIM), (&a, A)]);
    let _spinners = [spinner(&victim, "0"), spinner(&victim, "0"), spinner(&a, "1")];
    at_work(&victim, 2);
    at_work(&a, 1);
    let (stood, ran) = while_running(&probes, &[&victim], 1_000_000_000);
    about("behind itself", behind(&stood, VICTIM), ran[0][0]);
    assert!(behind(&stood, A) < 0.02 * behind(&stood, VICTIM), "{stood:?}");
}

#[test]
fn blame_is_shared_as_the_cpu_is() {
    let (victim, a, b) = (group("share-v"), group("share-a"), group("share-b"));
    for (group, shares, weight) in [(&a, "3072", "300"), (&b, "1024", "100")] {
        let (v1, v2) = (group.0.join("cpu.shares"), group.0.join("cpu.weight"));
        let written = if v1.exists() { fs::write(v1, shares) } else { fs::write(v2, weight) };
        // A v2 tree need not have the controller: then both get alike.
        let _ = written;
    }
    let probes = watching(&[(&victim, VICTIM), (&a, A), (&b, B)]);
    let _spinners = [spinner(&victim, "0"), spinner(&a, "0"), spinner(&b, "0")];
    [&victim, &a, &b].into_iter().for_each(|group| at_work(group, 1));
    let (stood, ran) = while_running(&probes, &[&a, &b], 1_500_000_000);
    about("behind A", behind(&stood, A), ran[0][0]);
    about("behind B", behind(&stood, B), ran[1][0]);
    if a.0.join("cpu.shares").exists() {
        let ratio = behind(&stood, A) / behind(&stood, B);
        assert!((2.0..4.5).contains(&ratio), "weights 3 : 1 gave {ratio}: {stood:?}");
    }
}

#[test]
fn tasks_that_move_between_cpus_lose_no_wait() {
    let (victim, a) = (group("move-v"), group("move-a"));
    let probes = watching(&[(&victim, VICTIM), (&a, A)]);
    let _spinners = [(); 3].map(|()| [spinner(&victim, "0-1"), spinner(&a, "0-1")]);
    at_work(&victim, 3);
    at_work(&a, 3);
    let (stood, ran) = while_running(&probes, &[&victim], 2_000_000_000);
    about("all waits", all(&stood), ran[0][1]);
    assert!(behind(&stood, A) > 0.1 * all(&stood), "{stood:?}");
}

#[test]
fn a_service_that_sleeps_and_wakes_stands_behind_who_has_its_cpu() {
    let _one = one_at_a_time();
    let (victim, a) = (group("wake-v"), group("wake-a"));
    let probes = watching(&[(&victim, VICTIM), (&a, A)]);
    let _spinners = [spinner(&a, "0"), spinner(&a, "0")];
    at_work(&a, 2);
    // A batch task takes nobody's CPU as it wakes: it stands for milliseconds, of which it counts little that the
    // kernel's clock of a wait ends before who is next has been chosen, and ours after that.
    let by = ["taskset", "-c", "0", "chrt", "--batch", "0"];
    let redis = Redis::start_by(&by, &[&victim], crate::common::free_port());
    let mut client = redis.client("127.0.0.1");
    client.ping();
    let before = (stood(&probes), kernel_says(&victim));
    let (now, [_, waited]) = eventually("waits of redis", || {
        (0..50).for_each(|_| client.ping());
        let (now, says) = (stood(&probes), kernel_says(&victim));
        let waited = says[1] - before.1[1];
        if waited > 150_000_000 { Ok((now, says)) } else { Err(format!("{waited} ns")) }
    });
    about("all waits", all(&now) - all(&before.0), (waited - before.1[1]) as f64);
    // Other tests may run on that CPU too.
    assert!(behind(&now, A) > 0.1 * all(&now), "{now:?}");
}

#[test]
fn nothing_is_attached_before_somebody_is_watched_and_only_so_many_are() {
    let (victim, a) = (group("few-v"), group("few-a"));
    let mut probes = probes_with(CgroupIds::V2);
    probes.track_run_queue(victim.id(), VICTIM).unwrap();
    let loaded = |probes: &Probes| probes.stats().iter().any(|s| s.program == "quell_wait_run");
    assert!(!loaded(&probes) && probes.read_waits(VICTIM).is_err());
    for slot in 0..MAX_VICTIMS as u32 {
        probes.watch_waits(slot).unwrap();
        probes.watch_waits(slot).unwrap();
    }
    assert!(loaded(&probes));
    let one_more = probes.watch_waits(MAX_VICTIMS as u32);
    assert!(matches!(one_more, Err(EbpfError::OutOfRange { .. })), "{one_more:?}");
    assert!(matches!(probes.watch_waits(64), Err(EbpfError::OutOfRange { .. })));
    assert!(probes.read_waits(MAX_VICTIMS as u32).is_err(), "not watched");
    // A group that comes later belongs to its slot all the same.
    probes.track_run_queue(a.id(), VICTIM).unwrap();
    assert_eq!(probes.read_waits(VICTIM).unwrap().behind_ns.len(), 0, "nothing runs there");
}

#[test]
fn a_task_that_leaves_the_group_is_no_victim_any_more() {
    let (victim, a) = (group("left-v"), group("left-a"));
    let probes = watching(&[(&victim, VICTIM), (&a, A)]);
    let spinners = [spinner(&victim, "0"), spinner(&a, "0")];
    at_work(&victim, 1);
    at_work(&a, 1);
    fs::write(a.0.join("cgroup.procs"), spinners[0].pid().to_string()).unwrap();
    // What it stands for while it is moved is still the victim's.
    let [ran, _] = kernel_says(&a);
    eventually("both run in A", || {
        let more = kernel_says(&a)[0] - ran;
        if more > 200_000_000 { Ok(()) } else { Err(format!("{more} ns")) }
    });
    let (stood, _) = while_running(&probes, &[&a], 500_000_000);
    assert_eq!(all(&stood), 0.0, "{stood:?}");
}
