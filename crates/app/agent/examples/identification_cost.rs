//! What finding out who slows a service costs, with 100 batch groups: CPU time of everything that
//! decides, as a share of one CPU, under law `none`, law `who` and law `culprit`; and for how much
//! of its time the group that was held most was held.
//!
//! The readings come from a simulated server, whose own time is not counted; to take them on a real
//! one costs what `quell-linux`'s example `sampling_cost` says. Run on a quiet machine:
//! `cargo run --release -p quell-agent --example identification_cost`. Targets: 0.5 % for naming, 1 %
//! of a group's time (beyond the half second that each bank begins with); the exit status tells
//! whether they were met.

use quell_control::{Engine, EngineParams};
use quell_platform::{Platform, Scope};
use quell_policy::{Law, LawParams, Policy, Who, WhoParams, build};
use quell_sim::{Load, Scene, SimBatch, SimServer, SimService, preset, program};
use quell_types::{BatchSpec, BytesPerSecond, ExperimentTrace, LinkSpec, ServiceSpec, Slo, Tenant};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

const GROUPS: usize = 100;
const STEP: Duration = Duration::from_millis(250);
const STEPS: u32 = 240;
const TARGET_PERCENT: f64 = 0.5;
const HELD_TARGET_PERCENT: f64 = 1.0;
/// What a bank begins with.
const FIRST_HELD_S: f64 = 0.5;

type Failed = Box<dyn Error>;

/// A search service beside 99 groups that use 0.05 to 0.25 CPUs and sleep, and one that streams.
fn scene() -> Result<Scene, Failed> {
    let mut scene = Scene::new(preset("platinum-8163").ok_or("no such machine")?, 1);
    scene.services = vec![SimService {
        spec: ServiceSpec {
            name: "search".into(),
            slo: Slo { percentile_frac: 0.95, target_s: 0.0026 },
            peak_qps: Some(20_000.0),
            links: vec![],
        },
        program: program("search").ok_or("no such program")?,
        workers: 8,
        instructions: 1.2e6,
        variation: 0.5,
        request_bytes: 100,
        response_bytes: 2_000,
        load: Load::Constant(4_000.0),
    }];
    for number in 0..GROUPS {
        let batch = batch(&mut scene, number)?;
        scene.batch.push(batch);
    }
    Ok(scene)
}

fn batch(scene: &mut Scene, number: usize) -> Result<SimBatch, Failed> {
    let name = format!("group-{number:03}");
    let mut work = program(if number == 0 { "stream-dram" } else { "integer" }).ok_or("program")?;
    let mut links = Vec::new();
    if number > 0 {
        // It sends what it reckons, and sleeps while its link is full.
        let link = LinkSpec {
            name: format!("of-{name}").as_str().into(),
            capacity: BytesPerSecond(6e6 * (0.05 + 0.05 * (number % 5) as f64)),
        };
        links.push(link.name.clone());
        scene.links.push(link);
        work.phases[0].egress_per_ki = 1.0;
        work.phases[0].send_bytes = 10_000.0;
    }
    let name = name.as_str().into();
    let spec = BatchSpec { name, links, takes_tasks: false, max_tasks: 0 };
    Ok(SimBatch { spec, programs: vec![work] })
}

fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), spent.tv_nsec.unsigned_abs() as u32)
}

/// Adds for how long each group was held.
fn count_held(traces: &[ExperimentTrace], held: &mut BTreeMap<Tenant, Duration>) {
    for chip in traces.iter().flat_map(|trace| &trace.chips).filter(|chip| !chip.running) {
        for group in chip.group_cpu_ns.keys() {
            *held.entry(group.clone()).or_default() += chip.to.since(chip.from);
        }
    }
}

/// Shares in percent: of one CPU, and of the time of the group that was held most.
fn cost(name: &str, policies: Vec<Box<dyn Policy>>) -> Result<(f64, f64), Failed> {
    let mut server = SimServer::new(&scene()?)?;
    let mut engine = Engine::new(server.setup().clone(), policies, EngineParams::default());
    let (mut spent, mut slowest, mut held) = (Duration::ZERO, Duration::ZERO, BTreeMap::new());
    for _ in 0..STEPS {
        let sample = server.sample(STEP, Scope::Full)?;
        count_held(&sample.experiments, &mut held);
        let before = cpu_time();
        let decision = engine.step(&sample);
        let step = cpu_time().saturating_sub(before);
        spent += step;
        slowest = slowest.max(step);
        for action in &decision.actions {
            server.apply(action)?;
        }
    }
    let seconds = (STEP * STEPS).as_secs_f64();
    let percent = 100.0 * spent.as_secs_f64() / seconds;
    let longest = held.values().max().copied().unwrap_or_default().as_secs_f64();
    let held_percent = 100.0 * (longest - FIRST_HELD_S).max(0.0) / seconds;
    println!(
        "{name}: {percent:.3} % of one CPU, slowest step {slowest:.2?}; held at most {longest:.2} s \
         of {seconds:.0} s"
    );
    Ok((percent, held_percent))
}

fn run() -> Result<bool, Failed> {
    let law = |law| build(law, &LawParams::default());
    let (without, _) = cost("none", law(Law::None)?)?;
    let who = |reporters| -> Vec<Box<dyn Policy>> {
        vec![Box::new(Who::new(WhoParams { reporters, ..WhoParams::default() }))]
    };
    let looks = [
        cost("who without a reporter", who(false))?,
        cost("who", who(true))?,
        cost("culprit", law(Law::Culprit)?)?,
    ];
    let percent = looks.iter().map(|(percent, _)| percent - without).fold(0.0, f64::max);
    let held_percent = looks.iter().map(|(_, held)| *held).fold(0.0, f64::max);
    println!(
        "naming costs {percent:.3} % beyond law none (target {TARGET_PERCENT} %), looks \
         {held_percent:.2} % of a group's time beyond its first half second (target \
         {HELD_TARGET_PERCENT} %)"
    );
    Ok(percent <= TARGET_PERCENT && held_percent <= HELD_TARGET_PERCENT)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
