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
    assert!(play.ticks(19, 0.6, 0.1).is_empty(), "not calm for long enough");
    let rules = play.ticks(1, 0.6, 0.1);
    assert_eq!(rules, ["downsize"]);
    assert_eq!((play.cpus("a"), play.cpus("x")), (3, 1));
    assert!(play.standing.frozen("x"), "it may not have moved yet");
    assert_eq!(play.ticks(1, 0.6, 0.1), ["pool-free"]);
    assert!(!play.standing.frozen("x"));
    let rules = play.ticks(3, 0.04, 0.1);
    assert!(rules.contains(&"take-back".to_owned()), "{rules:?}");
    assert!(play.standing.frozen("x"), "no core is free");
    assert_eq!(play.cpus("a"), 4);
    // Barred for 100 ticks, whatever its slack.
    assert!(play.ticks(99, 0.9, 0.1).is_empty());
    assert!(!play.ticks(1, 0.9, 0.1).is_empty());
    assert_eq!(play.cpus("a"), 4, "it is asked for something else");
}

#[test]
fn an_objective_that_is_missed_ends_a_downsizing_at_once_and_queues_may_drain() {
    let mut play = Play::new(two());
    play.ticks(20, 0.6, 0.1);
    assert_eq!(play.cpus("a"), 3);
    assert_eq!(play.ticks(1, -0.01, 0.1), ["take-back"]);
    // Five ticks in which nothing is begun, although it is short.
    assert!(play.ticks(5, -2.0, 0.1).is_empty());
    assert_eq!(play.ticks(1, -2.0, 0.1), ["upsize"]);
}

#[test]
fn nobody_is_asked_for_more_while_anybody_is_short() {
    let mut play = Play::new(two());
    assert_eq!(play.ticks(100, 0.6, 0.04).last().map(String::as_str), Some("upsize"));
    let mut near = Play::new(two());
    near.ticks(1, 0.1, 0.1);
    for _ in 0..100 {
        near.second += 0.1;
        let seen = observe(&near.setup, near.second).slack("a", 0.6).slack("b", 0.1);
        let rules = near.standing.step(&mut near.law, &near.setup, seen.fast_slack("b", 0.04));
        assert!(rules.is_empty(), "{rules:?}");
    }
}

#[test]
fn who_uses_what_it_has_is_not_asked_for_cores_or_clock() {
    // Of 4 CPUs at 2.3 GHz; one core less is 3, 100 MHz less is 3.83.
    for (used, core, clock) in
        [(2.4, true, true), (2.5, false, true), (3.05, false, true), (3.1, false, false)]
    {
        let machine = setup(8).service("a", 1.0, 1.0).service("b", 1.0, 1.0).batch("x");
        let mut play = Play::new(machine.frequency(1_200_000, 2_300_000).build());
        play.ticks(1, 0.1, 0.1);
        let mut taken = (false, false);
        for _ in 0..21 {
            play.second += 0.1;
            let seen = observe(&play.setup, play.second).slack("a", 0.6).slack("b", 0.1);
            play.standing.step(&mut play.law, &play.setup, seen.cpu("a", used));
            let knob = Knob::FrequencyMax { cpu: 0 };
            taken.0 |= play.cpus("a") < 4;
            taken.1 |= play.standing.settings.contains_key(&knob);
        }
        assert_eq!(taken, (core, clock && !core), "{used} CPUs used");
    }
}

#[test]
fn a_donor_is_not_short_itself_and_gets_back_what_it_cannot_spare() {
    let mut both = Play::new(two());
    assert!(!both.ticks(100, -0.5, -0.1).contains(&"upsize".to_owned()));
    assert_eq!((both.cpus("a"), both.cpus("b")), (4, 4));

    let mut play = Play::new(two());
    play.ticks(1, 0.1, 0.1);
    assert_eq!(play.ticks(1, -0.5, 0.15), ["upsize"]);
    assert_eq!((play.cpus("a"), play.cpus("b")), (5, 3));
    assert_eq!(play.ticks(1, -0.2, -0.3), ["hand-back"]);
    assert_eq!((play.cpus("a"), play.cpus("b")), (4, 4));
    // That core is not asked for again; ways are.
    play.ticks(60, -0.2, 0.3);
    assert_eq!((play.cpus("a"), play.cpus("b")), (4, 4));
    assert!(play.standing.ways("a").count_ones() > 10);
}

#[test]
fn a_shortage_begins_with_the_clock_that_was_given_away() {
    let machine = setup(8).service("a", 1.0, 1.0).service("b", 1.0, 1.0).batch("x");
    let mut play = Play::new(machine.frequency(2_200_000, 2_300_000).build());
    // All cores but one of each, and the one step of clock.
    play.ticks(400, 0.9, 0.9);
    assert_eq!(play.cpus("a"), 1);
    let clock = |play: &Play| {
        let cpu = play.standing.cpus("a").iter().next().expect("a CPU");
        play.standing.settings[&Knob::FrequencyMax { cpu }].clone()
    };
    assert_eq!(clock(&play), Setting::Frequency(quell_types::Kilohertz(2_200_000)));
    assert_eq!(play.ticks(1, 0.0, 0.9), ["upsize"]);
    assert_eq!(clock(&play), Setting::Frequency(quell_types::Kilohertz(2_300_000)));
    assert_eq!(play.cpus("a"), 1);
    play.ticks(6, 0.0, 0.9);
    assert_eq!(play.cpus("a"), 2);
}

/// Ticks in which a core of `a` is taken, if each time that does harm.
fn failures(play: &mut Play, ticks: u32) -> Vec<u32> {
    let mut at = Vec::new();
    play.ticks(1, 0.1, 0.1);
    for tick in 0..ticks {
        let had = play.cpus("a");
        let harm = if had < 4 { -0.1 } else { 0.9 };
        play.ticks(1, harm, 0.1);
        if play.cpus("a") < had {
            at.push(tick);
        }
    }
    at
}

#[test]
fn what_failed_is_tried_ever_more_rarely() {
    // Cores are all that can be taken.
    let machine = setup(8).service("a", 1.0, 1.0).service("b", 1.0, 1.0).batch("x").build();
    let at = failures(&mut Play::new(machine), 4000);
    let gaps: Vec<u32> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [101, 201, 401, 801, 1601], "{at:?}");
}

#[test]
fn a_level_is_remembered_until_time_or_a_lower_rate_takes_it_away() {
    let params = PartiesParams::default();
    let core = Resource::Core;
    let mut memory = Memory::of(2);
    memory.failed(0, (core, 3), Some(1000.0), &params);
    for (service, what, level, refused) in [
        (0, core, 3, true),
        (0, core, 2, true),
        (0, core, 4, false),
        (0, Resource::Cache, 3, false),
        (1, core, 3, false),
    ] {
        assert_eq!(memory.refuses(service, what, level), refused, "{service} {what:?} {level}");
    }
    for (rate, remembered) in [(1000.0, true), (800.0, true), (799.0, false)] {
        let mut memory = memory.clone();
        memory.forget_above(0, rate, params.forget_below_ratio);
        assert_eq!(memory.refuses(0, core, 3), remembered, "{rate}/s");
    }
    // Steps out of one shortage are one failure, and the highest level counts.
    (0..50).for_each(|_| memory.tick());
    memory.failed(0, (core, 4), Some(900.0), &params);
    (0..99).for_each(|_| memory.tick());
    assert!(memory.refuses(0, core, 4));
    memory.tick();
    assert!(!memory.refuses(0, core, 1));
    // No longer than the longest, however often.
    for _ in 0..100 {
        memory.failed(0, (core, 4), None, &params);
        (0..100).for_each(|_| memory.tick());
    }
    (100..params.bar_ticks_max_count).for_each(|_| memory.tick());
    assert!(!memory.refuses(0, core, 4));
    memory.failed(0, (core, 4), None, &params);
    memory.forget(0);
    assert!(!memory.refuses(0, core, 4));
}

#[test]
fn a_service_that_begins_anew_is_another_one() {
    let machine = setup(8).service("a", 1.0, 1.0).service("b", 1.0, 1.0).batch("x").build();
    let mut play = Play::new(machine);
    play.ticks(20, 0.9, 0.1);
    assert_eq!(play.ticks(1, -0.1, 0.1), ["take-back"]);
    play.second += 0.1;
    let seen = observe(&play.setup, play.second).slack("a", 0.9).slack("b", 0.1);
    play.standing.step(&mut play.law, &play.setup, seen.of("a", |s| s.restarted = true));
    assert_eq!(play.ticks(30, 0.9, 0.1), ["downsize", "pool-free"]);
}

/// A name, who pays, slacks of the service and of its neighbour, what the ticks say.
type Judged = (&'static str, Way, [f64; 5], [f64; 5], &'static [Verdict]);

#[test]
fn a_watched_change_is_judged_by_who_pays_for_it() {
    use Verdict::{Harm, Helped, Kept, Open};
    let down = Way::Down;
    let pool = Way::Up { before: 4, donor: None };
    let from = Way::Up { before: 4, donor: Some(1) };
    let quiet = [0.1; 5];
    let cases: [Judged; 9] = [
        ("nobody is short", down, [0.3; 5], quiet, &[Open, Open, Open, Open, Kept]),
        ("most ticks", down, [0.3, 0.0, 0.3, 0.0, 0.0], quiet, &[Open, Open, Open, Open, Harm]),
        ("most are certain", down, [0.0; 5], quiet, &[Open, Open, Harm]),
        ("few ticks", down, [0.0, 0.0, 0.1, 0.1, 0.1], quiet, &[Open, Open, Open, Open, Kept]),
        ("a miss", down, [0.1, -0.1, 0.1, 0.1, 0.1], quiet, &[Open, Harm]),
        ("a neighbour's miss", down, [0.3; 5], [-0.1; 5], &[Harm]),
        ("it fell", pool, [-0.4; 5], [-0.1; 5], &[Open, Open, Open, Open, Helped]),
        ("it did not", pool, [-0.5; 5], [-0.1; 5], &[Open, Open, Open, Open, Kept]),
        ("the donor's miss", from, [-0.4; 5], [0.1, -0.1, 0.1, 0.1, 0.1], &[Open, Harm]),
    ];
    let at = |now: f64| {
        let slack = seen::Slack { now: Some(now), windowed: Some(now) };
        Seen { slack, ..Seen::default() }
    };
    for (name, way, mine, other, expected) in cases {
        let mut watch = Watch::new(0, Resource::Core, way, &at(-0.5));
        let ticks = mine.iter().zip(other).map(|(mine, other)| [at(*mine), at(other)]);
        let params = PartiesParams::default();
        let verdicts: Vec<Verdict> =
            ticks.take(expected.len()).map(|seen| watch.tick(&seen, &params)).collect();
        assert_eq!(verdicts, expected, "{name}");
    }
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
    play.ticks(1000, 0.9, 0.9);
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
