//! Growth and loss of cores.

use super::*;

/// Cores of batch after it has grown for two minutes.
fn settled_cores(load: f64, params: ThesisParams) -> usize {
    let mut run = cores_only(params);
    run.run(0.0, 120.0, load, 0.9);
    run.standing.cpus("hadoop").len()
}

#[test]
fn a_core_is_given_only_if_the_service_keeps_enough_for_its_load() {
    let margin = |m| ThesisParams { grow_safe_margin_ratio: m, ..ThesisParams::default() };
    for (load, humps, smooth) in [(0.1, 7, 7), (0.3, 5, 5), (0.5, 4, 3), (0.6, 3, 2), (0.69, 2, 1)]
    {
        let got = (settled_cores(load, margin(1.0)), settled_cores(load, margin(1.15)));
        assert_eq!(got, (humps, smooth), "load {load}");
    }
}

#[test]
fn a_core_is_given_only_above_30_percent_slack_and_one_every_5_seconds() {
    let mut run = cores_only(ThesisParams::default());
    run.run(0.0, 10.0, 0.1, 0.30);
    assert_eq!(run.cpus(), ("0".into(), "1-7".into()));
    assert_eq!(run.run(10.0, 15.0, 0.1, 0.31), ["grow-core"]);
    assert_eq!(run.cpus(), ("0-1".into(), "2-7".into()));
    assert_eq!(run.run(15.0, 20.0, 0.1, 0.31), ["grow-core"]);
    assert_eq!(run.cpus(), ("0-2".into(), "3-7".into()));
}

#[test]
fn the_authors_profile_stops_at_three_cores() {
    assert_eq!(settled_cores(0.1, ThesisParams::of(Profile::Author)), 3);
}

#[test]
fn on_two_cpus_each_side_gets_one() {
    let two = setup(2).service("search", 15.0, 1000.0).batch("hadoop").build();
    let mut run = Run::new(two, ThesisParams::default());
    run.run(0.0, 60.0, 0.2, 0.9);
    assert_eq!(run.cpus(), ("0".into(), "1".into()));
    run.run(60.0, 80.0, 0.9, 0.9);
    assert!(run.standing.frozen("hadoop"));
    assert_eq!(run.standing.cpus("search").to_string(), "0-1");
}

#[test]
fn on_two_cpus_batch_may_grow_by_parts_of_a_core() {
    let two = setup(2).service("search", 15.0, 1000.0).batch("hadoop").build();
    let quarter = ThesisParams { sub_core_step_cores: 0.25, ..ThesisParams::default() };
    let mut run = Run::new(two, quarter);
    run.run(0.0, 5.0, 0.2, 0.9);
    let knob = Knob::CpuBandwidth { tenant: "hadoop".into() };
    let limit = |cpus| CpuBandwidth::limited(cpus, Duration::from_millis(10));
    assert_eq!(run.standing.settings[&knob], Setting::Bandwidth(limit(0.25)));
    assert_eq!(run.cpus(), ("0".into(), "1".into()));
    run.run(5.0, 10.0, 0.2, 0.9);
    assert_eq!(run.standing.quota_cpus("hadoop"), Some(0.5));
    run.run(10.0, 60.0, 0.2, 0.9);
    assert_eq!(run.standing.quota_cpus("hadoop"), None, "a whole core needs no limit");
}

#[test]
fn one_cpu_cannot_be_divided_so_batch_stays_off() {
    let one = setup(1).service("search", 15.0, 1000.0).batch("hadoop").build();
    let mut run = Run::new(one, ThesisParams::default());
    run.run(0.0, 60.0, 0.1, 0.9);
    assert!(run.standing.frozen("hadoop"));
    assert_eq!(run.cpus(), (String::new(), String::new()));
}

#[test]
fn batch_without_cpu_set_is_limited_in_time_by_its_cores() {
    let no_set = |k: &Knob| matches!(k, Knob::Cpus { tenant } if tenant.as_str() == "hadoop");
    let mut run = Run::new(nine().without(no_set).build(), ThesisParams::default());
    run.run(0.0, 5.0, 0.1, 0.9);
    assert_eq!(run.standing.quota_cpus("hadoop"), Some(1.0));
    run.run(5.0, 10.0, 0.1, 0.9);
    assert_eq!(run.standing.quota_cpus("hadoop"), Some(2.0));
    assert_eq!(run.standing.cpus("search").to_string(), "2-7");
}

#[test]
fn batch_without_work_goes_back_to_its_first_core() {
    let mut run = cores_only(ThesisParams::default());
    run.run(0.0, 20.0, 0.1, 0.9);
    assert!(run.standing.cpus("hadoop").len() > 2);
    let idle = |s: Seen| s.tasks("hadoop", 0, 0).cpu("hadoop", 0.0).load("search", 0.1);
    assert_eq!(run.run_with(20.0, 25.0, idle), ["reset-no-batch"]);
    assert_eq!(run.cpus(), ("0".into(), "1-7".into()));
}

#[test]
fn several_services_share_their_side_and_the_worst_decides() {
    let two = setup(8).service("search", 15.0, 1.0).service("store", 1.0, 1.0).batch("hadoop");
    let params = ThesisParams { system_cores: 0, ..ThesisParams::default() };
    let mut run = Run::new(two.build(), params);
    let both = |slack| {
        move |s: Seen| {
            s.load("search", 0.1).slack("search", 0.9).load("store", 0.2).slack("store", slack)
        }
    };
    run.run_with(0.0, 10.0, both(0.9));
    assert_eq!(run.standing.cpus("store"), run.standing.cpus("search"));
    assert_eq!(run.standing.cpus("hadoop").to_string(), "0-1");
    run.run_with(10.0, 30.0, both(-0.1));
    assert!(run.standing.frozen("hadoop"));
}
