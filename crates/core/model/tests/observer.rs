//! The observer on scripted samples.
#![allow(clippy::unwrap_used)]

use quell_model::{Observer, ObserverParams};
use quell_types::*;
use std::collections::BTreeMap;
use std::sync::Arc;

fn setup() -> Setup {
    Setup {
        managed_cpus: "0-1".parse().unwrap(),
        services: vec![ServiceSpec {
            name: "web".into(),
            slo: Slo { percentile_frac: 0.95, target_s: 0.010 },
            peak_qps: Some(1000.0),
            links: vec![],
        }],
        batch: vec![BatchSpec {
            name: "jobs".into(),
            links: vec![],
            takes_tasks: true,
            max_tasks: 1,
        }],
        ..Setup::default()
    }
}

/// A service that answers `n` requests in all, each in 2 ms for 0.2 ms of CPU time.
fn service(n: u64, identity: u64) -> TenantReading {
    let mut latency = LogHistogram::new();
    latency.record_many(2_000_000, n);
    let mut reading = TenantReading::missing(&Gap::absent("not in this test"));
    reading.identity = Ok(identity);
    reading.cpu_ns = Ok(n * 200_000);
    reading.requests = Ok(RequestReading {
        requests: n,
        bytes_in: n * 100,
        bytes_out: n * 1000,
        latency_ns: Ok(latency),
    });
    reading
}

fn batch(cpu_ns: Reading<u64>) -> TenantReading {
    let gap = cpu_ns.clone().err().unwrap_or(Gap::absent("not in this test"));
    let mut reading = TenantReading::missing(&gap);
    if cpu_ns.is_ok() {
        reading.identity = Ok(7);
    }
    reading.cpu_ns = cpu_ns;
    reading
}

fn sample(ms: u64, web: TenantReading, jobs: TenantReading) -> Sample {
    let gap = || Gap::absent("not in this test");
    Sample {
        time: Time(ms * 1_000_000),
        wall_unix_ms: 0,
        host: HostReading {
            cpu: Ok(CpuTimes { busy_ns: ms * 1_500_000, idle_ns: ms * 500_000, steal_ns: 0 }),
            ..HostReading::missing(&gap())
        },
        tenants: BTreeMap::from([("web".into(), web), ("jobs".into(), jobs)]),
        links: BTreeMap::new(),
        knobs: std::sync::Arc::default(),
        tasks: vec![],
        experiments: vec![],
        probes: vec![],
        bursts: vec![],
        outcomes: vec![],
        link_capacity: BTreeMap::new(),
    }
}

#[test]
fn counters_become_rates_windows_and_slack() {
    let mut observer = Observer::new(setup(), ObserverParams::default());
    observer.observe(&sample(0, service(0, 1), batch(Ok(0))));
    let seen = observer.observe(&sample(1000, service(500, 1), batch(Ok(800_000_000))));
    let web = &seen.services[&"web".into()];
    assert_eq!(web.qps, Ok(500.0));
    assert_eq!(web.load, Ok(Fraction(0.5)));
    assert!((web.slack.clone().unwrap() - 0.8).abs() < 0.02, "{:?}", web.slack);
    assert!((web.cpu_per_request_s.clone().unwrap() - 0.0002).abs() < 1e-9);
    assert_eq!(web.bytes_per_request, Ok((100.0, 1000.0)));
    assert_eq!(seen.batch[&"jobs".into()].cpu, Ok(Cpus(0.8)));
    assert_eq!(seen.host.utilisation, Ok(Fraction(0.75)));
    assert!(matches!(web.memory, Err(Gap::Absent(_))), "what is missing stays missing");
}

#[test]
fn a_restarted_service_begins_anew() {
    let mut observer = Observer::new(setup(), ObserverParams::default());
    observer.observe(&sample(0, service(0, 1), batch(Ok(0))));
    observer.observe(&sample(1000, service(500, 1), batch(Ok(0))));
    let seen = observer.observe(&sample(2000, service(3, 2), batch(Ok(0))));
    let web = &seen.services[&"web".into()];
    assert!(web.restarted);
    assert!(web.qps.is_err() && web.tails.is_err() && web.cpu.is_err());
    let seen = observer.observe(&sample(3000, service(503, 2), batch(Ok(0))));
    assert_eq!(seen.services[&"web".into()].qps, Ok(500.0));
}

#[test]
fn a_fast_sample_keeps_what_it_left_out() {
    let mut observer = Observer::new(setup(), ObserverParams::default());
    observer.observe(&sample(0, service(0, 1), batch(Ok(0))));
    observer.observe(&sample(1000, service(500, 1), batch(Ok(500_000_000))));
    let fast = sample(1250, service(625, 1), batch(Err(Gap::not_yet("fast sample"))));
    let seen = observer.observe(&fast);
    assert_eq!(seen.batch[&"jobs".into()].cpu, Ok(Cpus(0.5)));
    assert_eq!(seen.services[&"web".into()].qps, Ok(500.0));
}

#[test]
fn a_fast_sample_keeps_what_a_service_sends_too() {
    let mut observer = Observer::new(setup(), ObserverParams::default());
    let full = |n: u64| {
        let mut reading = service(n, 1);
        reading.egress_bytes = Ok(n * 1000);
        reading.llc_bytes = Ok(4096);
        reading
    };
    let fast = |n: u64| {
        let requests = service(n, 1);
        let mut reading = TenantReading::missing(&Gap::not_yet("fast sample"));
        (reading.identity, reading.cpu_ns) = (requests.identity, requests.cpu_ns);
        reading.requests = requests.requests;
        reading
    };
    let no_batch = || batch(Err(Gap::not_yet("fast sample")));
    let seen = observer.observe(&sample(0, fast(0), no_batch()));
    assert!(seen.services[&"web".into()].egress.is_err(), "nothing to keep yet");
    observer.observe(&sample(250, full(125), batch(Ok(0))));
    observer.observe(&sample(1250, full(625), batch(Ok(0))));
    let seen = observer.observe(&sample(1500, fast(750), no_batch()));
    let web = &seen.services[&"web".into()];
    assert_eq!(web.egress, Ok(BytesPerSecond(500_000.0)));
    assert_eq!((web.llc_bytes.clone(), web.qps.clone()), (Ok(4096), Ok(500.0)));
    // What fails in a full sample is a gap, whatever was known before.
    let mut lost = full(875);
    lost.egress_bytes = Err(Gap::failed("no such file"));
    let seen = observer.observe(&sample(1750, lost, batch(Ok(0))));
    assert!(seen.services[&"web".into()].egress.is_err());
}

#[test]
fn a_vanished_service_is_a_gap_and_not_zero() {
    let mut observer = Observer::new(setup(), ObserverParams::default());
    observer.observe(&sample(0, service(0, 1), batch(Ok(0))));
    let gone = TenantReading::missing(&Gap::Gone("web".into()));
    let seen = observer.observe(&sample(1000, gone, batch(Ok(0))));
    let web = &seen.services[&"web".into()];
    assert!(web.present.is_err() && web.cpu.is_err() && web.slack.is_err());
}

#[test]
fn the_same_samples_give_the_same_observations() {
    let run = || {
        let mut observer = Observer::new(setup(), ObserverParams::default());
        (0..20)
            .map(|i| observer.observe(&sample(i * 250, service(i * 130, 1), batch(Ok(i * 1000)))))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn bus_locks_are_followed_in_fast_samples_while_the_rest_of_the_machine_stands() {
    let mut observer = Observer::new(setup(), ObserverParams::default());
    let nobody = || batch(Err(Gap::absent("not in this test")));
    let mut see = |ms: u64, locks: u64, fast: bool| {
        let mut sample = sample(ms, service(ms, 1), nobody());
        if fast {
            sample.host = HostReading::missing(&Gap::not_yet("read in full samples only"));
        }
        sample.host.bus_locks = Ok(Arc::new(BTreeMap::from([(3, locks)])));
        observer.observe(&sample).host
    };
    see(1000, 50, false);
    let full = see(2000, 150, false);
    let fast = see(2100, 650, true);
    assert_eq!(full.bus_locks_per_s, Ok(Arc::new(BTreeMap::from([(3, 100.0)]))));
    let rate = fast.bus_locks_per_s.as_ref().unwrap()[&3];
    assert!((rate - 5000.0).abs() < 1e-6, "{rate}");
    assert_eq!(fast.utilisation, full.utilisation);
}
