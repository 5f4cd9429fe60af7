//! Tests of who was there in the same slow samples.

use super::*;

#[test]
fn two_in_step_cannot_be_told_apart_and_two_by_turns_can() {
    let mut world = World::new(&["a", "b"]);
    world.quiet(&["nobody"]);
    world.window(&[("a", SLOW, 60)]);
    world.window(&[("b", SLOW, 60)]);
    assert_eq!(world.told(), [("a".into(), true), ("b".into(), true)]);
    let mut world = World::new(&["a", "b"]);
    world.quiet(&["nobody"]);
    world.window(&[("b", SLOW, 0)]);
    world.reading.beside.get_mut(&"b".into()).unwrap().slots[SLOW] += 60;
    world.window(&[("a", SLOW, 60)]);
    assert_eq!(world.told(), [("a".into(), false), ("b".into(), false)]);
    let mut toned = finding();
    world.tell(&mut toned, &toll(10.0, 4), &Slight::default());
    assert!(toned.culprits.iter().all(|c| c.status == Standing::Suspected), "{toned:?}");
    // Somebody whom nobody follows is a rival as well.
    let mut world = World::new(&["a"]);
    world.quiet(&["nobody"]);
    world.reading.others.slots[SLOW] += 60;
    world.window(&[("a", SLOW, 60)]);
    assert_eq!(world.told(), [("a".into(), false)]);
}

/// One who locks in bursts and computes between them, and one who works in the bursts only.
fn locker_and_twin() -> World {
    let mut world = World::new(&["locker", "twin"]);
    for _ in 0..10 {
        world.window(&[("locker", USUAL, 50)]);
        // In all of these the twin was there too.
        world.window(&[("twin", SLOW, 0)]);
        world.reading.beside.get_mut(&"twin".into()).unwrap().slots[SLOW] += 50;
        world.window(&[("locker", SLOW, 50)]);
    }
    world
}

fn suspected(name: &str, confidence: f64) -> Culprit {
    Culprit {
        workload: name.into(),
        confidence,
        serious_frac: 0.0,
        status: Standing::Suspected,
        resource: Resource::Memory,
        slowdown: 1.5,
        share_frac: 1.0,
        harm_ln_per_cpu: 0.4,
        experiments: 1,
        stood_frac: None,
        elsewhere_frac: 0.0,
        held_back_frac: None,
    }
}

#[test]
fn who_is_there_in_the_same_samples_as_one_whom_looks_suspect_is_not_named() {
    let world = locker_and_twin();
    assert_eq!(world.told(), [("twin".into(), true)], "the other one is there always");
    let named = |suspect: Option<Culprit>| {
        let mut finding = finding();
        finding.culprits.extend(suspect);
        world.tell(&mut finding, &toll(10.0, 4), &Slight::default());
        let named = finding.culprits.iter().filter(|c| c.status == Standing::Named);
        named.map(|c| c.workload.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(named(None), ["twin"]);
    assert!(named(Some(suspected("locker", 0.7))).is_empty());
    assert_eq!(named(Some(suspected("locker", 0.3))), ["twin"], "hardly suspected");
    assert_eq!(named(Some(suspected("elsewhere", 0.7))), ["twin"], "who was not there");
}

#[test]
fn what_was_slow_beside_one_who_is_forgotten_is_put_down_to_nobody_else() {
    let slow = |world: &World| world.gauge.beside.values().map(|count| count.slow).sum::<f64>();
    let mut world = World::new(&["locker", "twin", "busy"]);
    world.quiet(&["twin", "busy"]);
    for _ in 0..3 {
        world.window(&[("twin", SLOW, 0)]);
        world.reading.beside.get_mut(&"twin".into()).unwrap().slots[SLOW] += 15;
        world.window(&[("locker", SLOW, 50)]);
    }
    assert_eq!(world.told()[0], ("locker".into(), true));
    world.gauge.forget(&"busy".into());
    assert!(slow(&world) > 100.0, "who did nothing takes nothing along");
    let mut gone = world.gauge.clone();
    world.gauge.forget(&"locker".into());
    assert!(slow(&world) == 0.0 && world.told().is_empty());
    // Nor is it once he is gone.
    world.cpus.remove(&Tenant::from("locker"));
    gone.learn(world.now, &Ok(Arc::new(world.reading.clone())), &world.cpus);
    assert!(gone.lockers().is_empty() && gone.beside.values().all(|count| count.slow == 0.0));
}
