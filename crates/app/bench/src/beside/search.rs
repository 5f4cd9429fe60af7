//! The service `search` on one CPU under open-loop load, pressure on the other: how much longer its
//! requests take, in work and at the tail.

use super::report::{BesideRow, Part, Rows, SearchAlone};
use super::{Ground, Neighbour};
use crate::machine::on_cpu;
use anyhow::Context as _;
use quell_calibrate::{Twin, pair_rate};
use quell_platform::{Platform as _, Scope};
use quell_service::{
    Bench, Controls, Extent, LoadPlan, Profile, RunReport, SearchParams, ServiceSpec, Target,
};
use quell_sim::{Load, Program, Scene, SimBatch, SimServer, SimService};
use quell_types::{BatchSpec, CpuSet, Knob, LogHistogram, Setting, Slo};
use std::time::Duration;

/// Shares of what the CPU can do.
const LOADS: [f64; 2] = [0.3, 0.6];
/// Requests per second at which a request is measured first.
const FEELER_QPS: f64 = 100.0;
const FEELER_S: f64 = 3.0;
const WARM_S: f64 = 0.5;
const LOOK_S: f64 = 3.0;
/// A neighbour has filled its part of the caches by then.
const SETTLE: Duration = Duration::from_millis(500);
/// Of a run in the preset.
const SIMULATED: Duration = Duration::from_secs(120);

/// What came of a run.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    work_s: f64,
    p95_s: f64,
}

const WORK: &str = "mean work of a request";
const TAIL: &str = "p95";

pub(super) fn run(ground: &Ground<'_>) -> anyhow::Result<(SearchAlone, Vec<BesideRow>)> {
    let bench = open()?;
    let pressure = ground.pressure()?;
    let alone = feel(ground, &bench)?;
    let mut rows = Rows::default();
    ground.rounds(&mut rows, |rows| {
        for share in LOADS {
            let measure = || Outcome::of(&load(ground, &bench, share / alone.work_s, LOOK_S)?);
            let before = measure()?;
            for neighbour in Neighbour::FULL {
                pressure.wake(neighbour)?;
                std::thread::sleep(SETTLE);
                let beside = measure()?;
                pressure.sleep();
                for (what, ratio) in before.ratios(beside) {
                    rows.see(&words(what, share, neighbour), "times as long", false, ratio);
                }
            }
        }
        Ok(())
    })?;
    Ok((alone, rows.of(Part::Search)))
}

/// How a request works when nothing else runs.
pub(super) fn alone(ground: &Ground<'_>) -> anyhow::Result<SearchAlone> {
    feel(ground, &open()?)
}

fn open() -> anyhow::Result<Bench> {
    let spec = ServiceSpec::Search(SearchParams::default());
    Ok(Bench::open(&Target::Integrated { spec, threads: 1 }, None)?)
}

fn feel(ground: &Ground<'_>, bench: &Bench) -> anyhow::Result<SearchAlone> {
    alone_of(&load(ground, bench, FEELER_QPS, FEELER_S)?)
}

fn words(what: &str, share: f64, neighbour: Neighbour) -> String {
    format!("search at {:.0} % load, {what}, beside {neighbour}", 100.0 * share)
}

/// A run of the load; generator and worker on the first CPU.
fn load(ground: &Ground<'_>, bench: &Bench, qps: f64, seconds: f64) -> anyhow::Result<RunReport> {
    ground.interrupt.check()?;
    let plan = LoadPlan {
        profile: Profile::Constant { qps },
        warmup: Extent::Seconds(WARM_S),
        measured: Extent::Seconds(seconds),
        drain_s: 1.0,
        ..LoadPlan::default()
    };
    let run = || bench.run(&plan, &Controls::default(), &mut |_| ());
    Ok(on_cpu(ground.seats.first, run)??)
}

fn alone_of(run: &RunReport) -> anyhow::Result<SearchAlone> {
    let service = run.service.as_ref().context("the service does not tell its times")?;
    Ok(SearchAlone {
        work_s: service.mean_ms / 1e3,
        variation: log_normal_variation(service.p50_ms, service.p95_ms),
    })
}

/// The coefficient of variation of a log-normal time with this median and 95th percentile.
fn log_normal_variation(p50: f64, p95: f64) -> f64 {
    const Z95: f64 = 1.644_854;
    let sigma = libm::log(p95 / p50).max(0.0) / Z95;
    libm::sqrt(libm::expm1(sigma * sigma))
}

impl Outcome {
    fn of(run: &RunReport) -> anyhow::Result<Self> {
        let service = run.service.as_ref().context("the service does not tell its times")?;
        Ok(Self { work_s: service.mean_ms / 1e3, p95_s: run.sojourn.p95_ms / 1e3 })
    }

    fn ratios(self, beside: Outcome) -> [(&'static str, f64); 2] {
        [(WORK, beside.work_s / self.work_s), (TAIL, beside.p95_s / self.p95_s)]
    }
}

/// What the preset says of a figure of this part.
pub(super) fn simulated(twin: &Twin, alone: SearchAlone, what: &str) -> Option<f64> {
    let cases = LOADS.into_iter().flat_map(|share| Neighbour::FULL.map(|n| (share, n)));
    for (share, neighbour) in cases {
        for measure in [WORK, TAIL] {
            if words(measure, share, neighbour) == what {
                let before = played(twin, alone, share, None)?;
                let beside = played(twin, alone, share, Some(neighbour.program(twin)))?;
                return before.ratios(beside).into_iter().find(|(m, _)| *m == measure).map(|r| r.1);
            }
        }
    }
    None
}

/// The service in the preset, told how long a request works alone.
fn played(twin: &Twin, alone: SearchAlone, share: f64, beside: Option<Program>) -> Option<Outcome> {
    let machine = twin.machine();
    let program = twin.search();
    let speed = pair_rate(machine, &program, None)?;
    let mut scene = Scene::new(machine.clone(), 7);
    scene.services = vec![service(&program, alone, alone.work_s * speed, share)];
    let spec = BatchSpec { name: "beside".into(), links: vec![], takes_tasks: false, max_tasks: 0 };
    scene.batch = vec![SimBatch { spec, programs: beside.into_iter().collect() }];
    let mut server = SimServer::new(&scene).ok()?;
    for (tenant, cpu) in [("search", 0), ("beside", 1)] {
        let knob = Knob::Cpus { tenant: tenant.into() };
        server.change_behind(&knob, &Setting::Cpus(CpuSet::of(cpu))).ok()?;
    }
    let before = counts(&mut server, Duration::from_secs(5))?;
    let after = counts(&mut server, SIMULATED)?;
    let latencies = after.0.since(&before.0);
    Some(Outcome {
        work_s: (after.1 - before.1) as f64 / 1e9 / latencies.count() as f64,
        p95_s: latencies.quantile(0.95)? / 1e9,
    })
}

fn service(program: &Program, alone: SearchAlone, instructions: f64, share: f64) -> SimService {
    SimService {
        spec: quell_types::ServiceSpec {
            name: "search".into(),
            slo: Slo { percentile_frac: 0.95, target_s: 0.015 },
            peak_qps: None,
            links: vec![],
        },
        program: program.clone(),
        workers: 1,
        instructions,
        variation: alone.variation,
        request_bytes: 100,
        response_bytes: 1_000,
        load: Load::Constant(share / alone.work_s),
    }
}

/// Latencies and CPU time so far.
fn counts(server: &mut SimServer, after: Duration) -> Option<(LogHistogram, u64)> {
    let sample = server.sample(after, Scope::Full).ok()?;
    let latencies = sample.tenants.get(&"search".into())?.requests.clone().ok()?.latency_ns.ok()?;
    let cpu_ns = server.truth().cpu_ns.get(&"search".into()).copied()?;
    Some((latencies, cpu_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_follows_from_two_percentiles() {
        assert_eq!(log_normal_variation(1.0, 1.0), 0.0);
        // sigma 0.5: p95/p50 = exp(0.822), variation sqrt(exp(0.25) - 1).
        let found = log_normal_variation(2.0, 2.0 * (0.5f64 * 1.644_854).exp());
        assert!((found - (0.25f64.exp() - 1.0).sqrt()).abs() < 1e-9, "{found}");
    }
}
