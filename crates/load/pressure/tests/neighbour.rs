//! What a neighbour feels: a pointer chase on one CPU beside a stream on another.

// Clippy allows it in test functions only, not in what they call.
#![allow(clippy::unwrap_used)]

use quell_pressure::{Options, Resource, Stop, arm};
use quell_topology::Machine;
use quell_types::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// One line of the chase: the index of the next.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Link(u32);

/// A single random cycle through `bytes` of memory (Sattolo's shuffle).
fn cycle(bytes: usize) -> Vec<Link> {
    let mut links: Vec<Link> = (0..u32::try_from(bytes / 64).unwrap()).map(Link).collect();
    let mut state = 1u64;
    for i in (1..links.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = ((state >> 33) as usize) % i;
        let (a, b) = (links[i], links[other]);
        (links[i], links[other]) = (b, a);
    }
    links
}

/// CPU time of this thread: what other programs take of its CPU is no slowness of the memory.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}

/// Mean nanoseconds of an access, after a lap that brings the links back into the cache.
fn walk(links: &[Link], time: Duration) -> f64 {
    let mut at = 0;
    let mut steps = |count: usize| {
        for _ in 0..count {
            at = links[at].0 as usize;
        }
        std::hint::black_box(at);
    };
    steps(links.len());
    let (start, mut count) = (cpu_time(), 0);
    while cpu_time() - start < time {
        steps(1000);
        count += 1000;
    }
    (cpu_time() - start).as_nanos() as f64 / f64::from(count)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of the walk alone and beside the stream, in turns.
fn alone_and_beside(links: &[Link], polluter: &Options) -> (f64, f64) {
    let topology = Machine::new("/").topology();
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        alone.push(walk(links, Duration::from_millis(20)));
        let stream = arm(polluter, &topology, &Stop::new().unwrap()).unwrap().start();
        beside.push(walk(links, Duration::from_millis(20)));
        let report = stream.finish().unwrap();
        assert!(report.work > 0);
    }
    (median(alone), median(beside))
}

/// A hypervisor may move the virtual CPUs apart, to two caches, for seconds to hours: then nobody
/// feels anything from anybody. So it is tried for a minute, with chases of several sizes; if they
/// stay apart that long there is no neighbour on this machine, and that is said. On bare metal,
/// where CPUs stay where they are, it must be felt.
#[test]
fn a_stream_slows_the_neighbours_chase() {
    let online = Machine::new("/").topology().online();
    let cpus: Vec<u32> = online.iter().collect();
    assert!(cpus.len() >= 2, "this needs two CPUs, here is {online}");
    let mut polluter = Options::new(Resource::MemoryBandwidth);
    polluter.cpus = CpuSet::of(cpus[1]);
    polluter.region_bytes = Some(128 << 20);
    polluter.seconds = 30.0;
    let chases = [4, 8, 16].map(|mib| cycle(mib << 20));
    let victim = cpus[0];
    let work = move || {
        let mut mask = rustix::thread::CpuSet::new();
        mask.set(victim as usize);
        rustix::thread::sched_setaffinity(None, &mask).unwrap();
        let (end, mut seen) = (Instant::now() + Duration::from_secs(60), Vec::new());
        while Instant::now() < end {
            for links in &chases {
                let (alone, beside) = alone_and_beside(links, &polluter);
                seen.push(beside / alone);
                if beside > 1.2 * alone {
                    return Ok((alone, beside));
                }
            }
        }
        Err(seen)
    };
    let felt = std::thread::spawn(work).join().unwrap();
    if let (Err(ratios), Some(hypervisor)) = (&felt, Machine::new("/").topology().hypervisor) {
        assert!(ratios.iter().all(|ratio| (0.1..=1.2).contains(ratio)), "{ratios:?}");
        eprintln!("{hypervisor} kept the CPUs apart for a minute: no shared cache to press on");
        return;
    }
    assert!(felt.is_ok(), "ratios never above 1.2: {felt:?}");
    println!("alone and beside a stream, ns: {felt:?}");
}
