//! How fast the simulation runs: a 2-socket server, xapian at 500 requests/s and seven batch
//! programs that change phase every 0.5 to 2 s, sensors read at 0.1 s; with growing ticks and with
//! none stepped over.
//!
//! `cargo run --release --example speed -p quell-sim`

use quell_platform::{Platform, Scope};
use quell_sim::{Load, Scene, SimBatch, SimServer, SimService, preset, program};
use quell_types::{BatchSpec, ServiceSpec, Slo};
use std::time::{Duration, Instant};

const SIMULATED_S: u64 = 300;

fn scene(stretch: bool) -> Option<Scene> {
    let mut scene = Scene { stretch, ..Scene::new(preset("haswell2")?, 1) };
    scene.sensing.period = Duration::from_millis(100);
    scene.services = vec![SimService {
        spec: ServiceSpec {
            name: "xapian".into(),
            slo: Slo { percentile_frac: 0.95, target_s: 0.015 },
            peak_qps: None,
            links: vec![],
        },
        program: program("xapian")?,
        workers: 8,
        instructions: 8e6,
        variation: 0.6,
        request_bytes: 100,
        response_bytes: 2_000,
        load: Load::Constant(500.0),
    }];
    let batch = |n: u32| {
        let name = format!("batch{n}").as_str().into();
        let spec = BatchSpec { name, links: vec![], takes_tasks: false, max_tasks: 0 };
        Some(SimBatch { spec, programs: vec![program("phased")?] })
    };
    scene.batch = (0..7).map(batch).collect::<Option<Vec<_>>>()?;
    Some(scene)
}

fn main() {
    for stretch in [true, false] {
        let Some(scene) = scene(stretch) else { return };
        let mut server = match SimServer::new(&scene) {
            Ok(server) => server,
            Err(error) => return eprintln!("{error}"),
        };
        let begun = Instant::now();
        for _ in 0..SIMULATED_S * 10 {
            if let Err(error) = server.sample(Duration::from_millis(100), Scope::Full) {
                return eprintln!("{error}");
            }
        }
        let ratio = SIMULATED_S as f64 / begun.elapsed().as_secs_f64();
        println!("growing ticks: {stretch:5}  {ratio:8.0} times real time");
    }
}
