//! Memory traffic and cache ways.

use super::*;

/// Batch on four cores, no cache control, seen by its traffic for one round.
fn cores_after(total: f64, params: ThesisParams) -> (usize, Vec<String>) {
    let mut run = cores_only(params);
    run.run(0.0, 20.0, 0.4, 0.9);
    assert_eq!(run.standing.cpus("hadoop").len(), 4);
    let rules = run.run_with(20.0, 20.5, |seen| {
        let seen = seen.load("search", 0.75).slack("search", 0.9);
        seen.host_memory(total).memory("hadoop", 30e9).memory("search", total - 30e9)
    });
    (run.standing.cpus("hadoop").len(), rules)
}

#[test]
fn over_the_limit_batch_loses_as_many_whole_cores_as_the_excess_is_worth() {
    // A batch core moves 7.5 GB/s, the limit is 40 GB/s.
    for (total, left) in [(47e9, 4), (47.6e9, 3), (54e9, 3), (55.1e9, 2), (200e9, 1)] {
        let (cores, rules) = cores_after(total, ThesisParams::default());
        assert_eq!(cores, left, "{total}: {rules:?}");
    }
}

#[test]
fn the_authors_profile_has_twice_the_limit() {
    let author = ThesisParams { batch_max_cores: Some(8), ..ThesisParams::of(Profile::Author) };
    assert_eq!(cores_after(79e9, author.clone()).0, 4);
    assert_eq!(cores_after(88e9, author).0, 3);
}

#[test]
fn a_core_that_would_break_the_limit_is_not_given() {
    let mut run = cores_only(ThesisParams::default());
    let traffic = |service: f64| {
        move |seen: Seen| {
            let seen = seen.load("search", 0.1).slack("search", 0.9);
            seen.memory("search", service).memory("hadoop", 10e9)
        }
    };
    run.run_with(0.0, 5.0, traffic(20.1e9));
    assert_eq!(run.run_with(5.0, 10.0, traffic(20.1e9)), Vec::<String>::new());
    assert_eq!(run.run_with(10.0, 20.0, traffic(19.9e9)), ["grow-core", "grow-core"]);
}

/// Tries one way and gives the rule and the ways of batch after the wait.
fn way(params: ThesisParams, change: f64, slack_after: f64) -> (Option<String>, u64) {
    let mut run = Run::new(nine().ways(20).build(), params);
    let see = |total: f64, slack: f64| {
        move |s: Seen| {
            let s = s.load("search", 0.5).slack("search", slack).host_memory(total);
            s.memory("hadoop", 5e9)
        }
    };
    // Batch begins at 0. A first way is tried at 5 s and kept, as traffic changes to its favour.
    run.run_with(0.0, 5.5, see(20e9, 0.5));
    assert_eq!((run.standing.ways("hadoop"), run.standing.ways("search")), (0x80000, 0x7fffe));
    let first = if run.law.params.literal_thesis_sign { 20e9 } else { 19e9 };
    run.run_with(5.5, 10.5, see(first, 0.5));
    assert_eq!((run.standing.ways("hadoop"), run.standing.ways("search")), (0xc0000, 0x3fffe));
    let early = run.run_with(10.5, 11.5, see(first + change, slack_after));
    assert!(early.is_empty(), "judged before 1.5 s: {early:?}");
    let rules = run.run_with(11.5, 12.0, see(first + change, slack_after));
    (rules.first().cloned(), run.standing.ways("hadoop"))
}

#[test]
fn a_way_is_kept_only_if_traffic_fell_and_the_service_did_not_suffer() {
    for (change, slack, rule) in [
        (-1e9, 0.50, None),
        (-1e9, 0.36, None),
        (0.0, 0.50, Some("llc-roll-back-traffic")),
        (1e9, 0.50, Some("llc-roll-back-traffic")),
        (-1e9, 0.34, Some("llc-roll-back-slack-drop")),
    ] {
        let (got, _) = way(ThesisParams::default(), change, slack);
        assert_eq!(got.as_deref(), rule, "{change} {slack}");
    }
}

#[test]
fn the_printed_sign_keeps_what_the_code_takes_back() {
    let literal = ThesisParams { literal_thesis_sign: true, ..ThesisParams::default() };
    let rule = |change| way(literal.clone(), change, 0.5).0;
    assert_eq!(rule(-1e9).as_deref(), Some("llc-roll-back-traffic"));
    assert_eq!(rule(1e9), None);
    assert_eq!(rule(30e9).as_deref(), Some("llc-roll-back-dram-limit"));
}

#[test]
fn a_small_drop_below_zero_slack_is_a_reason_of_its_own() {
    let generous = ThesisParams { slack_drop_frac: 0.9, ..ThesisParams::default() };
    assert_eq!(way(generous, -1e9, -0.01).0.as_deref(), Some("llc-roll-back-slack-negative"));
}

#[test]
fn the_first_way_stays_even_when_it_was_of_no_use() {
    assert_eq!(way(ThesisParams::default(), 1e9, 0.5).1, 0x80000);
    let mut run = Run::new(nine().ways(20).build(), ThesisParams::default());
    let same =
        |s: Seen| s.load("search", 0.1).slack("search", 0.2).host_memory(9e9).memory("hadoop", 1e9);
    run.run_with(0.0, 60.0, same);
    assert_eq!(run.standing.ways("hadoop"), 0x80000);
}

#[test]
fn without_traffic_readings_ways_and_cores_take_turns() {
    let mut run = Run::new(nine().ways(20).build(), ThesisParams::default());
    let rules = run.run(0.0, 35.0, 0.1, 0.9);
    let grown: Vec<&str> =
        rules.iter().map(String::as_str).filter(|r| r.starts_with("grow")).collect();
    assert_eq!(grown, ["grow-llc", "grow-core", "grow-llc", "grow-core", "grow-llc", "grow-core"]);
}

#[test]
fn mba_gives_way_before_cores_do_and_is_eased_before_cores_grow() {
    let params = ThesisParams { dram_limiter: DramLimiter::Mba, ..ThesisParams::default() };
    let mut run = Run::new(nine().mba().build(), params);
    let see = |total: f64, batch: f64| {
        move |s: Seen| {
            let s = s.load("search", 0.4).slack("search", 0.9).host_memory(total);
            s.memory("hadoop", batch)
        }
    };
    let knob = Knob::MemoryBandwidth { tenant: "hadoop".into(), domain: 0 };
    run.run_with(0.0, 5.0, see(20e9, 10e9));
    assert_eq!(run.run_with(5.0, 10.0, see(45e9, 20e9)), ["throttle-dram-over-limit"]);
    assert_eq!(run.standing.settings[&knob], Setting::Percent(70), "15 of 20 GB/s, rounded down");
    let cores = run.standing.cpus("hadoop").len();
    assert_eq!(run.run_with(10.0, 15.0, see(20e9, 5e9)), ["ease-throttle"]);
    assert_eq!(run.standing.settings[&knob], Setting::Percent(80));
    assert_eq!(run.standing.cpus("hadoop").len(), cores);
    run.run_with(15.0, 20.0, see(200e9, 5e9));
    assert_eq!(run.standing.settings[&knob], Setting::Percent(10));
    let rules = run.run_with(20.0, 25.0, see(200e9, 5e9));
    assert!(rules.iter().all(|r| r == "cut-dram-over-limit"), "{rules:?}");
}

#[test]
fn a_cut_ends_the_round_unless_asked_to_go_on() {
    let mut run = cores_only(ThesisParams { continue_after_cut: true, ..ThesisParams::default() });
    run.run(0.0, 20.0, 0.1, 0.9);
    // 47 GB/s: an excess of less than a core's 7.5 GB/s cuts nothing.
    let over = |s: Seen| {
        let s = s.load("search", 0.1).slack("search", 0.9);
        s.host_memory(47e9).memory("hadoop", 30e9).memory("search", 1e9)
    };
    // The sides' own traffic fits, so with the switch the round goes on to give a core.
    assert_eq!(run.run_with(20.0, 20.5, over), ["grow-core"]);
    let mut run = cores_only(ThesisParams::default());
    run.run(0.0, 20.0, 0.1, 0.9);
    assert_eq!(run.run_with(20.0, 20.5, over), Vec::<String>::new());
}
