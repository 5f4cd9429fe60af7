//! The law on one socket of 16 CPUs: an attacker on 0-7, a victim on 8-11, a quiet group on 12-15.

use super::*;
use crate::testing::{Standing, observe, setup};

struct Run {
    law: PowerLaw,
    setup: Setup,
    standing: Standing,
    loops: u32,
    sets: Vec<(&'static str, &'static str)>,
    /// Temperature and use of the attacker's CPUs.
    attacker: (f64, f64),
    /// CPUs that the attacker uses.
    used_cpus: f64,
}

impl Run {
    fn new(setup: Setup, params: PowerParams) -> Self {
        let sets = vec![("web", "8-11"), ("virus", "0-7"), ("calm", "12-15")];
        let (law, standing) = (PowerLaw::new(params), Standing::default());
        Self { law, setup, standing, loops: 0, sets, attacker: (80.0, 1.0), used_cpus: 8.0 }
    }

    fn play(&mut self, loops: u32, watts: f64) {
        for _ in 0..loops {
            self.step(12.0 * f64::from(self.loops), watts);
            self.loops += 1;
        }
    }

    fn step(&mut self, second: f64, watts: f64) {
        let mut seen = observe(&self.setup, second).power(&[watts]);
        let others = (60.0, 0.9);
        let heat: Vec<(f64, f64)> =
            (0..16).map(|cpu| if cpu < 8 { self.attacker } else { others }).collect();
        seen = seen.heat(&heat).cpu("virus", self.used_cpus);
        for (name, cpus) in &self.sets {
            seen = seen.on(name, cpus);
        }
        self.standing.step(&mut self.law, &self.setup, seen);
    }

    /// A loop, second by second; answers in which of them the attacker's CPU bandwidth was set at their end.
    fn watch(&mut self, watts: f64) -> Vec<u32> {
        let begin = 12 * self.loops;
        self.loops += 1;
        let mut rested = Vec::new();
        for second in 0..12 {
            self.step(f64::from(begin + second), watts);
            rested.extend(self.standing.quota_cpus("virus").map(|_| second));
        }
        rested
    }

    fn held(&self) -> Vec<(u32, Setting)> {
        let cpu = |knob: &Knob| match knob {
            Knob::DutyCycle { cpu } | Knob::FrequencyMax { cpu } => Some(*cpu),
            _ => None,
        };
        let all = self.standing.settings.iter();
        all.filter_map(|(knob, to)| Some((cpu(knob)?, to.clone()))).collect()
    }
}

/// A step of one level each time, as A-28 is printed.
fn literal() -> PowerParams {
    PowerParams { step_growth_parts: 0, ..PowerParams::default() }
}

fn machine() -> crate::testing::SetupBuilder {
    setup(16).service("web", 10.0, 100.0).batch("virus").batch("calm")
}

#[test]
fn only_the_warm_and_busy_are_slowed_a_step_a_loop_and_freed_in_sixteen() {
    let mut run = Run::new(machine().duty(16).build(), literal());
    run.play(3, 160.0);
    let expected: Vec<(u32, Setting)> = (0..8).map(|cpu| (cpu, Setting::Duty(13))).collect();
    assert_eq!(run.held(), expected);
    run.play(1, 145.0);
    assert_eq!(run.held(), expected, "between the bounds nothing changes");
    run.play(40, 160.0);
    assert_eq!(run.held()[0].1, Setting::Duty(1));
    run.play(16, 100.0);
    assert!(run.held().is_empty(), "{:?}", run.held());
    for rule in ["noisy", "relaxing", "relaxed"] {
        assert!(run.standing.rules.iter().any(|r| r == rule), "{rule}");
    }
}

#[test]
fn who_gets_a_core_between_two_loops_has_its_clock_back_within_a_second() {
    for machine in [machine().duty(16), machine().frequency(1_000_000, 3_200_000)] {
        let mut run = Run::new(machine.build(), literal());
        run.play(3, 160.0);
        let before = run.held();
        assert_eq!(before.len(), 8);
        run.step(25.0, 160.0);
        assert_eq!(run.held(), before, "nothing is judged between two loops");
        run.sets = vec![("web", "6-11"), ("virus", "0-5"), ("calm", "12-15")];
        run.step(26.0, 160.0);
        assert_eq!(run.held(), before[..6], "CPUs 6 and 7 are the service's now");
        assert!(run.law.period() <= Duration::from_secs(1));
    }
}

#[test]
fn the_plain_variant_lets_go_of_who_has_cooled() {
    for (remembers, parts) in [(true, 14), (false, 15)] {
        let params = PowerParams { remembers, ..literal() };
        let mut run = Run::new(machine().duty(16).build(), params);
        run.play(1, 160.0);
        run.attacker = (40.0, 1.0);
        run.play(1, 160.0);
        assert_eq!(run.held()[0].1, Setting::Duty(parts), "remembers: {remembers}");
    }
}

#[test]
fn without_clocks_top_frequencies_are_lowered() {
    let mut run = Run::new(machine().frequency(1_000_000, 3_200_000).build(), literal());
    run.play(2, 160.0);
    assert_eq!(run.held().len(), 8);
    assert_eq!(run.held()[0].1, Setting::Frequency(Kilohertz(2_800_000)));
    run.play(40, 160.0);
    assert_eq!(run.held()[0].1, Setting::Frequency(Kilohertz(1_000_000)), "not below the lowest");
    assert!(run.law.degradations(&run.setup)[0].contains("top frequencies"));
}

#[test]
fn who_is_slowed_to_less_than_half_rests_but_for_the_end_of_each_loop() {
    for machine in [machine().duty(16), machine().frequency(1_000_000, 3_200_000)] {
        // A step more in each loop: 15, 13, 10, 6.
        let mut run = Run::new(machine.build(), PowerParams::default());
        for loops in 0..3 {
            assert!(run.watch(160.0).is_empty(), "loop {loops}");
        }
        assert_eq!(run.watch(160.0), (0..10).collect::<Vec<u32>>());
        run.step(48.0, 145.0);
        let knob = Knob::CpuBandwidth { tenant: "virus".into() };
        let Some(Setting::Bandwidth(to)) = run.standing.settings.get(&knob) else { panic!() };
        assert!((to.limit_cpus.unwrap().0 - 3.2).abs() < 1e-9, "{to:?}");
        assert_eq!(to.period_us, 1_000_000);
        run.loops = 5;
        assert_eq!(run.watch(130.0), (0..10).collect::<Vec<u32>>(), "7 of 16");
        assert!(run.watch(130.0).is_empty(), "8 of 16");
        let others = run.standing.settings.keys().filter(|knob| knob.tenant().is_some());
        assert_eq!(others.count(), 0);
        for rule in ["resting", "roused"] {
            assert!(run.standing.rules.iter().any(|r| r == rule), "{rule}");
        }
    }
}

#[test]
fn who_does_little_shares_a_core_or_is_not_to_rest_goes_on_slowly() {
    let rests = |params: PowerParams, change: fn(&mut Run)| {
        let mut run = Run::new(machine().duty(16).build(), params);
        (0..5).for_each(|_| drop(run.watch(160.0)));
        change(&mut run);
        run.watch(160.0).len()
    };
    assert_eq!(rests(PowerParams::default(), |_| ()), 10);
    assert_eq!(rests(PowerParams { rest_frac: 0.0, ..PowerParams::default() }, |_| ()), 0);
    assert_eq!(rests(PowerParams { period_s: 2.0, ..PowerParams::default() }, |_| ()), 0);
    assert_eq!(rests(PowerParams::default(), |run| run.used_cpus = 1.9), 0);
    let beside = |run: &mut Run| run.sets = vec![("web", "8-11"), ("virus", "0-7"), ("calm", "7")];
    assert_eq!(rests(PowerParams::default(), beside), 0);
}

#[test]
fn who_rests_and_gets_a_neighbour_or_may_not_be_limited_any_more_is_up_within_a_second() {
    let mut run = Run::new(machine().duty(16).build(), PowerParams::default());
    (0..5).for_each(|_| drop(run.watch(160.0)));
    run.step(60.0, 145.0);
    assert!(run.standing.quota_cpus("virus").is_some());
    run.sets = vec![("web", "6-11"), ("virus", "0-7"), ("calm", "12-15")];
    run.step(61.0, 145.0);
    assert_eq!(run.standing.quota_cpus("virus"), None);
}

#[test]
fn a_frequency_domain_that_somebody_else_shares_is_left_alone() {
    let mut setup = machine().frequency(1_000_000, 3_200_000).build();
    // Domains of six CPUs: the attacker's 6 and 7 share one with the victim.
    setup.knobs.retain(|knob, _| match knob {
        Knob::FrequencyMax { cpu } => [0, 6, 12].contains(cpu),
        _ => true,
    });
    let mut run = Run::new(setup, literal());
    run.play(1, 160.0);
    assert_eq!(run.held(), [(0, Setting::Frequency(Kilohertz(3_000_000)))]);
}

#[test]
fn shared_cores_services_spared_groups_and_small_ones_are_left_alone() {
    let with = |params: PowerParams, sets: Vec<(&'static str, &'static str)>| {
        let mut run = Run::new(machine().duty(16).build(), params);
        run.sets = sets;
        run.play(5, 160.0);
        run.held().len()
    };
    let usual = literal;
    assert_eq!(with(usual(), vec![("web", "8-11"), ("virus", "0-7"), ("calm", "0-7")]), 0);
    assert_eq!(with(usual(), vec![("web", "0-7"), ("virus", "8-11"), ("calm", "12-15")]), 0);
    assert_eq!(with(usual(), vec![("web", "8-11"), ("virus", "0-2"), ("calm", "12-15")]), 0);
    let deny = PowerParams { deny: vec!["virus".into()], ..usual() };
    assert_eq!(with(deny, vec![("web", "8-11"), ("virus", "0-7"), ("calm", "12-15")]), 0);
}

#[test]
fn who_moves_away_is_free_and_a_lack_of_readings_blames_nobody() {
    let mut run = Run::new(machine().duty(16).build(), literal());
    run.play(2, 160.0);
    run.sets = vec![("web", "4-11"), ("virus", "0-3"), ("calm", "12-15")];
    run.play(1, 145.0);
    let held: Vec<u32> = run.held().iter().map(|(cpu, _)| *cpu).collect();
    assert_eq!(held, [0, 1, 2, 3]);
    let mut blind = Run::new(machine().duty(16).build(), literal());
    let seen = observe(&blind.setup, 0.0).power(&[170.0]);
    blind.standing.step(&mut blind.law, &blind.setup, seen);
    assert!(blind.held().is_empty());
    let none = PowerLaw::new(literal());
    assert!(none.degradations(&machine().build())[0].contains("nobody is slowed"));
}

#[test]
fn a_day_below_the_quota_slows_nobody() {
    let mut run = Run::new(machine().duty(16).build(), PowerParams::default());
    for turn in 0..7_200 {
        run.play(1, 90.0 + f64::from(turn % 60) * 0.98);
    }
    assert!(run.held().is_empty() && run.standing.rules.iter().all(|rule| rule == "always-run"));
}

#[test]
fn parameters_out_of_range_are_refused() {
    assert_eq!(PowerParams::default().validate(), Ok(()));
    let bad = PowerParams { guard_w: 200.0, ..PowerParams::default() };
    assert!(bad.validate().unwrap_err().contains("guard_w"));
    let bad = PowerParams { rest_frac: 1.0, ..PowerParams::default() };
    assert!(bad.validate().unwrap_err().contains("rest_frac"));
}
