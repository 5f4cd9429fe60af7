//! Who drives out what lies in the caches, beside a service.

use super::*;

/// In how many of twenty worlds d, which does this harm, is suspected or named after so long, and named; and
/// whether anybody else was named in any.
fn suspected_and_named(presses: bool, harm_ln: f64, seconds: f64) -> (usize, usize, bool) {
    let (mut suspected, mut named, mut others) = (0, 0, false);
    for seed in 1..=20 {
        let mut world = world(&[("d", harm_ln)], seed);
        world.presses = presses.then(|| "d".into());
        world.run(seconds);
        let finding = world.finding();
        suspected += usize::from(finding.culprits.iter().any(|c| c.workload.as_str() == "d"));
        named += usize::from(world.named() == ["d"]);
        others |= world.named().iter().any(|name| name != "d");
    }
    (suspected, named, others)
}

#[test]
fn who_fills_the_caches_and_does_a_little_harm_is_suspected_and_not_named() {
    let (pressing, named, others) = suspected_and_named(true, 0.08, 15.0);
    assert!(pressing >= 10 && named <= 5 && !others, "{pressing} {named} {others}");
    // Without that less often: looks scatter by more.
    let (suspected, ..) = suspected_and_named(false, 0.08, 15.0);
    assert!(suspected <= 10 && suspected + 3 <= pressing, "{suspected}, pressing {pressing}");
    // Who does more is named by what looks show, as ever.
    let (_, named, others) = suspected_and_named(true, 0.25, 10.0);
    assert!(named >= 18 && !others, "{named} {others}");
}

#[test]
fn who_fills_the_caches_and_harms_nobody_is_not_suspected_once_looks_say_so() {
    let (suspected, named, others) = suspected_and_named(true, 0.0, 240.0);
    assert!(suspected <= 5 && named == 0 && !others, "{suspected} {named} {others}");
}

#[test]
fn over_what_they_fight_is_told_of_who_fills_the_caches() {
    let mut world = world(&[("d", 0.3)], 5);
    world.presses = Some("d".into());
    world.run(10.0);
    let finding = world.finding();
    let d = finding.culprits.iter().find(|c| c.workload.as_str() == "d").unwrap();
    assert_eq!((d.status, d.resource), (Standing::Named, Resource::LastLevelCache), "{finding:?}");
    let evidence = finding.evidence.join("\n");
    assert!(evidence.contains("d surely drives out 3"), "{evidence}");
}
