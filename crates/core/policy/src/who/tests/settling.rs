//! Harm that takes its time to go while whoever does it is held.

use super::*;

/// What is told of a harm of 1.3 that goes in so many seconds, in looks with chips of 100 ms; the middle one of fifteen
/// worlds after five minutes, and in how many looks are said to see a part of it.
fn told(goes_in_s: f64) -> (f64, usize) {
    let (mut slowdowns, mut said) = (Vec::new(), 0);
    for seed in 1..=15 {
        let params = WhoParams { chip_ms: 100, ..WhoParams::default() };
        let mut world = World::new(Who::new(params), &[("d", libm::log(1.3))], 700 + seed);
        world.goes_in_s = goes_in_s;
        world.run(300.0);
        let finding = world.finding();
        let tells = |line: &String| line.contains("takes its time to go");
        said += usize::from(finding.evidence.iter().any(tells));
        slowdowns.push(finding.slowdown);
    }
    slowdowns.sort_by(f64::total_cmp);
    (slowdowns[7], said)
}

#[test]
fn what_looks_see_a_part_of_is_told_in_full() {
    // 200 ms see 57 % of it, which would be 1.16.
    let (slowdown, said) = told(0.1);
    assert!((1.22..1.5).contains(&slowdown) && said >= 8, "{slowdown}, {said}");
}

#[test]
fn what_is_over_at_once_is_told_as_it_is() {
    let (slowdown, said) = told(0.0);
    assert!((1.22..1.38).contains(&slowdown) && said == 0, "{slowdown}, {said}");
}

/// In how many of fifty worlds who does such a harm is named within a minute, by looks with the shortest chips; and
/// whether anybody else ever was.
fn named_in_a_minute(ratio: f64, goes_in_s: f64, looks: WhoParams) -> (usize, bool) {
    let (mut named, mut others) = (0, false);
    for seed in 1..=50 {
        let policy = Who::new(looks.clone());
        let mut world = World::new(policy, &[("d", libm::log(ratio))], 700 + seed);
        world.goes_in_s = goes_in_s;
        let mut was_named = false;
        for _ in 0..240 {
            world.step();
            was_named |= world.named() == ["d"];
            others |= world.named().iter().any(|name| name != "d");
        }
        named += usize::from(was_named);
    }
    (named, others)
}

#[test]
fn who_does_what_short_looks_hardly_see_is_named_by_long_ones() {
    let (named, others) = named_in_a_minute(1.5, 0.1, WhoParams::default());
    // As long as the longest chip is short there is no long look.
    let short = WhoParams { longest_chip_ms: 30, ..WhoParams::default() };
    let (by_short, _) = named_in_a_minute(1.5, 0.1, short);
    assert!(named >= 35 && named >= 2 * by_short && !others, "{named}, by short ones {by_short}");
    let (at_once, others) = named_in_a_minute(1.15, 0.0, WhoParams::default());
    assert!(at_once >= 45 && !others, "{at_once}");
}

#[test]
fn long_looks_are_for_services_whose_looks_are_short_otherwise() {
    let chips = |params: WhoParams| {
        let mut world = World::new(Who::new(params), &[], 5);
        let mut chips_us = BTreeSet::new();
        for _ in 0..400 {
            world.step();
            chips_us.extend(world.on_its_way.as_ref().map(|look| look.chip_us));
        }
        chips_us.into_iter().collect::<Vec<u64>>()
    };
    assert_eq!(chips(WhoParams::default()), [25_000, 100_000]);
    assert_eq!(chips(WhoParams { chip_ms: 60, ..WhoParams::default() }), [60_000]);
}
