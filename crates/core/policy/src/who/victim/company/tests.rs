//! Tests of company in a small world.

use crate::testing::{GROUPS, World};
use crate::who::{Who, WhoParams};
use quell_model::blame::Standing;
use quell_types::Knob;

/// A world in which looks tell little: what a group does while all of its work runs, in ln, is a tenth.
fn world(culprit: Option<&str>, tells_company: bool, seed: u64) -> World<Who> {
    let culprits: Vec<(&str, f64)> = culprit.map(|group| (group, 0.1)).into_iter().collect();
    let mut world = World::new(Who::new(WhoParams::default()), &culprits, seed);
    world.tells_company = tells_company;
    world
}

/// Of twenty worlds, in how many the culprit was named within ten seconds, and in how many anybody else
/// ever was.
fn named(tells_company: bool) -> (usize, usize) {
    let (mut found, mut wrong) = (0, 0);
    for seed in 1..=20 {
        let culprit = GROUPS[seed as usize % 5];
        let mut world = world(Some(culprit), tells_company, 400 + seed);
        world.run(10.0);
        let named = world.named();
        found += usize::from(named == [culprit]);
        wrong += usize::from(named.iter().any(|name| name != culprit));
    }
    (found, wrong)
}

#[test]
fn bad_company_is_named_where_looks_alone_tell_too_little() {
    let ((without, wrong), (with, also_wrong)) = (named(false), named(true));
    assert_eq!((wrong, also_wrong), (0, 0));
    assert!(with >= 16 && with > 2 * without, "{without} without company, {with} with it");
}

#[test]
fn company_that_does_no_harm_names_nobody() {
    for seed in 1..=20 {
        let mut world = world(None, true, 500 + seed);
        world.run(25.0);
        assert_eq!(world.named(), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn nobody_is_named_for_company_who_was_never_held() {
    let mut world = world(Some("c"), true, 3);
    world.setup.knobs.retain(|knob, _| !matches!(knob, Knob::Frozen { .. }));
    world.run(15.0);
    let finding = world.finding();
    let found: Vec<_> = finding.culprits.iter().map(|c| (c.workload.as_str(), c.status)).collect();
    assert_eq!(found, [("c", Standing::Suspected)], "{finding:?}");
    assert!(finding.evidence.iter().any(|told| told.contains("while c had another CPU")));
}

#[test]
fn the_journal_tells_how_much_company_weighed() {
    let mut world = world(Some("d"), true, 5);
    world.run(10.0);
    let weighed = world.looks.iter().filter(|(_, held)| held.contains(&"d".into()));
    let ratio = |inputs: &[quell_types::Input]| {
        inputs.iter().find(|input| input.name == "company_ratio").map(|input| input.value)
    };
    let greatest = weighed.filter_map(|(inputs, _)| ratio(inputs)).fold(0.0, f64::max);
    assert!(greatest > 10.0, "{greatest}");
}
