//! All kernels on the machine at hand: work, bounds, and what a neighbour feels of them.

// Clippy allows it in test functions only, not in what they call.
#![allow(clippy::unwrap_used)]

use quell_pressure::{
    End, FeedReader, Idle, Intensity, NetworkOptions, Options, Plan, PressureError, Report,
    Resource, Stop, Unit, arm, run,
};
use quell_topology::Machine;
use quell_types::{CpuSet, Topology};
use std::time::{Duration, Instant};

fn topology() -> Topology {
    Machine::new("/").topology()
}

/// A short run with little memory.
fn options(resource: Resource) -> Options {
    let mut options = Options::new(resource);
    options.seconds = 0.1;
    options.llc_bytes = Some(8 << 20);
    options.cache_bytes = match resource {
        Resource::L1Instruction | Resource::L1Data => Some(32 << 10),
        _ => Some(1 << 20),
    };
    options.tlb_entries = Some(1024);
    options.region_bytes = Some(16 << 20);
    options.storage.bytes = Some(8 << 20);
    options.network.flows = 2;
    if resource == Resource::SmtSibling {
        options.cpus = topology().online().first(1);
    }
    if resource == Resource::BusLock {
        // The host may be shared: a moment is enough to see it work.
        (options.hurts_everyone, options.seconds) = (true, 0.002);
    }
    options
}

/// What this machine can press on.
fn resources() -> impl Iterator<Item = Resource> {
    let topology = topology();
    Resource::ALL.into_iter().filter(move |resource| match resource {
        Resource::Interconnect => topology.online().len() > 1,
        Resource::SmtSibling => topology.online().iter().all(|c| topology.siblings(c).len() > 1),
        Resource::BusLock => cfg!(target_arch = "x86_64"),
        _ => true,
    })
}

fn at(percent: f64) -> Plan {
    Plan::Hold(Intensity::new(percent).unwrap())
}

fn press(options: &Options) -> Report {
    run(options, &topology(), &Stop::new().unwrap(), &mut |_| ()).unwrap()
}

/// Polls until it is so, for half a minute at most.
fn eventually(mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        if so() {
            return true;
        }
        std::thread::yield_now();
    }
    so()
}

#[test]
fn every_kernel_reports_its_work_in_its_unit() {
    for resource in resources() {
        let (unit, quantum) = match resource {
            Resource::MemoryBandwidth => (Unit::Bytes, 16 * 32),
            Resource::LlcBandwidth | Resource::L2Bandwidth => (Unit::Bytes, 16 * 32),
            Resource::NetworkBandwidth => (Unit::Bytes, 1),
            Resource::LlcCapacity | Resource::L2Capacity => (Unit::Accesses, 2048),
            Resource::L1Data => (Unit::Accesses, 2048),
            Resource::L1Instruction => (Unit::Accesses, 448),
            Resource::Tlb | Resource::Prefetcher => (Unit::Accesses, 1024),
            Resource::MemoryCapacity => (Unit::Accesses, 32),
            Resource::StorageCapacity => (Unit::Bytes, 64 << 10),
            Resource::StorageBandwidth => (Unit::Bytes, 256 << 10),
            Resource::PageFaults => (Unit::Faults, 32),
            Resource::BusLock => (Unit::Operations, 1),
            Resource::Interconnect => (Unit::Messages, 1),
            Resource::Integer => (Unit::Operations, 32),
            Resource::FloatingPoint => (Unit::Operations, 4),
            _ => (Unit::Operations, 2),
        };
        let options = options(resource);
        let report = press(&options);
        assert_eq!((report.kernel, report.unit), (resource, unit));
        assert!(report.work > 0 && report.work.is_multiple_of(quantum), "{report:?}");
        assert_eq!(report.work, report.threads.iter().map(|thread| thread.work).sum::<u64>());
        let rate = report.work as f64 / report.seconds;
        assert!((report.work_per_s / rate - 1.0).abs() < 1e-9);
        assert_eq!(report.ended_by, End::Time);
        assert!((report.seconds - options.seconds).abs() < 1e-6, "{report:?}");
        let timing = report.timing;
        assert!(timing.arm_ms > 0.0 && timing.start_ms.is_some_and(|ms| ms > 0.0), "{report:?}");
        assert!(timing.stop_ms.is_some_and(|ms| ms >= 0.0), "{report:?}");
        assert!(report.latency_ns.is_some_and(|ns| ns > 0.0), "{report:?}");
        // What lies in registers, files or the network needs no pages, nor does code.
        let pages = [Unit::Accesses, Unit::Bytes].contains(&unit);
        let none = [
            Resource::NetworkBandwidth,
            Resource::MemoryCapacity,
            Resource::StorageCapacity,
            Resource::StorageBandwidth,
            Resource::L1Instruction,
            Resource::Tlb,
        ];
        assert_eq!(report.huge_pages.is_some(), pages && !none.contains(&resource), "{resource}");
    }
}

#[test]
fn no_intensity_is_no_work() {
    for resource in resources() {
        let mut options = options(resource);
        options.plan = at(0.0);
        options.network.link_bits_per_s = Some(1e9);
        let report = press(&options);
        assert_eq!((report.work, report.latency_ns), (0, None), "{resource}");
        assert_eq!(report.timing.start_ms, None, "{resource}: it never worked");
    }
}

#[test]
fn the_footprint_of_a_capacity_kernel_is_its_intensity() {
    for (resource, bytes) in [
        (Resource::MemoryCapacity, 16 << 20),
        (Resource::StorageCapacity, 8 << 20),
        (Resource::LlcCapacity, 8 << 20),
        (Resource::L2Capacity, 1 << 20),
        (Resource::L1Data, 32 << 10),
        // Less what runs besides.
        (Resource::L1Instruction, 28 << 10),
        (Resource::Tlb, 1056 * 4096),
    ] {
        let mut options = options(resource);
        for percent in [25, 50, 100] {
            for threads in [1, 2] {
                (options.plan, options.threads) = (at(percent as f64), Some(threads));
                let report = press(&options);
                // Unbound threads are taken to share a cache; each has a TLB of its own.
                let sharers = if resource == Resource::Tlb { threads as u64 } else { 1 };
                let wanted = bytes / 100 * percent * sharers;
                let got = report.footprint_bytes;
                assert!(got.abs_diff(wanted) <= wanted / 50, "{resource} {percent} %: {got}");
                assert!(report.work > 0, "{report:?}");
            }
        }
    }
}

/// By the kernel's own work. Other programs take CPU time meanwhile, so it may take some attempts.
#[test]
fn more_intensity_is_more_work() {
    // Bus locks are for the shortest of tests: their share of time is counted, not their work.
    let by_time = resources().filter(|r| r.works_by_time() && *r != Resource::BusLock);
    let by_time = by_time.map(|r| (r, Idle::Spin));
    let others = [(Resource::Integer, Idle::Sleep), (Resource::NetworkBandwidth, Idle::Spin)];
    let cases = by_time.chain(others);
    for (resource, idle) in cases {
        let mut seen = Vec::new();
        let ordered = (0..20).any(|_| {
            let work = [20.0, 60.0, 100.0].map(|percent| {
                let mut options = options(resource);
                (options.plan, options.idle) = (at(percent), idle);
                options.network.link_bits_per_s = Some(400e6);
                press(&options).work_per_s
            });
            seen.push(work);
            // A link has no limit at 100 %, so there only the order counts.
            let proportional =
                resource == Resource::NetworkBandwidth || (0.4..0.8).contains(&(work[1] / work[2]));
            work[0] < work[1] && work[1] < work[2] && proportional
        });
        assert!(ordered, "{resource}: {seen:?}");
    }
}

#[test]
fn a_full_ramp_takes_ten_milliseconds_and_half_of_the_work() {
    let mut seen = Vec::new();
    let half = (0..50).any(|_| {
        let mut options = options(Resource::Integer);
        (options.plan, options.seconds) = ("0:100".parse().unwrap(), 0.01);
        let report = press(&options);
        assert_eq!((report.from_percent, report.to_percent), (0.0, 100.0));
        assert!((report.ramp_s - 0.01).abs() < 1e-9);
        seen.push(report.busy_frac);
        (0.4..0.6).contains(&report.busy_frac)
    });
    assert!(half, "{seen:?}");
}

#[test]
fn nothing_stays_behind() {
    let folder = tempfile::tempdir().unwrap();
    let entries = || std::fs::read_dir(folder.path()).unwrap().count();
    for resource in [Resource::StorageCapacity, Resource::StorageBandwidth] {
        let mut options = options(resource);
        (options.storage.folder, options.seconds) = (Some(folder.path().to_owned()), 600.0);
        let running = arm(&options, &topology(), &Stop::new().unwrap()).unwrap().start();
        assert!(eventually(|| running.work() > 0), "{resource} does nothing");
        assert_eq!(entries(), 0, "{resource} has a file with a name while it works");
        drop(running);
        assert_eq!(entries(), 0);
    }
}

#[test]
fn a_caller_stops_it_at_once() {
    for resource in resources() {
        let stop = Stop::new().unwrap();
        let mut options = options(resource);
        options.seconds = if resource == Resource::BusLock { 0.02 } else { 600.0 };
        let mut running = arm(&options, &topology(), &stop).unwrap().start();
        assert!(eventually(|| running.work() > 0), "{resource} does nothing");
        assert!(running.progress().work > 0);
        stop.request();
        assert!(eventually(|| running.is_over()), "{resource} goes on");
        let report = running.finish().unwrap();
        // The bound of bus locks may be there before the caller.
        assert!(report.ended_by == End::Caller || resource == Resource::BusLock, "{report:?}");
    }
}

#[test]
fn threads_end_by_themselves_and_with_their_owner() {
    let stop = Stop::new().unwrap();
    let left_alone = arm(&options(Resource::Integer), &topology(), &stop).unwrap().start();
    assert!(eventually(|| left_alone.is_over()), "nobody stopped it, and it goes on");
    let mut options = options(Resource::Integer);
    options.seconds = 600.0;
    // Both would hang here if dropping did not end the threads.
    drop(arm(&options, &topology(), &stop).unwrap());
    drop(arm(&options, &topology(), &stop).unwrap().start());
}

#[test]
fn threads_run_where_they_should() {
    let topology = topology();
    let mut options = options(Resource::Integer);
    options.cpus = topology.online().first(2);
    let report = press(&options);
    let cpus: CpuSet = report.threads.iter().filter_map(|thread| thread.cpu).collect();
    assert_eq!(cpus, options.cpus);
    assert!(report.threads.iter().all(|thread| thread.work > 0 && thread.cpu_s > 0.0));
}

#[test]
fn a_feed_shows_the_work_while_it_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feed");
    let mut options = options(Resource::LlcCapacity);
    (options.feed, options.seconds) = (Some(path.clone()), 600.0);
    let running = arm(&options, &topology(), &Stop::new().unwrap()).unwrap().start();
    let reader = FeedReader::new(path);
    let work = || reader.read().unwrap().work;
    assert!(eventually(|| work() > 0));
    let first = work();
    assert!(eventually(|| work() > first), "it grows");
    let report = running.finish().unwrap();
    assert_eq!(work(), report.work, "and ends where the report does");
}

#[test]
fn bad_input_is_an_error_that_says_what_to_do() {
    let nothing = Topology::default();
    let stop = Stop::new().unwrap();
    let refused = |options: &Options| arm(options, &nothing, &stop).err().unwrap();
    let mut llc = Options::new(Resource::LlcCapacity);
    assert!(matches!(refused(&llc), PressureError::UnknownLlc));
    llc.llc_bytes = Some(1 << 20);
    assert!(arm(&llc, &nothing, &stop).is_ok(), "a given size will do");
    let l2 = Options::new(Resource::L2Capacity);
    assert!(refused(&l2).to_string().contains("--cache-bytes"));
    let mut alone = Options::new(Resource::Interconnect);
    alone.cpus = topology().online().first(1);
    assert!(matches!(refused(&alone), PressureError::OneCpu));
    assert!(matches!(refused(&Options::new(Resource::BusLock)), PressureError::BusLockConsent));
    let mut storage = Options::new(Resource::StorageBandwidth);
    storage.storage.folder = Some("/proc/quell".into());
    assert!(refused(&storage).to_string().contains("/proc/quell"));
    let mut smt = Options::new(Resource::SmtSibling);
    assert!(refused(&smt).to_string().contains("name the CPUs"));
    smt.cpus = topology().online().first(1);
    assert!(matches!(refused(&smt), PressureError::NoSibling { .. }), "no topology, no sibling");
    llc.cpus = CpuSet::of(60_000);
    assert!(refused(&llc).to_string().contains("60000"));
    let mut net = Options::new(Resource::NetworkBandwidth);
    net.network = NetworkOptions { peer: Some("127.0.0.1:1".parse().unwrap()), ..net.network };
    assert!(matches!(refused(&net), PressureError::Peer { .. }));
    net.network.netns = Some("/run/netns/quell-test-pressure-none".into());
    assert!(refused(&net).to_string().contains("quell-test-pressure-none"));
    let mut feed = Options::new(Resource::Integer);
    feed.feed = Some("/proc/quell/feed".into());
    assert!(refused(&feed).to_string().contains("/proc/quell/feed"));
}
