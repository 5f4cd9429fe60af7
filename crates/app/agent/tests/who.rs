//! Who is it? On the simulated 2-vCPU machine, without counters: engine, law and platform as in
//! `quell who`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{busy, sleeper};
use quell_control::{Engine, EngineParams};
use quell_model::blame::{Cause, Finding, Resource, Standing};
use quell_platform::{Platform, Scope};
use quell_policy::{Policy, Who, WhoParams};
use quell_sim::{Scene, SimServer};
use quell_types::*;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(250);

/// What a batch group does.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// A program of the library, one thread that never sleeps.
    Runs(&'static str),
    /// Arithmetic for this share of a CPU: it sends what it reckons on a link of its own, and sleeps
    /// while that is full.
    Sleeps(f64),
}

/// A search service beside one group for each work, named `a`, `b` and so on.
fn scene(seed: u64, work: &[Work]) -> Scene {
    let mut scene = common::scene("vm2", seed, 1_000.0);
    for (name, work) in GROUPS.iter().zip(work) {
        let group = match work {
            Work::Runs(what) => busy(name, what),
            Work::Sleeps(cpus) => sleeper(&mut scene, name, *cpus),
        };
        scene.batch.push(group);
    }
    scene
}

const GROUPS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const LOOP: Work = Work::Runs("integer");

/// Looks for so many seconds; what is said, and for how long each group was held in all.
fn look(scene: &Scene, seconds: u32) -> (Finding, Duration) {
    look_at(&mut SimServer::new(scene).unwrap(), seconds)
}

fn look_at(server: &mut SimServer, seconds: u32) -> (Finding, Duration) {
    let found = server.sample(STEP, Scope::Full).unwrap().knobs;
    let policies: Vec<Box<dyn Policy>> = vec![Box::new(Who::new(WhoParams::default()))];
    let mut engine = Engine::new(server.setup().clone(), policies, EngineParams::default());
    let mut held = Duration::ZERO;
    for _ in 0..4 * seconds {
        let sample = server.sample(STEP, Scope::Full).unwrap();
        let chips = sample.experiments.iter().flat_map(|trace| &trace.chips);
        held += chips.filter(|c| !c.running).map(|c| c.to.since(c.from)).sum::<Duration>();
        for action in &engine.step(&sample).actions {
            let looks = matches!(action, Action::Play(_) | Action::Burst(_));
            assert!(looks, "it touches nothing else: {action:?}");
            server.apply(action).unwrap();
        }
    }
    // A look that was still on its way has ended by then.
    let found_again = server.sample(Duration::from_secs(1), Scope::Full).unwrap().knobs;
    assert_eq!(found_again, found, "every freezer is as before");
    (engine.findings()[&"search".into()].clone(), held)
}

fn named(finding: &Finding) -> Vec<&str> {
    let named = finding.culprits.iter().filter(|c| c.status == Standing::Named);
    named.map(|c| c.workload.as_str()).collect()
}

#[test]
fn the_stream_beside_an_innocent_is_found_and_nobody_else_is_named() {
    for (seed, place) in [(1, 0), (2, 1), (3, 0)] {
        let mut work = [Work::Sleeps(0.3); 2];
        work[place] = Work::Runs("stream-dram");
        let (finding, _) = look(&scene(seed, &work), 30);
        assert_eq!(named(&finding), [GROUPS[place]], "{finding:#?}");
        assert!(finding.slowdown > 1.05, "{finding:#?}");
    }
}

#[test]
fn innocents_alone_are_not_named() {
    for seed in 1..=5 {
        let work = [0.1, 0.25, 0.4, 0.6].map(Work::Sleeps);
        let (finding, held) = look(&scene(seed, &work), 25);
        assert!(named(&finding).is_empty(), "seed {seed}: {finding:#?}");
        assert!(held > Duration::ZERO);
    }
}

#[test]
fn a_loop_among_those_who_sleep_is_named_for_the_cpu_and_nobody_else() {
    for seed in 1..=5 {
        let mut work = [0.1, 0.2, 0.3, 0.25, 0.15].map(Work::Sleeps);
        work[seed as usize % 5] = LOOP;
        let (finding, _) = look(&scene(seed, &work), 10);
        assert_eq!(named(&finding), [GROUPS[seed as usize % 5]], "seed {seed}: {finding:#?}");
        assert_eq!(finding.culprits[0].resource, Resource::Cpu);
    }
}

#[test]
fn who_works_at_a_fixed_rate_is_not_named_where_cpus_are_short_and_the_loop_is() {
    // About 1.2 CPUs besides the loop and the service, of two: the greediest is starved, more or less.
    let wanted = [[0.6, 0.2, 0.2, 0.1, 0.1], [0.5, 0.3, 0.2, 0.1, 0.1], [0.4, 0.3, 0.2, 0.2, 0.1]];
    let mut found = 0;
    for seed in 101..=124 {
        let mut work: Vec<Work> = wanted[seed as usize % 3].map(Work::Sleeps).to_vec();
        let place = seed as usize % GROUPS.len();
        work.insert(place, LOOP);
        let (finding, _) = look(&scene(seed, &work), 15);
        let named = named(&finding);
        assert!(named.iter().all(|name| *name == GROUPS[place]), "seed {seed}: {finding:#?}");
        found += usize::from(!named.is_empty());
    }
    assert!(found >= 22, "the loop was named in {found} of 24");
}

#[test]
fn who_want_more_together_than_there_is_are_not_named_and_the_finding_says_so() {
    // Beside 0.4 CPUs of the service, of two.
    let wanted = [[0.6, 0.6, 0.5, 0.5, 0.4], [0.6, 0.5, 0.5, 0.3, 0.2], [0.6, 0.6, 0.6, 0.1, 0.1]];
    let mut told = 0;
    for seed in 201..=236 {
        let work = wanted[seed as usize % 3].map(Work::Sleeps);
        let (finding, _) = look(&scene(seed, &work), 30);
        assert!(named(&finding).is_empty(), "seed {seed}: {finding:#?}");
        told += usize::from(finding.cause == Cause::Overcommitted);
    }
    // In half of these worlds, whatever the ticks; in the others some are still suspected.
    assert!(told >= 12, "overcommitted in {told} of 36");
}

#[test]
fn two_loops_are_named_both() {
    for seed in 1..=5 {
        let work = [Work::Sleeps(0.1), LOOP, LOOP, Work::Sleeps(0.1)];
        let (finding, _) = look(&scene(seed, &work), 30);
        let mut named = named(&finding);
        named.sort_unstable();
        assert_eq!(named, ["b", "c"], "seed {seed}: {finding:#?}");
    }
}

/// While the others are held a loop has about two thirds of a CPU here, since the service catches up:
/// who wants that and no more looks the same, so most are only suspected.
#[test]
fn five_loops_starve_the_service_together_and_the_one_who_sleeps_does_not() {
    for seed in 1..=3 {
        let work = [LOOP, LOOP, LOOP, LOOP, LOOP, Work::Sleeps(0.1)];
        let (finding, _) = look(&scene(seed, &work), 10);
        let mut all: Vec<&str> = finding.culprits.iter().map(|c| c.workload.as_str()).collect();
        all.retain(|name| *name != "f");
        assert!(all.len() >= 3 && all.len() == finding.culprits.len(), "seed {seed}: {finding:#?}");
        assert!(finding.slowdown > 2.0, "seed {seed}: {finding:#?}");
    }
}

#[test]
fn loops_of_the_idle_class_are_not_blamed() {
    let mut server = SimServer::new(&scene(1, &[LOOP; 5])).unwrap();
    for group in &GROUPS[..5] {
        let knob = Knob::CpuIdle { tenant: (*group).into() };
        let to = Setting::Flag(true);
        let action = Action::Set { knob, to };
        server.apply(&action).unwrap();
    }
    let (finding, _) = look_at(&mut server, 20);
    let for_cpu = finding.culprits.iter().filter(|c| c.resource == Resource::Cpu).count();
    assert_eq!((for_cpu, named(&finding).len()), (0, 0), "{finding:#?}");
}
