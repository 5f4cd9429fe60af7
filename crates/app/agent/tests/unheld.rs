//! A culprit whom CPU bandwidth does not hold, on the simulated 2-vCPU machine: a loop of a real-time class, which
//! runs before a service and innocents. Engine, law `culprit` and platform as in `quell guard`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{busy, sleeper};
use quell_control::{Engine, EngineParams};
use quell_platform::{Platform, Scope};
use quell_policy::{Law, LawParams, build};
use quell_sim::{Scene, SimServer};
use quell_types::*;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(250);
const SECONDS: u32 = 60;
/// What it may be held for at a stretch, in steps.
const HELD_STEPS: usize = 15;

/// One step of a run.
struct Step {
    frozen: bool,
    limited: bool,
    used_cpus: f64,
    /// Whom else anything was set of.
    others: Vec<Knob>,
}

fn scene(seed: u64, culprit: &str) -> Scene {
    let mut scene = common::scene("vm2", seed, 1_200.0);
    scene.batch = vec![sleeper(&mut scene, "a", 0.15), sleeper(&mut scene, "b", 0.2)];
    scene.batch.push(busy("first", culprit));
    scene
}

/// Plays law `culprit`; afterwards every knob must be as found.
fn play(scene: &Scene) -> Vec<Step> {
    let mut server = SimServer::new(scene).unwrap();
    let found = server.sample(STEP, Scope::Full).unwrap().knobs;
    let policies = build(Law::Culprit, &LawParams::default()).unwrap();
    let mut engine = Engine::new(server.setup().clone(), policies, EngineParams::default());
    let mut steps: Vec<Step> = Vec::new();
    let (mut frozen, mut limited, mut before_ns) = (false, false, 0);
    for _ in 0..4 * SECONDS {
        let sample = server.sample(STEP, Scope::Full).unwrap();
        let cpu_ns = server.truth().cpu_ns[&"first".into()];
        let used_cpus = (cpu_ns - before_ns) as f64 / STEP.as_nanos() as f64;
        before_ns = cpu_ns;
        steps.push(Step { frozen, limited, used_cpus, others: Vec::new() });
        for action in &engine.step(&sample).actions {
            server.apply(action).unwrap();
            let Action::Set { knob, to } = action else { continue };
            let its = knob.tenant().is_some_and(|tenant| tenant.as_str() == "first");
            match (knob, to) {
                (Knob::Frozen { .. }, Setting::Flag(to)) if its => frozen = *to,
                (Knob::CpuBandwidth { .. }, Setting::Bandwidth(to)) if its => {
                    limited = to.limit_cpus.is_some();
                }
                (Knob::Frozen { .. } | Knob::CpuBandwidth { .. }, _) => {
                    steps.last_mut().unwrap().others.push(knob.clone());
                }
                _ => {}
            }
        }
    }
    server.restore().unwrap();
    assert_eq!(server.sample(STEP, Scope::Full).unwrap().knobs, found);
    steps
}

fn mean_cpus(steps: &[Step]) -> f64 {
    steps.iter().map(|step| step.used_cpus).sum::<f64>() / steps.len() as f64
}

#[test]
fn who_runs_on_under_its_limit_is_held_by_turns() {
    for seed in [1, 2, 3] {
        let steps = play(&scene(seed, "real-time"));
        assert!(steps.iter().all(|step| step.others.is_empty()), "seed {seed}: innocents are left");
        let begin = steps.iter().position(|step| step.frozen);
        let begin = begin.unwrap_or_else(|| panic!("seed {seed}: it is never held"));
        let limited = steps[..begin].iter().rev().take_while(|step| step.limited).count();
        let runs_on = mean_cpus(&steps[begin - limited..begin]);
        assert!(runs_on > 0.7, "seed {seed}: it has {runs_on} of a CPU under its limit");
        let term = steps[begin..].iter().take_while(|step| step.limited).count();
        let term = &steps[begin..begin + term];
        let used_cpus = mean_cpus(term);
        assert!(term.len() > 60 && used_cpus < 0.2, "seed {seed}: {used_cpus}, {}", term.len());
        let held = term.chunk_by(|a, b| a.frozen == b.frozen).filter(|same| same[0].frozen);
        let longest = held.map(<[Step]>::len).max();
        assert!(longest <= Some(HELD_STEPS), "seed {seed}: held for {longest:?} steps");
    }
}

#[test]
fn whom_its_limit_holds_is_never_frozen() {
    let steps = play(&scene(1, "integer"));
    assert!(steps.iter().all(|step| !step.frozen && step.others.is_empty()));
}
