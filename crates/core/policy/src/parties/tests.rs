//! How PARTIES gives and takes, tick by tick, and what holds whatever it sees.

use super::*;
use crate::testing::{Standing, observe, setup};
use quell_types::{Knob, Setting};

fn two() -> Setup {
    setup(8).service("a", 1.0, 1.0).service("b", 1.0, 1.0).batch("x").ways(20).build()
}

/// A law on a machine, tick by tick.
struct Play {
    law: Parties,
    setup: Setup,
    standing: Standing,
    second: f64,
}

impl Play {
    fn new(setup: Setup) -> Self {
        let law = Parties::new(PartiesParams::default());
        Self { law, setup, standing: Standing::default(), second: 0.0 }
    }

    /// So many ticks with these slacks of `a` and `b`; answers the rules that fired.
    fn ticks(&mut self, count: u32, a: f64, b: f64) -> Vec<String> {
        let mut rules = Vec::new();
        for _ in 0..count {
            self.second += 0.1;
            let seen = observe(&self.setup, self.second).slack("a", a).slack("b", b);
            rules.extend(self.standing.step(&mut self.law, &self.setup, seen));
        }
        rules.dedup();
        rules
    }

    fn cpus(&self, tenant: &str) -> usize {
        self.standing.cpus(tenant).len()
    }
}

#[test]
fn services_begin_with_equal_shares_and_batch_with_nothing() {
    let mut play = Play::new(two());
    play.ticks(1, 0.1, 0.1);
    assert_eq!((play.cpus("a"), play.cpus("b"), play.cpus("x")), (4, 4, 0));
    assert!(play.standing.frozen("x"));
    assert_eq!((play.standing.ways("a"), play.standing.ways("b")), (0x3ff, 0xffc00));
}

#[test]
fn the_service_that_is_short_gets_a_core_of_the_one_with_most_slack_and_keeps_it() {
    let mut play = Play::new(two());
    play.ticks(1, 0.1, 0.1);
    let rules = play.ticks(1, -0.5, 0.15);
    assert!(rules.contains(&"upsize".to_owned()), "{rules:?}");
    assert_eq!((play.cpus("a"), play.cpus("b")), (5, 3));
    // It did not help within five ticks: next time it is a way.
    play.ticks(5, -0.5, 0.15);
    assert_eq!((play.cpus("a"), play.cpus("b")), (5, 3));
    play.ticks(1, -0.5, 0.15);
    assert_eq!(play.standing.ways("a").count_ones(), 11);
    assert_eq!(play.standing.ways("b").count_ones(), 9);
}

#[test]
fn what_is_spare_goes_to_batch_and_comes_back_if_that_does_harm() {
    let mut play = Play::new(two());
    play.ticks(1, 0.1, 0.1);
    let rules = play.ticks(1, 0.6, 0.1);
    assert!(rules.contains(&"downsize".to_owned()) && rules.contains(&"pool-free".to_owned()));
    assert_eq!((play.cpus("a"), play.cpus("x")), (3, 1));
    assert!(!play.standing.frozen("x"));
    let rules = play.ticks(5, 0.0, 0.1);
    assert!(rules.contains(&"take-back".to_owned()), "{rules:?}");
    assert!(play.standing.frozen("x"), "no core is free");
    assert_eq!(play.cpus("a"), 4);
    // Barred for 100 ticks, whatever its slack.
    assert!(play.ticks(90, 0.9, 0.1).is_empty());
    assert!(!play.ticks(15, 0.9, 0.1).is_empty());
}

#[test]
fn one_core_and_way_stay_with_each_service() {
    let mut play = Play::new(two());
    play.ticks(3000, -1.0, 0.9);
    assert_eq!((play.cpus("a"), play.cpus("b")), (7, 1));
    assert_eq!(play.standing.ways("b").count_ones(), 1);
    let mut calm = Play::new(two());
    calm.ticks(3000, 0.9, 0.9);
    assert_eq!((calm.cpus("a"), calm.cpus("b"), calm.cpus("x")), (1, 1, 6));
}

#[test]
fn frequency_is_a_step_of_the_wheel_where_it_can_be_set() {
    let setup = setup(4).service("a", 1.0, 1.0).service("b", 1.0, 1.0).batch("x");
    let mut play = Play::new(setup.frequency(1_200_000, 2_300_000).build());
    play.ticks(400, 0.9, 0.9);
    let low = play.standing.cpus("a").iter().next().unwrap();
    let to = &play.standing.settings[&Knob::FrequencyMax { cpu: low }];
    assert_eq!(*to, Setting::Frequency(quell_types::Kilohertz(1_200_000)));
    let free = play.standing.cpus("x").iter().next().unwrap();
    let to = play.standing.settings.get(&Knob::FrequencyMax { cpu: free });
    let full = Setting::Frequency(quell_types::Kilohertz(2_300_000));
    assert!(to.is_none_or(|to| *to == full), "batch runs at full clock: {to:?}");
}

#[test]
fn without_cores_to_divide_batch_stays_off_and_that_is_said() {
    let setup = setup(1).service("a", 1.0, 1.0).service("b", 1.0, 1.0).batch("x").build();
    let law = Parties::new(PartiesParams::default());
    assert!(law.degradations(&setup)[0].contains("fewer cores than services"));
    let mut play = Play::new(setup);
    play.ticks(50, 0.9, 0.9);
    assert!(play.standing.frozen("x") && play.cpus("a") == 0);
}

#[test]
fn an_unknown_slack_moves_nothing() {
    let mut play = Play::new(two());
    play.ticks(1, 0.1, 0.1);
    let before = play.standing.settings.clone();
    for tick in 0..200 {
        let seen = observe(&play.setup, 1.0 + f64::from(tick) / 10.0);
        play.standing.step(&mut play.law, &play.setup, seen);
    }
    assert_eq!(play.standing.settings, before);
    assert_eq!(Shares::equal(&play.setup, 100_000).services(), 2);
}

/// What holds whatever is seen: shares are apart, nobody is without, batch never runs without a
/// core of its own.
fn hold(play: &Play) {
    let names = ["a", "b", "x"];
    let cpus = names.map(|name| play.standing.cpus(name));
    let held = play.standing.frozen("x") || play.standing.quota_cpus("x").is_some_and(|q| q < 0.01);
    assert!(!cpus[0].is_empty() && !cpus[1].is_empty(), "{cpus:?}");
    assert!(cpus[0].is_disjoint(&cpus[1]), "{cpus:?}");
    let mine = cpus[0].union(&cpus[1]);
    assert!(held || (!cpus[2].is_empty() && cpus[2].is_disjoint(&mine)), "{cpus:?}");
    let ways = names.map(|name| play.standing.ways(name));
    for mask in ways.into_iter().filter(|mask| *mask > 0) {
        let low = mask >> mask.trailing_zeros();
        assert_eq!(low & (low + 1), 0, "{mask:#x}");
    }
    assert_eq!(ways[0] & ways[1], 0, "{ways:x?}");
    for knob in play.standing.settings.keys() {
        assert!(play.setup.controls(knob), "{knob}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        failure_persistence: None, cases: 64, ..Default::default()
    })]

    #[test]
    fn shares_stay_apart_whatever_the_slacks(
        cpus in 3u32..12, ways in 0u32..14, exclusive: bool, smt: bool,
        slacks in proptest::collection::vec((-1.0f64..1.0, -1.0f64..1.0), 1..300),
    ) {
        let mut machine = setup(cpus).service("a", 1.0, 1.0).service("b", 1.0, 1.0).batch("x");
        machine = machine.frequency(1_200_000, 1_500_000);
        if ways > 0 {
            machine = machine.ways(ways);
        }
        if exclusive {
            machine = machine.exclusive();
        }
        let mut play = Play::new(if smt && cpus >= 6 { machine.smt().build() } else { machine.build() });
        for (a, b) in slacks {
            play.ticks(1, a, b);
            hold(&play);
        }
    }
}
