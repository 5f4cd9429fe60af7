//! Groups of many threads, on a machine with many CPUs.

use super::*;
use crate::testing::machine;

/// Groups b and d use five of sixteen CPUs each.
fn large(culprits: &[(&str, f64)], seed: u64) -> World<Who> {
    let mut world = world(culprits, seed);
    world.setup = machine(16);
    world.large = [("b".into(), 5.0), ("d".into(), 5.0)].into();
    world
}

#[test]
fn a_group_of_many_threads_is_named_for_what_all_of_them_do() {
    let (mut found, mut wrong) = (0, 0);
    for seed in 1..=20 {
        let mut world = large(&[("b", 0.2)], seed);
        world.run(20.0);
        let named = world.named();
        found += usize::from(named == ["b"]);
        wrong += usize::from(named.iter().any(|name| name != "b"));
        let told = world.finding().slowdown;
        assert!(named.is_empty() || (1.08..1.45).contains(&told), "{told}: {:?}", world.finding());
    }
    assert!(found >= 17 && wrong == 0, "found {found} of 20, wrong {wrong}");
}

#[test]
fn one_thread_beside_them_is_named_as_on_a_small_machine() {
    let mut found = 0;
    for seed in 1..=20 {
        let mut world = large(&[("c", 0.25)], seed);
        world.run(20.0);
        let named = world.named();
        assert!(named.is_empty() || named == ["c"], "{named:?}");
        found += usize::from(named == ["c"]);
    }
    assert!(found >= 17, "found {found} of 20");
}

#[test]
fn nobody_is_named_for_being_large() {
    for seed in 1..=30 {
        let mut world = large(&[], seed);
        world.run(25.0);
        assert_eq!(world.named(), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn who_uses_most_of_a_cpu_stays_named_for_little_harm() {
    for cpus in [0.9, 1.9] {
        let mut found = 0;
        for seed in 1..=40 {
            let mut world = world(&[("b", 0.2)], seed);
            world.large = [("b".into(), cpus)].into();
            world.run(25.0);
            found += usize::from(world.named() == ["b"]);
        }
        assert!(found >= 36, "{cpus} CPUs: found {found} of 40");
    }
}
