//! Simulated cells: the service on cores of its own, the antagonist beside it, on the thesis' first
//! host (T-4); the tail alone in milliseconds on its second one (T-24), where it was published.

use crate::cells::{Beside, Cell, Service};
use crate::guess::Guess;
use quell_platform::{Platform, Scope};
use quell_sim::calibrated::ServiceNumbers;
use quell_sim::{Load, Program, Scene, SimBatch, SimServer, SimService, preset, program};
use quell_types::{
    BatchSpec, BytesPerSecond, Knob, LinkSpec, LogHistogram, ServiceSpec, Setting, Slo,
};
use std::collections::BTreeMap;
use std::time::Duration;

const SEED: u64 = 7;
/// The array that sweeps memory.
const LARGE: u64 = 1 << 30;

/// The thesis' hosts.
const FIRST_HOST: &str = "i9-7960x";
pub(crate) const SECOND_HOST: &str = "e5-2683v4";

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) service: Service,
    /// In percent of full load.
    pub(crate) load: u32,
    pub(crate) beside: Beside,
    /// Mbit/s of the link, if the service answers over one.
    pub(crate) link: Option<u32>,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// The 95th percentile in seconds.
    pub(crate) tail_s: f64,
    pub(crate) memory_bytes_per_s: f64,
}

/// Runs scenes, and remembers what came of them.
pub(crate) struct Bench {
    requests: u32,
    known: BTreeMap<String, f64>,
}

impl Bench {
    pub(crate) fn new(requests: u32) -> Self {
        Self { requests, known: BTreeMap::new() }
    }

    /// The cell as simulated: tail beside the antagonist in % of that alone, or alone in µs.
    pub(crate) fn simulate(&mut self, guess: &Guess, cell: &Cell) -> f64 {
        let link = match cell.beside {
            Beside::Network(mbit) => Some(mbit),
            _ => None,
        };
        let run = |beside| Run { service: cell.service, load: cell.load_percent, beside, link };
        if cell.beside == Beside::Nobody {
            return 1e6 * self.tail_s(guess, SECOND_HOST, run(Beside::Nobody));
        }
        let alone = self.tail_s(guess, FIRST_HOST, run(Beside::Nobody));
        100.0 * self.tail_s(guess, FIRST_HOST, run(cell.beside)) / alone
    }

    /// The 95th percentile in seconds.
    fn tail_s(&mut self, guess: &Guess, host: &str, run: Run) -> f64 {
        let scene = scene(guess, host, run);
        let key = format!("{scene:?}{:?}", run.beside);
        if let Some(tail) = self.known.get(&key) {
            return *tail;
        }
        let made = guess.made(run.service);
        let qps = made.full_qps * f64::from(run.load) / 100.0;
        let span = Duration::from_secs_f64(f64::from(self.requests) / qps);
        let measured = measure(&scene, made.workers, run.beside, span);
        let tail = measured.map_or(f64::NAN, |m| m.tail_s);
        self.known.insert(key, tail);
        tail
    }

    /// A run as a whole, not remembered.
    pub(crate) fn run(&self, guess: &Guess, host: &str, run: Run) -> Option<Measured> {
        let made = guess.made(run.service);
        let qps = made.full_qps * f64::from(run.load) / 100.0;
        let span = Duration::from_secs_f64(f64::from(self.requests) / qps);
        measure(&scene(guess, host, run), made.workers, run.beside, span)
    }
}

fn scene(guess: &Guess, host: &str, run: Run) -> Scene {
    let mut machine = preset(host).unwrap_or_else(|| unreachable!("a preset of ours"));
    // An inclusive cache holds all that private ones do, by its kind: there is nothing to fit.
    if machine.cache.inclusion < 1.0 {
        machine.cache.inclusion = guess.inclusion();
    }
    let made = guess.made(run.service);
    let link = run.link.map(|mbit| LinkSpec {
        name: "eth0".into(),
        capacity: BytesPerSecond::from_bits(f64::from(mbit) * 1e6),
    });
    let links: Vec<quell_types::Link> = link.iter().map(|l| l.name.clone()).collect();
    let mut scene = crate::exact(machine, SEED);
    scene.flow = guess.flow();
    scene.sensing.period = Duration::from_secs(10);
    scene.links = link.into_iter().collect();
    scene.services = vec![service(&made, links.clone(), run.load)];
    let spec = BatchSpec { name: "batch".into(), links, takes_tasks: false, max_tasks: 0 };
    let programs = antagonist(guess, run.beside, made.workers, scene.machine.cache.bytes);
    scene.batch = vec![SimBatch { spec, programs }];
    scene
}

fn service(made: &ServiceNumbers, links: Vec<quell_types::Link>, load: u32) -> SimService {
    SimService {
        spec: ServiceSpec {
            name: "service".into(),
            slo: Slo { percentile_frac: 0.95, target_s: 0.015 },
            peak_qps: None,
            links,
        },
        program: made.program(),
        workers: made.workers,
        instructions: made.instructions,
        variation: made.variation,
        request_bytes: 100,
        response_bytes: 1_000,
        load: Load::Constant(made.full_qps * f64::from(load) / 100.0),
    }
}

fn antagonist(guess: &Guess, beside: Beside, workers: u32, llc_bytes: u64) -> Vec<Program> {
    let named = |name: &str, threads: u32| {
        program(name).map(|program| Program { threads, ..program }).into_iter().collect()
    };
    match beside {
        Beside::Nobody => Vec::new(),
        Beside::Cache(percent) => {
            let array = Program::stream_of(llc_bytes * u64::from(percent) / 100);
            vec![Program { threads: guess.sweepers(), ..array }]
        }
        Beside::Memory => {
            vec![Program { threads: guess.sweepers(), ..Program::stream_of(LARGE) }]
        }
        Beside::Sibling => named("integer", workers),
        Beside::Network(_) => named("iperf", 1),
    }
}

/// Runs a scene for a tenth of a span to settle, then for the span.
fn measure(scene: &Scene, workers: u32, beside: Beside, span: Duration) -> Option<Measured> {
    let mut server = SimServer::new(scene).ok()?;
    let cores = scene.machine.cores() as u32;
    let others = match beside {
        Beside::Sibling => cores..cores + workers,
        _ => workers..cores,
    };
    for (tenant, cpus) in [("service", 0..workers), ("batch", others)] {
        let knob = Knob::Cpus { tenant: tenant.into() };
        server.change_behind(&knob, &Setting::Cpus(cpus.collect())).ok()?;
    }
    let mut look = |after: Duration| -> Option<(LogHistogram, f64)> {
        let sample = server.sample(after, Scope::Full).ok()?;
        let service = sample.tenants.get(&"service".into())?.requests.clone().ok()?;
        let traffic = server.truth().traffic_bytes.values().sum();
        Some((service.latency_ns.ok()?, traffic))
    };
    let before = look(span / 10 + Duration::from_millis(500))?;
    let after = look(span)?;
    Some(Measured {
        tail_s: after.0.since(&before.0).quantile(0.95)? / 1e9,
        memory_bytes_per_s: (after.1 - before.1) / span.as_secs_f64(),
    })
}
