//! CPU time is shared out as the kernel does it, and queues behave as theory says (S-9, S-10).
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use quell_sim::*;
use quell_types::*;
use std::time::Duration;

fn only_cpu_0(server: &mut SimServer, names: &[&str]) {
    for name in names {
        let knob = Knob::Cpus { tenant: (*name).into() };
        set(server, knob, Setting::Cpus(CpuSet::of(0)));
    }
    server.advance(SECOND);
}

fn hogs(names: &[&str]) -> Scene {
    let mut scene = scene("vm2");
    scene.batch = names.iter().map(|name| batch(name, &["integer"])).collect();
    scene
}

#[test]
fn weights_share_a_cpu_out() {
    let mut server = SimServer::new(&hogs(&["a", "b"])).unwrap();
    only_cpu_0(&mut server, &["a", "b"]);
    assert!((cpus(&mut server, "a", 10 * SECOND) - 0.5).abs() < 0.02);
    set(&mut server, Knob::CpuWeight { tenant: "b".into() }, Setting::Weight(300));
    let a = cpus(&mut server, "a", 10 * SECOND);
    assert!((a - 0.25).abs() < 0.02, "{a}");
    set(&mut server, Knob::CpuIdle { tenant: "a".into() }, Setting::Flag(true));
    let a = cpus(&mut server, "a", 10 * SECOND);
    assert!(a < 0.02, "{a}");
}

#[test]
fn three_hogs_on_two_cpus_get_two_thirds_each() {
    let mut server = SimServer::new(&hogs(&["a", "b", "c"])).unwrap();
    server.advance(SECOND);
    for name in ["a", "b", "c"] {
        let got = cpus(&mut server, name, 20 * SECOND);
        assert!((got - 2.0 / 3.0).abs() < 0.1, "{name}: {got}");
    }
}

#[test]
fn five_hogs_on_four_cpus_get_four_fifths_each() {
    let names = ["a", "b", "c", "d", "e"];
    let mut scene = scene("e5345");
    scene.batch = names.iter().map(|name| batch(name, &["integer"])).collect();
    let mut server = SimServer::new(&scene).unwrap();
    for name in names {
        let cpus = "0-3".parse().unwrap();
        set(&mut server, Knob::Cpus { tenant: name.into() }, Setting::Cpus(cpus));
    }
    server.advance(SECOND);
    for name in names {
        let got = cpus(&mut server, name, 60 * SECOND);
        assert!((got - 0.8).abs() < 0.1, "{name}: {got}");
    }
}

#[test]
fn a_quota_is_kept_in_every_period() {
    let mut server = SimServer::new(&hogs(&["a", "b"])).unwrap();
    for (limit, period_ms) in [(0.5, 10), (0.25, 100), (1.0, 5), (0.5, 2)] {
        let period = Duration::from_millis(period_ms);
        let bandwidth = CpuBandwidth::limited(limit, period);
        set(&mut server, Knob::CpuBandwidth { tenant: "a".into() }, Setting::Bandwidth(bandwidth));
        let before = full(&mut server, SECOND).tenants[&"a".into()].clone();
        let after = full(&mut server, 10 * SECOND).tenants[&"a".into()].clone();
        let used = (after.cpu_ns.unwrap() - before.cpu_ns.unwrap()) as f64 / 1e10;
        assert!((used / limit - 1.0).abs() < 0.02, "{used} of {limit} per {period_ms} ms");
        let (b, a) = (before.throttling.unwrap(), after.throttling.unwrap());
        let periods = 10_000 / period_ms;
        assert!((a.periods - b.periods).abs_diff(periods) <= 1);
        assert!(limit >= 1.0 || (a.throttled_periods - b.throttled_periods).abs_diff(periods) <= 1);
    }
    let unlimited = Setting::Bandwidth(CpuBandwidth::unlimited());
    set(&mut server, Knob::CpuBandwidth { tenant: "a".into() }, unlimited);
    assert!(cpus(&mut server, "a", SECOND) > 0.99);
}

#[test]
fn a_frozen_group_stands_still_and_goes_on() {
    let mut server = SimServer::new(&hogs(&["a"])).unwrap();
    let knob = Knob::Frozen { tenant: "a".into() };
    set(&mut server, knob.clone(), Setting::Flag(true));
    assert_eq!(cpus(&mut server, "a", SECOND), 0.0);
    set(&mut server, knob, Setting::Flag(false));
    assert!(cpus(&mut server, "a", SECOND) > 0.99);
}

/// Of one CPU: what a real-time group has, and one that is not.
fn beside_real_time(server: &mut SimServer) -> (f64, f64) {
    let before = server.truth().cpu_ns;
    server.advance(20 * SECOND);
    let after = server.truth().cpu_ns;
    let got = |name: &str| (after[&name.into()] - before[&name.into()]) as f64 / 20e9;
    (got("first"), got("a"))
}

#[test]
fn real_time_runs_before_others_whatever_its_limit_and_stands_only_when_frozen() {
    let mut scene = hogs(&["a"]);
    scene.batch.push(batch("first", &["real-time"]));
    let mut server = SimServer::new(&scene).unwrap();
    only_cpu_0(&mut server, &["a", "first"]);
    let near = |(first, a): (f64, f64), wanted: f64, why: &str| {
        assert!((first - wanted).abs() < 0.01, "{why}: {first} of a CPU, a {a}");
        assert!((first + a - 1.0).abs() < 0.01, "{why}: {first}, {a}");
    };
    near(beside_real_time(&mut server), 0.95, "what the kernel keeps for others");
    let limit = CpuBandwidth::limited(0.1, Duration::from_millis(10));
    let knob = Knob::CpuBandwidth { tenant: "first".into() };
    set(&mut server, knob, Setting::Bandwidth(limit));
    near(beside_real_time(&mut server), 0.95, "a limit does not hold it");
    let weight = Knob::CpuWeight { tenant: "a".into() };
    set(&mut server, weight, Setting::Weight(10_000));
    near(beside_real_time(&mut server), 0.95, "nor do weights");
    let freezer = Knob::Frozen { tenant: "first".into() };
    set(&mut server, freezer.clone(), Setting::Flag(true));
    near(beside_real_time(&mut server), 0.0, "frozen");
    set(&mut server, freezer, Setting::Flag(false));
    near(beside_real_time(&mut server), 0.95, "and let go");
}

#[test]
fn others_leave_a_cpu_that_real_time_has_and_two_of_that_class_share_two_cpus() {
    let mut scene = hogs(&["a"]);
    scene.batch.push(batch("first", &["real-time"]));
    let mut server = SimServer::new(&scene).unwrap();
    server.advance(SECOND);
    let (first, a) = beside_real_time(&mut server);
    assert!(first > 0.99 && a > 0.99, "{first}, {a}");
    let mut scene = hogs(&["a", "b"]);
    scene.batch.push(batch("first", &["real-time"; 2]));
    let mut server = SimServer::new(&scene).unwrap();
    server.advance(SECOND);
    let (first, a) = beside_real_time(&mut server);
    assert!((1.85..1.92).contains(&first), "{first}, {a}");
    assert!((0.03..0.07).contains(&a), "{a}");
}

#[test]
fn who_sleeps_now_and_then_wakes_before_all_others() {
    let mut scene = hogs(&["a"]);
    let mut web = service("web", "integer", 1.0, 300.0);
    (web.workers, web.program.real_time) = (1, true);
    scene.services = vec![web];
    let mut server = SimServer::new(&scene).unwrap();
    only_cpu_0(&mut server, &["a", "web"]);
    let beside = latencies(&mut server, "web", 20 * SECOND).quantile(0.5).unwrap();
    set(&mut server, Knob::Frozen { tenant: "a".into() }, Setting::Flag(true));
    let alone = latencies(&mut server, "web", 20 * SECOND).quantile(0.5).unwrap();
    assert!((beside / alone - 1.0).abs() < 0.1, "{beside} ns beside a loop, {alone} alone");
}

#[test]
fn cpu_time_never_exceeds_the_machine() {
    let mut scene = scene("e5-2683v4");
    scene.services = vec![service("web", "xapian", 2.0, 800.0)];
    scene.batch = vec![batch("a", &["phased"; 30]), batch("b", &["stream-llc"; 10])];
    let mut server = SimServer::new(&scene).unwrap();
    let mut last = full(&mut server, SECOND);
    for step in 0..20u32 {
        let cpus: CpuSet = (step..=step + 7).collect();
        set(&mut server, Knob::Cpus { tenant: "b".into() }, Setting::Cpus(cpus));
        let now = full(&mut server, SECOND / 4);
        let span = now.time.since(last.time).as_nanos() as u64;
        let used = |s: &Sample| s.tenants.values().map(|t| t.cpu_ns.clone().unwrap()).sum::<u64>();
        let (cpu, before) = (now.host.cpu.clone().unwrap(), last.host.cpu.clone().unwrap());
        assert_eq!(used(&now) - used(&last), cpu.busy_ns - before.busy_ns);
        let all = cpu.busy_ns + cpu.idle_ns - before.busy_ns - before.idle_ns;
        assert_eq!(all, 32 * span);
        assert!(cpu.busy_ns - before.busy_ns <= 32 * span);
        last = now;
    }
    let outside = "b never runs outside its CPUs";
    set(&mut server, Knob::Cpus { tenant: "b".into() }, Setting::Cpus("0-1".parse().unwrap()));
    server.advance(SECOND);
    assert!(cpus(&mut server, "b", SECOND) <= 2.0 + 1e-9, "{outside}");
}

/// Mean of a histogram, each value in the middle of its slot.
fn mean(h: &LogHistogram) -> f64 {
    let middle = |slot: usize| {
        (LogHistogram::lower_bound(slot) + LogHistogram::lower_bound(slot + 1)) as f64 / 2.0
    };
    let sum: f64 = h.counts().iter().enumerate().map(|(slot, n)| middle(slot) * *n as f64).sum();
    sum / h.count() as f64
}

#[test]
fn one_worker_waits_as_pollaczek_and_khinchine_say() {
    for (rho, variation) in [(0.3, 1.0), (0.6, 0.5), (0.8, 1.0)] {
        let mut scene = scene("vm2");
        let mut web = service("web", "integer", 1.0, 0.0);
        // 0.5 cycles an instruction at 3 GHz: 1 ms.
        (web.workers, web.instructions, web.variation) = (1, 6e6, variation);
        web.load = Load::Constant(rho * 1_000.0);
        scene.services = vec![web];
        let mut server = SimServer::new(&scene).unwrap();
        let got = mean(&latencies(&mut server, "web", 400 * SECOND)) / 1e6;
        let wait = rho * (1.0 + variation * variation) / (2.0 * (1.0 - rho));
        let theory = 1.0 + wait;
        assert!((got / theory - 1.0).abs() < 0.08, "rho {rho}: {got} ms against {theory} ms");
    }
}

#[test]
fn hogs_of_equal_weight_spoil_the_tail_and_the_idle_class_does_not() {
    let mut scene = scene("vm2");
    scene.services = vec![service("web", "search", 0.45, 1_200.0)];
    scene.batch = vec![batch("jobs", &["integer", "integer", "integer"])];
    let mut server = SimServer::new(&scene).unwrap();
    let p95 = |h: LogHistogram| h.quantile(0.95).unwrap() / 1e6;
    set(&mut server, Knob::Frozen { tenant: "jobs".into() }, Setting::Flag(true));
    let alone = p95(latencies(&mut server, "web", 20 * SECOND));
    set(&mut server, Knob::Frozen { tenant: "jobs".into() }, Setting::Flag(false));
    let beside = p95(latencies(&mut server, "web", 20 * SECOND));
    set(&mut server, Knob::CpuIdle { tenant: "jobs".into() }, Setting::Flag(true));
    server.advance(5 * SECOND);
    let idle = p95(latencies(&mut server, "web", 20 * SECOND));
    assert!(beside > 2.0 * alone, "{beside} ms against {alone} ms");
    assert!(idle < 1.2 * alone, "{idle} ms against {alone} ms");
    let waits = full(&mut server, SECOND).tenants[&"web".into()].run_queue_ns.clone().unwrap();
    assert!(waits.count() > 1_000);
}
