//! Over what do they fight? On a simulated server of twelve cores without counters, of which some
//! are idle: engine, law and platform as in `quell who`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{busy, group, search};
use quell_control::{Engine, EngineParams};
use quell_model::blame::{Finding, Resource, Standing};
use quell_platform::{Platform, Scope};
use quell_policy::{Law, LawParams, Policy, Who, WhoParams, build};
use quell_sim::{Machine, Memory, Program, Scene, SimServer, preset, program};
use std::time::Duration;

const STEP: Duration = Duration::from_millis(250);

/// With 2.5 GB/s of memory's bandwidth for each core.
fn machine() -> Machine {
    let server = preset("e5-2683v4").unwrap();
    Machine {
        cores_per_domain: 12,
        threads_per_core: 1,
        allocation: None,
        monitoring: false,
        lock_counter: false,
        memory: Memory { bytes_per_s: 30e9, ..server.memory },
        ..server
    }
}

/// A search service beside `jobs`, which runs these programs, and `calm`, which computes.
fn scene(seed: u64, programs: Vec<Program>) -> Scene {
    let mut scene = Scene::new(machine(), seed);
    let mut search = search(800.0);
    search.spec.slo.target_s = 0.01;
    scene.services = vec![search];
    scene.batch = vec![group("jobs", vec![], programs), busy("calm", "integer")];
    scene
}

/// What is said after so many seconds, and the CPU time that bursts took in all.
fn look(policy: Box<dyn Policy>, scene: &Scene, seconds: u32) -> (Finding, Duration) {
    let mut server = SimServer::new(scene).unwrap();
    let mut engine = Engine::new(server.setup().clone(), vec![policy], EngineParams::default());
    let mut used = Duration::ZERO;
    for _ in 0..4 * seconds {
        let sample = server.sample(STEP, Scope::Full).unwrap();
        let took = sample.bursts.iter().map(|trace| Duration::from_nanos(trace.report.cpu_ns));
        used += took.sum::<Duration>();
        for action in &engine.step(&sample).actions {
            server.apply(action).unwrap();
        }
    }
    (engine.findings()[&"search".into()].clone(), used)
}

fn who() -> Box<dyn Policy> {
    Box::new(Who::new(WhoParams::default()))
}

/// Who is named or suspected, and for what.
fn accused(finding: &Finding) -> Vec<(&str, Resource)> {
    finding.culprits.iter().map(|c| (c.workload.as_str(), c.resource)).collect()
}

/// Who is named.
fn named(finding: &Finding) -> Vec<(&str, Resource)> {
    let named = finding.culprits.iter().filter(|c| c.status == Standing::Named);
    named.map(|c| (c.workload.as_str(), c.resource)).collect()
}

fn tells(finding: &Finding) -> bool {
    finding.evidence.iter().any(|told| told.contains("bursts on idle") && told.contains("certain"))
}

#[test]
fn the_resource_is_told_of_who_is_accused() {
    let stream = || program("stream-dram").unwrap();
    let scenes: [(Vec<Program>, Resource); 3] = [
        (vec![program("split-lock").unwrap(); 2], Resource::BusLock),
        (vec![Program::stream_of(48 << 20); 2], Resource::LastLevelCache),
        (vec![stream(); 8], Resource::MemoryBandwidth),
    ];
    for (programs, resource) in scenes {
        for seed in 1..=20 {
            let (finding, used) = look(who(), &scene(seed, programs.clone()), 30);
            assert_eq!(accused(&finding), [("jobs", resource)], "seed {seed}: {finding:#?}");
            assert!(tells(&finding), "seed {seed}: {finding:#?}");
            assert!(used > Duration::ZERO && used <= Duration::from_millis(600), "{used:?}");
        }
    }
}

#[test]
fn beside_nobody_who_hurts_nothing_is_told() {
    for seed in 1..=20 {
        let programs = vec![program("integer").unwrap(); 3];
        let (finding, used) = look(who(), &scene(seed, programs), 30);
        assert!(named(&finding).is_empty(), "seed {seed}: {finding:#?}");
        assert!(!tells(&finding), "seed {seed}: {finding:#?}");
        assert!(used > Duration::from_millis(100), "it did look: {used:?}");
    }
}

#[test]
fn what_is_turned_off_is_off_and_memory_is_all_that_is_known_then() {
    let quiet = WhoParams { reporters: false, ..WhoParams::default() };
    let programs = vec![program("stream-dram").unwrap(); 8];
    let (finding, used) = look(Box::new(Who::new(quiet)), &scene(1, programs), 30);
    assert_eq!((accused(&finding), used), (vec![("jobs", Resource::Memory)], Duration::ZERO));
}

#[test]
fn law_culprit_tells_it_as_well_within_the_same_bounds() {
    let policy = build(Law::Culprit, &LawParams::default()).unwrap();
    let [policy] = <[_; 1]>::try_from(policy).unwrap_or_else(|_| panic!("one law"));
    let programs = vec![Program::stream_of(48 << 20); 2];
    let (finding, used) = look(policy, &scene(2, programs), 60);
    assert!(used > Duration::ZERO && used <= Duration::from_millis(600), "{used:?}");
    let told = finding.evidence.iter().any(|told| told.contains("bursts on idle CPU"));
    assert!(told || finding.culprits.is_empty(), "{finding:#?}");
}
