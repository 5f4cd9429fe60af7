//! A service of Heracles on one socket of its host, beside an antagonist (H-5).

use super::super::{SEED, machine};
use super::{Antagonist, TOLD};
use quell_platform::{Platform as _, Scope};
use quell_sim::calibrated::{HERACLES, HeraclesNumbers};
use quell_sim::{Load, Machine, Program, SimBatch, SimServer, SimService, program};
use quell_types::{
    BatchSpec, BytesPerSecond, CpuSet, Knob, Link, LinkSpec, ServiceSpec, Setting, Slo,
};
use std::time::Duration;

/// Requests of a run.
const REQUESTS: f64 = 4_000.0;
/// Of the link; assumed.
const LINK_BITS_PER_S: f64 = 10e9;
/// The lowest share of cgroup v1, of 1024: what is left of batch's claim in *OS only*.
const LOW_WEIGHT: u32 = 1;
/// Greedy flows in place of many of low rate: as many as fill the 1,000 packets that a Linux link
/// lets wait, since the model's flows are not refused by a full queue.
const FLOWS: u32 = 3;
/// Mean work of a request, assumed: tens of ms at its tail, and hundreds of µs (H-4).
const WORK: f64 = 12e6;
const SHORT_WORK: f64 = 0.3e6;

/// The machine, the service, and what it does alone.
pub(super) struct Rig<'a> {
    machine: Machine,
    numbers: &'a HeraclesNumbers,
    /// Requests/s that a core does when it does nothing else.
    per_core: Option<f64>,
}

/// What websearch is given.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Room {
    pub(in super::super) cores_percent: u32,
    /// Of its last-level cache; none = all.
    pub(in super::super) ways: Option<u32>,
}

/// The tail of websearch alone, at a load that is 1 where all cores are as busy as fitted.
pub(in super::super) fn websearch_tail_s(room: Room, load: f64) -> Option<f64> {
    let rig = Rig::new(&HERACLES[0]);
    let own = rig.cores(room.cores_percent);
    let qps = load * rig.qps(rig.cores(100))?;
    let mut server = rig.server(own, qps, Antagonist::Nobody)?;
    if let Some(ways) = room.ways {
        let knob = Knob::LlcWays { tenant: "service".into(), domain: 0 };
        server.change_behind(&knob, &Setting::Ways((1 << ways) - 1)).ok()?;
    }
    tail_of(&mut server, qps, TOLD[0].percentile)
}

/// Mean work of a request in instructions.
fn work(numbers: &HeraclesNumbers) -> f64 {
    if numbers.name == "memkeyval" { SHORT_WORK } else { WORK }
}

impl<'a> Rig<'a> {
    pub(super) fn new(numbers: &'a HeraclesNumbers) -> Self {
        let mut machine = machine("haswell2");
        machine.sockets_per_server = 1;
        let rate = crate::pair_rate(&machine, &numbers.program(), None);
        Self { machine, numbers, per_core: rate.map(|rate| rate / work(numbers)) }
    }

    /// The tail on cores in proportion to the load, both in percent.
    pub(super) fn tail_s(&self, load: u32, beside: Antagonist, percentile: f64) -> Option<f64> {
        let own = self.cores(load);
        let qps = self.qps(own)?;
        let mut server = self.server(own, qps, beside)?;
        tail_of(&mut server, qps, percentile)
    }

    /// What the service alone takes of the memory's bandwidth.
    pub(super) fn bandwidth_percent(&self, load: u32) -> Option<f64> {
        let own = self.cores(load);
        let mut server = self.server(own, self.qps(own)?, Antagonist::Nobody)?;
        let span = Duration::from_secs(2);
        let mut moved = || {
            server.advance(span);
            server.truth().traffic_bytes.get(&"service".into()).copied()
        };
        let grown = -(moved()? - moved()?);
        Some(100.0 * grown / span.as_secs_f64() / self.machine.memory.bytes_per_s)
    }

    fn cores(&self, percent: u32) -> u32 {
        (self.machine.cores() as u32 * percent).div_ceil(100).max(1)
    }

    /// Requests/s on so many cores.
    fn qps(&self, own: u32) -> Option<f64> {
        Some(f64::from(own) * self.numbers.utilisation * self.per_core?)
    }

    /// The service on its first cores, an antagonist where it belongs.
    fn server(&self, own: u32, qps: f64, beside: Antagonist) -> Option<SimServer> {
        let link: Link = "eth0".into();
        let mut scene = crate::exact(self.machine.clone(), SEED);
        scene.sensing.period = Duration::from_secs(10);
        let capacity = BytesPerSecond::from_bits(LINK_BITS_PER_S);
        scene.links = vec![LinkSpec { name: link.clone(), capacity }];
        scene.services = vec![self.service(own, qps, link.clone())];
        let (programs, seats) = self.antagonist(beside, own)?;
        let links = vec![link];
        let spec = BatchSpec { name: "batch".into(), links, takes_tasks: false, max_tasks: 0 };
        scene.batch = vec![SimBatch { spec, programs }];
        let mut server = SimServer::new(&scene).ok()?;
        for (tenant, cpus) in [("service", (0..own).collect::<CpuSet>()), ("batch", seats)] {
            let knob = Knob::Cpus { tenant: tenant.into() };
            if !cpus.is_empty() {
                server.change_behind(&knob, &Setting::Cpus(cpus)).ok()?;
            }
        }
        if beside == Antagonist::Floating {
            let knob = Knob::CpuWeight { tenant: "batch".into() };
            server.change_behind(&knob, &Setting::Weight(LOW_WEIGHT)).ok()?;
        }
        Some(server)
    }

    /// What runs, and where. Where the service has all cores, others have none of their own.
    fn antagonist(&self, beside: Antagonist, own: u32) -> Option<(Vec<Program>, CpuSet)> {
        let cores = self.machine.cores() as u32;
        let rest: CpuSet = (own.min(cores - 1)..cores).collect();
        let threads = rest.len() as u32;
        let one = |program: Program| Some((vec![Program { threads, ..program }], rest.clone()));
        match beside {
            Antagonist::Nobody => Some((vec![], CpuSet::default())),
            Antagonist::Cache(percent) => {
                one(Program::stream_of(self.machine.cache.bytes * u64::from(percent) / 100))
            }
            Antagonist::Memory => one(program("stream-dram")?),
            Antagonist::Power => one(program("power-virus")?),
            Antagonist::Network => {
                Some((vec![Program { threads: FLOWS, ..program("iperf")? }], rest))
            }
            Antagonist::Siblings => {
                let spin = Program { threads: own, ..program("integer")? };
                Some((vec![spin], (cores..cores + own).collect()))
            }
            Antagonist::Floating => {
                let brain = Program { threads: own, ..program("phased")? };
                Some((vec![brain], (0..own).collect()))
            }
        }
    }

    fn service(&self, workers: u32, qps: f64, link: Link) -> SimService {
        SimService {
            spec: ServiceSpec {
                name: "service".into(),
                slo: Slo { percentile_frac: 0.99, target_s: 0.1 },
                peak_qps: None,
                links: vec![link],
            },
            program: self.numbers.program(),
            workers,
            instructions: work(self.numbers),
            variation: self.numbers.variation,
            request_bytes: 100,
            response_bytes: 1_000,
            load: Load::Constant(qps),
        }
    }
}

/// The tail over some thousand requests.
fn tail_of(server: &mut SimServer, qps: f64, percentile: f64) -> Option<f64> {
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
