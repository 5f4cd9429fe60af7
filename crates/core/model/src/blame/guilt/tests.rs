//! Tests of the weights of hypotheses.

use super::*;
use std::time::Duration;

fn tenants(names: &str) -> Vec<Tenant> {
    names.split(' ').map(Tenant::from).collect()
}

fn measured(held: &str, ln_slowdown: f64, at_s: u64) -> Measurement {
    Measurement {
        time: Time(0) + Duration::from_secs(at_s),
        ln_slowdown,
        variance: 0.02 * 0.02,
        doses_cpus: tenants(held).into_iter().map(|t| (t, 0.5)).collect(),
        experiment: true,
        void_frac: 0.0,
    }
}

fn among(suspects: &str) -> Guilt {
    let mut guilt = Guilt::new(GuiltParams::default());
    guilt.keep(&tenants(suspects));
    guilt
}

fn of(guilt: &Guilt, name: &str) -> Belief {
    guilt.belief(&name.into()).unwrap()
}

#[test]
fn before_any_evidence_all_are_alike_and_nobody_is_as_likely_as_somebody() {
    let guilt = among("a b c d");
    assert!((guilt.nobody() - 0.5).abs() < 1e-9);
    for name in ["a", "b", "c", "d"] {
        assert!((of(&guilt, name).guilt - 0.1375).abs() < 1e-9, "{:?}", of(&guilt, name));
    }
}

#[test]
fn a_set_without_effect_acquits_all_its_members_at_once() {
    let mut guilt = among("a b c d e f g h");
    guilt.measure(&measured("a b c d", 0.0, 0));
    for name in ["a", "b", "c", "d"] {
        assert!(of(&guilt, name).guilt < 0.05, "{name}: {:?}", of(&guilt, name));
    }
    assert!(of(&guilt, "e").guilt > of(&guilt, "a").guilt * 2.0);
}

#[test]
fn three_looks_find_one_of_eight() {
    let mut guilt = among("a b c d e f g h");
    for (held, seen) in [("a b c d", 0.3), ("a b e f", 0.01), ("a c e g", 0.29)] {
        guilt.measure(&measured(held, seen, 0));
    }
    let culprit = of(&guilt, "c");
    assert!(culprit.guilt > 0.95, "{culprit:?}");
    assert!((culprit.harm - 0.59).abs() < 0.08 && culprit.harm_sd < 0.1, "{culprit:?}");
    assert_eq!(culprit.experiments, 2);
    for innocent in ["a", "b", "d", "e", "g", "h"] {
        assert!(of(&guilt, innocent).guilt < 0.1, "{innocent}: {:?}", of(&guilt, innocent));
    }
}

#[test]
fn two_at_once_are_told_apart_from_one() {
    let mut guilt = among("a b c d");
    for (held, seen) in [("a", 0.2), ("b", 0.0), ("c", 0.31), ("d", 0.0), ("a c", 0.5)] {
        guilt.measure(&measured(held, seen, 0));
    }
    assert!(of(&guilt, "a").guilt > 0.99 && of(&guilt, "c").guilt > 0.99);
    assert!(of(&guilt, "b").guilt < 0.02 && guilt.nobody() < 1e-3, "{:?}", of(&guilt, "b"));
    let doses = tenants("a c").into_iter().map(|t| (t, 0.5)).collect();
    assert!((guilt.foretell(&doses) - 0.5).abs() < 0.05);
}

#[test]
fn one_wild_measurement_does_not_decide() {
    let mut guilt = among("a b");
    for at_s in 0..4 {
        guilt.measure(&measured("a", 0.0, at_s));
    }
    let harmful = |guilt: &Guilt| guilt.harmful(&"a".into(), 0.5, 0.03);
    assert!(harmful(&guilt) < 0.01, "{}", harmful(&guilt));
    guilt.measure(&measured("a", 1.0, 5));
    assert!(harmful(&guilt) < 0.2, "{}", harmful(&guilt));
}

#[test]
fn evidence_grows_old() {
    let mut guilt = among("a b");
    for at_s in 0..3 {
        guilt.measure(&measured("a", 0.4, at_s));
    }
    let now = |s| Time(0) + Duration::from_secs(s);
    assert!(of(&guilt, "a").guilt > 0.999);
    guilt.fade(now(100_000));
    let old = of(&guilt, "a");
    assert!((old.guilt - of(&among("a b"), "a").guilt).abs() < 1e-6, "{old:?}");
    assert!((old.harm_sd - 0.4).abs() < 1e-6);
}

#[test]
fn who_is_gone_is_forgotten_and_who_stays_keeps_what_is_known() {
    let mut guilt = among("a b");
    for at_s in 0..3 {
        guilt.measure(&measured("a", 0.4, at_s));
    }
    guilt.keep(&tenants("c a"));
    assert!(of(&guilt, "a").guilt > 0.99 && (of(&guilt, "a").harm - 0.8).abs() < 0.1);
    assert!(of(&guilt, "c").guilt < 0.3 && of(&guilt, "c").experiments == 0);
    guilt.forget(&"a".into());
    assert!(of(&guilt, "a").guilt < 0.5 && of(&guilt, "a").experiments == 0);
    assert_eq!(guilt.belief(&"b".into()), None);
}

#[test]
fn a_dose_of_a_stranger_makes_a_measurement_weak() {
    let mut guilt = among("a b");
    guilt.measure(&measured("a stranger", 0.2, 0));
    assert!((0.1..0.7).contains(&of(&guilt, "a").guilt), "{:?}", of(&guilt, "a"));
}

#[test]
fn with_many_suspects_only_one_at_a_time_is_thought_of() {
    let names: Vec<Tenant> = (0..150).map(|i| Tenant::new(format!("g{i}"))).collect();
    let mut guilt = Guilt::new(GuiltParams::default());
    guilt.keep(&names);
    assert_eq!(guilt.hypotheses().len(), 151);
    assert!((guilt.weights().iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn every_hypothesis_is_found_where_it_lies() {
    for count in [0, 1, 2, 5, 100, 101] {
        let names: Vec<Tenant> = (0..count).map(|i| Tenant::new(format!("g{i:03}"))).collect();
        let mut guilt = Guilt::new(GuiltParams::default());
        guilt.keep(&names);
        for (place, hypothesis) in guilt.hypotheses().iter().enumerate() {
            assert_eq!(guilt.place(hypothesis.members()), Some(place), "{count}: {hypothesis:?}");
        }
        for suspect in 0..count {
            let by_search = guilt.hypotheses().iter().enumerate();
            let by_search = by_search.filter(|(_, h)| h.members().contains(&suspect));
            let wanted: Vec<usize> = by_search.map(|(place, _)| place).collect();
            assert_eq!(guilt.against(suspect).collect::<Vec<_>>(), wanted, "{count}: {suspect}");
        }
    }
}

/// One who sleeps in every look and works whenever the victim is slow for another's sake.
#[test]
fn looks_in_which_somebody_slept_are_no_experiments_on_it() {
    let mut guilt = among("a b");
    for second in 0..20 {
        let together = Measurement { experiment: false, ..measured("a", 0.4, 2 * second) };
        guilt.measure(&together);
        let mut asleep = measured("a", 0.0, 2 * second + 1);
        asleep.doses_cpus.insert("a".into(), 1e-4);
        guilt.measure(&asleep);
    }
    assert!(of(&guilt, "a").guilt > 0.99, "it moves together with the harm");
    assert_eq!(of(&guilt, "a").experiments, 0);
    guilt.measure(&measured("a", 0.4, 50));
    assert_eq!(of(&guilt, "a").experiments, 1);
}

#[test]
fn a_look_that_may_have_come_too_late_acquits_little_and_shows_as_much() {
    let after = |seen: f64, void_frac: f64| {
        let mut guilt = among("a b");
        (0..3).for_each(|second| {
            guilt.measure(&Measurement { void_frac, ..measured("a", seen, second) });
        });
        (of(&guilt, "a").guilt, guilt.evidence_ln(&"a".into()))
    };
    let [(innocent, against), (doubtful, little)] = [after(0.0, 0.0), after(0.0, 0.5)];
    assert!(innocent < doubtful && against < little && little < 0.0, "{against} {little}");
    assert!(little > -2.1, "half as likely with each of the three, or more: {little}");
    let [(guilty, _), (as_guilty, _)] = [after(0.4, 0.0), after(0.4, 0.5)];
    assert!(guilty > 0.99 && as_guilty > 0.99, "{guilty} {as_guilty}");
    assert!(among("a b").evidence_ln(&"a".into()).abs() < 1e-9);
}
