//! `quell schemas`: the schema of every JSON that Quell prints, from its type.

use super::{batch, config, doctor, files, kept, matrix, predict, pressure, restore};
use anyhow::Context;
use schemars::{Schema, schema_for};
use std::path::PathBuf;

/// Writes the schemas of everything that Quell prints as JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to.
    #[arg(long, value_name = "DIR", default_value = "docs/schemas")]
    dir: PathBuf,
}

/// Each by its name, which the field `schema` of the JSON carries with its version.
fn all() -> Vec<(&'static str, Schema)> {
    let measured = quell_bench::schemas()
        .into_iter()
        .filter_map(|(name, value)| Some((name.split('-').next()?, Schema::try_from(value).ok()?)));
    let mut all = vec![
        ("quell.batch", schema_for!(batch::Tasks)),
        ("quell.config-check", schema_for!(config::Errors)),
        ("quell.doctor", schema_for!(doctor::Report)),
        ("quell.explain", schema_for!(quell_agent::Explained)),
        ("quell.restore", schema_for!(restore::Restored)),
        ("quell.load", schema_for!(quell_service::LoadReport)),
        ("quell.pressure", schema_for!(quell_pressure::Report)),
        ("quell.kernels", schema_for!(pressure::Kernels)),
        ("quell.validate", schema_for!(quell_profiler::Validation)),
        ("quell.profile", schema_for!(quell_profiler::Profile)),
        ("quell.profiles", schema_for!(kept::Profiles)),
        ("quell.matrix", schema_for!(matrix::Matrix)),
        ("quell.predict", schema_for!(quell_profiler::predict::PredictReport)),
        ("quell.prediction", schema_for!(predict::Predictions)),
        ("quell.tune", schema_for!(quell_profiler::Tuning)),
        ("quell.faults", schema_for!(quell_faults::FaultReport)),
        ("quell.calibration", schema_for!(quell_calibrate::Report)),
        ("quell.machine", schema_for!(quell_calibrate::MachineCells)),
        ("quell.status", schema_for!(quell_agent::Status)),
        ("quell.who", schema_for!(quell_agent::WhoReport)),
    ];
    all.extend(measured);
    all.extend(quell_simulate::schemas());
    all.sort_by_key(|(name, _)| *name);
    all
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.dir).with_context(|| args.dir.display().to_string())?;
    for (name, schema) in all() {
        let path = args.dir.join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&schema)? + "\n";
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    files::print_text(&format!("{} schemas in {}", all().len(), args.dir.display()))
}
