//! Cores sleep, and take time to wake (S-8, S-10).
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use quell_sim::*;
use quell_types::*;
use std::time::Duration;

const WORK_MS: f64 = 1.0;
const QPS: f64 = 50.0;

fn state(after_s: f64, exit_s: f64, cold_s: f64) -> IdleState {
    IdleState { after_s, exit_s, cold_s, flushed: false, late: Late::default() }
}

/// A service of few requests, all alike, on a machine with these idle states.
fn sleepy(machine: &str, states: &[IdleState]) -> Scene {
    let mut scene = scene(machine);
    scene.machine.idle = states.to_vec();
    let load = Load::Constant(QPS);
    scene.services =
        vec![SimService { variation: 0.0, load, ..service("web", "integer", WORK_MS, QPS) }];
    scene.batch = vec![batch("jobs", &[])];
    scene
}

/// Median latency and CPU time of a request, both in seconds.
fn felt(server: &mut SimServer) -> (f64, f64) {
    let cpu = |server: &mut SimServer| server.truth().cpu_ns[&"web".into()];
    server.advance(SECOND);
    let before = cpu(server);
    let seen = latencies(server, "web", 20 * SECOND);
    let cpu_s = (cpu(server) - before) as f64 / 1e9;
    (seen.quantile(0.5).unwrap() / 1e9, cpu_s / seen.count() as f64)
}

fn felt_in(scene: &Scene) -> (f64, f64) {
    felt(&mut SimServer::new(scene).unwrap())
}

fn about(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 0.1 * expected
}

#[test]
fn a_sleeping_core_costs_its_way_out_and_a_cold_begin_of_which_the_second_is_charged() {
    let awake = felt_in(&sleepy("vm2", &[]));
    let asleep = felt_in(&sleepy("vm2", &[state(1e-3, 4e-4, 3e-4)]));
    assert!(about(asleep.0 - awake.0, 7e-4), "{awake:?} and {asleep:?}");
    assert!(about(asleep.1 - awake.1, 3e-4 * 0.95), "{awake:?} and {asleep:?}");
}

#[test]
fn a_flushed_core_reads_its_lines_again_from_memory_or_where_it_finds_them() {
    let flushed = IdleState { flushed: true, ..state(1e-3, 0.0, 0.0) };
    let of = |inclusion: f64, states: &[IdleState]| {
        let mut scene = sleepy("vm2", states);
        scene.machine.cache.inclusion = inclusion;
        let phase = Phase {
            llc_apki: 1.0,
            llc_misses: MissCurve::flat(0.25),
            ..program("integer").unwrap().phases[0].clone()
        };
        scene.services[0].program.phases = vec![phase];
        felt_in(&scene)
    };
    let machine = preset("vm2").unwrap();
    let lines = machine.cache.l2_bytes as f64 / 64.0;
    let (hit_s, miss_s) = (machine.cache.hit_cycles / 3e9, machine.memory.latency_ns / 1e9);
    let awake = of(1.0, &[]);
    for (inclusion, found) in [(0.0, 0.0), (1.0, 0.75), (0.5, 0.375)] {
        let asleep = of(inclusion, &[flushed]);
        let refill_s = lines * (found * hit_s + (1.0 - found) * miss_s);
        assert!(about(asleep.0 - awake.0, refill_s), "{inclusion}: {awake:?} and {asleep:?}");
        assert!(about(asleep.1 - awake.1, 0.95 * refill_s), "{inclusion}: {awake:?}, {asleep:?}");
    }
}

#[test]
fn the_deepest_state_that_was_reached_counts() {
    let never = state(1e3, 1.0, 1.0);
    let states = [state(1e-6, 1e-5, 0.0), state(1e-3, 4e-4, 0.0), never];
    let (awake, asleep) = (felt_in(&sleepy("vm2", &[])), felt_in(&sleepy("vm2", &states)));
    assert!(about(asleep.0 - awake.0, 4e-4), "{awake:?} and {asleep:?}");
    let shallow = felt_in(&sleepy("vm2", &[states[0], never]));
    assert!((0.0..5e-5).contains(&(shallow.0 - awake.0)), "{awake:?} and {shallow:?}");
}

#[test]
fn batch_in_the_idle_class_keeps_cpus_awake() {
    let deep = [state(1e-3, 4e-4, 3e-4)];
    let mut scene = sleepy("vm2", &deep);
    scene.batch = vec![batch("jobs", &["integer", "integer"])];
    let mut server = SimServer::new(&scene).unwrap();
    set(&mut server, Knob::CpuIdle { tenant: "jobs".into() }, Setting::Flag(true));
    let (beside, alone) = (felt(&mut server), felt_in(&sleepy("vm2", &deep)));
    let awake = felt_in(&sleepy("vm2", &[]));
    assert!(about(beside.0, awake.0) && about(beside.1, awake.1), "{beside:?} and {awake:?}");
    assert!(beside.0 < alone.0 && beside.1 < alone.1, "{beside:?} and {alone:?}");
}

#[test]
fn who_polls_does_not_sleep_and_only_machines_that_sleep_have_the_knob() {
    let deep = sleepy("vm2", &[state(1e-3, 4e-4, 3e-4)]);
    let awake = felt_in(&sleepy("vm2", &[]));
    let mut server = SimServer::new(&deep).unwrap();
    let polls = |server: &mut SimServer, polls| {
        for cpu in 0..2 {
            set(server, Knob::StayAwake { cpu }, Setting::Flag(polls));
        }
    };
    polls(&mut server, true);
    assert!(about(felt(&mut server).0, awake.0));
    polls(&mut server, false);
    assert!(about(felt(&mut server).0, felt_in(&deep).0));
    let mut without = SimServer::new(&sleepy("vm2", &[])).unwrap();
    let knob = Knob::StayAwake { cpu: 0 };
    assert!(without.change_behind(&knob, &Setting::Flag(true)).is_err());
}

#[test]
fn a_busy_sibling_keeps_the_core_awake() {
    let scene = |states: &[IdleState]| {
        let mut scene = sleepy("e5-2683v4", states);
        scene.services[0].workers = 1;
        scene.batch = vec![batch("jobs", &["integer"])];
        scene
    };
    let beside = |states: &[IdleState], cpu: u32| {
        let mut server = SimServer::new(&scene(states)).unwrap();
        let pin = |tenant: &str| Knob::Cpus { tenant: tenant.into() };
        set(&mut server, pin("web"), Setting::Cpus(CpuSet::of(0)));
        set(&mut server, pin("jobs"), Setting::Cpus(CpuSet::of(cpu)));
        felt(&mut server).0
    };
    let deep = [state(1e-3, 4e-4, 0.0)];
    assert!(about(beside(&deep, 16), beside(&[], 16)), "its sibling");
    assert!(about(beside(&deep, 1) - beside(&[], 1), 4e-4), "another core");
}

#[test]
fn some_ways_out_are_late_and_runs_repeat_to_the_bit() {
    let late = Late { frac: 0.1, mean_s: 0.05 };
    let scene = sleepy("vm2", &[IdleState { late, ..state(1e-3, 0.0, 0.0) }]);
    let seen = || {
        let mut server = SimServer::new(&scene).unwrap();
        latencies(&mut server, "web", 100 * SECOND)
    };
    let first = seen();
    assert_eq!(first, seen());
    // e^-0.2 of a tenth, and what waits behind them.
    let slow = first.count() as f64 * (0.1 * 0.819);
    let beyond = (0..=1000).rfind(|i| first.quantile(f64::from(*i) / 1e3).unwrap() < 11e6).unwrap();
    let found = first.count() as f64 * (1.0 - f64::from(beyond) / 1e3);
    assert!(found > 0.7 * slow && found < 2.5 * slow, "{found} for {slow}");
}

#[test]
fn a_group_is_not_charged_while_its_cpu_wakes() {
    let mut scene = sleepy("vm2", &[state(1e-3, 5e-3, 0.0)]);
    scene.services.clear();
    scene.batch = vec![batch("jobs", &["integer"])];
    let mut server = SimServer::new(&scene).unwrap();
    let limit = CpuBandwidth::limited(0.2, Duration::from_millis(100));
    set(&mut server, Knob::CpuBandwidth { tenant: "jobs".into() }, Setting::Bandwidth(limit));
    server.advance(SECOND);
    let got = cpus(&mut server, "jobs", 10 * SECOND);
    assert!((got - 0.2).abs() < 0.005, "{got}");
}

#[test]
fn impossible_idle_states_are_refused() {
    let table = [
        vec![state(2e-3, 0.0, 0.0), state(1e-3, 0.0, 0.0)],
        vec![state(1e-3, -1.0, 0.0)],
        vec![state(1e-3, 0.0, f64::NAN)],
        vec![IdleState { late: Late { frac: 2.0, mean_s: 0.0 }, ..state(1e-3, 0.0, 0.0) }],
    ];
    for idle in table {
        let machine = Machine { idle, ..preset("vm2").unwrap() };
        assert!(machine.validate().unwrap_err().to_string().contains("idle states"));
    }
}
