//! Tests of slow moments in a small world.

use super::*;
use crate::blame::finding::{Cause, Finding, FindingParams};
use quell_types::{ChipTrace, ExperimentTrace, Gap, Reading, RequestReading};

const STEP_S: f64 = 0.25;
const RATE: f64 = 1200.0;

fn at(second: f64) -> Time {
    Time(0) + Duration::from_secs_f64(1000.0 + second)
}

fn groups() -> Vec<Tenant> {
    ["calm", "jobs"].map(Tenant::from).to_vec()
}

/// A victim beside `jobs`, which works in bursts, and `calm`, which always uses a little.
struct World {
    pulses: Pulses,
    step: u32,
    seed: u64,
}

impl World {
    fn new() -> Self {
        let mut pulses = Pulses::new("web".into(), PulseParams::default());
        pulses.keep(&groups());
        Self { pulses, step: 0, seed: 7 }
    }

    /// Evenly spread over -1..1, the same on every machine.
    fn chance(&mut self) -> f64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        2.0 * (self.seed >> 11) as f64 / (1_u64 << 53) as f64 - 1.0
    }

    fn now(&self) -> Time {
        at(STEP_S * f64::from(self.step))
    }

    /// A sample in which requests cost so many times as much as usual.
    fn sample(&mut self, times: f64, jobs_cpus: f64) {
        self.step += 1;
        let cost_s = 2e-4 * times * (1.0 + 0.03 * self.chance());
        let requests = RATE * STEP_S;
        let felt = Felt { time: self.now(), cost_s, requests, interval_s: STEP_S };
        let cpus = [("calm".into(), 0.2), ("jobs".into(), jobs_cpus)].into();
        self.pulses.feel(felt, &cpus);
    }

    fn quiet(&mut self, samples: u32) {
        (0..samples).for_each(|_| self.sample(1.0, 0.0));
    }

    /// A look that begins now, chip by chip: what a request costs and how many there are; this
    /// group uses so many CPUs while it runs.
    fn trace(&self, chips: [(f64, u64); 4], group: &str, cpus: f64) -> ExperimentTrace {
        let runs = [true, false, false, true];
        let chip = |((times, requests), (number, running)): ((f64, u64), (u32, bool))| {
            let from = self.now() + Duration::from_millis(25) * number;
            let used = if running { (25e6 * cpus) as u64 } else { 0 };
            let reading = RequestReading {
                requests,
                bytes_in: 100 * requests,
                bytes_out: 0,
                latency_ns: Err(Gap::not_yet("not traced")),
            };
            let cpu_ns = 2e5 * times * requests as f64;
            ChipTrace {
                from,
                to: from + Duration::from_millis(25),
                running,
                victim_cpu_ns: [("web".into(), Ok(cpu_ns as u64))].into(),
                victim_requests: [("web".into(), Ok(reading))].into(),
                group_cpu_ns: [(group.into(), Ok(used))].into(),
            }
        };
        let chips = chips.into_iter().zip((0..).zip(runs)).map(chip).collect();
        ExperimentTrace { id: 1, chips, aborted: None }
    }

    /// Such a look, before the next sample is felt.
    fn look(&mut self, chips: [(f64, u64); 4], group: &str, cpus: f64) -> Reading<()> {
        let trace = self.trace(chips, group, cpus);
        match self.pulses.when(&trace, None) {
            When::Moment(over_frac) => self.pulses.take(&trace, over_frac),
            other => Err(Gap::not_yet(format!("{other:?}"))),
        }
    }

    /// A burst of two samples; a look at `group` after the first relieves the victim if it is the
    /// one who does it.
    fn burst(&mut self, times: f64, group: &str) -> Reading<()> {
        self.sample(times, 1.0);
        let held = if group == "jobs" { 1.0 } else { times };
        let cpus = if group == "jobs" { 1.0 } else { 0.2 };
        let look = self.look([(times, 30), (held, 30), (held, 30), (times, 30)], group, cpus);
        self.sample(times, 0.6);
        self.quiet(20);
        look
    }

    fn named(&self) -> Vec<String> {
        let named = self.pulses.named(&FindingParams::default());
        named.iter().map(|culprit| culprit.workload.to_string()).collect()
    }
}

#[test]
fn who_is_held_in_two_slow_moments_with_effect_is_named_and_how_far_they_are_apart_is_known() {
    let mut world = World::new();
    world.quiet(12);
    world.burst(3.0, "jobs").unwrap();
    assert!(world.named().is_empty() && world.pulses.apart_s().is_none(), "one look");
    world.burst(3.0, "jobs").unwrap();
    assert_eq!(world.named(), ["jobs"]);
    let apart_s = world.pulses.apart_s().unwrap();
    assert!((apart_s - 22.0 * STEP_S).abs() < 1e-6, "{apart_s}");
    let harm = world.pulses.named(&FindingParams::default())[0].slowdown;
    assert!((2.0..4.0).contains(&harm), "{harm}");
    world.pulses.forget(&"jobs".into());
    assert!(world.named().is_empty());
}

#[test]
fn who_is_held_without_effect_is_not_named_and_nobody_by_the_code_alone() {
    let mut world = World::new();
    world.quiet(12);
    for _ in 0..6 {
        world.burst(3.0, "calm").unwrap();
        assert!(world.named().is_empty());
    }
    let [calm, jobs] =
        ["calm", "jobs"].map(|name| world.pulses.guilt().belief(&name.into()).unwrap().guilt);
    assert!(jobs > 0.7 && calm < 0.1, "jobs {jobs}, calm {calm}");
}

#[test]
fn looks_between_moments_or_across_an_edge_say_nothing() {
    let mut world = World::new();
    world.quiet(12);
    let even = [(1.0, 30), (1.0, 30), (1.0, 30), (1.0, 30)];
    assert!(world.look(even, "jobs", 0.3).is_err(), "the victim is not slow");
    world.sample(3.0, 1.0);
    let edge = [(3.0, 30), (1.0, 30), (1.0, 30), (1.0, 30)];
    assert!(matches!(world.look(edge, "calm", 0.2), Err(Gap::Ambiguous(_))));
    world.step += 1;
    let whole = [(3.0, 30), (1.0, 30), (1.0, 30), (3.0, 30)];
    assert!(world.look(whole, "jobs", 1.0).is_err(), "too late");
}

#[test]
fn a_starved_victim_is_no_hindrance_and_weakens_what_is_seen() {
    let doubt = |fewer: u64| {
        let mut world = World::new();
        world.quiet(12);
        world.sample(3.0, 1.0);
        world.look([(3.0, fewer), (1.0, 60), (1.0, 60), (3.0, fewer)], "jobs", 1.0).unwrap();
        world.pulses.guilt().belief(&"jobs".into()).unwrap().harm_sd
    };
    assert!(doubt(20) > doubt(60), "{} {}", doubt(20), doubt(60));
}

#[test]
fn a_victim_that_stays_slow_or_hardly_slows_has_no_moments() {
    let mut world = World::new();
    world.quiet(12);
    (0..40).for_each(|_| world.sample(2.0, 1.0));
    assert!(!world.pulses.is_slow(), "that is how it is now");
    world.quiet(100);
    assert_eq!(world.pulses.apart_s(), None);
    for _ in 0..8 {
        world.sample(1.1, 1.0);
        assert!(!world.pulses.is_slow());
        world.quiet(10);
    }
}

#[test]
fn a_finding_is_told_of_him_once() {
    let mut world = World::new();
    world.quiet(12);
    (0..2).for_each(|_| world.burst(3.0, "jobs").unwrap());
    let nothing = Finding { slowdown: 1.0, cause: Cause::None, culprits: vec![], evidence: vec![] };
    let mut finding = nothing.clone();
    let params = FindingParams::default();
    world.pulses.tell(&mut finding, &params);
    world.pulses.tell(&mut finding, &params);
    assert_eq!((finding.culprits.len(), finding.cause), (1, Cause::Neighbour));
    assert_eq!(finding.evidence.len(), 1);
    assert!(finding.evidence[0].contains("5.5 s apart: held in 2 of them, jobs made it"));
}

/// Half of all samples are slow: the middle of all would be anything.
#[test]
fn who_pulses_for_half_of_the_time_is_felt_in_every_pulse() {
    for length in [1, 2, 4, 7] {
        let mut world = World::new();
        for _ in 0..(60 / length) {
            (0..length).for_each(|_| world.sample(1.5, 1.0));
            (0..length).for_each(|_| world.sample(1.0, 0.0));
        }
        assert!(!world.pulses.is_slow(), "{length}: it has ended");
        world.sample(1.5, 1.0);
        assert!(world.pulses.is_slow() && world.pulses.count() == REMEMBERED, "{length}");
    }
}

#[test]
fn longer_slowness_that_ends_is_a_moment_from_the_second_on() {
    let mut world = World::new();
    world.quiet(40);
    for moments in [0, 1, 2] {
        (0..12).for_each(|_| world.sample(2.0, 1.0));
        assert_eq!(world.pulses.is_overlong(), moments == 0);
        world.quiet(12);
        assert_eq!(world.pulses.count(), moments);
    }
    (0..60).for_each(|_| world.sample(2.0, 1.0));
    assert!(world.pulses.is_overlong(), "that is how it is now");
}

/// Who moves with the moments, and is held in them without effect, moves with them a hundred times.
#[test]
fn who_is_only_in_step_is_not_guilty_however_long_that_lasts() {
    let mut world = World::new();
    world.quiet(12);
    for _ in 0..100 {
        world.sample(3.0, 1.0);
        world.look([(3.0, 30), (3.0, 30), (3.0, 30), (3.0, 30)], "jobs", 1.0).unwrap();
        world.quiet(8);
        assert!(world.named().is_empty());
    }
    let jobs = world.pulses.guilt().belief(&"jobs".into()).unwrap();
    assert!(jobs.guilt < 0.5, "{jobs:?}");
}

/// In what a look of an even cost was made that began after a sample, by the cost of the next one.
fn when(before: f64, look: f64, next: f64) -> When {
    let mut world = World::new();
    world.quiet(40);
    world.sample(before, 1.0);
    let trace = world.trace([(look, 30); 4], "jobs", 1.0);
    world.step += 1;
    // Its chips have 120 of the requests, at 200 us each.
    let requests = RATE * STEP_S;
    let cost_s = 2e-4 * (120.0 * look + (requests - 120.0) * next) / requests;
    let felt = Felt { time: world.now(), cost_s, requests, interval_s: STEP_S };
    world.pulses.when(&trace, Some(&felt))
}

#[test]
fn the_rest_of_its_sample_tells_in_what_a_look_was_made_and_the_look_itself_does_not() {
    for look in [1.0, 3.0] {
        assert_eq!(when(3.0, look, 3.0), When::Moment(0.0), "{look}");
        assert_eq!(when(1.0, look, 1.0), When::Usual, "{look}");
        assert_eq!(when(1.0, look, 3.0), When::Edge, "{look}");
        let When::Moment(over_frac) = when(3.0, look, 1.0) else { panic!("{look}") };
        assert!((0.3..=0.5).contains(&over_frac), "{look}: {over_frac}");
    }
}
