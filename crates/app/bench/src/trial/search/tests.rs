//! Tests of the search, on responses that it does not know.

use super::super::draw::{Dice, Harm};
use super::*;

/// Pairs that there is time for.
const PAIRS: u32 = 12;
const SEEDS: u64 = 8;

/// Bounds of a duty that takes the CPU.
const LEAST: f64 = 0.5;
const MOST: f64 = 45.0;

/// A pair in which only latency grew.
fn late(latency_ln: f64) -> Pair {
    Pair { latency_ln, p95_ln: 0.0, cost_ln: 0.0, answered_ln: 0.0 }
}

fn class() -> Range<f64> {
    Harm::Little.bounds().unwrap()
}

/// Harm of so many CPUs that are taken, where so many are idle.
type Response = fn(f64, f64) -> f64;

/// None is of the search's own shape but the second. The last number is the least share that is to
/// come into the class where pairs scatter by 15 %: a square does nothing for long, far below what is
/// usual, and most pairs go into finding that out.
const RESPONSES: [(&str, Response, f64); 4] = [
    ("a queue", |taken, idle| 1.0 + taken / (idle - taken).max(0.02), 0.8),
    ("a line", |taken, idle| 1.0 + 0.8 * taken / idle, 0.75),
    ("a square and its end", |taken, idle| 1.0 + taken * taken / (idle - taken).max(0.05), 0.4),
    ("wears off", |taken, idle| 1.0 + 0.5 * (1.0 - (-taken / idle).exp()), 0.65),
];

/// About normal; one of twenty is five times as wide.
fn noise(dice: &mut Dice, deviation: f64) -> f64 {
    let normal = (0..12).map(|_| dice.share()).sum::<f64>() - 6.0;
    let wide = if dice.below(20) == 0 { 5.0 } else { 1.0 };
    wide * deviation * normal
}

/// The harm of the duty that is found in the end.
fn found(response: Response, threads: u32, idle: f64, deviation: f64, seed: u64) -> f64 {
    let mut dice = Dice::new(seed);
    let harm = |duty: Duty| response(f64::from(threads) * duty.percent() / 100.0, idle);
    let mut search =
        Search::new((Taken::Cpu, threads), class(), &Usual::of(Taken::Cpu), Growth::default());
    for _ in 0..PAIRS {
        let duty = search.best();
        assert!((LEAST..=MOST).contains(&duty.percent()), "{duty:?}");
        search.learn(duty, &late(harm(duty).ln() + noise(&mut dice, deviation)));
    }
    harm(search.best())
}

/// Share of all seeds, threads and crowds in which the harm is of the class in the end.
fn share_within(response: Response, deviation: f64) -> f64 {
    let (mut within, mut all) = (0.0, 0.0);
    for threads in [2, 3, 4] {
        for (place, idle) in (0_u64..).zip([0.15, 0.4, 0.8, 1.3]) {
            for seed in 0..SEEDS {
                // Each has noise of its own.
                let seed = 100 * seed + 10 * place + u64::from(threads);
                let harm = found(response, threads, idle, deviation, seed);
                all += 1.0;
                within += if Harm::Little.refuses(Some(harm)).is_none() { 1.0 } else { 0.0 };
            }
        }
    }
    within / all
}

#[test]
fn it_finds_little_harm_beside_whatever_crowd() {
    for (name, response, least) in RESPONSES {
        let (calm, noisy) = (share_within(response, 0.03), share_within(response, 0.15));
        assert!(calm >= 0.95, "{name}, pairs to 3 %: {calm}");
        assert!(noisy >= least, "{name}, pairs to 15 %: {noisy}");
    }
}

#[test]
fn what_is_found_is_the_seeds_alone_and_scatters_less_with_more_pairs() {
    let (_, queue, _) = RESPONSES[0];
    assert_eq!(found(queue, 3, 0.4, 0.15, 7), found(queue, 3, 0.4, 0.15, 7));
    let mut search =
        Search::new((Taken::Cpu, 3), class(), &Usual::of(Taken::Cpu), Growth::default());
    let duty = search.best();
    let at_first = search.probability(duty);
    (0..4).for_each(|_| search.learn(duty, &late(1.12_f64.ln())));
    let later = search.probability(duty);
    assert!(at_first < 0.5 && later > 0.9, "{at_first}, then {later}");
    assert!(search.probability(Duty::new(Taken::Cpu, MOST)) < 0.05);
}

#[test]
fn no_harm_and_boundless_harm_lead_to_the_ends_and_nothing_is_nan() {
    for (seen_ln, end) in [(-0.3, MOST), (4.0, LEAST)] {
        let mut search =
            Search::new((Taken::Cpu, 4), class(), &Usual::of(Taken::Cpu), Growth::default());
        for _ in 0..2 * PAIRS {
            search.learn(search.best(), &late(seen_ln));
        }
        let sum: f64 = search.cells.iter().map(|cell| cell.weight).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let found = search.best().percent();
        assert!((found / end).ln().abs() < 1.5, "{seen_ln}: {found}, not about {end}");
    }
}

#[test]
fn what_was_found_is_where_the_next_one_begins() {
    let mut usual = Usual::of(Taken::Cpu);
    let first = Search::new((Taken::Cpu, 2), class(), &usual, Growth::default()).best().percent();
    for _ in 0..12 {
        let mut search = Search::new((Taken::Cpu, 2), class(), &usual, Growth::default());
        (0..10).for_each(|_| search.learn(Duty::new(Taken::Cpu, 12.0), &late(1.05_f64.ln())));
        usual.learn(&search);
    }
    let later = Search::new((Taken::Cpu, 2), class(), &usual, Growth::default()).best().percent();
    assert!(later > 1.5 * first, "where little harm was seen more is tried: {first}, {later}");
    let pairs = Search::new((Taken::Cpu, 2), class(), &usual, Growth::default()).pairs().len();
    assert_eq!(pairs, 0, "pairs are those of one trial");
    let four = Search::new((Taken::Cpu, 4), class(), &usual, Growth::default()).best().percent();
    assert!((four / later - 0.5).abs() < 0.1, "twice the threads, half each: {four}, {later}");
}

#[test]
fn who_takes_memory_is_judged_by_cost_and_may_work_all_the_time() {
    let mut search =
        Search::new((Taken::Memory, 1), class(), &Usual::of(Taken::Memory), Growth::default());
    let cost = |cost_ln: f64| Pair { latency_ln: 1.0, cost_ln, ..late(0.0) };
    for _ in 0..PAIRS {
        let duty = search.best();
        search.learn(duty, &cost(0.3 * duty.percent() / 100.0));
    }
    let found = search.best().percent();
    assert!((17.0..61.0).contains(&found), "0.05 to 0.18 of 0.3: {found}");
    let mut idle =
        Search::new((Taken::Memory, 1), class(), &Usual::of(Taken::Memory), Growth::default());
    (0..PAIRS).for_each(|_| idle.learn(idle.best(), &cost(0.0)));
    let (best, probability) = (idle.best(), idle.probability(idle.best()));
    assert!(best.percent() > 80.0 && probability < 0.05, "{best:?}: {probability}");
}

#[test]
fn where_harm_is_more_than_what_is_seen_less_is_sought() {
    let mut growth = Growth::default();
    (0..60).for_each(|_| growth.learn(0.15, 0.1));
    let usual = Usual::of(Taken::Memory);
    let sought = |growth: Growth| {
        let mut search = Search::new((Taken::Memory, 1), class(), &usual, growth);
        let pair = |percent: f64| Pair { cost_ln: 0.003 * percent, ..late(0.0) };
        [20.0, 40.0, 60.0].iter().for_each(|&percent| {
            (0..6).for_each(|_| search.weigh(Duty::new(Taken::Memory, percent), &pair(percent)));
        });
        0.003 * search.best().percent()
    };
    let (as_seen, grown) = (sought(Growth::default()), sought(growth));
    assert!((0.09..0.15).contains(&as_seen), "about the middle of the class: {as_seen}");
    assert!((0.09..0.15).contains(&(grown * growth.factor())), "so here: {grown}");
    assert!(grown < 0.8 * as_seen, "{grown}, {as_seen}");
}

/// A service that loses 10 % beside one who works at this percentage, by 8 % more or less from trial to trial.
#[test]
fn after_some_trials_a_few_pairs_that_say_otherwise_lead_less_far_astray() {
    let mut dice = Dice::new(5);
    let mut usual = Usual::of(Taken::Memory);
    let cost = |cost_ln: f64| Pair { cost_ln, ..late(0.0) };
    let misled = |usual: &Usual| {
        let mut search = Search::new((Taken::Memory, 1), class(), usual, Growth::default());
        let seen = [0.25, 0.05, 0.2];
        seen.iter().for_each(|&ln| search.learn(Duty::new(Taken::Memory, 50.0), &cost(ln)));
        search.best().percent()
    };
    let at_first = misled(&usual);
    for _ in 0..12 {
        let mut search = Search::new((Taken::Memory, 1), class(), &usual, Growth::default());
        let effect = 0.2 * noise(&mut dice, 0.2).exp();
        for percent in [25.0, 50.0, 100.0] {
            let harm_ln = (1.0 + effect * percent / 100.0).ln();
            let pair = |ln: f64| cost(harm_ln + ln);
            (0..4).for_each(|_| {
                search.weigh(Duty::new(Taken::Memory, percent), &pair(noise(&mut dice, 0.04)));
            });
        }
        usual.learn(&search);
    }
    let later = misled(&usual);
    let straight =
        Search::new((Taken::Memory, 1), class(), &usual, Growth::default()).best().percent();
    assert!((45.0..70.0).contains(&straight), "0.12 of 0.2 are 60 %: {straight}");
    assert!(at_first < 0.8 * straight && later > 1.1 * at_first, "{at_first}, then {later}");
}
