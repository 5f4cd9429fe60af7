//! `quell restore`.

use super::files::{self, State};
use schemars::JsonSchema;
use serde::Serialize;

/// Puts back what an agent that died has left. Twice is harmless.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  quell restore --state-dir /var/lib/quell")]
pub(crate) struct Args {
    #[command(flatten)]
    state: State,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What was put back.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Restored {
    /// `quell.restore/1`.
    schema: &'static str,
    /// How many changes were taken back.
    restored: usize,
    /// What could not be taken back, and why; it is kept for another try.
    failed: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let report = quell_agent::restore(&args.state.folder())?;
    let restored = Restored {
        schema: "quell.restore/1",
        restored: report.restored,
        failed: report.failed.clone(),
    };
    if args.json {
        files::print_json(&restored)?;
    } else if report.restored == 0 && report.failed.is_empty() {
        files::print_text("nothing to put back")?;
    } else {
        files::print_text(&format!("{} changes taken back", report.restored))?;
    }
    anyhow::ensure!(
        report.failed.is_empty(),
        "could not be taken back:\n  {}",
        report.failed.join("\n  ")
    );
    Ok(())
}
