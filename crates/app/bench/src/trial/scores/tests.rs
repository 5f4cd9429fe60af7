//! Tests of the scores of trials.

use super::super::draw::{Cast, Composition};
use super::super::guarded::{Said, Verdict};
use super::super::harm::{Measured, Pair};
use super::*;

/// Three pairs that are all alike.
fn measured(cost_ratio: f64, latency_ratio: f64) -> Measured {
    let (cost_ln, latency_ln) = (cost_ratio.ln(), latency_ratio.ln());
    Measured::of(&[Pair { latency_ln, p95_ln: 0.0, cost_ln, answered_ln: 0.0 }; 3]).unwrap()
}

fn trial(number: u32, named: &[&str], seconds: f64) -> Trial {
    let drawn = Composition::draw(1, number, &Cast::of_kernels(Harm::Much, Taken::Memory), 9.0);
    let culprit = drawn.culprit().unwrap().to_owned();
    let name = |n: &&str| if *n == "culprit" { culprit.clone() } else { (*n).to_owned() };
    let said = Said { named: named.iter().map(name).collect(), seconds, ..Said::default() };
    let said = Said { ready_ns: 1_000_000_000, ..said };
    let limited = drawn.culprit.map(|place| (place, 3_500_000_000)).into_iter().collect();
    let verdict = Verdict { said, limited, ..Verdict::default() };
    Trial::judged(number, &drawn, Some(measured(1.0, 1.4)), verdict)
}

#[test]
fn names_are_counted_and_never_found_is_for_ever() {
    let mut report = TrialReport::of(Harm::Much, Taken::Memory, 1);
    report.add(trial(0, &["culprit"], 4.0));
    assert_eq!((report.precision, report.recall), (Some(1.0), Some(1.0)));
    report.add(trial(1, &["culprit", "somebody"], 6.0));
    report.add(trial(2, &[], 15.0));
    report.add(trial(3, &[], 15.0));
    assert_eq!((report.trials, report.false_blames), (4, 1));
    assert_eq!((report.at_least_suspected, report.suspected_frac), (2, Some(0.5)));
    assert_eq!(report.recall, Some(0.5));
    assert!((report.precision.unwrap() - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(report.median_seconds, None, "half were never named");
    assert_eq!(report.median_limited_seconds, Some(2.5));
    assert!(report.in_words().contains("until it was limited 2.5 s"), "{}", report.in_words());
    let (culprits, innocents) = (report.confusion.culprits, report.confusion.innocents);
    assert_eq!((culprits.groups, culprits.named, culprits.throttled), (4, 2, 4));
    assert_eq!((innocents.groups, innocents.named, innocents.neither), (16, 0, 16));
    assert_eq!((report.innocents_throttled, report.throttled_for_nothing), (0, 0));
}

#[test]
fn to_limit_somebody_for_nothing_or_an_innocent_is_told() {
    let mut report = TrialReport::of(Harm::Little, Taken::Cpu, 1);
    let drawn = Composition::draw(1, 0, &Cast::of_kernels(Harm::Little, Taken::Cpu), 9.0);
    let of = |limited: Vec<usize>, harm| {
        let limited = limited.into_iter().map(|place| (place, 0)).collect();
        let verdict = Verdict { limited, ..Verdict::default() };
        Trial::judged(0, &drawn, Some(measured(1.0, harm)), verdict)
    };
    report.add(of(vec![drawn.culprit.unwrap()], 1.12));
    assert_eq!((report.innocents_throttled, report.throttled_for_nothing), (0, 0));
    report.add(of(vec![(drawn.culprit.unwrap() + 1) % 5], 1.12));
    report.add(of(drawn.culprit.into_iter().collect(), 1.07));
    assert_eq!((report.innocents_throttled, report.throttled_for_nothing), (1, 1));
    assert_eq!((report.trials_under_1_1, report.throttled_under_1_1), (1, 1));
    report.add(of(vec![], 1.07));
    assert_eq!((report.trials_under_1_1, report.throttled_under_1_1), (2, 1));
    assert_eq!(report.throttled_under_1_1_as_measured, 1);
    // It was more while the law looked, and another's was less.
    report.add(of(drawn.culprit.into_iter().collect(), 1.07).with_left(Some(1.15)));
    report.add(of(vec![], 1.12).with_left(Some(1.06)));
    assert_eq!((report.trials_under_1_1, report.throttled_under_1_1), (3, 1));
    assert_eq!(report.throttled_under_1_1_as_measured, 2);
    assert_eq!(report.throttled_for_nothing, 1);
    assert!(report.in_words().contains("innocent"), "{}", report.in_words());
}

#[test]
fn what_is_discarded_counts_nowhere_and_too_much_of_it_ends_the_run() {
    let mut report = TrialReport::of(Harm::Much, Taken::Memory, 1);
    let drawn = Composition::draw(1, 0, &Cast::of_kernels(Harm::Much, Taken::Cpu), 9.0);
    let harm = measured(1.1, 0.9);
    for number in 0..6 {
        assert!(!report.gives_up(5, 0.4));
        report.add(Trial::discarded(number, &drawn, Some(harm), "another class"));
    }
    assert!(report.gives_up(5, 0.4), "six of eleven at best");
    assert!(!report.gives_up(9, 0.4), "six of fifteen if no other is discarded");
    assert_eq!((report.trials, report.discarded, report.recall), (0, 6, None));
    let words = report.details[0].in_words();
    assert!(words.contains("1.10 times (1.10–1.10, 3 pairs): discarded: another class"), "{words}");
}

#[test]
fn a_culprit_whose_harm_was_not_measured_is_not_told_to_be_none() {
    for (class, said) in [(Harm::Much, "not measured: discarded"), (Harm::None, "no culprit: ")] {
        let drawn = Composition::draw(1, 0, &Cast::of_kernels(class, Taken::Memory), 9.0);
        let words = Trial::discarded(0, &drawn, None, "it did not begin").in_words();
        assert!(words.contains(said), "{words}");
    }
}

#[test]
fn what_was_said_in_a_trial_that_does_not_count_is_told_and_not_counted() {
    let mut report = TrialReport::of(Harm::Much, Taken::Memory, 1);
    report.add(trial(0, &["somebody"], 4.0).unless(Some("another class")));
    report.add(trial(1, &["culprit"], 4.0).unless(None));
    assert_eq!((report.trials, report.discarded, report.false_blames), (1, 1, 0));
    assert_eq!(report.details[0].named, ["somebody"]);
}

#[test]
fn a_control_tells_how_far_one_is_off_and_how_far_it_is_said_to_be() {
    let mut report = TrialReport::of(Harm::Little, Taken::Cpu, 1);
    let drawn = Composition::draw(1, 0, &Cast::of_kernels(Harm::Little, Taken::Cpu), 9.0);
    report.reckon_control();
    assert_eq!(report.control, None);
    for ratio in [1.1, 1.0 / 1.1] {
        report.add(Trial::discarded(0, &drawn, Some(measured(1.0, ratio)), "a control"));
    }
    report.reckon_control();
    let control = report.control.unwrap();
    assert!((control.latency.mean - 1.0).abs() < 1e-9, "{control:?}");
    assert!(
        (control.harm.mean - 1.1_f64.sqrt()).abs() < 1e-9,
        "the greatest of three: {control:?}"
    );
    // Harms of 1.1 and, since cost did not change, 1.
    let deviation = 1.1_f64.ln() / 2.0_f64.sqrt();
    assert!((control.harm_deviation_ln - deviation).abs() < 1e-9, "{control:?}");
    assert!(control.half_width_ln < 1e-9, "alike pairs leave no doubt: {control:?}");
    assert!(report.in_words().contains("control: harm 1.05"), "{}", report.in_words());
}
