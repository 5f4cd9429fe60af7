//! Tests of who asks for more than its turn.

use super::super::waiting::{Demand, WaitingParams};
use super::*;
use quell_types::Waits;
use std::collections::BTreeMap;

/// So many quarters of a second beside groups that never sleep, who use half a CPU each.
fn watched(groups: &[&str], quarters: usize) -> Waiting {
    let mut waiting = Waiting::new(WaitingParams::default());
    let names: Vec<Tenant> = groups.iter().map(|name| (*name).into()).collect();
    waiting.keep(&names);
    let behind = names.iter().map(|name| (name.clone(), 0.3)).collect();
    let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
    let demands = asked(groups, 1.0);
    (0..quarters).for_each(|_| waiting.see(&waits, &demands, 0.0));
    waiting
}

/// Groups that ask for so many CPUs and have half of one.
fn asked(groups: &[&str], asked_cpus: f64) -> BTreeMap<Tenant, Demand> {
    had(groups, 0.5, asked_cpus)
}

fn had(groups: &[&str], used_cpus: f64, asked_cpus: f64) -> BTreeMap<Tenant, Demand> {
    let demand = Demand { used_cpus, asked_cpus };
    groups.iter().map(|name| ((*name).into(), demand)).collect()
}

fn shown(waiting: &Waiting, groups: &[&str]) -> Vec<String> {
    let names: Vec<Tenant> = groups.iter().map(|name| (*name).into()).collect();
    let all = stood(waiting, names.iter(), &FindingParams::default());
    all.iter().filter(|s| s.shown).map(|s| s.workload.to_string()).collect()
}

fn open(waiting: &Waiting, groups: &[&str]) -> Vec<(String, bool)> {
    let names: Vec<Tenant> = groups.iter().map(|name| (*name).into()).collect();
    let all = rivals(waiting, names.iter(), false, &FindingParams::default());
    all.into_iter().map(|rival| (rival.workload.to_string(), rival.relieved)).collect()
}

#[test]
fn who_came_before_all_others_never_sleeps_only_with_nearly_a_whole_cpu() {
    for (used_cpus, fed, tells) in
        [(0.8, false, true), (0.8, true, false), (0.95, true, true), (0.6, false, false)]
    {
        let mut waiting = Waiting::new(WaitingParams::default());
        waiting.keep(&["loop".into()]);
        waiting.see(&Waits { running: 0.5, seconds: 0.25, ..Waits::default() }, &[].into(), 0.0);
        waiting.relieve(&had(&["loop"], used_cpus, 1.0), 1.0, fed);
        let told = waiting.crowding(&"loop".into(), 0.0).unwrap().relieved_cpus;
        assert_eq!(told.is_some(), tells, "{used_cpus} {fed}");
    }
}

#[test]
fn beside_a_rival_nobody_is_named_before_it_was_watched_alone() {
    let both = ["loop", "rate"];
    let mut waiting = watched(&both, 20);
    assert_eq!(shown(&waiting, &both), Vec::<String>::new());
    assert_eq!(open(&waiting, &both), [("loop".into(), false), ("rate".into(), false)]);
    waiting.relieve(&asked(&["rate"], 0.7), 1.0, false);
    assert_eq!(shown(&waiting, &both), Vec::<String>::new(), "they may starve it together");
    assert_eq!(open(&waiting, &both), [("loop".into(), false)], "who slept is no rival");
    waiting.relieve(&had(&["loop"], 0.85, 1.0), 1.0, false);
    assert_eq!(shown(&waiting, &both), ["loop"]);
}

#[test]
fn who_does_not_sleep_when_alone_is_named_and_the_other_waits_for_its_turn() {
    let both = ["loop", "rate"];
    let mut waiting = watched(&both, 20);
    waiting.relieve(&had(&["loop"], 0.85, 1.0), 1.0, false);
    assert_eq!(shown(&waiting, &both), ["loop"]);
    assert_eq!(open(&waiting, &both), [("loop".into(), true), ("rate".into(), false)]);
}

#[test]
fn who_is_left_when_all_others_sleep_is_named_only_if_it_does_not_sleep_alone() {
    let all = ["last", "nap", "doze"];
    let seen = |used_cpus: f64, asked_cpus: f64| {
        let mut waiting = watched(&all, 0);
        let behind = all.map(|name| (name.into(), 0.3)).into();
        let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
        let demands = asked(&["last"], 1.0).into_iter().chain(asked(&["nap", "doze"], 0.6));
        let demands = demands.collect();
        (0..80).for_each(|_| waiting.see(&waits, &demands, 0.0));
        let patient = FindingParams { relief_patience_s: f64::INFINITY, ..Default::default() };
        let names = all.map(Tenant::from);
        let before = stood(&waiting, names.iter(), &patient);
        assert!(before.iter().all(|stood| !stood.shown), "{before:?}");
        waiting.relieve(&had(&["last"], used_cpus, asked_cpus), 1.0, false);
        let after = stood(&waiting, names.iter(), &patient);
        let last = after.iter().find(|stood| stood.workload == all[0].into()).unwrap();
        (last.shown, last.manner)
    };
    assert_eq!(seen(0.85, 1.0), (true, Manner::Awake));
    assert_eq!(seen(0.55, 0.7), (false, Manner::Starved));
    assert_eq!(seen(0.55, 1.0), (false, Manner::Awake), "the service may have starved it");
}

#[test]
fn several_threads_that_stand_less_when_others_are_held_sleep_and_those_that_stand_as_before_do_not()
 {
    let seen = |usual_cpus: f64, (used_cpus, asked_cpus): (f64, f64)| {
        let mut waiting = watched(&["pair", "nap"], 0);
        let behind = [("pair".into(), 0.3), ("nap".into(), 0.1)].into();
        let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
        let demands = asked(&["pair"], usual_cpus).into_iter().chain(asked(&["nap"], 0.6));
        let demands = demands.collect();
        (0..80).for_each(|_| waiting.see(&waits, &demands, 0.0));
        waiting.relieve(&had(&["pair"], used_cpus, asked_cpus), 1.0, false);
        let names = ["pair".into()];
        let patient = FindingParams { relief_patience_s: f64::INFINITY, ..Default::default() };
        let all = stood(&waiting, names.iter(), &patient);
        (all[0].shown, all[0].manner)
    };
    assert_eq!(seen(1.9, (0.85, 1.25)), (false, Manner::Starved), "it catches up, and sleeps");
    assert_eq!(seen(1.9, (0.85, 1.8)), (true, Manner::Awake));
    assert_eq!(
        seen(4.0, (1.2, 2.5)),
        (true, Manner::Awake),
        "fewer of them, and more than a CPU could give"
    );
    assert_eq!(seen(1.2, (0.85, 1.0)), (true, Manner::Awake), "a loop, and a little besides");
}

#[test]
fn whose_threads_stand_behind_each_other_whatever_others_do_is_named_if_it_is_the_only_one() {
    // What the last one asks for, what it has in each look while others are held and asks for then, and what
    // another asks for.
    let seen = |asked_cpus: f64, looks: &[(f64, f64)], other_asks: f64| {
        let all = ["pinned", "nap", "doze"];
        let mut waiting = watched(&all, 0);
        let behind = all.map(|name| (name.into(), 0.3)).into();
        let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
        let demands = asked(&["pinned"], asked_cpus).into_iter();
        let demands = demands.chain(asked(&["nap"], other_asks)).chain(asked(&["doze"], 0.6));
        let demands = demands.collect();
        (0..80).for_each(|_| waiting.see(&waits, &demands, 0.0));
        for (used_cpus, asked_cpus) in looks {
            waiting.relieve(&had(&["pinned"], *used_cpus, *asked_cpus), 1.0, true);
        }
        let patient = FindingParams { relief_patience_s: f64::INFINITY, ..Default::default() };
        let names = all.map(Tenant::from);
        let after = stood(&waiting, names.iter(), &patient);
        after.iter().any(|stood| stood.shown && stood.workload == "pinned".into())
    };
    let twice = [(0.7, 2.0), (0.6, 2.0)];
    assert!(seen(2.0, &twice, 0.6));
    assert!(!seen(2.0, &twice[..1], 0.6), "one look may be chance");
    assert!(!seen(2.0, &twice, 1.0), "another does not sleep either");
    assert!(!seen(1.0, &twice, 0.6), "one thread at other times");
    assert!(!seen(2.0, &[(0.7, 2.0), (0.7, 1.2)], 0.6), "one thread in one of the looks");
    assert!(!seen(2.0, &[(0.7, 2.0), (0.3, 2.0)], 0.6), "starved in one of the looks");
    assert!(!seen(2.0, &[(0.7, 2.0), (0.6, 2.0), (0.3, 0.4)], 0.6), "it slept");
}

#[test]
fn who_neither_sleeps_nor_has_most_of_a_cpu_is_not_told_by_it_and_who_sleeps_is() {
    let both = ["loop", "rate"];
    let mut waiting = watched(&both, 20);
    waiting.relieve(&asked(&["loop"], 1.0), 1.0, false);
    assert_eq!(shown(&waiting, &both), Vec::<String>::new());
    let names = both.map(Tenant::from);
    let all = rivals(&waiting, names.iter(), false, &FindingParams::default());
    let tried: Vec<(bool, bool)> = all.iter().map(|r| (r.tried.is_some(), r.relieved)).collect();
    assert_eq!(tried, [(true, false), (false, false)], "{all:?}");
    waiting.relieve(&asked(&["rate"], 0.5), 1.0, false);
    assert_eq!(open(&waiting, &both), [("loop".into(), false)]);
    waiting.relieve(&asked(&["rate"], 1.0), 1.0, false);
    assert_eq!(open(&waiting, &both), [("loop".into(), false)], "it was seen to sleep");
}

#[test]
fn what_a_sample_tells_is_that_of_the_part_in_which_others_were_held() {
    let both = ["loop", "rate"];
    let seen = |used_cpus: f64, held_frac: f64| {
        let mut waiting = watched(&both, 20);
        waiting.relieve(&had(&["loop"], used_cpus, 1.0), held_frac, false);
        shown(&waiting, &both)
    };
    assert_eq!(seen(0.7, 1.0), Vec::<String>::new());
    // It had 0.5 in the rest of the sample, as always: (0.7 - 0.3 * 0.5) / 0.7.
    assert_eq!(seen(0.7, 0.7), ["loop"]);
}

#[test]
fn who_is_not_seen_any_more_is_not_blamed_for_ever() {
    let both = ["loop", "rate"];
    let mut waiting = watched(&both, 20);
    waiting.relieve(&had(&["loop"], 0.85, 1.0), 1.0, false);
    assert_eq!(shown(&waiting, &both), ["loop"]);
    waiting.pass(60.0);
    assert_eq!(shown(&waiting, &both), Vec::<String>::new());
    assert!(waiting.tells());
    waiting.pass(300.0);
    assert!(!waiting.tells());
}

#[test]
fn who_has_most_of_a_cpu_or_has_it_to_itself_is_named_without_a_look() {
    let beside = |mine: f64, other: f64| {
        let mut waiting = watched(&["loop", "nap"], 0);
        let behind = [("loop".into(), 0.6), ("nap".into(), 0.3)].into();
        let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
        let nap = had(&["nap"], other, other);
        let demands = had(&["loop"], mine, 1.0).into_iter().chain(nap).collect();
        (0..20).for_each(|_| waiting.see(&waits, &demands, 0.0));
        shown(&waiting, &["loop", "nap"])
    };
    assert_eq!(beside(0.8, 0.5), ["loop"], "it is not starved");
    assert_eq!(beside(0.5, 0.04), ["loop"], "nobody is there to starve it");
    assert!(beside(0.5, 0.5).is_empty());
}

#[test]
fn each_has_its_part_of_what_all_use() {
    let mut waiting = watched(&["loop", "nap", "off"], 0);
    let waits = Waits { seconds: 0.25, running: 0.4, ..Waits::default() };
    let demands = had(&["loop"], 0.9, 1.0).into_iter().chain(had(&["nap"], 0.1, 0.1)).collect();
    (0..20).for_each(|_| waiting.see(&waits, &demands, 0.0));
    let names = ["off", "nap", "loop"].map(Tenant::from);
    let parts = parts(&waiting, names.iter());
    assert_eq!((parts.len(), &parts[0].0, &parts[1].0), (2, &names[2], &names[1]));
    assert!((parts[0].1 - 0.9).abs() < 1e-6 && (parts[1].1 - 0.1).abs() < 1e-6, "{parts:?}");
}

#[test]
fn who_asks_for_most_is_relieved_first() {
    let mut waiting = watched(&["loop", "rate"], 1);
    let behind = ["loop", "rate"].map(|name| (name.into(), 0.3)).into();
    let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
    let demands = asked(&["loop"], 1.0).into_iter().chain(asked(&["rate"], 1.6)).collect();
    (0..20).for_each(|_| waiting.see(&waits, &demands, 0.0));
    let both = [("rate".into(), false), ("loop".into(), false)];
    assert_eq!(open(&waiting, &["loop", "rate"]), both);
}

#[test]
fn who_was_always_held_is_undecided_until_his_demand_was_seen() {
    let undecided =
        |waiting: &Waiting| undecided(waiting, ["loop".into()].iter(), &FindingParams::default());
    let mut waiting = watched(&["loop"], 1);
    let behind = BTreeMap::from([("loop".into(), 0.3)]);
    let waits = Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() };
    (0..40).for_each(|_| waiting.see(&waits, &BTreeMap::new(), 0.0));
    assert!(undecided(&waiting) && shown(&waiting, &["loop"]).is_empty());
    (0..8).for_each(|_| waiting.see(&waits, &asked(&["loop"], 1.0), 0.0));
    assert!(!undecided(&waiting));
    assert_eq!(shown(&waiting, &["loop"]), ["loop"]);
}

#[test]
fn one_alone_needs_no_relief_and_after_a_while_all_are_named() {
    assert_eq!(shown(&watched(&["loop"], 20), &["loop"]), ["loop"]);
    let both = ["loop", "rate"];
    let mut waiting = watched(&both, 80);
    assert_eq!(shown(&waiting, &both), both);
    assert!(open(&waiting, &both).is_empty());
    waiting.relieve(&had(&["loop"], 0.85, 1.0), 1.0, false);
    assert_eq!(shown(&waiting, &both), ["loop"], "it can be tried: the other is to be as well");
    assert_eq!(open(&waiting, &both), [("loop".into(), true), ("rate".into(), false)]);
}
