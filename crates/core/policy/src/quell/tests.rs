//! Scenarios of the law `quell`.

use super::*;
use crate::testing::{EPOCH_S, Seen, Standing, at, observe, setup};
use proptest::prelude::*;
use quell_types::{ChipTrace, ExperimentTrace, Gap, RequestReading, Tenant};
use std::collections::BTreeMap;

fn machine() -> Setup {
    setup(2).service("web", 10.0, 1000.0).batch("stream").batch("spin").build()
}

fn law() -> Quell {
    Quell::new(QuellParams::default())
}

/// A service at half load with this slack beside two busy groups.
fn seen(setup: &Setup, second: f64, slack: f64) -> Seen {
    observe(setup, second)
        .slack("web", slack)
        .load("web", 0.5)
        .qps("web", 500.0)
        .cpu("web", 1.0)
        .cpu("stream", 0.4)
        .cpu("spin", 0.4)
}

/// Steps every quarter of a second and takes the wishes over.
fn run(law: &mut Quell, setup: &Setup, standing: &mut Standing, from: f64, to: f64, slack: f64) {
    let mut second = from;
    while second < to {
        standing.step(law, setup, seen(setup, second, slack));
        second += 0.25;
    }
}

/// An experiment in which holding `group` (0.5 CPU) changed the cost of a request by `ratio`.
fn trace(id: u64, group: &str, ratio: f64) -> ExperimentTrace {
    let web = Tenant::from("web");
    let chip = |running: bool, cpu_ns: f64| ChipTrace {
        from: at(0.0),
        to: at(0.1),
        running,
        victim_cpu_ns: BTreeMap::from([(web.clone(), Ok(cpu_ns as u64))]),
        victim_requests: BTreeMap::from([(
            web.clone(),
            Ok(RequestReading {
                requests: 50,
                bytes_in: 5000,
                bytes_out: 5000,
                latency_ns: Err(Gap::not_yet("not traced")),
            }),
        )]),
        group_cpu_ns: BTreeMap::from([(group.into(), Ok(if running { 50_000_000 } else { 0 }))]),
    };
    let (run, held) = (50e6 * ratio, 50e6);
    let chips = vec![chip(true, run), chip(false, held), chip(false, held), chip(true, run)];
    ExperimentTrace { id, chips, aborted: None }
}

/// Plays experiments until each group is known: `stream` costs half as much again at half a CPU.
fn taught(setup: &Setup, standing: &mut Standing) -> Quell {
    let mut law = law();
    for i in 0..40 {
        let second = f64::from(i) * 0.25;
        let traces: Vec<_> = standing
            .played
            .drain(..)
            .map(|e| {
                let group = e.groups[0].as_str();
                trace(e.id, group, if group == "stream" { 1.5 } else { 1.0 })
            })
            .collect();
        standing.step(&mut law, setup, seen(setup, second, 0.3).with(|o| o.experiments = traces));
    }
    law
}

#[test]
fn at_the_start_batch_joins_the_idle_class_and_tasks_run() {
    let (setup, mut standing) = (machine(), Standing::default());
    standing.step(&mut law(), &setup, seen(&setup, 0.0, 0.5));
    let idle = |name: &str| standing.settings.get(&Knob::CpuIdle { tenant: name.into() });
    assert_eq!(idle("stream"), Some(&Setting::Flag(true)));
    assert_eq!(standing.tasks[&"spin".into()], 4);
}

#[test]
fn without_an_idle_class_the_smallest_weight_is_used() {
    let setup = setup(2)
        .service("web", 10.0, 1000.0)
        .batch("jobs")
        .without(|k| matches!(k, Knob::CpuIdle { .. }))
        .build();
    let mut standing = Standing::default();
    let mut law = law();
    standing.step(&mut law, &setup, observe(&setup, 0.0));
    let weight = Knob::CpuWeight { tenant: "jobs".into() };
    assert_eq!(standing.settings[&weight], Setting::Weight(1));
    assert!(law.degradations(&setup).iter().any(|d| d.contains("no idle class")));
}

#[test]
fn the_harmless_run_free_and_the_harmful_are_budgeted() {
    let (setup, mut standing) = (machine(), Standing::default());
    let mut law = taught(&setup, &mut standing);
    run(&mut law, &setup, &mut standing, 10.0, 12.0, 0.3);
    assert_eq!(standing.quota_cpus("spin"), None, "harmless");
    let stream = standing.quota_cpus("stream").expect("harmful");
    assert!((0.05..1.0).contains(&stream), "{stream}");
}

#[test]
fn whom_its_budget_does_not_hold_is_confined_to_few_cpus_until_it_is_free() {
    let (setup, mut standing) = (machine(), Standing::default());
    let mut law = taught(&setup, &mut standing);
    let mut play = |from: u32, to: u32, used_cpus: f64| {
        for step in from..to {
            let seen = seen(&setup, 10.0 + 0.25 * f64::from(step), 0.3).cpu("stream", used_cpus);
            standing.step(&mut law, &setup, seen);
        }
        standing.cpus("stream").to_string()
    };
    assert_eq!(play(0, 20, 0.1), "");
    assert_eq!(play(20, 28, 2.0), "", "two seconds");
    assert_eq!(play(28, 40, 2.0), "1");
    assert_eq!(play(40, 80, 1.0), "1", "one CPU is all that it has now");
    assert!(standing.rules.iter().any(|rule| rule == "unheld"));
    // Nobody sees it, then it is there again and keeps to its budget.
    standing.step(&mut law, &setup, seen(&setup, 30.0, 0.3).gone("stream"));
    run(&mut law, &setup, &mut standing, 30.25, 40.0, 0.3);
    assert_eq!(standing.cpus("stream").to_string(), "");
}

#[test]
fn ample_slack_lets_budgets_grow_and_thin_slack_shrinks_them() {
    let (setup, mut standing) = (machine(), Standing::default());
    let mut law = taught(&setup, &mut standing);
    let quota = |s: &Standing| s.quota_cpus("stream").unwrap_or(2.0);
    let before = quota(&standing);
    run(&mut law, &setup, &mut standing, 10.0, 15.0, 0.6);
    let grown = quota(&standing);
    assert!(grown > before, "{before} to {grown}");
    run(&mut law, &setup, &mut standing, 15.0, 20.0, 0.1);
    assert!(quota(&standing) < grown);
}

#[test]
fn a_missed_objective_in_the_fast_window_cuts_at_once() {
    let (setup, mut standing) = (machine(), Standing::default());
    let mut law = taught(&setup, &mut standing);
    run(&mut law, &setup, &mut standing, 10.0, 15.0, 0.6);
    let before = standing.quota_cpus("stream").unwrap_or(2.0);
    let fast = seen(&setup, 15.25, 0.6).fast_slack("web", -0.2);
    let rules = standing.step(&mut law, &setup, fast);
    assert!(rules.contains(&"slo-missed-fast".to_string()), "{rules:?}");
    assert!(standing.quota_cpus("stream").unwrap_or(2.0) < before);
}

#[test]
fn a_jump_of_load_cuts_before_latency_shows_it() {
    let (setup, mut standing) = (machine(), Standing::default());
    let mut law = taught(&setup, &mut standing);
    run(&mut law, &setup, &mut standing, 10.0, 12.0, 0.6);
    let jump = seen(&setup, 12.0, 0.6).qps("web", 1500.0);
    let rules = standing.step(&mut law, &setup, jump);
    assert!(rules.contains(&"load-jump".to_string()), "{rules:?}");
}

#[test]
fn a_service_that_keeps_missing_gets_the_machine_alone_until_it_recovers() {
    let (setup, mut standing) = (machine(), Standing::default());
    let mut law = law();
    run(&mut law, &setup, &mut standing, 0.0, 3.0, -0.5);
    assert!(standing.frozen("stream") && standing.frozen("spin"));
    run(&mut law, &setup, &mut standing, 3.0, 4.0, 0.6);
    assert!(!standing.frozen("stream"), "{:?}", standing.rules);
}

#[test]
fn an_objective_out_of_reach_even_alone_keeps_batch_off_and_is_said_once() {
    let (setup, mut standing) = (machine(), Standing::default());
    let mut law = law();
    run(&mut law, &setup, &mut standing, 0.0, 60.0, -0.5);
    assert!(standing.frozen("stream"));
    let thaws = standing.rules.iter().filter(|r| *r == "thaw").count();
    assert_eq!(thaws, 0, "batch must not be let go to see whether it is still bad");
}

#[test]
fn in_a_virtual_machine_that_suffers_from_idle_cpus_batch_ends_free() {
    let (mut setup, mut standing, mut law) = (machine(), Standing::default(), law());
    setup.topology.hypervisor = Some("kvm".into());
    for i in 0..240 {
        let limited = ["stream", "spin"]
            .iter()
            .any(|group| standing.frozen(group) || standing.quota_cpus(group).is_some());
        let slack = if limited { -0.2 } else { 0.3 };
        standing.step(&mut law, &setup, seen(&setup, f64::from(i) * 0.25, slack));
    }
    assert_eq!((standing.quota_cpus("stream"), standing.frozen("stream")), (None, false));
    for rule in ["slo-missed", "thaw", "try-free", "try-limits", "limits-do-not-help"] {
        assert!(standing.rules.iter().any(|r| r == rule), "{rule}");
    }
}

#[test]
fn a_group_is_held_at_most_one_percent_of_the_time() {
    let (setup, mut standing) = (machine(), Standing::default());
    let mut law = law();
    let mut held = BTreeMap::<Tenant, f64>::new();
    for i in 0..1200 {
        standing.step(&mut law, &setup, seen(&setup, f64::from(i) * 0.25, 0.3));
        for e in standing.played.drain(..) {
            let chips = e.code.iter().filter(|run| !**run).count() as f64;
            *held.entry(e.groups[0].clone()).or_default() += chips * e.chip_us as f64 / 1e6;
            assert!(e.chip_us * 2 <= 200_000, "held for at most 200 ms at a stretch");
        }
    }
    for (group, seconds) in held {
        assert!(seconds <= 0.5 + 300.0 * 0.01, "{group} was held {seconds} s of 300");
        assert!(seconds > 1.0, "{group} was measured");
    }
}

#[test]
fn an_idle_service_does_not_hold_batch_back() {
    let (setup, mut standing) = (machine(), Standing::default());
    let mut law = law();
    for i in 0..40 {
        let idle = observe(&setup, f64::from(i) * 0.25).qps("web", 0.0).cpu("web", 0.0);
        standing.step(&mut law, &setup, idle.cpu("stream", 1.0).cpu("spin", 1.0));
    }
    assert!(!standing.frozen("stream"));
    assert!(standing.quota_cpus("spin").is_none_or(|q| q >= 0.3));
}

#[test]
fn the_network_leaves_the_service_what_it_sends_and_a_tenth() {
    let setup = setup(2).service("web", 10.0, 1000.0).batch("bulk").link("eth0", 100.0).build();
    let mut standing = Standing::default();
    let seen = observe(&setup, 0.0).egress("web", 2.5e6).egress("bulk", 5e6);
    standing.step(&mut law(), &setup, seen);
    let ceiling = standing.ceiling("bulk", "eth0").expect("a ceiling");
    assert!((ceiling - (0.9 * 12.5e6 - 2.5e6)).abs() < 1.0, "{ceiling}");
}

#[test]
fn cache_ways_of_batch_and_services_never_overlap() {
    let setup = setup(4).service("web", 10.0, 1000.0).batch("jobs").ways(12).build();
    let mut standing = Standing::default();
    let mut law = law();
    let mut second = 0.0;
    for slack in [0.6, 0.6, 0.6, 0.1, 0.1, -0.2, 0.6] {
        for _ in 0..8 {
            second += 0.25;
            let seen =
                observe(&setup, second).slack("web", slack).qps("web", 100.0).cpu("web", 1.0);
            standing.step(&mut law, &setup, seen);
            assert_eq!(standing.ways("web") & standing.ways("jobs"), 0);
            assert!(standing.ways("web") > 0 && standing.ways("jobs") > 0);
        }
    }
}

proptest! {
    /// Whatever is seen, budgets lie within the machine and the law never panics.
    #[test]
    fn budgets_stay_within_the_machine(
        steps in proptest::collection::vec((-2.0f64..1.0, 0.0f64..2000.0, 0.0f64..2.0), 1..80)
    ) {
        let (setup, mut standing) = (machine(), Standing::default());
        let mut law = law();
        for (i, (slack, qps, cpu)) in steps.into_iter().enumerate() {
            let seen = observe(&setup, i as f64 * 0.25)
                .slack("web", slack).qps("web", qps).cpu("web", cpu)
                .cpu("stream", 2.0 - cpu).cpu("spin", 0.1);
            standing.step(&mut law, &setup, seen);
            for group in ["stream", "spin"] {
                if let Some(quota) = standing.quota_cpus(group) {
                    prop_assert!((0.01..=2.0).contains(&quota), "{}", quota);
                }
            }
        }
    }

    /// The same observations give the same answers.
    #[test]
    fn steps_are_reproducible(slacks in proptest::collection::vec(-1.0f64..1.0, 1..40)) {
        let setup = machine();
        let play = || {
            let mut law = law();
            let step = |(i, slack): (usize, &f64)| {
                law.step(&setup, &seen(&setup, EPOCH_S + i as f64 * 0.25, *slack).done())
            };
            slacks.iter().enumerate().map(step).collect::<Vec<_>>()
        };
        prop_assert_eq!(play(), play());
    }
}
