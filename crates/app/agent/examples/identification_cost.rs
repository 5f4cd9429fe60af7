//! What finding out who slows a service costs, with 100 batch groups: CPU time of everything that
//! decides, as a share of one CPU, under law `none`, law `who` and law `culprit`; and for how much
//! of its time the group that was held most was held.
//!
//! The readings come from a simulated server, whose own time is not counted; to take them on a real
//! one costs what `quell-linux`'s example `sampling_cost` says. Run on a quiet machine:
//! `cargo run --release -p quell-agent --example identification_cost`. Targets: 0.5 % for naming, 1 %
//! of a group's time (beyond what its banks begin with); the exit status tells
//! whether they were met.

#[path = "../tests/common/mod.rs"]
mod common;

use quell_control::{Engine, EngineParams};
use quell_platform::{Platform, Scope};
use quell_policy::{Law, LawParams, Policy, Who, WhoParams, build};
use quell_sim::{Scene, SimServer};
use quell_types::{ExperimentTrace, Tenant};
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
/// What banks begin with: that for usual looks, and that for long ones.
const FIRST_HELD_S: f64 = 0.9;

type Failed = Box<dyn Error>;

/// A search service beside 99 groups that use 0.05 to 0.25 CPUs and sleep, and one that streams.
fn scene() -> Scene {
    let mut scene = common::scene("platinum-8163", 1, 4_000.0);
    // What is read of a real machine with eBPF.
    scene.machine.lock_gauge = true;
    scene.services[0].workers = 8;
    scene.services[0].spec.peak_qps = Some(20_000.0);
    scene.batch = vec![common::busy(&name(0), "stream-dram")];
    for number in 1..GROUPS {
        let cpus = 0.05 + 0.05 * (number % 5) as f64;
        let group = common::sleeper(&mut scene, &name(number), cpus);
        scene.batch.push(group);
    }
    scene
}

fn name(number: usize) -> String {
    format!("group-{number:03}")
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
    let mut server = SimServer::new(&scene())?;
    let mut engine = Engine::new(server.setup().clone(), policies, EngineParams::default());
    let (mut spent, mut slowest, mut held) = (Duration::ZERO, Duration::ZERO, BTreeMap::new());
    for _ in 0..STEPS {
        let sample = server.sample(STEP, Scope::Full)?;
        count_held(&sample.experiments, &mut held);
        let before = cpu_time();
        let decision = engine.step(&sample);
        // The agent shows that at each sample, too.
        std::hint::black_box(engine.pressing());
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
         {held_percent:.2} % of a group's time beyond its first {FIRST_HELD_S} s (target \
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
