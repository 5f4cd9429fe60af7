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
