//! The simulated kernel's gauge of bus locks.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use quell_platform::{Platform, Scope};
use quell_sim::*;
use quell_types::*;
use std::time::Duration;

/// Two groups beside a service on two CPUs, each with a CPU to itself.
fn server(programs: [&str; 2], gauge: bool) -> SimServer {
    let mut scene = scene("vm2");
    scene.machine.lock_gauge = gauge;
    scene.services = vec![service("web", "search", 0.05, 800.0)];
    scene.batch = vec![batch("a", &programs[..1]), batch("b", &programs[1..])];
    for phase in scene.batch.iter_mut().flat_map(|group| &mut group.programs[0].phases) {
        // As fast as it goes.
        phase.split_locks_per_s *= 3.0;
    }
    let mut server = SimServer::new(&scene).unwrap();
    for (tenant, cpu) in [("a", 0), ("b", 1)] {
        let knob = Knob::Cpus { tenant: tenant.into() };
        set(&mut server, knob, Setting::Cpus(CpuSet::from_iter([cpu])));
    }
    server
}

fn gauge(server: &mut SimServer, scope: Scope) -> GaugeReading {
    let sample = server.sample(Duration::from_secs(2), scope).unwrap();
    GaugeReading::clone(&sample.host.gauge.unwrap())
}

/// The share of samples beside a group in which accesses took four times as long as usual.
fn slow_frac(gauge: &GaugeReading, name: &str) -> f64 {
    let beside = &gauge.beside[&name.into()].slots;
    let all: u32 = beside.iter().sum();
    f64::from(beside[12..].iter().sum::<u32>()) / f64::from(all)
}

#[test]
fn accesses_are_held_back_beside_who_locks_the_bus_and_nobody_else() {
    let mut server = server(["split-lock", "integer"], true);
    let counted = gauge(&mut server, Scope::Full);
    assert!(slow_frac(&counted, "a") > 0.9, "{counted:?}");
    assert!(slow_frac(&counted, "b") < 0.1, "{counted:?}");
    // Fast samples tell it, too.
    let later = gauge(&mut server, Scope::Fast);
    let sum = |gauge: &GaugeReading| gauge.all.slots.iter().sum::<u32>();
    assert!(sum(&later) > sum(&counted), "{later:?}");
}

#[test]
fn streams_and_sums_hold_nobody_back() {
    let mut server = server(["stream-dram", "integer"], true);
    let counted = gauge(&mut server, Scope::Full);
    assert_eq!((slow_frac(&counted, "a"), slow_frac(&counted, "b")), (0.0, 0.0));
    let all: u32 = counted.all.slots.iter().sum();
    assert!((800..=1000).contains(&all), "{all} samples in two seconds");
}

#[test]
fn who_streams_drives_lines_out_of_the_caches_and_who_adds_up_leaves_them() {
    let mut server = server(["stream-dram", "integer"], true);
    let counted = gauge(&mut server, Scope::Full);
    // What sixteen lines take, in ns.
    let line_ns = |name: &str| {
        let of = &counted.beside[&name.into()];
        assert!(of.kept.samples > 100, "{name}: {of:?}");
        128.0 * libm::exp2(of.kept.took as f64 / of.kept.samples as f64 / 8.0)
    };
    let (streams, adds) = (line_ns("a"), line_ns("b"));
    assert!(streams > 3.0 * adds && adds < 400.0, "{streams} and {adds} ns");
    assert!(counted.all.kept.samples >= counted.beside[&"a".into()].kept.samples);
}

#[test]
fn without_it_there_is_a_gap() {
    let mut server = server(["integer", "integer"], false);
    let sample = server.sample(Duration::from_secs(1), Scope::Full).unwrap();
    assert!(matches!(sample.host.gauge, Err(Gap::Absent(_))));
}
