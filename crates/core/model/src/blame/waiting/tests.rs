//! Tests of behind whom a victim stands.

use super::*;

const LEAST_LN: f64 = 0.04;

fn watching(suspects: &[&str]) -> Waiting {
    let mut waiting = Waiting::new(WaitingParams::default());
    let names: Vec<Tenant> = suspects.iter().map(|name| (*name).into()).collect();
    waiting.keep(&names);
    waiting
}

/// A quarter of a second in which the victim used 0.4 CPUs.
fn waits(behind: &[(&str, f64)]) -> Waits {
    let behind = behind.iter().map(|(name, threads)| ((*name).into(), *threads)).collect();
    Waits { seconds: 0.25, running: 0.4, behind, ..Waits::default() }
}

fn seen(behind: &[(&str, f64)], windows: usize) -> Waiting {
    let names: Vec<&str> = behind.iter().map(|(name, _)| *name).collect();
    let mut waiting = watching(&names);
    for _ in 0..windows {
        waiting.see(&waits(behind), &BTreeMap::new(), 0.0);
    }
    waiting
}

#[test]
fn effects_add_up_to_the_slowdown_and_follow_the_shares() {
    let waiting = seen(&[("a", 0.6), ("b", 0.2), ("c", 0.0)], 400);
    let of = |name: &str| waiting.crowding(&name.into(), LEAST_LN).unwrap();
    let (a, b, c) = (of("a"), of("b"), of("c"));
    let whole = a.effect_ln + b.effect_ln;
    assert!((whole - libm::log(3_f64)).abs() < 0.03, "0.4 ran, 0.8 stood: {whole}");
    assert!((a.effect_ln / b.effect_ln - 3.0).abs() < 1e-9);
    assert!((a.stood_frac - 0.5).abs() < 0.01 && (b.stood_frac - 1.0 / 6.0).abs() < 0.01);
    assert!(a.confidence > 0.999 && b.confidence > 0.999);
    assert_eq!((c.effect_ln, c.confidence), (0.0, 0.0));
    assert!(waiting.crowding(&"stranger".into(), LEAST_LN).is_none());
}

#[test]
fn one_burst_convinces_nobody_and_steady_waiting_does() {
    let mut waiting = watching(&["a"]);
    waiting.see(&waits(&[("a", 2.0)]), &BTreeMap::new(), 0.0);
    for _ in 0..39 {
        waiting.see(&waits(&[("a", 0.0)]), &BTreeMap::new(), 0.0);
    }
    let burst = waiting.crowding(&"a".into(), LEAST_LN).unwrap();
    assert!(burst.effect_ln > LEAST_LN && burst.confidence < 0.9, "{burst:?}");
    let steady = seen(&[("a", 0.05)], 40).crowding(&"a".into(), LEAST_LN).unwrap();
    assert!(steady.confidence > 0.99, "{steady:?}");
    let little = seen(&[("a", 0.012)], 40).crowding(&"a".into(), LEAST_LN).unwrap();
    assert!(little.confidence < 0.01, "{little:?}");
}

#[test]
fn a_queue_that_is_long_now_and_then_leaves_no_doubt_and_bursts_alone_do() {
    let beside = |usual: f64| {
        let mut waiting = watching(&["a"]);
        for window in 0..13 {
            let threads = if window % 5 == 0 { 4.0 } else { usual };
            waiting.see(&waits(&[("a", threads)]), &BTreeMap::new(), 0.0);
        }
        waiting.crowding(&"a".into(), LEAST_LN).unwrap()
    };
    let steady = beside(0.12);
    assert!(steady.confidence > 0.99, "{steady:?}");
    let bursts = beside(0.0);
    assert!(bursts.effect_ln > 0.5 && bursts.confidence < 0.99, "{bursts:?}");
}

#[test]
fn what_the_hypervisor_took_is_nobodys() {
    let mut waiting = watching(&["a"]);
    for _ in 0..400 {
        waiting.see(&waits(&[("a", 0.4)]), &BTreeMap::new(), 0.5);
    }
    let a = waiting.crowding(&"a".into(), LEAST_LN).unwrap();
    assert!((a.effect_ln - libm::log(1.5_f64)).abs() < 0.01, "{a:?}");
}

#[test]
fn a_quiet_victim_gets_longer_windows() {
    let mut waiting = watching(&["a"]);
    let quiet = Waits { running: 0.011, ..waits(&[("a", 0.02)]) };
    for _ in 0..3 {
        waiting.see(&quiet, &BTreeMap::new(), 0.0);
        assert_eq!(waiting.seconds(), 0.0);
    }
    waiting.see(&quiet, &BTreeMap::new(), 0.0);
    assert_eq!(waiting.seconds(), 1.0);
}

#[test]
fn a_victim_that_never_runs_tells_all_the_same_by_whom_it_is_starved() {
    let mut waiting = watching(&["starver", "beside"]);
    let starved = Waits { running: 0.0, ..waits(&[("starver", 1.8), ("beside", 0.02)]) };
    for _ in 0..12 {
        let before_s = waiting.seconds();
        waiting.see(&starved, &BTreeMap::new(), 0.0);
        assert!(waiting.seconds() > before_s + 0.2, "each sample is a window");
    }
    let of = |name: &str| waiting.crowding(&name.into(), LEAST_LN).unwrap();
    let (starver, beside) = (of("starver"), of("beside"));
    assert!(starver.effect_ln > 2.0 && starver.confidence > 0.999, "{starver:?}");
    assert!((starver.effect_ln / beside.effect_ln - 90.0).abs() < 1e-6, "each by its part");
}

#[test]
fn standing_behind_its_own_threads_is_told_apart() {
    let mut waiting = watching(&["a"]);
    for _ in 0..400 {
        let own = Waits { own: 0.4, ..waits(&[("a", 0.0)]) };
        waiting.see(&own, &BTreeMap::new(), 0.0);
    }
    let (own, others) = waiting.own_and_others_ln();
    assert!((own - libm::log(2_f64)).abs() < 0.05 && others == 0.0, "{own} {others}");
    assert!((waiting.own_frac() - 0.5).abs() < 0.02);
}

#[test]
fn standing_behind_somebody_who_is_no_suspect_counts_for_nobody() {
    let mut waiting = watching(&["a"]);
    for _ in 0..400 {
        let waits = Waits { others: 0.2, ..waits(&[("a", 0.4), ("another service", 0.2)]) };
        waiting.see(&waits, &BTreeMap::new(), 0.0);
    }
    let (others_ln, frac) = waiting.others_ln_and_frac();
    let a = waiting.crowding(&"a".into(), LEAST_LN).unwrap();
    assert!((a.effect_ln - others_ln).abs() < 1e-9 && (frac - a.stood_frac).abs() < 1e-9);
    assert!((a.effect_ln + others_ln - libm::log(3_f64)).abs() < 0.03, "{a:?}");
}

#[test]
fn what_each_uses_and_asks_for_are_means_over_time() {
    let mut waiting = watching(&["a"]);
    for turn in 0..400 {
        let asked_cpus = if turn % 2 == 0 { 4.0 } else { 2.0 };
        let demand = Demand { used_cpus: 0.5 * asked_cpus, asked_cpus };
        waiting.see(&waits(&[("a", 0.1)]), &BTreeMap::from([("a".into(), demand)]), 0.0);
    }
    let a = waiting.crowding(&"a".into(), LEAST_LN).unwrap();
    assert!((a.asked_cpus - 3.0).abs() < 0.05, "{a:?}");
    assert!((a.used_cpus - 1.5).abs() < 0.03, "{a:?}");
    assert!((a.awake_frac - 1.0).abs() < 1e-9, "{a:?}");
    waiting.forget(&"a".into());
    assert_eq!(waiting.crowding(&"a".into(), LEAST_LN).unwrap().confidence, 0.0);
}

#[test]
fn who_sleeps_in_some_windows_is_not_awake_and_windows_in_which_it_is_held_do_not_count() {
    let mut waiting = watching(&["rate", "loop"]);
    for turn in 0..400 {
        let asked = |asked_cpus| Demand { used_cpus: 0.5, asked_cpus };
        let mut demands = BTreeMap::from([("rate".into(), asked(1.0))]);
        match turn % 3 {
            0 => demands.insert("rate".into(), asked(0.7)),
            1 => demands.insert("loop".into(), asked(1.0)),
            _ => None,
        };
        waiting.see(&waits(&[("rate", 0.1), ("loop", 0.1)]), &demands, 0.0);
    }
    let of = |name: &str| waiting.crowding(&name.into(), LEAST_LN).unwrap();
    assert!((of("rate").awake_frac - 0.67).abs() < 0.02, "{:?}", of("rate"));
    assert_eq!((of("loop").awake_frac, of("loop").asked_cpus), (1.0, 1.0));
}

/// Where the victim stands behind those who sleep, since a loop keeps the other CPU.
fn displaced(there: &[(&str, f64)], nobody: f64) -> Waits {
    let tenants = there.iter().map(|(name, threads)| ((*name).into(), *threads)).collect();
    let elsewhere = Elsewhere { cpus: 1, tenants, others: 0.0, nobody };
    Waits { elsewhere, ..waits(&[("a", 0.3), ("b", 0.3)]) }
}

#[test]
fn who_keeps_another_cpu_has_its_part_in_what_is_stood_behind_others() {
    let of = |waits: &Waits| {
        let mut waiting = watching(&["a", "b", "loop"]);
        (0..40).for_each(|_| waiting.see(waits, &BTreeMap::new(), 0.0));
        let of = |name: &str| waiting.crowding(&name.into(), LEAST_LN).unwrap();
        (of("a"), of("loop"), waiting.own_and_others_ln().1)
    };
    let (a, culprit, all_ln) = of(&displaced(&[("loop", 0.6)], 0.0));
    assert!(culprit.confidence > 0.99, "{culprit:?}");
    assert!((culprit.effect_ln - 0.5 * all_ln).abs() < 1e-9, "half of two CPUs: {culprit:?}");
    assert!(culprit.stood_frac == 0.0 && (culprit.elsewhere_frac - 0.29).abs() < 0.02);
    assert!(a.elsewhere_frac == 0.0 && (a.effect_ln - 0.5 * all_ln).abs() < 1e-9, "{a:?}");
    assert!((all_ln - libm::log(2.5)).abs() < 0.06, "0.6 stood once beside 0.4: {all_ln}");
    let (_, idle, _) = of(&displaced(&[], 0.6));
    assert_eq!((idle.effect_ln, idle.confidence), (0.0, 0.0), "there was room for it");
}

#[test]
fn what_the_hypervisor_takes_is_nobodys_elsewhere_too() {
    let mut waiting = watching(&["a", "b", "loop"]);
    let waits = displaced(&[("loop", 0.6)], 0.0);
    (0..40).for_each(|_| waiting.see(&waits, &BTreeMap::new(), 0.5));
    let crowding = waiting.crowding(&"loop".into(), LEAST_LN).unwrap();
    let all_ln = waiting.own_and_others_ln().1;
    assert!((all_ln - libm::log(1.75)).abs() < 0.05, "{all_ln}");
    assert!((crowding.effect_ln - 0.5 * all_ln).abs() < 1e-9, "{crowding:?}");
}
