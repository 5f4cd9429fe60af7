//! A reporter on the simulated server: what its accesses take is what the hardware does to them.
#![allow(clippy::unwrap_used)]

use quell_platform::{MemoryStore, Platform, Scope};
use quell_sim::{Machine, Memory, Program, Scene, SimBatch, SimServer, preset, program};
use quell_types::*;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(250);

/// Twelve cores behind one cache of 40 MiB, with 2.5 GB/s of memory's bandwidth for each.
fn machine() -> Machine {
    let server = preset("e5-2683v4").unwrap();
    let memory = Memory { bytes_per_s: 30e9, ..server.memory };
    Machine { cores_per_domain: 12, threads_per_core: 1, memory, ..server }
}

fn server(seed: u64, programs: Vec<Program>) -> SimServer {
    let mut scene = Scene::new(machine(), seed);
    let spec = BatchSpec { name: "jobs".into(), links: vec![], takes_tasks: false, max_tasks: 0 };
    scene.batch.push(SimBatch { spec, programs });
    SimServer::new(&scene).unwrap()
}

fn burst(id: u64) -> Burst {
    Burst { id, delay_us: 0, warm_us: 2_000, slice_us: 250, rounds: 5, not_on: CpuSet::new() }
}

/// So many bursts, a quarter of a second apart, once the machine has settled.
fn bursts(server: &mut SimServer, count: u64) -> Vec<BurstTrace> {
    server.sample(Duration::from_secs(1), Scope::Full).unwrap();
    server.sample(STEP, Scope::Full).unwrap();
    let one = |id| {
        server.apply(&Action::Burst(burst(id))).unwrap();
        let sample = server.sample(STEP, Scope::Full).unwrap();
        let [trace] = &sample.bursts[..] else { panic!("{:?}", sample.bursts) };
        assert_eq!(trace.id, id);
        trace.clone()
    };
    (1..=count).map(one).collect()
}

fn median(traces: &[BurstTrace], of: fn(&AccessTimes) -> f64) -> f64 {
    let mut all: Vec<f64> =
        traces.iter().map(|trace| of(trace.report.times.as_ref().unwrap())).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Registers, private hits, shared hits, memory: how many times as long as on the quiet machine; the
/// others relative to registers, since the clock falls where many cores are active.
fn inflations(seed: u64, programs: Vec<Program>) -> [f64; 4] {
    let quiet = bursts(&mut server(seed, vec![]), 9);
    let beside = bursts(&mut server(seed, programs), 9);
    let ratio = |of: fn(&AccessTimes) -> f64| median(&beside, of) / median(&quiet, of);
    let clock = ratio(|t| t.arithmetic_ns);
    let others = [ratio(|t| t.private_ns), ratio(|t| t.shared_ns), ratio(|t| t.memory_ns)];
    let [private, shared, memory] = others.map(|ratio| ratio / clock);
    [clock, private, shared, memory]
}

#[test]
fn on_a_quiet_machine_what_is_further_takes_longer() {
    let mut server = server(1, vec![]);
    for trace in bursts(&mut server, 5) {
        let times = trace.report.times.unwrap();
        let [registers, private, shared, memory] = times.all();
        assert!(registers < private && private < shared && shared < memory, "{times:?}");
        let took = burst(1).duration().as_nanos() as u64;
        assert!((took / 2..=took).contains(&trace.report.cpu_ns), "{}", trace.report.cpu_ns);
        assert!(trace.cpu.is_some());
    }
}

#[test]
fn each_neighbour_slows_its_own_patterns() {
    for seed in 1..=3 {
        let locks = inflations(seed, vec![program("split-lock").unwrap()]);
        assert!(locks[1..].iter().all(|ratio| *ratio > 1.2), "bus locks: {locks:?}");
        assert!(locks[0] < 1.1, "registers wait for no bus: {locks:?}");
        // Two sweeps that take the cache from everybody, and a third of memory's bandwidth.
        let sweep = inflations(seed, vec![Program::stream_of(48 << 20); 2]);
        assert!(sweep[1] < 1.1 && sweep[2] > 1.1 && sweep[3] < 1.1, "sweeps: {sweep:?}");
        // Eight streams take all that memory has.
        let streams = inflations(seed, vec![program("stream-dram").unwrap(); 8]);
        assert!(streams[1] < 1.1 && streams[2] > 1.3 && streams[3] > 1.3, "streams: {streams:?}");
    }
}

#[test]
fn where_no_cpu_is_idle_none_is_played_and_where_it_may_not_run_it_does_not() {
    let mut full = server(1, vec![program("integer").unwrap(); 12]);
    for trace in bursts(&mut full, 2) {
        assert_eq!((trace.cpu, trace.report.cpu_ns), (None, 0));
        assert!(trace.report.times.unwrap_err().to_string().contains("no CPU is idle"));
    }
    let mut free = server(1, vec![]);
    bursts(&mut free, 1);
    let not_on: CpuSet = "0-10".parse().unwrap();
    free.apply(&Action::Burst(Burst { not_on, ..burst(9) })).unwrap();
    let sample = free.sample(STEP, Scope::Full).unwrap();
    assert_eq!(sample.bursts[0].cpu, Some(11));
}

#[test]
fn a_burst_begins_when_it_shall_and_only_one_at_a_time() {
    let mut server = server(1, vec![]);
    bursts(&mut server, 1);
    server.apply(&Action::Burst(Burst { delay_us: 100_000, ..burst(2) })).unwrap();
    server.apply(&Action::Burst(burst(3))).unwrap();
    server.apply(&Action::Burst(Burst { rounds: 0, ..burst(4) })).unwrap();
    let begun = Time(server.now_ns());
    let sample = server.sample(STEP, Scope::Full).unwrap();
    let refused = sample.outcomes.iter().filter(|outcome| outcome.error.is_some()).count();
    assert_eq!((refused, sample.bursts.len()), (2, 1));
    let over = sample.bursts[0].time.since(begun);
    assert_eq!(over, Duration::from_millis(100) + burst(2).duration());
}

#[test]
fn it_repeats_to_the_bit_and_leaves_nobody_running() {
    let play = || {
        let mut server = server(7, vec![program("stream-dram").unwrap()]);
        bursts(&mut server, 4)
    };
    assert_eq!(play(), play());
    let busy = |server: &mut SimServer| -> u64 {
        let sample = server.sample(STEP, Scope::Full).unwrap();
        sample.host.cpu_busy_ns.unwrap().values().sum()
    };
    let mut server = server(7, vec![]);
    bursts(&mut server, 2);
    assert_eq!(busy(&mut server), busy(&mut server));
    // Death in the middle of a burst ends it.
    server.apply(&Action::Burst(burst(5))).unwrap();
    server.advance(Duration::from_millis(3));
    let mut server = server.agent_dies(MemoryStore::default()).unwrap();
    let sample = server.sample(STEP, Scope::Full).unwrap();
    assert!(sample.bursts.is_empty(), "nobody is left to hear of it");
    assert_eq!(busy(&mut server), busy(&mut server));
}
