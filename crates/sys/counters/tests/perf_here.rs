//! perf events on this machine: software ones are counted, hardware ones are counted or absent
//! with the reason.

use quell_counters::{Counters, Event, MAX_HARDWARE, MemoryTraffic, PerfError, PmuProbe, Target};
use quell_types::{CpuSet, Gap, Reading};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A cgroup of the v2 hierarchy that goes away with the test.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str) -> Self {
        let unified = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let v2 = unified.into_iter().find(|path| path.join("cgroup.controllers").exists());
        let name = format!("quell-test-counters-{}-{name}", std::process::id());
        let path = v2.expect("a cgroup v2 hierarchy").join(name);
        fs::create_dir(&path).expect("making a cgroup as root");
        Self(path)
    }

    /// Runs a shell script in it, to its end.
    fn run(&self, script: &str) {
        let procs = self.0.join("cgroup.procs");
        let script = format!("echo $$ > {} && {script}", procs.display());
        let status = Command::new("sh").arg("-c").arg(script).status().expect("a shell");
        assert!(status.success());
    }

    fn counted_usage_ns(&self) -> u64 {
        let stat = fs::read_to_string(self.0.join("cpu.stat")).expect("cpu.stat");
        let usec = stat.lines().find_map(|line| line.strip_prefix("usage_usec "));
        usec.expect("usage_usec").parse::<u64>().expect("a number") * 1000
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.0).is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn online() -> CpuSet {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").expect("online CPUs");
    text.parse().expect("a CPU list")
}

const WORK: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; ls / > /dev/null";

#[track_caller]
fn count(readings: &BTreeMap<Event, Reading<u64>>, event: Event) -> u64 {
    readings[&event].clone().unwrap_or_else(|gap| panic!("{event}: {gap}"))
}

#[test]
fn software_events_of_a_cgroup_are_counted() {
    let (busy, idle) = (Cgroup::new("busy"), Cgroup::new("idle"));
    let target = |group: &Cgroup| Target::Cgroup { dir: group.0.clone(), cpus: online() };
    let mut counters = Counters::open(&target(&busy), &Event::SOFTWARE).unwrap();
    let mut others = Counters::open(&target(&idle), &Event::SOFTWARE).unwrap();
    busy.run(WORK);
    let first = counters.read();
    let (task_ns, usage_ns) = (count(&first, Event::TaskClock), busy.counted_usage_ns());
    let ratio = task_ns as f64 / usage_ns as f64;
    assert!((0.5..2.0).contains(&ratio), "task clock {task_ns} ns, cgroup {usage_ns} ns");
    assert!(count(&first, Event::PageFaults) > 50, "{first:?}");
    let parts = count(&first, Event::MinorFaults) + count(&first, Event::MajorFaults);
    assert_eq!(parts, count(&first, Event::PageFaults));
    assert!(count(&first, Event::ContextSwitches) > 0, "{first:?}");

    busy.run(WORK);
    let second = counters.read();
    for event in Event::SOFTWARE {
        assert!(count(&second, event) >= count(&first, event), "{event} went back");
    }
    assert!(count(&second, Event::TaskClock) > task_ns);
    assert_eq!(count(&others.read(), Event::TaskClock), 0, "nothing ran in the other group");
}

#[test]
fn a_thread_and_a_cpu_are_counted() {
    let mut mine =
        Counters::open(&Target::Task(0), &[Event::TaskClock, Event::PageFaults]).unwrap();
    let mut all = Counters::open(&Target::Cpus(online()), &[Event::ContextSwitches]).unwrap();
    let pages = vec![1u8; 8 << 20];
    assert!(pages.iter().all(|byte| *byte == 1));
    let readings = mine.read();
    assert!(count(&readings, Event::PageFaults) > 0, "{readings:?}");
    assert!(count(&readings, Event::TaskClock) > 0, "{readings:?}");
    Command::new("true").status().unwrap();
    assert!(count(&all.read(), Event::ContextSwitches) > 0);
}

const SOME_HARDWARE: [Event; 4] =
    [Event::Cycles, Event::Instructions, Event::CacheReferences, Event::CacheMisses];

#[test]
fn hardware_events_are_counted_or_absent_with_the_reason() {
    let group = Cgroup::new("hardware");
    let probe = PmuProbe::run(Path::new("/"));
    let target = Target::Cgroup { dir: group.0.clone(), cpus: online() };
    let mut counters = Counters::open(&target, &SOME_HARDWARE).unwrap();
    group.run(WORK);
    let readings = counters.read();
    assert_eq!(readings.len(), SOME_HARDWARE.len());
    if probe.events[&Event::Instructions].is_ok() {
        let instructions = count(&readings, Event::Instructions);
        let per_cycle = instructions as f64 / count(&readings, Event::Cycles) as f64;
        assert!((0.05..20.0).contains(&per_cycle), "{readings:?}");
        // The shell's loop takes some thousands of instructions a round.
        assert!(instructions > 100_000 * 100, "{readings:?}");
        group.run(WORK);
        let again = count(&counters.read(), Event::Instructions) - instructions;
        let ratio = again as f64 / instructions as f64;
        assert!((0.7..1.4).contains(&ratio), "the same work: {instructions}, then {again}");
        return;
    }
    for (event, reading) in readings {
        let gap = reading.expect_err("no PMU, so nothing is counted");
        assert!(matches!(&gap, Gap::Absent(why) if why.contains("no PMU")), "{event}: {gap}");
        assert_eq!(probe.events[&event], Err(gap));
    }
    assert!(probe.countable(true).is_err() && probe.check.is_err());
}

#[test]
fn the_probe_agrees_with_what_can_be_opened() {
    let probe = PmuProbe::run(Path::new("/"));
    assert_eq!(probe.countable(false).unwrap().len(), Event::SOFTWARE.len());
    for (event, found) in &probe.events {
        let mut counters = Counters::open(&Target::Task(0), &[*event]).unwrap();
        assert_eq!(counters.read()[event].is_ok(), found.is_ok(), "{event}");
    }
    if let Ok(check) = probe.check {
        assert!(1 <= check.agreeing && check.agreeing <= check.offered, "{check:?}");
    }
}

#[test]
fn traffic_grows_with_memory_swept_or_is_absent() {
    let group = Cgroup::new("traffic");
    let target = Target::Cgroup { dir: group.0.clone(), cpus: online() };
    let mut traffic = MemoryTraffic::open(&target, 64).unwrap();
    group.run("dd if=/dev/zero of=/dev/null bs=128M count=4 2> /dev/null");
    match traffic.read() {
        // 512 MiB were written; prefetching hides most of the misses.
        Ok(moved) => assert!(moved.bytes > 1 << 20, "{moved:?}"),
        Err(gap) => assert!(matches!(gap, Gap::Absent(_)), "{gap}"),
    }
}

#[test]
fn hardware_events_beyond_the_budget_are_gaps() {
    let readings = Counters::open(&Target::Task(0), &Event::HARDWARE).unwrap().read();
    assert_eq!(readings.len(), Event::HARDWARE.len());
    for event in &Event::HARDWARE[MAX_HARDWARE..] {
        let gap = readings[event].clone().unwrap_err();
        assert!(gap.to_string().contains("at most 4 hardware events"), "{gap}");
    }
}

#[test]
fn what_cannot_be_counted_is_told() {
    let open = |target: &Target| Counters::open(target, &[Event::TaskClock]);
    let gone = Target::Cgroup { dir: "/sys/fs/cgroup/quell-test-none".into(), cpus: online() };
    let error = open(&gone).unwrap_err();
    assert!(matches!(Gap::from(&error), Gap::Gone(_)), "{error}");
    let file = Target::Cgroup { dir: "/proc/self/stat".into(), cpus: online() };
    assert!(matches!(open(&file), Err(PerfError::Cgroup { .. })));
    assert!(matches!(open(&Target::Cpus(CpuSet::new())), Err(PerfError::NoCpus)));

    let folder = Target::Cgroup { dir: "/proc".into(), cpus: online() };
    let gap = open(&folder).unwrap().read().remove(&Event::TaskClock).unwrap().unwrap_err();
    assert!(matches!(gap, Gap::Failed(_)), "{gap}");
    // Above pid_max on every machine.
    let ended = Target::Task(4_999_999);
    let gap = open(&ended).unwrap().read().remove(&Event::TaskClock).unwrap().unwrap_err();
    assert!(matches!(gap, Gap::Gone(_)), "{gap}");
}

#[test]
fn counters_outlive_their_group() {
    let group = Cgroup::new("gone");
    let target = Target::Cgroup { dir: group.0.clone(), cpus: online() };
    let mut counters = Counters::open(&target, &[Event::TaskClock]).unwrap();
    group.run(WORK);
    let before = count(&counters.read(), Event::TaskClock);
    drop(group);
    assert_eq!(count(&counters.read(), Event::TaskClock), before);
}

#[test]
fn traffic_by_another_event_goes_the_same_way() {
    let group = Cgroup::new("stand-in");
    let target = Target::Cgroup { dir: group.0.clone(), cpus: online() };
    let mut traffic = MemoryTraffic::by(Event::PageFaults, 4096, &target).unwrap();
    assert_eq!(traffic.descriptors(), online().len());
    assert_eq!(traffic.read().unwrap().bytes, 0, "nothing ran");
    group.run(WORK);
    let first = traffic.read().unwrap().bytes;
    assert!(first > 50 * 4096 && first.is_multiple_of(4096), "{first}");
    group.run(WORK);
    assert!(traffic.read().unwrap().bytes > first);
}

#[test]
fn a_machine_counts_misses_or_says_why_not() {
    let probe = PmuProbe::run(Path::new("/"));
    match MemoryTraffic::usable() {
        Ok(check) => assert!(check.agreeing >= 1 && probe.events[&Event::CacheMisses].is_ok()),
        Err(gap) => assert!(
            Err(gap.clone()) == probe.events[&Event::CacheMisses] || probe.check.is_err(),
            "{gap}"
        ),
    }
}
