//! Laws whose loops take whole seconds, where every whole second brings a fast sample: what that
//! leaves out is known from the full one before.
#![allow(clippy::unwrap_used)]

use quell_control::{Engine, EngineParams};
use quell_policy::{Law, LawParams, build};
use quell_types::*;
use std::collections::BTreeMap;

const CAPACITY: BytesPerSecond = BytesPerSecond(1.25e7);

fn ceiling() -> Knob {
    Knob::EgressCeiling { tenant: "jobs".into(), link: "eth0".into() }
}

fn setup() -> Setup {
    let links: Vec<Link> = vec!["eth0".into()];
    let slo = Slo { percentile_frac: 0.95, target_s: 0.010 };
    let web = ServiceSpec { name: "web".into(), slo, peak_qps: Some(1000.0), links: links.clone() };
    Setup {
        managed_cpus: "0-3".parse().unwrap(),
        services: vec![web],
        batch: vec![BatchSpec { name: "jobs".into(), links, takes_tasks: false, max_tasks: 0 }],
        links: vec![LinkSpec { name: "eth0".into(), capacity: CAPACITY }],
        knobs: BTreeMap::from([(ceiling(), KnobRange::Rate { min: BytesPerSecond(1000.0) })]),
        ..Setup::default()
    }
}

fn service(ms: u64, full: bool) -> TenantReading {
    let mut reading = TenantReading::missing(&Gap::not_yet("read in full samples only"));
    (reading.identity, reading.cpu_ns) = (Ok(1), Ok(ms * 100_000));
    if full {
        reading.egress_bytes = Ok(ms * 1_000);
    }
    reading
}

/// Every half second a sample; full ones lie between the whole seconds.
fn sample(ms: u64, knobs: &BTreeMap<Knob, Setting>) -> Sample {
    let gap = || Gap::absent("not in this test");
    let link = LinkReading {
        sent_bytes: Ok(ms * 1_000),
        by_tenant_bytes: BTreeMap::new(),
        backlog_bytes: Ok(0),
        drops: Ok(0),
    };
    Sample {
        time: Time(ms * 1_000_000),
        wall_unix_ms: ms,
        host: HostReading::missing(&gap()),
        tenants: BTreeMap::from([("web".into(), service(ms, ms % 1000 == 500))]),
        links: BTreeMap::from([("eth0".into(), link)]),
        knobs: std::sync::Arc::new(knobs.iter().map(|(k, s)| (k.clone(), Ok(s.clone()))).collect()),
        tasks: vec![],
        probes: Vec::new(),
        bursts: Vec::new(),
        experiments: vec![],
        outcomes: vec![],
        link_capacity: BTreeMap::new(),
    }
}

#[test]
fn ceilings_are_set_though_the_first_sample_is_a_fast_one() {
    for law in [Law::Thesis, Law::Heracles] {
        let policies = build(law, &LawParams::default()).unwrap();
        let mut engine = Engine::new(setup(), policies, EngineParams::default());
        let mut knobs = BTreeMap::from([(ceiling(), Setting::Rate(None))]);
        for step in 0..10 {
            for action in engine.step(&sample(1_000 + step * 500, &knobs)).actions {
                let Action::Set { knob, to } = action else { continue };
                knobs.insert(knob, to);
            }
        }
        let Setting::Rate(Some(rate)) = knobs[&ceiling()] else { panic!("{law}: no ceiling") };
        assert!(rate.0 > 0.5 * CAPACITY.0 && rate.0 < CAPACITY.0 - 1e6, "{law}: {rate:?}");
    }
}
