//! Scenes that several tests play.
#![allow(dead_code, clippy::unwrap_used)]

use quell_platform::{Platform, Scope, Store};
use quell_sim::*;
use quell_types::*;
use std::time::Duration;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn scene(machine: &str) -> Scene {
    Scene::new(preset(machine).unwrap(), 1)
}

/// A service whose requests take about `ms` alone on the 2-vCPU machine.
pub(crate) fn service(name: &str, program_name: &str, ms: f64, qps: f64) -> SimService {
    SimService {
        spec: ServiceSpec {
            name: name.into(),
            slo: Slo { percentile_frac: 0.95, target_s: 0.015 },
            peak_qps: None,
            links: vec![],
        },
        program: program(program_name).unwrap(),
        workers: 2,
        instructions: ms * 3e6,
        variation: 0.5,
        request_bytes: 100,
        response_bytes: 1_000,
        load: Load::Constant(qps),
    }
}

pub(crate) fn batch(name: &str, programs: &[&str]) -> SimBatch {
    SimBatch {
        spec: BatchSpec { name: name.into(), links: vec![], takes_tasks: true, max_tasks: 4 },
        programs: programs.iter().map(|p| program(p).unwrap()).collect(),
    }
}

pub(crate) fn set<S: Store>(server: &mut SimServer<S>, knob: Knob, to: Setting) {
    server.apply(&Action::Set { knob, to }).unwrap();
}

pub(crate) fn full<S: Store>(server: &mut SimServer<S>, after: Duration) -> Sample {
    server.sample(after, Scope::Full).unwrap()
}

/// Latencies of a service over a span, in nanoseconds.
pub(crate) fn latencies(server: &mut SimServer, name: &str, span: Duration) -> LogHistogram {
    let of = |sample: &Sample| {
        sample.tenants[&name.into()].requests.clone().unwrap().latency_ns.unwrap()
    };
    let before = of(&full(server, Duration::from_millis(1)));
    of(&full(server, span)).since(&before)
}

/// CPU time of a tenant over a span, as CPUs.
pub(crate) fn cpus(server: &mut SimServer, name: &str, span: Duration) -> f64 {
    let before = server.truth().cpu_ns[&name.into()];
    server.advance(span);
    (server.truth().cpu_ns[&name.into()] - before) as f64 / span.as_nanos() as f64
}
