//! How fast simulation is: a fixed scene with a guard running.

use crate::drive::Drive;
use crate::stage::stage;
use crate::{Scenario, ScenarioErrors};
use anyhow::Context;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Schema of [`Speed`].
pub const SPEED_SCHEMA: &str = "quell.speed/1";

/// A 2-socket server, xapian at 500 requests/s and seven batch programs that change phase every
/// 0.5 to 2 s, law `quell`, sensors at 0.1 s.
const SCENE: &str = r#"
scenario speed "how fast simulation is"
machine haswell2
sensors period 100ms
service xapian
  workers 8
  load 500/s
batch a
  run phased
batch b
  run phased
batch c
  run phased
batch d
  run phased
batch e
  run phased
batch f
  run phased
batch g
  run phased
policy quell
"#;

/// Simulated seconds per second, on one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Speed {
    /// `quell.speed/1`.
    pub schema: String,
    /// As simulations usually run.
    pub realtime_ratio: f64,
    /// With no stretch stepped over: every tick is looked at.
    pub realtime_ratio_every_tick: f64,
    /// How long was simulated for each figure, in seconds.
    pub simulated_s: f64,
}

/// Measures it.
///
/// # Errors
/// The scene cannot be played.
pub fn speed(simulated_s: u64) -> anyhow::Result<Speed> {
    Ok(Speed {
        schema: SPEED_SCHEMA.into(),
        realtime_ratio: ratio(simulated_s, true)?,
        realtime_ratio_every_tick: ratio(simulated_s, false)?,
        simulated_s: simulated_s as f64,
    })
}

fn ratio(simulated_s: u64, stretch: bool) -> anyhow::Result<f64> {
    let scenario = Scenario::parse("speed", SCENE).context("the scene of the speed test")?;
    let point = scenario.points().into_iter().next().unwrap_or_default();
    let mut stage =
        stage(&scenario, &point, 1).map_err(|errors| ScenarioErrors::new("speed", errors))?;
    stage.scene.stretch = stretch;
    for (service, (load, _)) in stage.scene.services.iter_mut().zip(&stage.loads) {
        service.load = load.offered(1.0);
    }
    let mut drive = Drive::new(stage, false)?;
    let begun = Instant::now();
    loop {
        let step = drive.step()?;
        if step.sample.time.as_secs_f64() >= simulated_s as f64 {
            return Ok(simulated_s as f64 / begun.elapsed().as_secs_f64());
        }
    }
}
