//! What Heracles tells of its three services beside antagonists, without figures (H-4 to H-6): who
//! is insensitive to what, and where it breaks its objective.
//!
//! As in its characterisation a service has cores in proportion to its load, the antagonist the
//! rest. Its objective is taken to be its tail alone on those cores, so a cell is the tail beside
//! the antagonist in % of that. Words are bounds: *insensitive* at most 110 %, *over the objective*
//! at least 110 %, *severe* at least 150 %. One of the two sockets is simulated; the other is alike.

use super::{MIB, SEED, machine};
use crate::fit::{Fit, OpenCell};
use crate::guess::{ParameterSpec, free_parameter};
use quell_platform::{Platform as _, Scope};
use quell_sim::calibrated::{HERACLES, HeraclesNumbers};
use quell_sim::{Load, Machine, Program, Scene, SimBatch, SimServer, SimService, program};
use quell_types::{
    BatchSpec, BytesPerSecond, CpuSet, Knob, Link, LinkSpec, ServiceSpec, Setting, Slo,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// What runs beside a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Antagonist {
    Nobody,
    /// A sweep over so many percent of the cache.
    Cache(u32),
    Memory,
    Siblings,
    Power,
    Network,
    /// Batch of low weight on the same CPUs: nothing but the scheduler between them.
    Floating,
}

/// An antagonist with its row's name and, by load in percent, the least and the most that is right.
type Row = (&'static str, Antagonist, &'static [(u32, Option<f64>, Option<f64>)]);

const fn calm(load: u32) -> (u32, Option<f64>, Option<f64>) {
    (load, None, Some(110.0))
}

const fn over(load: u32, least: f64) -> (u32, Option<f64>, Option<f64>) {
    (load, Some(least), None)
}

use Antagonist::{Cache, Floating, Memory, Network, Power, Siblings};

const WEBSEARCH: [Row; 8] = [
    ("LLC small", Cache(25), &[calm(20), calm(50), calm(80)]),
    ("LLC medium", Cache(50), &[calm(20), calm(50), calm(80)]),
    ("LLC big", Cache(95), &[over(20, 110.0), over(50, 110.0)]),
    ("DRAM", Memory, &[over(20, 110.0), over(50, 110.0)]),
    ("HyperThread", Siblings, &[calm(20), calm(50), (80, None, Some(120.0)), over(90, 300.0)]),
    ("power", Power, &[over(20, 110.0), calm(80)]),
    ("network", Network, &[calm(20), calm(50), calm(80)]),
    ("OS only", Floating, &[over(20, 110.0), over(50, 110.0), over(80, 300.0)]),
];
const ML_CLUSTER: [Row; 7] = [
    ("LLC small", Cache(25), &[calm(20), calm(50), over(80, 110.0)]),
    ("LLC medium", Cache(50), &[calm(20), over(50, 110.0), over(80, 110.0)]),
    ("LLC big", Cache(95), &[over(20, 150.0), over(50, 150.0), over(80, 150.0)]),
    ("DRAM", Memory, &[over(20, 150.0), over(50, 150.0), over(80, 150.0)]),
    ("power", Power, &[calm(20), calm(50), calm(80)]),
    ("network", Network, &[calm(20), calm(50), calm(80)]),
    ("OS only", Floating, &[over(20, 110.0), over(50, 110.0), over(80, 300.0)]),
];
const MEMKEYVAL: [Row; 7] = [
    ("LLC medium", Cache(50), &[over(20, 110.0), over(90, 110.0)]),
    ("LLC big", Cache(95), &[over(20, 150.0), over(50, 150.0), over(80, 150.0)]),
    ("DRAM", Memory, &[over(20, 150.0), over(50, 150.0), over(80, 150.0)]),
    ("HyperThread", Siblings, &[calm(20), calm(50), over(90, 150.0)]),
    ("power", Power, &[over(20, 110.0)]),
    ("network", Network, &[over(20, 150.0), over(50, 150.0), over(80, 150.0)]),
    ("OS only", Floating, &[over(20, 110.0), over(50, 110.0), over(80, 300.0)]),
];
const SERVICES: [(&str, &[Row], f64); 3] = [
    ("websearch", &WEBSEARCH, 0.99),
    ("ml_cluster", &ML_CLUSTER, 0.95),
    ("memkeyval", &MEMKEYVAL, 0.99),
];

const TOLERANCE: f64 = 10.0;
/// Requests of a run.
const REQUESTS: f64 = 4_000.0;
const LINK_BITS_PER_S: f64 = 10e9;

/// The fit of one of the three services.
pub(crate) fn heracles(service: usize) -> Fit {
    let (name, rows, percentile) = SERVICES[service];
    let cells = rows.iter().flat_map(|(row, _, cells)| {
        let cell = move |(load, least, most): &(u32, Option<f64>, Option<f64>)| OpenCell {
            source: "H-6",
            row: (*row).into(),
            at: format!("{load} % load"),
            unit: "% of alone",
            least: *least,
            most: *most,
            tolerance: TOLERANCE,
        };
        cells.iter().map(cell)
    });
    Fit {
        name,
        parameters: parameters(&HERACLES[service]),
        shipped: values_of(&HERACLES[service]),
        cells: cells.collect(),
        simulate: Box::new(move |values| {
            let numbers = numbers_of(name, values);
            simulate(&numbers, rows, percentile)
        }),
        pairs: false,
    }
}

/// Begins are those of the scenario H-E1, and of H-4's words for memkeyval.
fn parameters(numbers: &HeraclesNumbers) -> Vec<ParameterSpec> {
    let work = if numbers.name == "memkeyval" { 0.3 } else { 12.0 };
    vec![
        free_parameter("work of a request", "10^6 instructions", work, 0.02, 200.0),
        free_parameter("variation of work", "", 0.5, 0.0, 3.0),
        free_parameter("utilisation of its cores", "", 0.6, 0.1, 0.95),
        free_parameter("hot set", "MiB", 15.0, 0.5, 45.0),
        free_parameter("misses without it", "1/10^3 instructions", 10.0, 0.1, 100.0),
        free_parameter("speed beside a sibling", "", 0.9, 0.3, 1.0),
    ]
}

fn values_of(n: &HeraclesNumbers) -> Vec<f64> {
    let (work, hot) = (n.instructions / 1e6, n.hot_bytes / MIB);
    vec![work, n.variation, n.utilisation, hot, n.most_mpki, n.smt_speed]
}

fn numbers_of(name: &'static str, values: &[f64]) -> HeraclesNumbers {
    HeraclesNumbers {
        name,
        instructions: values[0] * 1e6,
        variation: values[1],
        utilisation: values[2],
        hot_bytes: values[3] * MIB,
        most_mpki: values[4],
        smt_speed: values[5],
    }
}

fn simulate(numbers: &HeraclesNumbers, rows: &[Row], percentile: f64) -> Vec<f64> {
    let machine = one_socket();
    let mut alone = BTreeMap::new();
    let mut values = Vec::new();
    for (_, antagonist, cells) in rows {
        for (load, ..) in *cells {
            let tail = |beside| tail_s(&machine, numbers, *load, beside, percentile);
            let alone = *alone.entry(*load).or_insert_with(|| tail(Antagonist::Nobody));
            let beside = tail(*antagonist);
            values.push(match (beside, alone) {
                (Some(beside), Some(alone)) => 100.0 * beside / alone,
                _ => f64::NAN,
            });
        }
    }
    values
}

/// The tail of a service on cores in proportion to its load.
fn tail_s(
    machine: &Machine,
    numbers: &HeraclesNumbers,
    load: u32,
    beside: Antagonist,
    percentile: f64,
) -> Option<f64> {
    let own = (machine.cores() as u32 * load / 100).max(1);
    let qps = f64::from(own) * numbers.utilisation * requests_per_s(machine, numbers)?;
    let mut server = server(machine, numbers, own, qps, beside)?;
    if beside == Antagonist::Floating {
        let knob = Knob::CpuWeight { tenant: "batch".into() };
        server.change_behind(&knob, &Setting::Weight(LOW_WEIGHT)).ok()?;
    }
    measured(&mut server, qps, percentile)
}

/// What websearch is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) cores_percent: u32,
    /// Of its last-level cache; none = all.
    pub(super) ways: Option<u32>,
}

/// The tail of websearch alone, at a load that is 1 where all cores are as busy as fitted.
pub(super) fn websearch_tail_s(room: Room, load: f64) -> Option<f64> {
    let (numbers, machine) = (&HERACLES[0], one_socket());
    let cores = machine.cores() as u32;
    let own = (cores * room.cores_percent).div_ceil(100).max(1);
    let full = f64::from(cores) * numbers.utilisation * requests_per_s(&machine, numbers)?;
    let qps = load * full;
    let mut server = server(&machine, numbers, own, qps, Antagonist::Nobody)?;
    if let Some(ways) = room.ways {
        let knob = Knob::LlcWays { tenant: "service".into(), domain: 0 };
        server.change_behind(&knob, &Setting::Ways((1 << ways) - 1)).ok()?;
    }
    measured(&mut server, qps, SERVICES[0].2)
}

/// One of the host's two sockets.
fn one_socket() -> Machine {
    let mut machine = machine("haswell2");
    machine.sockets_per_server = 1;
    machine
}

/// Requests a second that a core does alone.
fn requests_per_s(machine: &Machine, numbers: &HeraclesNumbers) -> Option<f64> {
    Some(crate::pair_rate(machine, &numbers.program(), None)? / numbers.instructions)
}

/// A service on its first cores, an antagonist where it belongs.
fn server(
    machine: &Machine,
    numbers: &HeraclesNumbers,
    own: u32,
    qps: f64,
    beside: Antagonist,
) -> Option<SimServer> {
    let link: Link = "eth0".into();
    let mut scene = Scene::new(machine.clone(), SEED);
    scene.sensing.period = Duration::from_secs(10);
    let capacity = BytesPerSecond::from_bits(LINK_BITS_PER_S);
    scene.links = vec![LinkSpec { name: link.clone(), capacity }];
    scene.services = vec![service(numbers, own, qps, link.clone())];
    let (programs, seats) = antagonist(machine, beside, own)?;
    let spec =
        BatchSpec { name: "batch".into(), links: vec![link], takes_tasks: false, max_tasks: 0 };
    scene.batch = vec![SimBatch { spec, programs }];
    let mut server = SimServer::new(&scene).ok()?;
    for (tenant, cpus) in [("service", (0..own).collect::<CpuSet>()), ("batch", seats)] {
        if cpus.is_empty() {
            continue;
        }
        let knob = Knob::Cpus { tenant: tenant.into() };
        server.change_behind(&knob, &Setting::Cpus(cpus)).ok()?;
    }
    Some(server)
}

/// The lowest share of cgroup v1, of 1024.
const LOW_WEIGHT: u32 = 1;

/// The tail over some thousand requests.
fn measured(server: &mut SimServer, qps: f64, percentile: f64) -> Option<f64> {
    if qps <= 0.0 {
        return None;
    }
    let span = Duration::from_secs_f64(REQUESTS / qps);
    let mut look = |after: Duration| {
        let sample = server.sample(after, Scope::Full).ok()?;
        let requests = sample.tenants.get(&"service".into())?.requests.clone().ok()?;
        requests.latency_ns.ok()
    };
    let before = look(span / 10 + Duration::from_millis(500))?;
    Some(look(span)?.since(&before).quantile(percentile)? / 1e9)
}

/// What runs, and where.
fn antagonist(machine: &Machine, beside: Antagonist, own: u32) -> Option<(Vec<Program>, CpuSet)> {
    let cores = machine.cores() as u32;
    let rest: CpuSet = (own..cores).collect();
    let on_rest = |named: Program| Program { threads: (cores - own).max(1), ..named };
    Some(match beside {
        Antagonist::Nobody => (vec![], rest),
        Antagonist::Cache(percent) => {
            let bytes = machine.cache.bytes * u64::from(percent) / 100;
            (vec![on_rest(Program::stream_of(bytes))], rest)
        }
        Antagonist::Memory => (vec![on_rest(program("stream-dram")?)], rest),
        Antagonist::Power => (vec![on_rest(program("power-virus")?)], rest),
        Antagonist::Network => (vec![program("iperf")?], rest),
        Antagonist::Siblings => {
            let spin = Program { threads: own, ..program("integer")? };
            (vec![spin], (cores..cores + own).collect())
        }
        Antagonist::Floating => {
            (vec![Program { threads: own, ..program("phased")? }], (0..own).collect())
        }
    })
}

fn service(numbers: &HeraclesNumbers, workers: u32, qps: f64, link: Link) -> SimService {
    SimService {
        spec: ServiceSpec {
            name: "service".into(),
            slo: Slo { percentile_frac: 0.99, target_s: 0.1 },
            peak_qps: None,
            links: vec![link],
        },
        program: numbers.program(),
        workers,
        instructions: numbers.instructions,
        variation: numbers.variation,
        request_bytes: 100,
        response_bytes: 1_000,
        load: Load::Constant(qps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_at_most_a_third_of_the_cells() {
        let fits: Vec<Fit> = (0..SERVICES.len()).map(heracles).collect();
        let parameters: usize = fits.iter().map(|fit| fit.parameters.len()).sum();
        let cells: usize = fits.iter().map(|fit| fit.cells.len()).sum();
        assert!(3 * parameters <= cells, "{parameters} parameters for {cells} cells");
        for (service, fit) in fits.iter().enumerate() {
            assert_eq!(numbers_of(fit.name, &fit.shipped), HERACLES[service]);
        }
    }
}
