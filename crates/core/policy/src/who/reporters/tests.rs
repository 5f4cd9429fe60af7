//! Tests of when a reporter runs.

use super::*;
use crate::testing::{Seen, at, observe, setup};
use quell_model::blame::{Cause, Culprit, Resource, Standing};
use quell_types::{BurstReport, BurstTrace, Fraction, Gap};
use std::sync::Arc;

fn busy(frac: f64, second: f64, setup: &Setup) -> Seen {
    observe(setup, second).with(|o| Arc::make_mut(&mut o.host).utilisation = Ok(Fraction(frac)))
}

fn machine() -> Setup {
    setup(8).smt().service("web", 10.0, 4000.0).batch("jobs").build()
}

fn look(seen: &Observation) -> Proposal {
    let experiment = Experiment {
        id: 1,
        groups: vec!["jobs".into()],
        victims: vec!["web".into()],
        code: vec![true, false, false, true],
        chip_us: 25_000,
        bound_us: 300_000,
    };
    Proposal {
        policy: "who".into(),
        precedence: Precedence::Polluter,
        wish: Wish::Play(experiment),
        rule: "look".into(),
        inputs: vec![Input::new("time_s", seen.time.as_secs_f64())],
    }
}

fn trace(burst: &Burst, time: Time, shared: f64) -> BurstTrace {
    let times =
        AccessTimes { arithmetic_ns: 0.3, private_ns: 1.5, shared_ns: shared, memory_ns: 90.0 };
    let cpu_ns = burst.duration().as_nanos() as u64;
    BurstTrace {
        id: burst.id,
        cpu: Some(5),
        time,
        report: BurstReport { cpu_ns, times: Ok(times) },
    }
}

fn burst(proposal: Option<Proposal>) -> Option<Burst> {
    match proposal?.wish {
        Wish::Burst(burst) => Some(burst),
        other => panic!("{other:?}"),
    }
}

/// Plays minutes with a look each two seconds; bursts outside of holds see a shared cache that is
/// so many times as slow. Answers the bursts with their times.
fn play(reporters: &mut Reporters, seconds: f64, shared: f64) -> Vec<(f64, Burst)> {
    let setup = machine();
    let mut all: Vec<(f64, Burst)> = Vec::new();
    let mut on_its_way: Option<Burst> = None;
    for step in 0..(4.0 * seconds) as u32 {
        let second = 0.25 * f64::from(step);
        let mut seen = busy(0.5, second, &setup).done();
        let factor = |b: &Burst| if b.delay_us > 0 { 1.0 } else { shared };
        let ended = on_its_way.take().map(|b| trace(&b, seen.time, 12.0 * factor(&b)));
        seen.bursts.extend(ended);
        reporters.learn(&seen, &[("jobs".into(), 0.5)].into());
        let look = (step % 8 == 0).then(|| look(&seen));
        on_its_way = burst(reporters.propose(&setup, &seen, look.as_ref(), look.is_some()));
        all.extend(on_its_way.clone().map(|burst| (second, burst)));
    }
    all
}

#[test]
fn bursts_take_a_hundredth_of_a_cpu_in_any_minute_and_looks_take_one_along() {
    let mut reporters = Reporters::new("who", true);
    let all = play(&mut reporters, 300.0, 1.0);
    let in_holds = all.iter().filter(|(_, burst)| burst.delay_us == 31_250).count();
    assert!(in_holds >= 100 && all.len() > in_holds + 50, "{in_holds} of {}", all.len());
    for (from, _) in &all {
        let within = all.iter().filter(|(at, _)| (0.0..60.0).contains(&(at - from)));
        let used_s: f64 = within.map(|(_, burst)| burst.duration().as_secs_f64()).sum();
        assert!(used_s <= 0.6, "{used_s} s in the minute from {from}");
    }
}

#[test]
fn what_is_fought_over_is_told_of_those_who_are_accused() {
    let mut reporters = Reporters::new("who", true);
    play(&mut reporters, 40.0, 1.6);
    let culprit = Culprit {
        workload: "jobs".into(),
        confidence: 0.995,
        serious_frac: 0.995,
        status: Standing::Named,
        resource: Resource::Memory,
        slowdown: 1.3,
        share_frac: 1.0,
        harm_ln_per_cpu: 0.5,
        experiments: 3,
        stood_frac: None,
        elsewhere_frac: 0.0,
        held_back_frac: None,
    };
    let culprits = vec![culprit];
    let cause = Cause::Neighbour;
    let mut finding = Finding { slowdown: 1.3, cause, culprits, evidence: vec![] };
    reporters.tell(&mut finding);
    assert_eq!(finding.culprits[0].resource, Resource::LastLevelCache, "{finding:?}");
    let inputs = reporters.inputs();
    assert!(inputs.iter().any(|input| input.name == "last_level_cache_certain_frac"), "{inputs:?}");
}

#[test]
fn bursts_of_samples_in_which_much_was_stolen_are_not_heard() {
    for (stolen, heard) in [(0.01, 1), (0.2, 0)] {
        let setup = machine();
        let mut reporters = Reporters::new("who", true);
        let first = busy(0.5, 1.0, &setup).done();
        reporters.learn(&first, &[("jobs".into(), 0.5)].into());
        let asked = burst(reporters.propose(&setup, &first, None, false)).unwrap();
        let host = |o: &mut Observation| {
            Arc::make_mut(&mut o.host).steal = Ok(Fraction(stolen));
            o.bursts.push(trace(&asked, o.time, 12.0));
        };
        let seen = busy(0.5, 1.25, &setup).with(host).done();
        reporters.learn(&seen, &[("jobs".into(), 0.5)].into());
        assert_eq!(reporters.reporter.bursts(), heard, "{stolen} stolen");
    }
}

#[test]
fn without_an_idle_cpu_there_is_no_burst() {
    let setup = machine();
    let mut reporters = Reporters::new("who", true);
    let ask = |reporters: &mut Reporters, seen: &Observation| {
        reporters.learn(seen, &[("jobs".into(), 0.5)].into());
        reporters.propose(&setup, seen, None, false).is_some()
    };
    assert!(!ask(&mut reporters, &busy(0.9, 1.0, &setup).done()), "0.8 of 8 CPUs");
    assert!(!ask(&mut reporters, &observe(&setup, 2.0).done()), "nobody knows");
    assert!(ask(&mut reporters, &busy(0.8, 3.0, &setup).done()));
    let mut off = Reporters::new("who", false);
    assert!(!ask(&mut off, &busy(0.1, 1.0, &setup).done()));
}

#[test]
fn where_none_is_played_it_is_asked_for_ever_more_seldom_also_with_looks() {
    let setup = machine();
    let mut reporters = Reporters::new("who", true);
    let (mut asked, mut on_its_way) = (Vec::new(), None::<Burst>);
    for step in 0..480 {
        let second = 0.25 * f64::from(step);
        let mut seen = busy(0.5, second, &setup).done();
        seen.bursts.extend(on_its_way.take().map(|burst| BurstTrace {
            id: burst.id,
            cpu: None,
            time: seen.time,
            report: BurstReport { cpu_ns: 0, times: Err(Gap::not_yet("no CPU is idle")) },
        }));
        reporters.learn(&seen, &[("jobs".into(), 0.5)].into());
        let look = (step % 4 == 0).then(|| look(&seen));
        on_its_way = burst(reporters.propose(&setup, &seen, look.as_ref(), look.is_some()));
        asked.extend(on_its_way.is_some().then_some(second));
    }
    assert!((5..=12).contains(&asked.len()), "{asked:?}");
    assert!(asked.windows(2).all(|pair| pair[1] - pair[0] <= LONGEST_PAUSE_S + 1.0), "{asked:?}");
}

#[test]
fn a_burst_that_is_lost_does_not_stop_all_others() {
    let setup = machine();
    let mut reporters = Reporters::new("who", true);
    let mut asked = Vec::new();
    for step in 0..40 {
        let seen = busy(0.5, 0.25 * f64::from(step), &setup).done();
        reporters.learn(&seen, &[("jobs".into(), 0.5)].into());
        asked.extend(reporters.propose(&setup, &seen, None, false).map(|_| step));
    }
    assert!(asked.len() >= 2, "{asked:?}");
}

#[test]
fn no_burst_between_looks_while_one_is_played_and_none_on_a_services_own_cpus() {
    let setup = machine();
    let mut reporters = Reporters::new("who", true);
    let seen = busy(0.5, 1.0, &setup).on("web", "2-3").done();
    reporters.learn(&seen, &[("jobs".into(), 0.5)].into());
    assert!(reporters.propose(&setup, &seen, None, true).is_none(), "a look is on its way");
    let burst = burst(reporters.propose(&setup, &seen, None, false)).unwrap();
    assert_eq!(burst.not_on, "2-3".parse().unwrap(), "with the sibling");
    let everywhere = busy(0.5, 1.0, &setup).on("web", "0-7").done();
    assert_eq!(of_services(&setup, &everywhere), CpuSet::new());
    let half = busy(0.5, 1.0, &setup).on("web", "2").done();
    assert_eq!(of_services(&setup, &half), "2-3".parse().unwrap());
    assert_eq!(at(1.0), seen.time);
}
