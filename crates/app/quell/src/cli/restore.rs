//! `quell restore`.

use super::files;
use anyhow::Context as _;
use quell_bench::DeadRun;
use quell_linux::StateDir;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

/// Puts back what an agent that died has left, and cleans up after killed demos.
///
/// Removed are the groups, processes and files of demos and benches that were killed. Twice is
/// harmless. What others use by now is left to them, and said. Needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell restore
  quell restore --config /etc/quell.toml
  quell restore --state-dir /var/lib/quell-test

Exit codes: 0 all is as it was, or left to others who use it by now; 1 something could not be put
back, or records could not be read: they are kept in the state folder under the name that is told;
2 the command line is wrong, or the configuration does not tell the state folder.")]
pub(crate) struct Args {
    /// The configuration of the agent that died, for its state folder; other mistakes in it do not
    /// matter.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the agent keeps its journals and the queue [default: the configuration's,
    /// /var/lib/quell].
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
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
    /// What was left as it is because others use it by now, and who.
    left: Vec<String>,
    /// Records of the journal that could not be read, and where they are kept; null if there were
    /// none.
    unreadable: Option<Unreadable>,
    /// Demos and benches that were killed, after which it was cleaned up.
    dead_runs: Vec<DeadRun>,
}

/// Records that could not be read.
#[derive(Debug, Serialize, JsonSchema)]
struct Unreadable {
    /// How many.
    records: usize,
    /// The copy of the journal that holds them.
    kept_in: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    // Others do not even see what is left: "nothing to put back" would be wrong.
    let root = rustix::process::geteuid().is_root();
    anyhow::ensure!(root, "what agents and demos leave belongs to root: run it as root");
    let state = args.folder()?;
    let dead_runs = quell_bench::clean_up();
    let report = quell_agent::restore(&state)?;
    let troubles = report.troubles();
    let of = |unreadable: quell_platform::Unreadable| Unreadable {
        records: unreadable.records,
        kept_in: unreadable.kept_in,
    };
    let restored = Restored {
        schema: "quell.restore/1",
        restored: report.restored,
        failed: report.failed,
        left: report.left,
        unreadable: report.unreadable.map(of),
        dead_runs,
    };
    if args.json {
        files::print_json(&restored)?;
    } else {
        files::print_text(&restored.words())?;
    }
    let failed = [troubles, restored.failed_runs()].concat();
    anyhow::ensure!(failed.is_empty(), "could not be taken back:\n  {}", failed.join("\n  "));
    Ok(())
}

impl Args {
    /// The agent's state folder, as `quell guard` has it.
    fn folder(&self) -> anyhow::Result<StateDir> {
        let configured = |file: &PathBuf| -> anyhow::Result<PathBuf> {
            Ok(PathBuf::from(files::read_config(file)?.state_dir()?))
        };
        let folder = match (&self.state_dir, &self.config) {
            (Some(folder), _) => files::absolute(folder)?,
            (None, Some(file)) => configured(file).context("the state folder is not known")?,
            (None, None) => PathBuf::from("/var/lib/quell"),
        };
        Ok(StateDir(folder))
    }
}

impl Restored {
    fn words(&self) -> String {
        let name = |run: &DeadRun| format!("removed what {} left when it was killed", run.name);
        let clean = self.dead_runs.iter().filter(|run| run.failed.is_empty());
        let mut lines: Vec<String> = clean.map(name).collect();
        lines.extend(self.left.iter().map(|what| format!("left as it is: {what}")));
        if self.restored > 0 || !self.failed.is_empty() {
            lines.push(format!("{} changes taken back", self.restored));
        } else if lines.is_empty() && self.unreadable.is_none() {
            lines.push("nothing to put back".to_owned());
        }
        lines.join("\n")
    }

    fn failed_runs(&self) -> Vec<String> {
        let of_run = |run: &DeadRun| -> Vec<String> {
            run.failed.iter().map(|why| format!("{}: {why}", run.name)).collect()
        };
        self.dead_runs.iter().flat_map(of_run).collect()
    }
}
