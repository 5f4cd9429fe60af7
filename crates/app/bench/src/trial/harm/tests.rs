//! Tests of the estimate of harm.

use super::super::draw::{Dice, Harm};
use super::*;

fn seen(mean_ms: f64, cost_s: f64, answered_frac: f64) -> Seen {
    Seen { mean_ms, p95_ms: 3.0 * mean_ms, cost_s, answered_frac }
}

fn pair(latency_ln: f64) -> Pair {
    Pair { latency_ln, p95_ln: 2.0 * latency_ln, cost_ln: -0.02, answered_ln: 0.0 }
}

#[test]
fn the_greatest_of_three_factors_is_the_harm_and_the_tail_is_none_of_them() {
    let without = seen(2.0, 1e-3, 1.0);
    let table = [
        (seen(3.0, 1.1e-3, 1.0), 1.5),
        (seen(2.0, 1.3e-3, 1.0), 1.3),
        (seen(2.2, 0.9e-3, 0.8), 1.25),
    ];
    for (beside, harm) in table {
        let pairs = [Pair::of(beside, without).unwrap(); 3];
        let measured = Measured::of(&pairs).unwrap();
        assert!((measured.ratio() - harm).abs() < 1e-9, "{measured:?}");
        assert!((measured.interval.0 - harm).abs() < 1e-9, "alike pairs leave no doubt");
        assert_eq!(measured.pairs, 3);
    }
    let tail = Seen { p95_ms: 60.0, ..without };
    let measured = Measured::of(&[Pair::of(tail, without).unwrap(); 2]).unwrap();
    assert!((measured.ratio() - 1.0).abs() < 1e-9 && measured.p95_ratio > 9.0, "{measured:?}");
}

#[test]
fn a_turn_without_an_answer_makes_no_pair_and_one_pair_no_harm() {
    let fine = seen(2.0, 1e-3, 1.0);
    assert_eq!(Pair::of(seen(2.0, 1e-3, 0.0), fine), None);
    assert_eq!(Pair::of(fine, seen(0.0, 1e-3, 1.0)), None);
    assert_eq!(Measured::of(&[]), None);
    assert_eq!(Measured::of(&[pair(0.1)]), None);
}

#[test]
fn where_nothing_is_answered_beside_the_culprit_harm_is_at_least_what_half_an_answer_makes_it() {
    let without = seen(2.0, 1e-3, 1.0);
    for nothing in [seen(0.0, f64::INFINITY, 0.0), seen(f64::NAN, f64::NAN, 0.0)] {
        assert_eq!(Pair::of(nothing, without), None);
        let pair = Pair::of(nothing.at_least(400.0, 500), without).unwrap();
        let measured = Measured::of(&[pair; 2]).unwrap();
        assert!((measured.answered_ratio - 1000.0).abs() < 1e-6, "{measured:?}");
        assert!((measured.latency_ratio - 200.0).abs() < 1e-6, "{measured:?}");
        assert!((measured.cost_ratio - 1.0).abs() < 1e-9, "{measured:?}");
    }
    let slow = seen(9.0, 2e-3, 0.3);
    assert_eq!(slow.at_least(400.0, 500), slow, "what was answered is told as it was");
}

#[test]
fn an_interval_by_hand_and_one_turn_gone_wrong_of_six_moves_little() {
    // 2, 3, 4 are kept of 1 to 5; winsorised 2, 2, 3, 4, 4: squares 4, error sqrt(4 / 6).
    let estimate = Estimate::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
    assert!((estimate.ln - 3.0).abs() < 1e-9, "{estimate:?}");
    assert!((estimate.half_width_ln - 4.303 * (4.0_f64 / 6.0).sqrt()).abs() < 1e-9, "{estimate:?}");
    let calm = [0.08, 0.12, 0.10, 0.14, 0.11];
    let with = |last: f64| Estimate::of([&calm[..], &[last]].concat()).unwrap();
    assert!((with(5.0).ln - with(0.13).ln).abs() < 0.01, "{:?}", with(5.0));
}

/// About normal, of deviation 1.
fn normal(dice: &mut Dice) -> f64 {
    (0..12).map(|_| dice.share()).sum::<f64>() - 6.0
}

/// Pairs of a harm, in ln, that scatter by a deviation; one of twelve went wrong.
fn pairs(dice: &mut Dice, harm_ln: f64, deviation: f64, count: usize) -> Vec<Pair> {
    let one = |_| {
        let wrong = if dice.below(12) == 0 { 5.0 } else { 1.0 };
        pair(harm_ln + wrong * deviation * normal(dice))
    };
    (0..count).map(one).collect()
}

#[test]
fn the_estimate_comes_near_the_harm_with_the_root_of_the_pairs() {
    let (harm_ln, deviation) = (0.113, 0.16);
    let error = |count: usize| {
        let mut squares = 0.0;
        for seed in 0..300 {
            let mut dice = Dice::new(seed);
            let estimate = Measured::of(&pairs(&mut dice, harm_ln, deviation, count)).unwrap();
            squares += (estimate.latency_ratio.ln() - harm_ln).powi(2);
        }
        (squares / 300.0).sqrt()
    };
    let (few, many) = (error(8), error(32));
    assert!(few < 1.5 * deviation / 8.0_f64.sqrt(), "{few}");
    assert!(many < 0.65 * few, "four times the pairs, about half the error: {few}, {many}");
}

#[test]
fn the_interval_holds_the_harm_as_often_as_it_says() {
    let harm_ln: f64 = 0.4;
    let held = (0..400).filter(|seed| {
        let pairs = pairs(&mut Dice::new(*seed), harm_ln, 0.1, 8);
        let (low, high) = Measured::of(&pairs).unwrap().interval;
        (low..=high).contains(&harm_ln.exp())
    });
    let held = held.count();
    assert!((360..=399).contains(&held), "95 % of 400 are 380: {held}");
}

#[test]
fn a_factor_that_is_known_exactly_does_not_hide_one_that_is_not() {
    // All were answered in time, and the latency of three pairs says little yet.
    let measured = Measured::of(&[pair(-0.25), pair(-0.02), pair(0.08)]).unwrap();
    assert!((measured.ratio() - 1.0).abs() < 1e-9 && measured.latency_ratio < 1.0, "{measured:?}");
    let (low, high) = measured.interval;
    assert!((low - 1.0).abs() < 1e-9 && high > 1.2, "{measured:?}");
    assert!(!Harm::Little.excludes(measured.interval), "{measured:?}");
}

#[test]
fn a_class_is_decided_by_the_interval() {
    let table = [
        (Harm::Little, (1.06, 1.19), true, false),
        (Harm::Little, (1.01, 1.19), false, false),
        (Harm::Little, (1.1, 1.3), false, false),
        (Harm::Little, (0.8, 1.04), true, true),
        (Harm::Little, (1.21, 1.5), true, true),
        (Harm::Much, (1.21, 9.0), true, false),
        (Harm::Much, (1.1, 9.0), false, false),
        (Harm::Much, (1.0, 1.1), true, true),
        (Harm::None, (1.0, 1.1), true, true),
    ];
    for (class, interval, decided, excluded) in table {
        assert_eq!(class.is_decided(interval), decided, "{class} {interval:?}");
        assert_eq!(class.excludes(interval), excluded, "{class} {interval:?}");
    }
}
