//! Who is it? On the simulated 2-vCPU machine, without counters: engine, law and platform as in
//! `quell who`.
#![allow(clippy::unwrap_used)]

use quell_control::{Engine, EngineParams};
use quell_model::blame::{Finding, Resource, Standing};
use quell_platform::{Platform, Scope};
use quell_policy::{Policy, Who, WhoParams};
use quell_sim::{Load, Scene, SimBatch, SimServer, SimService, preset, program};
use quell_types::*;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(250);

/// A search service beside groups of one program each, few enough that it is not starved of CPU.
fn scene(seed: u64, programs: [&str; 2]) -> Scene {
    let mut scene = Scene::new(preset("vm2").unwrap(), seed);
    scene.services = vec![SimService {
        spec: ServiceSpec {
            name: "search".into(),
            slo: Slo { percentile_frac: 0.95, target_s: 0.0026 },
            peak_qps: Some(4_000.0),
            links: vec![],
        },
        program: program("search").unwrap(),
        workers: 2,
        instructions: 1.2e6,
        variation: 0.5,
        request_bytes: 100,
        response_bytes: 2_000,
        load: Load::Constant(1_000.0),
    }];
    let batch = |(name, what): (&str, &str)| SimBatch {
        spec: BatchSpec { name: name.into(), links: vec![], takes_tasks: false, max_tasks: 0 },
        programs: vec![program(what).unwrap()],
    };
    scene.batch = ["a", "b"].into_iter().zip(programs).map(batch).collect();
    scene
}

/// Looks for so many seconds; what is said, and for how long each group was held in all.
fn look(scene: &Scene, seconds: u32) -> (Finding, Duration) {
    let mut server = SimServer::new(scene).unwrap();
    let found = server.sample(STEP, Scope::Full).unwrap().knobs;
    let policies: Vec<Box<dyn Policy>> = vec![Box::new(Who::new(WhoParams::default()))];
    let mut engine = Engine::new(server.setup().clone(), policies, EngineParams::default());
    let mut held = Duration::ZERO;
    for _ in 0..4 * seconds {
        let sample = server.sample(STEP, Scope::Full).unwrap();
        let chips = sample.experiments.iter().flat_map(|trace| &trace.chips);
        held += chips.filter(|c| !c.running).map(|c| c.to.since(c.from)).sum::<Duration>();
        for action in &engine.step(&sample).actions {
            assert!(matches!(action, Action::Play(_)), "it touches nothing else: {action:?}");
            server.apply(action).unwrap();
        }
    }
    server.restore().unwrap();
    assert_eq!(server.sample(STEP, Scope::Full).unwrap().knobs, found);
    (engine.findings()[&"search".into()].clone(), held)
}

fn named(finding: &Finding) -> Vec<&str> {
    let named = finding.culprits.iter().filter(|c| c.status == Standing::Named);
    named.map(|c| c.workload.as_str()).collect()
}

#[test]
fn the_stream_beside_an_innocent_is_found_and_nobody_else_is_named() {
    for (seed, place) in [(1, 0), (2, 1), (3, 0)] {
        let mut programs = ["integer"; 2];
        programs[place] = "stream-dram";
        let (finding, held) = look(&scene(seed, programs), 90);
        let name = ["a", "b"][place];
        let others = named(&finding).into_iter().filter(|n| *n != name).count();
        let found = finding.culprits.iter().find(|c| c.resource == Resource::Memory);
        let found = found.filter(|c| c.workload.as_str() == name && c.confidence > 0.9);
        assert!(others == 0 && found.is_some(), "{finding:#?}");
        assert!(finding.slowdown > 1.05, "{finding:#?}");
        assert!(held > Duration::ZERO);
    }
}

#[test]
fn innocents_alone_are_not_named() {
    for seed in 1..=5 {
        let (finding, _) = look(&scene(seed, ["integer"; 2]), 25);
        assert!(named(&finding).is_empty(), "seed {seed}: {finding:#?}");
    }
}
