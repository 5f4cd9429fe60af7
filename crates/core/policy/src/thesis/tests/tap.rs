//! On, paused and off; the link; what is said.

use super::*;

#[test]
fn it_starts_disabled_with_everything_given_to_the_service() {
    let mut run = Run::new(nine().ways(20).build(), ThesisParams::default());
    let seen = observe(&run.setup, 0.0);
    assert_eq!(run.step(seen), ["start-disabled"]);
    assert!(run.standing.frozen("hadoop"));
    assert_eq!(run.standing.cpus("search").to_string(), "0-7");
    assert_eq!((run.standing.ways("search"), run.standing.ways("hadoop")), (0xffffe, 0x1));
    assert_eq!(run.standing.tasks[&"hadoop".into()], 0);
}

#[test]
fn below_70_percent_load_batch_begins_with_one_core_and_no_way() {
    let mut run = Run::new(nine().ways(20).build(), ThesisParams::default());
    let rules = run.run(0.0, 0.5, 0.69, 0.01);
    assert!(rules.contains(&"enable-load-low".to_owned()), "{rules:?}");
    assert!(!run.standing.frozen("hadoop"));
    assert_eq!(run.standing.tasks[&"hadoop".into()], 4);
    assert_eq!(run.cpus(), ("0".into(), "1-7".into()));
}

#[test]
fn one_bad_round_is_tolerated_and_the_second_puts_batch_off_until_after_the_cool_down() {
    let mut run = cores_only(ThesisParams::default());
    run.run(0.0, 10.0, 0.3, 0.5);
    let rules = run.run(10.0, 20.0, 0.3, -0.1);
    assert!(!rules.iter().any(|r| r.starts_with("disable")), "{rules:?}");
    let rules = run.run(20.0, 20.5, 0.3, -0.1);
    assert!(rules.contains(&"disable-slack-negative".to_owned()), "{rules:?}");
    assert!(run.standing.frozen("hadoop"));
    assert_eq!(run.standing.cpus("search").to_string(), "0-7");
    // Rest of 5 s and then the period: the next round is at 35 s.
    assert_eq!(run.run(20.5, 35.0, 0.3, 0.5), Vec::<String>::new());
    assert_eq!(run.run(35.0, 35.5, 0.3, 0.5), ["enable-load-low"]);
}

#[test]
fn high_load_puts_batch_off_without_a_cool_down() {
    let mut run = cores_only(ThesisParams::default());
    run.run(0.0, 10.0, 0.3, 0.5);
    let rules = run.run(10.0, 21.0, 0.9, 0.5);
    assert_eq!(rules.last().map(String::as_str), Some("disable-load-high"));
    let rules = run.run(21.0, 31.0, 0.3, 0.5);
    assert_eq!(rules.first().map(String::as_str), Some("enable-load-low"));
}

#[test]
fn short_slack_at_medium_load_pauses_growth_and_new_tasks_and_shorter_slack_takes_a_core() {
    let mut run = cores_only(ThesisParams::default());
    run.run(0.0, 20.0, 0.3, 0.5);
    let cores = run.standing.cpus("hadoop").len();
    assert!(cores >= 3, "{cores}");
    let busy =
        |slack| move |s: Seen| s.tasks("hadoop", 3, 2).load("search", 0.75).slack("search", slack);
    let rules = run.run_with(20.0, 30.0, busy(0.35));
    assert_eq!(rules, ["pause-slack-short"]);
    assert_eq!(run.standing.tasks[&"hadoop".into()], 2, "running tasks run on, none starts");
    let rules = run.run_with(30.0, 40.0, busy(0.15));
    assert_eq!(rules, ["shrink-slack-short"]);
    assert_eq!(run.standing.cpus("hadoop").len(), cores - 1);
    // Between the bounds plenty of slack changes nothing, not even the pause.
    assert_eq!(run.run_with(40.0, 50.0, busy(0.9)), Vec::<String>::new());
}

#[test]
fn tasks_are_stopped_instead_of_frozen_when_asked_to_or_when_there_is_no_freezer() {
    let stop = ThesisParams { on_disable: OnDisable::StopTasks, ..ThesisParams::default() };
    let no_freezer = nine().without(|k| matches!(k, Knob::Frozen { .. })).build();
    for (setup, params) in [(nine().build(), stop), (no_freezer, ThesisParams::default())] {
        let mut run = Run::new(setup, params);
        run.run(0.0, 10.0, 0.3, 0.5);
        assert_eq!(run.standing.tasks[&"hadoop".into()], 4);
        assert_eq!(run.standing.quota_cpus("hadoop"), None);
        run.run(10.0, 21.0, 0.9, 0.5);
        assert_eq!(run.standing.tasks[&"hadoop".into()], 0);
        assert!(!run.standing.frozen("hadoop"));
        assert_eq!(run.standing.quota_cpus("hadoop"), Some(0.001), "what is no task is starved");
    }
}

#[test]
fn exclusive_sets_leave_a_core_to_batch_even_when_it_is_off() {
    let mut run = Run::new(nine().exclusive().build(), ThesisParams::default());
    run.run(0.0, 1.0, 0.9, 0.5);
    assert_eq!(run.cpus(), ("0".into(), "1-7".into()));
}

#[test]
fn a_service_that_is_gone_frees_the_machine_and_one_that_tells_nothing_stops_growth() {
    let mut run = cores_only(ThesisParams::default());
    run.run_with(0.0, 20.0, |seen| seen.gone("search"));
    assert_eq!(run.standing.cpus("hadoop").len(), 4, "grows once every 5 s");
    let mut blind = cores_only(ThesisParams::default());
    blind.run_with(0.0, 20.0, |seen| {
        seen.of("search", |s| s.slack = Err(quell_types::Gap::Pending))
    });
    assert_eq!(blind.cpus().0, "0");
}

#[test]
fn an_objective_that_is_missed_alone_is_said_once_and_batch_stays_off() {
    let mut run = cores_only(ThesisParams::default());
    let rules = run.run(0.0, 600.0, 0.3, -0.5);
    assert_eq!(rules.iter().filter(|r| *r == "slo-unreachable-alone").count(), 1, "{rules:?}");
    assert!(run.standing.frozen("hadoop"));
    assert!(!rules.iter().any(|r| r == "enable-load-low"));
}

#[test]
fn batch_gets_90_percent_of_the_link_less_what_the_service_sends() {
    for (sent, left) in
        [(0.0, 112.5e6), (50e6, 62.5e6), (112.4e6, 0.1e6), (113e6, 12.5), (125e6, 12.5)]
    {
        let mut run = cores_only(ThesisParams::default());
        run.run_with(0.0, 1.0, |seen| seen.egress("search", sent));
        let got = run.standing.ceiling("hadoop", "eth0").expect("a ceiling");
        assert!((got - left).abs() < 1.0, "{sent}: {got} instead of {left}");
    }
}

#[test]
fn the_network_is_looked_at_every_second_and_left_alone_without_a_reading() {
    let mut run = cores_only(ThesisParams::default());
    let send = |rate: f64| move |seen: Seen| seen.egress("search", rate);
    run.run_with(0.0, 0.5, send(50e6));
    assert_eq!(run.run_with(0.5, 1.0, send(60e6)), Vec::<String>::new());
    assert_eq!(run.run_with(1.0, 1.5, send(60e6)), ["link-headroom"]);
    let unknown = |seen: Seen| {
        seen.with(|o| o.links.values_mut().for_each(|l| l.by_tenant.clear()))
            .of("search", |s| s.egress = Err(quell_types::Gap::failed("map gone")))
    };
    assert_eq!(run.run_with(1.5, 4.0, unknown), Vec::<String>::new());
    assert_eq!(run.run_with(4.0, 4.5, send(120e6)), ["link-full"]);
}

#[test]
fn the_authors_profile_uses_a_part_of_the_link_every_two_seconds() {
    let setup = setup(9).service("search", 15.0, 1.0).batch("hadoop").batch("spark");
    let mut run = Run::new(setup.link("eth0", 10_000.0).build(), ThesisParams::of(Profile::Author));
    run.run_with(0.0, 0.5, |seen| seen.egress("search", 0.0));
    let each = 0.9 * 7.5e9 / 8.0 / 2.0;
    assert_eq!(run.standing.ceiling("hadoop", "eth0"), Some(each));
    assert_eq!(run.standing.ceiling("spark", "eth0"), Some(each));
    let later = run.run_with(0.5, 2.0, |seen| seen.egress("search", 1e6));
    assert_eq!(later, Vec::<String>::new());
    assert_eq!(run.run_with(2.0, 2.5, |seen| seen.egress("search", 1e6)), ["link-headroom"]);
}

#[test]
fn what_it_does_without_is_said() {
    let bare = setup(1).service("search", 15.0, 1.0).batch("hadoop").link("eth0", 100.0);
    let bare = bare.without(|k| !matches!(k, Knob::CpuBandwidth { .. })).build();
    let mba = ThesisParams { dram_limiter: DramLimiter::Mba, ..ThesisParams::default() };
    let notes = Thesis::new(mba).degradations(&bare).join("\n");
    for part in ["one CPU", "no cache", "search has no CPU set", "hadoop has no CPU set"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    for part in ["cannot be frozen", "no memory bandwidth throttle", "cannot be limited on eth0"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let full = nine().ways(20).mba().build();
    assert_eq!(Thesis::new(ThesisParams::default()).degradations(&full), Vec::<String>::new());
}

#[test]
fn contradicting_parameters_are_refused() {
    let base = ThesisParams::default;
    for bad in [
        ThesisParams { top_period_s: 0.0, ..base() },
        ThesisParams { settle_s: f64::NAN, ..base() },
        ThesisParams { load_low_frac: 0.9, ..base() },
        ThesisParams { slack_shrink_frac: 0.5, ..base() },
        ThesisParams { sub_core_step_cores: 0.001, ..base() },
        ThesisParams { dram_limit_bytes_per_s: Some(-1.0), ..base() },
        ThesisParams { sub_core_period_us: 10, ..base() },
    ] {
        assert!(bad.validate().is_err(), "{bad:?}");
    }
    assert!(base().validate().is_ok() && ThesisParams::of(Profile::Author).validate().is_ok());
}
