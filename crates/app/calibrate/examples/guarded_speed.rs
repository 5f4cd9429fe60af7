//! How fast the simulation runs with a law on it: a 2-socket server, xapian at 500 requests/s and
//! seven batch programs that change phase every 0.5 to 2 s, sensors at 0.1 s; with growing ticks
//! and with none stepped over. Samples come as `quell guard` takes them: at the law's period, full
//! ones once a second.
//!
//! `cargo run --release --example guarded_speed -p quell-calibrate [LAW [SECONDS [true|false]]]`:
//! this law only, so many simulated seconds, with growing ticks only or with none stepped over.

use quell_control::{Engine, EngineParams};
use quell_platform::{Platform, PlatformError, Scope};
use quell_policy::{Law, LawParams, build};
use quell_sim::{Load, Scene, SimBatch, SimServer, SimService, preset, program};
use quell_types::{BatchSpec, ServiceSpec, Slo};
use std::time::{Duration, Instant};

const SIMULATED_S: f64 = 300.0;

fn scene(stretch: bool) -> Option<Scene> {
    let mut scene = Scene { stretch, ..Scene::new(preset("haswell2")?, 1) };
    scene.sensing.period = Duration::from_millis(100);
    scene.services = vec![SimService {
        spec: ServiceSpec {
            name: "xapian".into(),
            slo: Slo { percentile_frac: 0.95, target_s: 0.015 },
            peak_qps: Some(1_000.0),
            links: vec![],
        },
        workers: 8,
        instructions: 8e6,
        variation: 0.6,
        request_bytes: 100,
        response_bytes: 2_000,
        program: program("xapian")?,
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

/// Lets the law rule for so many simulated seconds; answers simulated over real time.
fn ratio(law: Law, scene: &Scene, seconds: f64) -> Result<f64, PlatformError> {
    let mut server = SimServer::new(scene).map_err(|e| PlatformError::Lost(e.to_string()))?;
    let laws = build(law, &LawParams::default()).map_err(|e| PlatformError::Lost(e.to_string()))?;
    let mut engine = Engine::new(server.setup().clone(), laws, EngineParams::default());
    let period = engine.shortest_period().unwrap_or(Duration::from_secs(1));
    let period = period.min(Duration::from_secs(1));
    let (begun, mut time, mut full) = (Instant::now(), Duration::ZERO, Duration::ZERO);
    while time.as_secs_f64() < seconds {
        time += period;
        let scope = if time >= full { Scope::Full } else { Scope::Fast };
        if scope == Scope::Full {
            full += Duration::from_secs(1);
        }
        let sample = server.sample(period, scope)?;
        for action in &engine.step(&sample).actions {
            server.apply(action)?;
        }
    }
    Ok(time.as_secs_f64() / begun.elapsed().as_secs_f64())
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let named = words.first();
    let seconds = words.get(1).and_then(|s| s.parse().ok()).unwrap_or(SIMULATED_S);
    let only: Option<bool> = words.get(2).and_then(|stretch| stretch.parse().ok());
    let laws: Vec<Law> =
        Law::ALL.into_iter().filter(|law| named.is_none_or(|n| n == law.name())).collect();
    for law in laws {
        for stretch in [true, false].into_iter().filter(|s| only.is_none_or(|only| only == *s)) {
            let Some(scene) = scene(stretch) else { return };
            match ratio(law, &scene, seconds) {
                Ok(ratio) => {
                    println!(
                        "{:10} growing ticks: {stretch:5} {ratio:8.0} times real time",
                        law.name()
                    );
                }
                Err(error) => eprintln!("{error}"),
            }
        }
    }
}
