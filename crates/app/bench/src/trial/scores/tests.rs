//! Tests of the scores of trials.

use super::super::draw::LittleDuty;
use super::super::guarded::Said;
use super::*;

fn measured(cost_ratio: f64, p95_ratio: f64) -> Measured {
    Measured { cost_ratio, slowed: Slowed { p95_ratio, answered_ratio: 1.0 } }
}

fn trial(number: u32, named: &[&str], seconds: f64) -> Trial {
    let drawn = Composition::draw(1, number, (Harm::Much, Taken::Memory), LittleDuty::default());
    let culprit = drawn.culprit().unwrap().to_owned();
    let name = |n: &&str| if *n == "culprit" { culprit.clone() } else { (*n).to_owned() };
    let said = Said { named: named.iter().map(name).collect(), seconds, ..Said::default() };
    let verdict = Verdict { said, limited: drawn.culprit.into_iter().collect(), turns: vec![] };
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
    assert_eq!(report.recall, Some(0.5));
    assert!((report.precision.unwrap() - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(report.median_seconds, None, "half were never named");
    let (culprits, innocents) = (report.confusion.culprits, report.confusion.innocents);
    assert_eq!((culprits.groups, culprits.named, culprits.throttled), (4, 2, 4));
    assert_eq!((innocents.groups, innocents.named, innocents.neither), (16, 0, 16));
    assert_eq!((report.innocents_throttled, report.throttled_for_nothing), (0, 0));
}

#[test]
fn to_limit_somebody_for_nothing_or_an_innocent_is_told() {
    let mut report = TrialReport::of(Harm::Little, Taken::Cpu, 1);
    let drawn = Composition::draw(1, 0, (Harm::Little, Taken::Cpu), LittleDuty::default());
    let of = |limited, harm| {
        let verdict = Verdict { limited, ..Verdict::default() };
        Trial::judged(0, &drawn, Some(measured(1.0, harm)), verdict)
    };
    report.add(of(vec![drawn.culprit.unwrap()], 1.12));
    assert_eq!((report.innocents_throttled, report.throttled_for_nothing), (0, 0));
    report.add(of(vec![(drawn.culprit.unwrap() + 1) % 5], 1.12));
    report.add(of(drawn.culprit.into_iter().collect(), 1.07));
    assert_eq!((report.innocents_throttled, report.throttled_for_nothing), (1, 1));
    assert!(report.in_words().contains("innocent"), "{}", report.in_words());
}

#[test]
fn what_is_discarded_counts_nowhere_and_too_much_of_it_ends_the_run() {
    let mut report = TrialReport::of(Harm::Much, Taken::Memory, 1);
    let drawn = Composition::draw(1, 0, (Harm::Much, Taken::Cpu), LittleDuty::default());
    let harm = measured(1.1, 0.9);
    for number in 0..6 {
        assert!(!report.gives_up(0.4));
        report.add(Trial::discarded(number, &drawn, Some(harm), "another class"));
    }
    assert!(report.gives_up(0.4));
    assert_eq!((report.trials, report.discarded, report.recall), (0, 6, None));
    assert!(report.details[0].in_words().contains("1.10 times: discarded: another class"));
}
