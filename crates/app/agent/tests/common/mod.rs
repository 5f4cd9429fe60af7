//! What several tests and examples play on the simulated server: a search service, and groups beside it.

// Each of them uses a part.
#![allow(dead_code)]

use quell_sim::{Load, Program, Scene, SimBatch, SimService, preset, program};
use quell_types::{BatchSpec, BytesPerSecond, Link, LinkSpec, ServiceSpec, Slo};

/// Instructions a second of a CPU of the simulated virtual machine, in thousands, for whoever sends a
/// byte for each thousand.
const KI_PER_S: f64 = 6e6;

/// A machine and a program of the library.
fn known<T>(found: Option<T>, name: &str) -> T {
    found.unwrap_or_else(|| panic!("the library has no {name}"))
}

/// A search service alone on this machine, asked so many times a second.
pub(crate) fn scene(machine: &str, seed: u64, qps: f64) -> Scene {
    let mut scene = Scene::new(known(preset(machine), machine), seed);
    scene.services = vec![search(qps)];
    scene
}

/// The service: two workers, 1.2 million instructions a request, p95 within 2.6 ms.
pub(crate) fn search(qps: f64) -> SimService {
    SimService {
        spec: ServiceSpec {
            name: "search".into(),
            slo: Slo { percentile_frac: 0.95, target_s: 0.0026 },
            peak_qps: Some(4_000.0),
            links: vec![],
        },
        program: known(program("search"), "search"),
        workers: 2,
        instructions: 1.2e6,
        variation: 0.5,
        request_bytes: 100,
        response_bytes: 2_000,
        load: Load::Constant(qps),
    }
}

/// A group that runs these programs.
pub(crate) fn group(name: &str, links: Vec<Link>, programs: Vec<Program>) -> SimBatch {
    let spec = BatchSpec { name: name.into(), links, takes_tasks: false, max_tasks: 0 };
    SimBatch { spec, programs }
}

/// A group with one thread that never sleeps, by the name of its program.
pub(crate) fn busy(name: &str, what: &str) -> SimBatch {
    group(name, vec![], vec![known(program(what), what)])
}

/// A link of the group's own that lets what a share of a CPU reckons through.
pub(crate) fn link(scene: &mut Scene, name: &str, cpus: f64) -> Link {
    let link: Link = format!("of-{name}").as_str().into();
    let capacity = BytesPerSecond(KI_PER_S * cpus);
    scene.links.push(LinkSpec { name: link.clone(), capacity });
    link
}

/// A group with arithmetic for a share of a CPU: it sends what it reckons on a link of its own, and
/// sleeps while that is full.
pub(crate) fn sleeper(scene: &mut Scene, name: &str, cpus: f64) -> SimBatch {
    sleepers(scene, name, cpus, 1)
}

/// The same by so many threads together.
pub(crate) fn sleepers(scene: &mut Scene, name: &str, cpus: f64, threads: usize) -> SimBatch {
    let mut program = known(program("integer"), "integer");
    program.phases[0].egress_per_ki = 1.0;
    program.phases[0].send_bytes = 10_000.0;
    let link = link(scene, name, cpus);
    group(name, vec![link], vec![program; threads])
}
