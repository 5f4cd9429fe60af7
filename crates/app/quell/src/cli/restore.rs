//! `quell restore`.

use super::files::{self, State};
use quell_bench::DeadRun;
use schemars::JsonSchema;
use serde::Serialize;

/// Puts back what an agent that died has left, and cleans up after killed demos.
///
/// Removed are the groups, processes and files of demos and benches that were killed. Twice is
/// harmless. Needs root.
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
    /// Demos and benches that were killed, after which it was cleaned up.
    dead_runs: Vec<DeadRun>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    // Others do not even see what is left: "nothing to put back" would be wrong.
    let root = rustix::process::geteuid().is_root();
    anyhow::ensure!(root, "what agents and demos leave belongs to root: run it as root");
    let dead_runs = quell_bench::clean_up();
    let report = quell_agent::restore(&args.state.folder())?;
    let restored = Restored {
        schema: "quell.restore/1",
        restored: report.restored,
        failed: report.failed,
        dead_runs,
    };
    if args.json {
        files::print_json(&restored)?;
    } else {
        files::print_text(&restored.words())?;
    }
    let failed = restored.all_failed();
    anyhow::ensure!(failed.is_empty(), "could not be taken back:\n  {}", failed.join("\n  "));
    Ok(())
}

impl Restored {
    fn words(&self) -> String {
        let name = |run: &DeadRun| format!("removed what {} left when it was killed", run.name);
        let clean = self.dead_runs.iter().filter(|run| run.failed.is_empty());
        let mut lines: Vec<String> = clean.map(name).collect();
        if self.restored > 0 || !self.failed.is_empty() {
            lines.push(format!("{} changes taken back", self.restored));
        } else if self.dead_runs.is_empty() {
            lines.push("nothing to put back".to_owned());
        }
        lines.join("\n")
    }

    fn all_failed(&self) -> Vec<String> {
        let of_run = |run: &DeadRun| -> Vec<String> {
            run.failed.iter().map(|why| format!("{}: {why}", run.name)).collect()
        };
        let of_runs = self.dead_runs.iter().flat_map(of_run);
        self.failed.iter().cloned().chain(of_runs).collect()
    }
}
