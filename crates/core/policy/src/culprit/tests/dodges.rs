//! Culprits that dodge: they move to another group, split over several, rest while it is looked, or are the service
//! itself.

use super::*;
use crate::testing::machine_of;
use quell_types::Tenant;

/// Ten groups of one tenant, and three innocents.
const PARTS: [&str; 10] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"];
const INNOCENT: [&str; 3] = ["a", "b", "c"];

/// All who are limited now, in their order.
fn held(world: &World<Culprit>) -> Vec<Tenant> {
    let limited = |group: &Tenant| world.standing.quota_cpus(group.as_str()).is_some();
    world.groups().into_iter().filter(limited).collect()
}

/// One tenant in ten groups that use a tenth of a CPU each, with all of which it does this harm.
fn split(harm_ln: f64, seed: u64) -> World<Culprit> {
    let mut world = world(&[], seed);
    world.tells_company = true;
    let all: Vec<&str> = PARTS.into_iter().chain(INNOCENT).collect();
    world.setup = machine_of(2, &all);
    world.harm_ln = PARTS.map(|part| (part.into(), 0.1 * harm_ln)).into();
    world.large = PARTS.map(|part| (part.into(), 0.1)).into();
    world
}

/// What they do now, in ln.
fn done_ln(world: &World<Culprit>) -> f64 {
    world.harm_ln.iter().map(|(group, ln)| ln * world.cpus(group) / 0.1).sum()
}

#[test]
fn who_splits_over_ten_groups_is_limited_in_all_of_them_and_nobody_else_is() {
    let mut found = 0;
    for seed in 1..=20 {
        let mut world = split(0.5, seed);
        let is_held = |world: &World<Culprit>| held(world).len() == PARTS.len();
        let mut was_held = false;
        for _ in 0..80 {
            world.step();
            was_held |= is_held(&world);
            let strangers = held(&world).into_iter().filter(|g| INNOCENT.contains(&g.as_str()));
            assert_eq!(strangers.count(), 0, "seed {seed}: {:?}", world.finding());
            assert!(
                !is_held(&world) || done_ln(&world) <= 0.09,
                "seed {seed}: {}",
                done_ln(&world)
            );
        }
        found += usize::from(was_held);
    }
    assert!(found >= 18, "{found} of 20 within 20 s");
}

#[test]
fn it_is_found_again_after_its_term() {
    let mut shares: Vec<f64> = (1..=9)
        .map(|seed| {
            let mut world = split(0.5, seed);
            let held = |_: &u32| {
                world.step();
                done_ln(&world) <= 0.09
            };
            (0..1200).filter(held).count() as f64 / 1200.0
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    assert!(shares[4] >= 0.6 && shares[0] >= 0.4, "limited for {shares:?} of five minutes");
}

#[test]
fn groups_that_hardly_hurt_together_are_let_alone() {
    for seed in 1..=20 {
        let mut world = split(0.05, seed);
        for _ in 0..160 {
            world.step();
            assert_eq!(held(&world), Vec::<Tenant>::new(), "seed {seed}: {:?}", world.finding());
        }
    }
}

#[test]
fn one_culprit_in_whose_company_others_seem_bad_does_not_take_them_along() {
    for seed in 1..=20 {
        let mut world = world(&[("c", 0.4)], seed);
        world.tells_company = true;
        // They run when it does, so that its harm shows beside them as well.
        world.seem_ln = [("a".into(), 0.3), ("e".into(), 0.3)].into();
        for _ in 0..120 {
            world.step();
            let others = held(&world).into_iter().filter(|group| group.as_str() != "c");
            assert_eq!(others.count(), 0, "seed {seed}: {:?}", world.finding());
        }
        assert_eq!(limited(&world), ["c"], "seed {seed}: {:?}", world.finding());
    }
}

#[test]
fn who_moves_to_another_group_is_limited_there_and_the_one_it_left_is_free() {
    let mut late_s: Vec<f64> = (1..=20)
        .map(|seed| {
            let mut world = world(&[("c", 0.4)], seed);
            world.tells_company = true;
            world.large = [("e".into(), 0.02)].into();
            world.run(12.0);
            assert_eq!(limited(&world), ["c"], "seed {seed}");
            world.harm_ln = [("e".into(), 0.4)].into();
            world.large = [("c".into(), 0.02)].into();
            let late = (0..400).take_while(|_| {
                world.step();
                !limited(&world).contains(&"e")
            });
            let late_s = 0.25 * late.count() as f64;
            assert!(
                !limited(&world).iter().any(|group| !["c", "e"].contains(group)),
                "seed {seed}"
            );
            world.run(15.0);
            assert!(!limited(&world).contains(&"c"), "seed {seed}: it does not work any more");
            late_s
        })
        .collect();
    late_s.sort_by(f64::total_cmp);
    assert!(late_s[10] <= 15.0 && late_s[17] <= 60.0, "after {late_s:?} s");
}

#[test]
fn who_rests_while_it_is_looked_leads_to_nobody_else() {
    let mut suspected = 0;
    for seed in 1..=20 {
        let mut world = world(&[("c", 0.4)], seed);
        world.tells_company = true;
        world.hides = true;
        world.run(60.0);
        let others: Vec<String> = world.named().into_iter().filter(|name| name != "c").collect();
        assert!(others.is_empty() && limited(&world).is_empty(), "seed {seed}: {others:?}");
        let accused = world.finding().culprits;
        suspected += usize::from(accused.iter().any(|culprit| culprit.workload == "c".into()));
    }
    assert!(suspected >= 16, "its company tells: suspected in {suspected} of 20");
}

#[test]
fn a_service_that_slows_itself_leads_to_nobody() {
    for seed in 1..=20 {
        let mut world = world(&[], seed);
        world.tells_company = true;
        world.run(20.0);
        world.harm_ln = [("web".into(), 0.5)].into();
        for _ in 0..160 {
            world.step();
            assert!(world.named().is_empty() && limited(&world).is_empty(), "seed {seed}");
        }
    }
}
