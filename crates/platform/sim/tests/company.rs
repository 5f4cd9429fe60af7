//! Beside whom a simulated service gets how much done.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use quell_sim::*;
use quell_types::*;
use std::time::Duration;

/// A service of one worker on the first CPU, if it is pinned, and two groups of one thread each.
fn server(programs: [&str; 2], pinned: bool) -> SimServer {
    let mut scene = scene("vm2");
    let mut web = service("web", "search", 0.45, 800.0);
    web.workers = 1;
    scene.services = vec![web];
    scene.batch = vec![batch("a", &programs[..1]), batch("b", &programs[1..])];
    let mut server = SimServer::new(&scene).unwrap();
    let mut pin = |tenant: &str, cpu: u32| {
        let knob = Knob::Cpus { tenant: tenant.into() };
        set(&mut server, knob, Setting::Cpus(CpuSet::from_iter([cpu])));
    };
    if pinned {
        [("web", 0), ("a", 1), ("b", 1)].iter().for_each(|(tenant, cpu)| pin(tenant, *cpu));
    }
    server
}

fn company(sample: &Sample) -> CompanyReading {
    sample.tenants[&"web".into()].company.clone().unwrap()
}

/// CPU time in nanoseconds for each answer.
fn cost(beside: Beside) -> f64 {
    beside.cpu_ns as f64 / beside.sends as f64
}

#[test]
fn every_request_is_put_down_to_who_has_the_other_cpu() {
    for pinned in [true, false] {
        let mut server = server(["integer", "integer"], pinned);
        for _ in 0..5 {
            let sample = full(&mut server, SECOND);
            let web = &sample.tenants[&"web".into()];
            let company = company(&sample);
            assert!(!company.tenants.contains_key(&"web".into()), "{company:?}");
            let all: Vec<Beside> =
                company.tenants.values().copied().chain([company.nobody]).collect();
            // One worker, two CPUs: somebody, or nobody, has the other one.
            let sends: u64 = all.iter().map(|beside| beside.sends).sum();
            assert_eq!(sends, web.requests.as_ref().unwrap().requests, "pinned: {pinned}");
            let beside_ns: u64 = all.iter().map(|beside| beside.cpu_ns).sum();
            let cpu_ns = web.cpu_ns.clone().unwrap();
            let open_ns = cpu_ns.checked_sub(beside_ns).unwrap();
            assert!(open_ns < 20_000_000, "{open_ns} ns of a request that is not answered yet");
        }
    }
}

#[test]
fn a_request_costs_the_same_beside_all_who_do_no_harm() {
    let mut server = server(["integer", "integer"], true);
    let company = company(&full(&mut server, Duration::from_secs(30)));
    let [a, b] = ["a", "b"].map(|name| company.tenants[&name.into()]);
    assert!(a.sends > 5_000 && b.sends > 5_000, "{company:?}");
    assert!((cost(a) / cost(b) - 1.0).abs() < 0.03, "{} {}", cost(a), cost(b));
}

#[test]
fn batch_has_a_gap() {
    let mut server = server(["integer", "integer"], false);
    assert!(full(&mut server, SECOND).tenants[&"a".into()].company.is_err());
}

#[test]
fn while_a_service_stands_behind_others_somebody_has_the_other_cpu_or_nobody() {
    let waits = |server: &mut SimServer| {
        full(server, 5 * SECOND).tenants[&"web".into()].waits.clone().unwrap()
    };
    let there_ns = |waits: &WaitReading| waits.elsewhere.tenants_ns.values().sum::<u64>();
    let mut both = server(["integer", "integer"], false);
    let seen = waits(&mut both);
    let all_ns = there_ns(&seen) + seen.elsewhere.others_ns + seen.elsewhere.nobody_ns;
    assert_eq!((seen.elsewhere.cpus, all_ns), (1, seen.behind_ns.values().sum()), "{seen:?}");
    assert!(there_ns(&seen) > 100_000_000, "both are loops: {seen:?}");
    let mut pinned = server(["integer", "integer"], true);
    let before = waits(&mut pinned);
    let after = waits(&mut pinned);
    assert_eq!(before.elsewhere, after.elsewhere, "it could not use the other CPU");
}
