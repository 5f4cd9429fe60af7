//! `quell simulate --measure-machine` and `--beside-real`: the machine at hand, and its preset.

use super::super::files;
use super::How;
use anyhow::Context;
use quell_bench::{
    BesideOptions, BesideReport, Interrupt, Part, beside_again, beside_real, measure_machine,
};
use std::path::{Path, PathBuf};

/// What is asked of the machine at hand.
#[derive(Debug, clap::Args)]
pub(super) struct RealRun {
    /// Measures pointer chases and streams of this machine, alone and beside each other, and writes
    /// them as JSON; takes less than a minute. The preset vm2-xeon was fitted on
    /// such a file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policy", "report"])]
    measure_machine: Option<PathBuf>,
    /// Does on this machine and in the preset vm2-xeon the same: pressure on caches and memory, steps
    /// of cpu.max, ceilings of HTB, a service beside batch under control laws; prints real,
    /// simulated, difference. Needs root. Part guard takes 40 s, and 55 s a round.
    #[arg(long, conflicts_with_all = ["policy", "report", "measure_machine"])]
    beside_real: bool,
    /// Plays anew in the preset vm2-xeon what --beside-real measured before and wrote to a file.
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["policy", "report", "measure_machine", "beside_real"])]
    beside_again: Option<PathBuf>,
    /// beside-real: interleaved rounds, of which the medians are taken.
    #[arg(long, value_name = "N", requires = "beside_real", default_value_t = 5)]
    rounds: u32,
    /// beside-real: parts, of chase, search, quota, egress and guard.
    #[arg(
        long,
        value_name = "LIST",
        requires = "beside_real",
        value_delimiter = ',',
        default_value = "chase,search,quota,egress,guard"
    )]
    parts: Vec<Part>,
}

impl RealRun {
    pub(super) fn is_asked_for(&self) -> bool {
        self.beside_real || self.measure_machine.is_some() || self.beside_again.is_some()
    }
}

pub(super) fn run(args: &RealRun, how: &How) -> anyhow::Result<()> {
    let interrupt = Interrupt::default();
    interrupt.on_signals()?;
    if let Some(path) = &args.measure_machine {
        let cells = measure_machine(&interrupt)?;
        let text = serde_json::to_string_pretty(&cells)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        let (count, rounds, seconds) = (cells.cells.len(), cells.rounds, cells.seconds);
        return files::print_text(&format!(
            "{count} figures of {}, medians of {rounds} rounds in {seconds:.0} s: {}",
            cells.processor,
            path.display()
        ));
    }
    let report = match &args.beside_again {
        Some(path) => beside_again(kept(path)?),
        None => measured(args, &interrupt)?,
    };
    if !how.silent() {
        files::print_text(&report.table().to_text())?;
    }
    how.write(&report)
}

fn measured(args: &RealRun, interrupt: &Interrupt) -> anyhow::Result<BesideReport> {
    let options = BesideOptions {
        parts: args.parts.clone(),
        rounds: args.rounds,
        program: std::env::current_exe().context("cannot find this program")?,
    };
    beside_real(&options, interrupt, &|line| eprintln!("quell: {line}"))
}

fn kept(path: &Path) -> anyhow::Result<BesideReport> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    serde_json::from_str(&text).with_context(|| format!("{name} is no report of --beside-real"))
}
