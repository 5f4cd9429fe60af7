//! The gauge of bus locks on the running kernel: that it counts, and beside whom.

use crate::common::{Cgroup, Process, eventually, in_groups, probes_with};
use crate::contention::{
    A, B, VICTIM, at_work, group, kernel_says, one_at_a_time, spinner, watching,
};
use quell_ebpf::{CgroupIds, GAUGE_SLOTS, Gauge, Probes, Samples};
use quell_types::PassCounts;

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

/// Where both CPUs turn from one task to another, lines are read that the other one wrote just before. (Where the host
/// has them cannot be had at will.)
#[test]
fn lines_that_pass_from_one_cpu_to_another_are_timed() {
    let _one = one_at_a_time();
    let (victim, a) = (group("passes-v"), group("passes-a"));
    let probes = watching(&[(&victim, VICTIM), (&a, A)]);
    let _spinners = ["0", "1"].map(|cpu| [spinner(&victim, cpu), spinner(&a, cpu)]);
    at_work(&a, 2);
    let before = probes.read_gauge().unwrap().passes;
    let after = eventually("passes", || {
        let now = probes.read_gauge().unwrap().passes;
        let sum = |passes: &PassCounts| passes.slots.iter().sum::<u32>();
        if sum(&now) - sum(&before) >= 20 { Ok(now) } else { Err(format!("{now:?}")) }
    });
    println!("{after:?}");
    // Four reads take longer than none, and less than eight microseconds but for chance.
    let late: u32 = after.slots.iter().skip(14).sum();
    assert!(late <= after.slots.iter().sum::<u32>() / 4, "{after:?}");
}

/// A CPU that is busy has a tick after tick, and its time between them is all that it has; of that at most all is
/// lost. (How much a host takes cannot be had at will.)
#[test]
fn time_of_busy_cpus_is_followed_from_tick_to_tick() {
    let _one = one_at_a_time();
    let victim = group("paused-v");
    let probes = watching(&[(&victim, VICTIM)]);
    let _spinner = spinner(&victim, "0");
    at_work(&victim, 1);
    let (before, [ran, _]) = (probes.read_gauge().unwrap().pauses, kernel_says(&victim));
    eventually("run time", || {
        let more = kernel_says(&victim)[0] - ran;
        if more >= 1_000_000_000 { Ok(()) } else { Err(format!("{more} ns")) }
    });
    let after = probes.read_gauge().unwrap().pauses;
    let (timed, lost) = (after.timed_ns - before.timed_ns, after.lost_ns - before.lost_ns);
    assert!(timed >= 500_000_000 && lost <= timed, "{timed} ns, {lost} lost");
}

/// What sixteen lines took in turns of a group, in ns, and in how many samples.
fn kept(new: &Samples, old: &Samples) -> (u64, f64) {
    let samples = new.kept.samples - old.kept.samples;
    let eighths = (new.kept.took - old.kept.took) as f64 / samples.max(1) as f64;
    (samples, 128.0 * (eighths / 8.0).exp2())
}

/// The same of one slot between two readings.
fn kept_of(slot: u32, now: &Gauge, before: &Gauge) -> (u64, f64) {
    let none = Samples::default();
    kept(&now.slots[&slot], before.slots.get(&slot).unwrap_or(&none))
}

/// Who computes leaves lines in its CPU's own caches; who runs through 64 MiB drives them out of there, which
/// shows on any machine, whoever shares the next one.
#[test]
fn it_is_told_who_drives_lines_out_of_the_caches() {
    let _one = one_at_a_time();
    let (victim, a, b) = (group("kept-v"), group("kept-a"), group("kept-b"));
    let probes = watching(&[(&victim, VICTIM), (&a, A), (&b, B)]);
    let _victim = spinner(&victim, "0");
    let _computes = spinner(&a, "1");
    let runs = "ulimit -t 30; exec perl -e '$x = \"a\" x (64 << 20); $n = $x =~ tr/a// while 1'";
    let in_b = ["taskset", "-c", "1", "sh", "-c", runs];
    let _runs_through = Process::start(&mut in_groups(&[&b], &in_b));
    [&a, &b].into_iter().for_each(|group| at_work(group, 1));
    let told = |before: &Gauge| {
        let after = eventually("samples", || {
            let now = probes.read_gauge().unwrap();
            let few = [A, B].into_iter().find(|slot| kept_of(*slot, &now, before).0 < 50);
            few.map_or(Ok(now.clone()), |slot| Err(format!("few of {slot}: {now:?}")))
        });
        // All samples have these.
        assert!(kept(&after.all, &before.all).0 >= 100, "{after:?}");
        let [computes, runs] = [A, B].map(|slot| kept_of(slot, &after, before).1);
        let what = format!("after a loop {computes:.0} ns, after 64 MiB {runs:.0} ns");
        println!("{what}");
        (runs > 1.3 * computes, what, after)
    };
    // Where somebody else of the host's works on the same core, it drives out what the loop leaves there.
    let mut before = probes.read_gauge().unwrap();
    let mut seen = Vec::new();
    loop {
        let (drives_out, what, after) = told(&before);
        if drives_out {
            break;
        }
        seen.push(what);
        assert!(seen.len() < 8, "{seen:?}");
        before = after;
    }
}

#[test]
fn before_a_slot_is_watched_the_gauge_is_a_gap() {
    let v1 = Cgroup::v1_cpu("is-there").is_some();
    let probes = probes_with(if v1 { CgroupIds::V1Cpu } else { CgroupIds::V2 });
    assert!(probes.read_gauge().is_err());
}
