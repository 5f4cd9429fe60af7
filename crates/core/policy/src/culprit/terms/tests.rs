//! Terms by table.

use super::*;
use crate::testing::at;

fn charged(budget_cpus: f64, used_cpus: f64) -> BTreeMap<Tenant, Charge> {
    [(
        "jobs".into(),
        Charge {
            budget_cpus,
            used_cpus,
            apart_s: 0.0,
            by_looks: true,
            serious: true,
            plain: false,
        },
    )]
    .into()
}

fn used(cpus: f64) -> BTreeMap<Tenant, f64> {
    [("jobs".into(), cpus)].into()
}

/// What is set if those are to be limited whose harm is serious and who use more than they may.
fn convicted(
    terms: &mut Terms,
    now: Time,
    charges: &BTreeMap<Tenant, Charge>,
) -> Vec<(Tenant, f64)> {
    let mut to_limit = charges.clone();
    to_limit.retain(|_, charge| charge.serious && charge.used_cpus > charge.budget_cpus);
    terms.convict(now, charges, &to_limit)
}

/// Seconds from the conviction at `from` until it is free again while it uses so much.
fn served(terms: &mut Terms, from: f64, cpus: f64) -> (f64, &'static str) {
    assert_eq!(convicted(terms, at(from), &charged(0.1, 0.8)).len(), 1);
    for step in 0..10_000 {
        let second = from + 0.25 * f64::from(step);
        if let Some((_, rule)) = terms.end(at(second), &used(cpus)).first() {
            return (second - from, rule);
        }
    }
    panic!("never free");
}

#[test]
fn each_term_is_twice_as_long_as_the_last_until_one_keeps_out_of_trouble() {
    let mut terms = Terms::new(30.0, 100.0);
    assert_eq!(served(&mut terms, 0.0, 0.1), (30.0, "served"));
    assert_eq!(served(&mut terms, 40.0, 0.1), (60.0, "served"));
    assert_eq!(served(&mut terms, 110.0, 0.1), (100.0, "served"), "the longest");
    assert_eq!(served(&mut terms, 220.0, 0.1), (100.0, "served"));
    assert_eq!(served(&mut terms, 1000.0, 0.1), (30.0, "served"), "long ago");
}

#[test]
fn who_is_acquitted_is_free_and_never_served() {
    let mut terms = Terms::new(30.0, 600.0);
    convicted(&mut terms, at(0.0), &charged(0.1, 0.8));
    assert!(terms.acquit(|_| false).is_empty());
    assert_eq!(terms.acquit(|name| name.as_str() == "jobs"), ["jobs".into()]);
    assert!(terms.end(at(40.0), &used(0.8)).is_empty(), "there is no term to end");
    assert_eq!(served(&mut terms, 41.0, 0.1), (30.0, "served"), "a first term again");
}

#[test]
fn looks_acquit_nobody_who_was_convicted_for_what_they_do_not_show() {
    let mut terms = Terms::new(30.0, 600.0);
    let by_waits = Charge { by_looks: false, ..charged(0.1, 0.8)[&"jobs".into()] };
    convicted(&mut terms, at(0.0), &[("jobs".into(), by_waits)].into());
    assert!(terms.acquit(|_| true).is_empty());
    convicted(&mut terms, at(1.0), &charged(0.1, 0.1));
    assert!(terms.acquit(|_| true).is_empty(), "nor who was convicted for both");
}

#[test]
fn who_stops_working_is_free_after_ten_seconds() {
    let mut terms = Terms::new(30.0, 600.0);
    assert_eq!(served(&mut terms, 0.0, 0.01), (10.0, "idle"));
}

#[test]
fn who_uses_no_more_than_it_may_is_not_convicted_and_budgets_follow_what_is_learned() {
    let mut terms = Terms::new(30.0, 600.0);
    assert!(convicted(&mut terms, at(0.0), &charged(0.5, 0.4)).is_empty());
    assert_eq!(convicted(&mut terms, at(1.0), &charged(0.3, 0.4)), [("jobs".into(), 0.3)]);
    assert_eq!(convicted(&mut terms, at(2.0), &charged(0.2, 0.3)), [("jobs".into(), 0.2)]);
    assert!(convicted(&mut terms, at(3.0), &BTreeMap::new()).is_empty());
    assert!(terms.end(at(4.0), &used(0.2)).is_empty(), "it still serves");
}

#[test]
fn who_is_gone_is_freed() {
    let mut terms = Terms::new(30.0, 600.0);
    convicted(&mut terms, at(0.0), &charged(0.1, 0.8));
    assert!(terms.end(at(1.0), &BTreeMap::new()).is_empty());
    assert_eq!(terms.end(at(11.0), &BTreeMap::new()).len(), 1);
}

/// Seconds from the conviction until it is free, if it works at its budget for half a second of
/// each so many, until then and so often.
fn bursts(apart_s: f64, count: f64) -> (f64, &'static str) {
    let mut terms = Terms::new(30.0, 600.0);
    assert_eq!(convicted(&mut terms, at(0.0), &charged(0.1, 0.8)).len(), 1);
    for step in 0..10_000 {
        let second = 0.25 * f64::from(step);
        let works = second % apart_s < 0.5 && second < count * apart_s;
        if let Some((_, rule)) = terms.end(at(second), &used(if works { 0.1 } else { 0.0 })).first()
        {
            return (second, rule);
        }
    }
    panic!("never free");
}

#[test]
fn who_works_in_bursts_is_limited_for_many_of_them_and_free_when_it_stays_away() {
    assert_eq!(bursts(5.0, 1e3), (80.0, "served"), "16 bursts");
    assert_eq!(bursts(1.5, 1e3), (30.0, "served"), "a first term");
    let (second, rule) = bursts(5.0, 4.0);
    assert_eq!(rule, "idle");
    assert!((30.0..31.5).contains(&second), "the last at 15 s, then three times 5: {second}");
    let (second, rule) = bursts(5.0, 1.0);
    assert_eq!(rule, "idle");
    assert!((10.0..11.0).contains(&second), "one burst has no period: {second}");
    assert!(bursts(9.0, 1e3).0 >= 140.0, "rests below ten seconds");
}

#[test]
fn bursts_that_are_known_to_be_far_apart_are_waited_for() {
    let mut terms = Terms::new(30.0, 600.0);
    let far = Charge { apart_s: 20.0, ..charged(0.1, 0.9)[&"jobs".into()] };
    assert_eq!(convicted(&mut terms, at(0.0), &[("jobs".into(), far)].into()).len(), 1);
    assert!((0..59).all(|s| terms.end(at(f64::from(s)), &used(0.0)).is_empty()));
    assert_eq!(terms.end(at(60.0), &used(0.0)), [("jobs".into(), "idle")]);
}

#[test]
fn who_pauses_once_does_not_work_in_bursts() {
    let mut terms = Terms::new(30.0, 600.0);
    assert_eq!(convicted(&mut terms, at(0.0), &charged(0.1, 0.8)).len(), 1);
    let free = (0..2000).find(|step| {
        let second = 0.25 * f64::from(*step);
        let cpus = if (27.0..28.25).contains(&second) { 0.0 } else { 0.1 };
        !terms.end(at(second), &used(cpus)).is_empty()
    });
    assert_eq!(free, Some(120), "30 s");
}

#[test]
fn of_several_victims_the_one_with_serious_harm_counts_then_the_one_that_bears_least() {
    let charge =
        |budget_cpus, serious| Charge { serious, ..charged(budget_cpus, 0.8)[&"jobs".into()] };
    assert!(charge(0.2, true).is_worse_than(&charge(0.1, false)));
    assert!(!charge(0.1, false).is_worse_than(&charge(0.2, true)));
    assert!(charge(0.1, true).is_worse_than(&charge(0.2, true)));
}

#[test]
fn harm_that_is_not_worth_a_limit_begins_no_term() {
    let mut terms = Terms::new(30.0, 600.0);
    let little = Charge { serious: false, ..charged(0.1, 0.8)[&"jobs".into()] };
    assert!(convicted(&mut terms, at(1.0), &[("jobs".into(), little)].into()).is_empty());
    assert_eq!(convicted(&mut terms, at(2.0), &charged(0.1, 0.8)).len(), 1);
    assert_eq!(
        convicted(&mut terms, at(3.0), &[("jobs".into(), little)].into()).len(),
        1,
        "it serves"
    );
}

#[test]
fn who_falls_short_of_its_budget_for_a_sample_does_not_work_in_bursts() {
    let mut terms = Terms::new(30.0, 600.0);
    assert_eq!(convicted(&mut terms, at(0.0), &charged(0.1, 0.8)).len(), 1);
    let free = (0..200).find(|step| {
        let cpus = if step % 40 == 20 { 0.0 } else { 0.1 };
        !terms.end(at(0.25 * f64::from(*step)), &used(cpus)).is_empty()
    });
    assert_eq!(free, Some(120), "30 s");
}
