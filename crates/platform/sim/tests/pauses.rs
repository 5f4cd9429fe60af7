//! What makes threads stop, and what makes them slow: barriers, full sockets, steals, duty cycles,
//! pages far away.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use quell_platform::Platform;
use quell_sim::*;
use quell_types::*;
use std::time::Duration;

/// Threads that compute and meet every `lap` instructions.
fn meeting(threads: u32, lap: f64) -> Program {
    let phase = Phase { base_cpi: 1.0, barrier_instructions: lap, ..Phase::default() };
    Program { threads, phases: vec![phase], ..program("integer").unwrap() }
}

fn pin(server: &mut SimServer, name: &str, cpus: &str) {
    let knob = Knob::Cpus { tenant: name.into() };
    set(server, knob, Setting::Cpus(cpus.parse().unwrap()));
}

/// Instructions per second of a tenant.
fn rate(server: &mut SimServer, name: &str) -> f64 {
    let done = |server: &mut SimServer| server.truth().instructions[&name.into()];
    server.advance(SECOND);
    let before = done(server);
    server.advance(4 * SECOND);
    (done(server) - before) / 4.0
}

#[test]
fn with_barriers_all_go_at_the_pace_of_the_slowest() {
    let run = |lap: f64| {
        let mut scene = scene("xeon-atom");
        let app = SimBatch { programs: vec![meeting(4, lap)], ..batch("app", &[]) };
        scene.batch = vec![app];
        let mut server = SimServer::new(&scene).unwrap();
        rate(&mut server, "app")
    };
    // Two fast cores and two of 0.4 of their speed: 2.8 without barriers, 4 times 0.4 with them,
    // a little more as threads trade places.
    let ratio = run(2e6) / run(f64::INFINITY);
    assert!((0.5..0.72).contains(&ratio), "{ratio}");
}

#[test]
fn work_with_barriers_comes_to_its_end() {
    let mut scene = scene("e5-2683v4");
    let app = Program { work_instructions: Some(3e9), ..meeting(3, 7e6) };
    scene.batch = vec![SimBatch { programs: vec![app], ..batch("app", &[]) }];
    let mut server = SimServer::new(&scene).unwrap();
    server.advance(10 * SECOND);
    let done = server.truth().instructions[&"app".into()];
    assert!((done / 3e9 - 1.0).abs() < 1e-6, "{done}");
}

#[test]
fn a_sender_sleeps_while_its_socket_is_full() {
    let mut scene = scene("vm2");
    let name: Link = "eth0".into();
    scene.links = vec![LinkSpec { name: name.clone(), capacity: BytesPerSecond::from_bits(1e9) }];
    let mut iperf = batch("iperf", &["iperf"]);
    iperf.spec.links = vec![name.clone()];
    scene.batch = vec![iperf];
    let mut server = SimServer::new(&scene).unwrap();
    let free = cpus(&mut server, "iperf", 5 * SECOND);
    assert!(free < 0.3, "{free} CPUs for a link of 1 Gbit/s");
    let mut sent = |seconds: u32| {
        let before = full(&mut server, SECOND).links[&name].sent_bytes.clone().unwrap();
        let after = full(&mut server, seconds * SECOND).links[&name].sent_bytes.clone().unwrap();
        (after - before) as f64 / f64::from(seconds)
    };
    let open = sent(5);
    assert!(open > 0.9 * 125e6 && open < 1.01 * 125e6, "{open}");
    let knob = Knob::EgressCeiling { tenant: "iperf".into(), link: name.clone() };
    set(&mut server, knob, Setting::Rate(Some(BytesPerSecond(10e6))));
    full(&mut server, SECOND);
    let before = full(&mut server, SECOND).links[&name].sent_bytes.clone().unwrap();
    let after = full(&mut server, 5 * SECOND).links[&name].sent_bytes.clone().unwrap();
    let shaped = (after - before) as f64 / 5.0;
    assert!((shaped / 10e6 - 1.0).abs() < 0.05, "{shaped}");
    let cpu = cpus(&mut server, "iperf", 5 * SECOND);
    assert!(cpu < 0.3 * free, "{cpu} CPUs with a ceiling, {free} without");
}

#[test]
fn a_hypervisor_takes_its_share_and_the_kernel_is_told() {
    let mut scene = scene("vm2");
    scene.machine.steal = Steal { frac: 0.25, span_s: 0.004, hidden: false };
    scene.batch = vec![batch("sums", &["integer", "integer"])];
    let mut server = SimServer::new(&scene).unwrap();
    let used = cpus(&mut server, "sums", 20 * SECOND) / 2.0;
    assert!((used - 0.75).abs() < 0.03, "{used}");
    let cpu = full(&mut server, SECOND).host.cpu.unwrap();
    let all = (cpu.busy_ns + cpu.idle_ns + cpu.steal_ns) as f64;
    assert!((cpu.steal_ns as f64 / all - 0.25).abs() < 0.03, "{cpu:?}");
}

#[test]
fn a_hypervisor_that_says_nothing_is_told_by_late_timers() {
    let run = |hidden: bool| {
        let mut scene = scene("vm2");
        scene.machine.lock_gauge = true;
        scene.machine.steal = Steal { frac: 0.25, span_s: 0.004, hidden };
        scene.batch = vec![batch("sums", &["integer", "integer"])];
        let mut server = SimServer::new(&scene).unwrap();
        let done = rate(&mut server, "sums");
        let used = cpus(&mut server, "sums", 20 * SECOND) / 2.0;
        let host = full(&mut server, SECOND).host;
        (done, used, host.cpu.unwrap(), host.gauge.unwrap().pauses)
    };
    let ((told_done, ..), (done, used, cpu, pauses)) = (run(false), run(true));
    assert!((done / told_done - 1.0).abs() < 0.05, "as little is done: {done} {told_done}");
    assert!((used - 1.0).abs() < 0.01, "charged as if it ran: {used}");
    assert_eq!((cpu.steal_ns, pauses.timed_ns), (0, cpu.busy_ns));
    let lost = pauses.lost_ns as f64 / pauses.timed_ns as f64;
    assert!((lost - 0.25).abs() < 0.03, "{pauses:?}");
}

#[test]
fn a_core_runs_at_the_highest_duty_of_its_threads() {
    let mut scene = scene("platinum-8163");
    scene.batch = vec![batch("sums", &["integer"])];
    let mut server = SimServer::new(&scene).unwrap();
    pin(&mut server, "sums", "0");
    let whole = rate(&mut server, "sums");
    let duty = |cpu: u32, parts: u32| (Knob::DutyCycle { cpu }, Setting::Duty(parts));
    let (knob, half) = duty(0, 8);
    set(&mut server, knob, half);
    assert!((rate(&mut server, "sums") / whole - 1.0).abs() < 0.01, "the sibling is at 16 of 16");
    let (knob, half) = duty(48, 8);
    set(&mut server, knob, half);
    let ratio = rate(&mut server, "sums") / whole;
    assert!((ratio - 0.5).abs() < 0.02, "{ratio}");
    server.restore().unwrap();
    assert!((rate(&mut server, "sums") / whole - 1.0).abs() < 0.01);
}

#[test]
fn pages_move_at_their_rate_and_then_are_near() {
    let mut scene = scene("westmere4");
    let app = Program { memory_nodes: vec![3], ..program("stream-dram").unwrap() };
    scene.batch = vec![SimBatch { programs: vec![app], ..batch("app", &[]) }];
    let mut server = SimServer::new(&scene).unwrap();
    pin(&mut server, "app", "0");
    let far = rate(&mut server, "app");
    let knob = Knob::MemoryNodes { tenant: "app".into() };
    let near = Setting::Nodes("0".parse().unwrap());
    set(&mut server, knob.clone(), near.clone());
    // 1 GiB at 1 GB/s takes 1.07 s.
    let mut after = |span: Duration| {
        server.advance(span);
        full(&mut server, Duration::ZERO).knobs[&knob].clone()
    };
    assert_eq!(after(SECOND), Err(Gap::Pending));
    assert_eq!(after(SECOND / 5), Ok(near));
    let moved = rate(&mut server, "app");
    assert!(moved > 1.5 * far, "{moved} against {far}");
}
