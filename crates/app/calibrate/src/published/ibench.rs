//! iBench's two curves (B-E2): mcf beside ever more pressure on the last-level cache, memcached
//! beside ever more traffic on its link.

use super::{MIB, SEED, beside, machine};
use crate::fit::{Fit, OpenCell};
use crate::guess::free_parameter;
use quell_platform::{Platform as _, Scope};
use quell_sim::calibrated::{MCF, MEMCACHED, McfNumbers, MemcachedNumbers};
use quell_sim::{Load, Machine, Phase, Program, SimBatch, SimServer, SimService, program};
use quell_types::{BatchSpec, BytesPerSecond, Link, LinkSpec, ServiceSpec, Slo};
use std::time::Duration;

/// Normalised performance at intensity 10, 20 … 100 %.
const MCF_SPEED: [f64; 10] = [0.99, 0.97, 0.96, 0.91, 0.79, 0.65, 0.48, 0.40, 0.29, 0.11];
/// Misses in percent of accesses, at 0 to 100 %.
const MCF_MISSES: [f64; 11] = [0.4, 0.5, 0.6, 1.4, 6.0, 19.0, 37.0, 50.0, 63.0, 81.0, 98.0];
const MEMCACHED_SPEED: [f64; 10] = [0.98, 0.93, 0.87, 0.85, 0.78, 0.65, 0.47, 0.38, 0.25, 0.11];
/// Of its bandwidth alone, in percent.
const MEMCACHED_SHARE: [f64; 10] = [94.0, 91.0, 87.0, 81.0, 72.0, 63.0, 47.0, 35.0, 19.0, 14.0];

/// What counts as right: 0.10 of performance alone, 10 points of a share.
const SPEED_TOLERANCE: f64 = 0.10;
const POINTS: f64 = 10.0;

fn cell(row: &str, percent: usize, unit: &'static str, found: f64, tolerance: f64) -> OpenCell {
    OpenCell {
        source: "B-E2",
        row: row.into(),
        at: format!("{percent} % pressure"),
        unit,
        least: Some(found),
        most: Some(found),
        tolerance,
    }
}

/// mcf on a machine of 8 MiB; it is too old for anybody to say what its memory does, so that is free.
pub(crate) fn mcf() -> Fit {
    let speed = MCF_SPEED.iter().enumerate();
    let speed = speed.map(|(i, v)| cell("mcf: speed", 10 * i + 10, "", *v, SPEED_TOLERANCE));
    let misses = MCF_MISSES.iter().enumerate();
    let misses = misses.map(|(i, v)| cell("mcf: misses", 10 * i, "%", *v, POINTS));
    Fit {
        name: "mcf beside pressure on the last-level cache",
        parameters: vec![
            free_parameter("mcf: accesses", "1/10^3 instructions", 58.0, 5.0, 400.0),
            free_parameter("mcf: hot set", "MiB", 5.0, 1.0, 8.0),
            free_parameter("mcf: misses with it", "% of accesses", 0.5, 0.0, 5.0),
            free_parameter("memory bandwidth", "GB/s", 8.0, 0.5, 40.0),
            free_parameter("pressure: misses that overlap", "", 6.0, 1.0, 40.0),
        ],
        shipped: vec![
            MCF.apki,
            MCF.hot_bytes / MIB,
            100.0 * MCF.least_frac,
            MCF.bytes_per_s / 1e9,
            MCF.pressure_overlap,
        ],
        cells: speed.chain(misses).collect(),
        simulate: Box::new(simulate_mcf),
    }
}

fn simulate_mcf(values: &[f64]) -> Vec<f64> {
    let numbers = McfNumbers {
        apki: values[0],
        hot_bytes: values[1] * MIB,
        least_frac: values[2] / 100.0,
        bytes_per_s: values[3] * 1e9,
        pressure_overlap: values[4],
    };
    let mut machine = machine("e5345");
    machine.memory.bytes_per_s = numbers.bytes_per_s;
    let runs: Vec<_> = (0..=10).map(|tenth| mcf_at(&machine, &numbers, tenth)).collect();
    let alone = runs[0].map_or(f64::NAN, |r| r.instructions_per_s);
    let speed = runs[1..].iter().map(|r| r.map_or(f64::NAN, |r| r.instructions_per_s / alone));
    let misses = runs.iter().map(|r| r.map_or(f64::NAN, |r| 100.0 * r.mpki / numbers.apki));
    speed.chain(misses).collect()
}

/// mcf beside pressure on so many tenths of the cache.
fn mcf_at(machine: &Machine, numbers: &McfNumbers, tenths: u64) -> Option<super::Progress> {
    let bytes = machine.cache.bytes * tenths / 10;
    let others = if tenths == 0 { vec![] } else { vec![numbers.pressure(bytes)] };
    let spans = (Duration::from_secs(5), Duration::from_secs(2));
    beside(machine, &numbers.program(), &others, spans)
}

/// memcached on a link of 1 Gbit/s at 40,000 requests/s, of which those within 200 µs count.
pub(crate) fn memcached() -> Fit {
    let of = |row: &'static str, unit, tolerance| {
        move |(i, v): (usize, &f64)| cell(row, 10 * i + 10, unit, *v, tolerance)
    };
    let speed = MEMCACHED_SPEED.iter().enumerate();
    let speed = speed.map(of("memcached: answered in time", "", SPEED_TOLERANCE));
    let share = MEMCACHED_SHARE.iter().enumerate();
    let share = share.map(of("memcached: bandwidth", "%", POINTS));
    Fit {
        name: "memcached beside traffic on its link",
        parameters: vec![
            free_parameter("memcached: work of a request", "10^3 instructions", 60.0, 5.0, 400.0),
            free_parameter("memcached: variation of work", "", 0.5, 0.0, 3.0),
            free_parameter("memcached: bytes of a response", "B", 1_500.0, 50.0, 3_000.0),
        ],
        shipped: vec![MEMCACHED.instructions / 1e3, MEMCACHED.variation, MEMCACHED.response_bytes],
        cells: speed.chain(share).collect(),
        simulate: Box::new(simulate_memcached),
    }
}

/// What of a service's requests was in time, and what it sent.
#[derive(Clone, Copy, Debug)]
struct Served {
    in_time_per_s: f64,
    bytes_per_s: f64,
}

fn simulate_memcached(values: &[f64]) -> Vec<f64> {
    let numbers = MemcachedNumbers {
        instructions: values[0] * 1e3,
        variation: values[1],
        response_bytes: values[2],
    };
    let runs: Vec<_> = (0..=10u32).map(|tenths| served(&numbers, tenths)).collect();
    let ratio = |of: fn(&Served) -> f64| {
        let alone = runs[0].as_ref().map_or(f64::NAN, of);
        let one = move |r: &Option<Served>| r.as_ref().map_or(f64::NAN, of) / alone;
        runs[1..].iter().map(one).collect::<Vec<_>>()
    };
    let share = ratio(|s| s.bytes_per_s).into_iter().map(|share| 100.0 * share);
    ratio(|s| s.in_time_per_s).into_iter().chain(share).collect()
}

const LINK_BITS_PER_S: f64 = 1e9;
const QPS: f64 = 40_000.0;
const LIMIT_NS: u64 = 200_000;
const WORKERS: u32 = 8;

/// memcached beside a sender of so many tenths of the link, which never looks whether there is room.
fn served(numbers: &MemcachedNumbers, tenths: u32) -> Option<Served> {
    let machine = machine("e5345");
    let link: Link = "eth0".into();
    let capacity = BytesPerSecond::from_bits(LINK_BITS_PER_S);
    let sent_per_s = capacity.0 * f64::from(tenths) / 10.0;
    let clock_hz = machine.clock.base_khz as f64 * 1e3;
    let phase =
        Phase { base_cpi: 1.0, egress_per_ki: 1e3 * sent_per_s / clock_hz, ..Phase::default() };
    let sender = Program { phases: vec![phase], ..program("integer")? };
    let mut scene = crate::exact(machine, SEED);
    scene.links = vec![LinkSpec { name: link.clone(), capacity }];
    scene.services = vec![service(numbers, link.clone())];
    let spec =
        BatchSpec { name: "sender".into(), links: vec![link], takes_tasks: false, max_tasks: 0 };
    scene.batch = vec![SimBatch { spec, programs: vec![sender] }];
    let mut server = SimServer::new(&scene).ok()?;
    let mut look = |after: Duration| {
        let sample = server.sample(after, Scope::Full).ok()?;
        let requests = sample.tenants.get(&"memcached".into())?.requests.clone().ok()?;
        Some((requests.latency_ns.ok()?, requests.bytes_out))
    };
    let span = Duration::from_millis(300);
    let before = look(Duration::from_millis(200))?;
    let after = look(span)?;
    let seen = after.0.since(&before.0);
    let last = quell_types::LogHistogram::slot_of(LIMIT_NS);
    let in_time: u64 = seen.counts().iter().take(last + 1).sum();
    Some(Served {
        in_time_per_s: in_time as f64 / span.as_secs_f64(),
        bytes_per_s: (after.1 - before.1) as f64 / span.as_secs_f64(),
    })
}

fn service(numbers: &MemcachedNumbers, link: Link) -> SimService {
    SimService {
        spec: ServiceSpec {
            name: "memcached".into(),
            slo: Slo { percentile_frac: 0.95, target_s: 200e-6 },
            peak_qps: None,
            links: vec![link],
        },
        program: Program {
            phases: vec![Phase::default()],
            ..program("integer").unwrap_or_else(|| unreachable!("a program of ours"))
        },
        workers: WORKERS,
        instructions: numbers.instructions,
        variation: numbers.variation,
        request_bytes: 100,
        response_bytes: numbers.response_bytes as u32,
        load: Load::Constant(QPS),
    }
}
