//! The law on a machine of four cores with two threads each.

use super::*;
use crate::testing::{Standing, observe, setup};

/// Locks of a core in a loop of them, per second.
const LOOP: f64 = 1e6;

fn machine() -> crate::testing::SetupBuilder {
    setup(8).smt().service("web", 10.0, 100.0).batch("poll").batch("calm")
}

struct Run {
    law: BusLockLaw,
    setup: Setup,
    standing: Standing,
    now_s: f64,
    /// CPU sets of the tenants; none = all CPUs.
    sets: Vec<(&'static str, &'static str)>,
    /// Whether CPU bandwidth holds the polluter.
    holds: bool,
}

impl Run {
    fn new(setup: Setup, params: BusLockParams) -> Self {
        let sets = vec![("web", "0-3"), ("poll", "4-5"), ("calm", "6-7")];
        let (law, standing) = (BusLockLaw::new(params), Standing::default());
        Self { law, setup, standing, now_s: 0.0, sets, holds: true }
    }

    /// So many periods of 0.1 s in which the polluter's CPUs make that many locks a second.
    fn play(&mut self, periods: u32, per_s: f64, groups_count: bool) {
        for _ in 0..periods {
            let limit = self.standing.quota_cpus("poll").filter(|_| self.holds);
            let may = if self.standing.frozen("poll") { 0.0 } else { limit.unwrap_or(2.0) };
            let mut seen = observe(&self.setup, self.now_s).cpu("poll", may).cpu("calm", 2.0);
            seen = seen.bus_locks(&[0.0, 0.0, 20.0, 0.0, per_s, 0.0, 60.0, 0.0]);
            for (name, cpus) in &self.sets {
                seen = seen.on(name, cpus);
            }
            if groups_count {
                seen = seen.of_batch("poll", |b| b.bus_locks_per_s = Ok(per_s));
                seen = seen.of_batch("calm", |b| b.bus_locks_per_s = Ok(60.0));
            }
            self.standing.step(&mut self.law, &self.setup, seen);
            self.now_s += 0.1;
        }
    }

    fn duty(&self, cpu: u32) -> Option<u32> {
        match self.standing.settings.get(&Knob::DutyCycle { cpu }) {
            Some(Setting::Duty(parts)) => Some(*parts),
            _ => None,
        }
    }

    fn is_free(&self) -> bool {
        self.standing.settings.is_empty()
    }
}

#[test]
fn both_threads_of_a_polluters_core_lose_their_clock_at_once_and_nobody_else_does() {
    let mut run = Run::new(machine().duty(16).build(), BusLockParams::default());
    run.play(3, LOOP, false);
    assert_eq!([4, 5].map(|cpu| run.duty(cpu)), [Some(1); 2]);
    assert_eq!(run.standing.settings.len(), 2, "{:?}", run.standing.settings);
    assert!(run.law.degradations(&run.setup).is_empty());
}

#[test]
fn who_stops_is_free_within_sixty_seconds() {
    let mut run = Run::new(machine().duty(16).build(), BusLockParams::default());
    run.play(300, LOOP, false);
    let mut periods = 0;
    while !run.is_free() {
        run.play(1, 0.0, false);
        periods += 1;
        assert!(periods < 600, "{:?}", run.standing.settings);
    }
    assert!(run.standing.rules.iter().any(|rule| rule == "relaxing"));
}

#[test]
fn cores_that_two_tenants_share_and_those_of_services_are_left_alone() {
    let mut run = Run::new(machine().duty(16).build(), BusLockParams::default());
    run.sets = vec![("web", "0-4"), ("poll", "4-5"), ("calm", "6-7")];
    run.play(20, LOOP, false);
    assert!(run.is_free(), "the service may run on CPU 4: {:?}", run.standing.settings);
    let mut run = Run::new(machine().duty(16).build(), BusLockParams::default());
    run.sets = vec![("web", "4-5"), ("poll", "0-1"), ("calm", "6-7")];
    run.play(20, LOOP, false);
    assert!(run.is_free(), "a service's own core");
    let deny = BusLockParams { deny: vec!["poll".into()], ..BusLockParams::default() };
    let mut run = Run::new(machine().duty(16).build(), deny);
    run.play(20, LOOP, false);
    assert!(run.is_free(), "spared");
}

#[test]
fn where_groups_share_cores_the_one_that_is_counted_gets_less_bandwidth() {
    let mut run = Run::new(machine().duty(16).build(), BusLockParams::default());
    run.sets = vec![("web", "0-3"), ("poll", "4-7"), ("calm", "4-7")];
    run.play(30, LOOP, true);
    assert_eq!(run.standing.quota_cpus("poll"), Some(2.0 / 16.0));
    assert_eq!(run.standing.quota_cpus("calm"), None);
    assert_eq!(run.standing.settings.len(), 1, "no core is slowed");
    run.play(600, 0.0, true);
    assert!(run.is_free(), "{:?}", run.standing.settings);
    let mut run = Run::new(machine().duty(16).build(), BusLockParams::default());
    run.sets = vec![("web", "0-3"), ("poll", "4-7"), ("calm", "4-7")];
    run.play(30, LOOP, false);
    assert!(run.is_free(), "who did it cannot be told");
}

#[test]
fn without_clocks_bandwidth_stands_in_and_without_that_the_freezer() {
    let mut run = Run::new(machine().build(), BusLockParams::default());
    run.play(30, LOOP, false);
    assert_eq!(run.standing.quota_cpus("poll"), Some(2.0 / 16.0), "by the count of its own cores");
    assert!(run.law.degradations(&run.setup)[0].contains("no clock modulation"));
    let frozen = machine().without(|k| matches!(k, Knob::CpuBandwidth { .. })).build();
    let mut run = Run::new(frozen, BusLockParams::default());
    run.play(15, LOOP, false);
    let mut ran = 0;
    for _ in 0..64 {
        run.play(1, LOOP, false);
        ran += u32::from(!run.standing.frozen("poll"));
    }
    assert_eq!(ran, 4, "one period of sixteen");
    assert!(!run.standing.frozen("calm"));
    run.play(600, 0.0, false);
    assert!(run.is_free());
}

#[test]
fn whom_bandwidth_does_not_hold_is_frozen_for_the_other_periods_until_it_stops() {
    let mut run = Run::new(machine().build(), BusLockParams::default());
    run.holds = false;
    run.play(70, LOOP, false);
    assert_eq!(run.standing.quota_cpus("poll"), Some(2.0 / 16.0), "that stays");
    let mut ran = 0;
    for _ in 0..160 {
        run.play(1, LOOP, false);
        ran += u32::from(!run.standing.frozen("poll"));
        assert!(!run.standing.frozen("calm"));
    }
    assert_eq!(ran, 10, "one period of sixteen");
    assert!(run.standing.rules.iter().any(|rule| rule == "unheld"));
    run.play(600, 0.0, false);
    assert!(run.is_free(), "{:?}", run.standing.settings);
}

#[test]
fn without_a_freezer_it_is_told_once_that_bandwidth_does_not_hold() {
    let only = BusLockParams { actuator: BusActuator::Bandwidth, ..BusLockParams::default() };
    let without = machine().without(|k| matches!(k, Knob::Frozen { .. })).build();
    for (setup, params) in [(machine().build(), only), (without, BusLockParams::default())] {
        let mut run = Run::new(setup, params);
        run.holds = false;
        for _ in 0..100 {
            run.play(1, LOOP, false);
            assert!(!run.standing.frozen("poll"));
        }
        let told = || run.standing.rules.iter().filter(|rule| *rule == "unheld");
        assert_eq!(told().count(), 1);
        assert_eq!(run.standing.quota_cpus("poll"), Some(2.0 / 16.0), "that stays");
    }
}

#[test]
fn whom_bandwidth_holds_is_never_frozen() {
    let mut run = Run::new(machine().build(), BusLockParams::default());
    for _ in 0..300 {
        run.play(1, LOOP, false);
        assert!(!run.standing.frozen("poll"));
    }
    assert_eq!(run.standing.quota_cpus("poll"), Some(2.0 / 16.0));
}

#[test]
fn a_seldom_sample_makes_a_longer_period() {
    let mut run = Run::new(machine().duty(16).build(), BusLockParams::default());
    run.play(2, LOOP, false);
    let seen = |run: &Run, second: f64| {
        let seen = observe(&run.setup, second).bus_locks(&[0.0; 8]);
        run.sets.iter().fold(seen, |seen, (name, cpus)| seen.on(name, cpus))
    };
    let late = seen(&run, 100.0);
    run.standing.step(&mut run.law, &run.setup, late);
    assert_eq!(run.duty(4), Some(1), "one period of 100 s is one step, not a thousand");
}

#[test]
fn without_counts_and_without_polluters_nothing_is_done() {
    let mut run = Run::new(machine().duty(16).build(), BusLockParams::default());
    for second in 0..40 {
        let seen = observe(&run.setup, f64::from(second));
        run.standing.step(&mut run.law, &run.setup, seen);
    }
    assert!(run.is_free());
    // A day of locks below everybody's share.
    let mut run = Run::new(machine().duty(16).build(), BusLockParams::default());
    for second in 0..86_400 {
        run.play(1, f64::from(second % 100) * 8.0, true);
        run.now_s += 0.9;
    }
    assert!(run.is_free());
    assert!(run.standing.rules.iter().all(|rule| rule == "always-run"));
}

#[test]
fn parameters_out_of_range_are_refused() {
    assert_eq!(BusLockParams::default().validate(), Ok(()));
    let bad = BusLockParams { period_s: 0.0, ..BusLockParams::default() };
    assert!(bad.validate().unwrap_err().contains("period_s"), "A-37 (1)");
    let bad = BusLockParams { min_start_parts: 9, ..BusLockParams::default() };
    assert!(bad.validate().is_err());
}
