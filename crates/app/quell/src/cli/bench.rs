//! `quell bench`: what is promised, measured at full length.

use super::demo::{Common, compare};
use clap::Subcommand;
use quell_bench::{Contender, Mix, Size};

/// Measures at full length what is promised.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The main job: all laws, each polluter alone and mixed, interleaved rounds.
    Guard(Guard),
}

#[derive(Debug, clap::Args)]
struct Guard {
    #[command(flatten)]
    common: Common,
    /// What is compared: alone, none, os-only, static, thesis, heracles, quell.
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values_t = Contender::ALL)]
    laws: Vec<Contender>,
    /// Batch: mix, llc, membw, cpu.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = Mix::ALL)]
    polluters: Vec<Mix>,
    /// Loads as shares of the peak.
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values_t = [0.1, 0.3, 0.5, 0.7, 0.9])]
    loads: Vec<f64>,
    /// Interleaved rounds.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Windows of one second for each cell, all rounds together.
    #[arg(long, value_name = "N", default_value_t = 60)]
    windows: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let What::Guard(guard) = &args.what;
    let size = Size::Windows { windows: guard.windows, rounds: guard.rounds };
    let lists = (guard.loads.as_slice(), guard.laws.as_slice(), guard.polluters.as_slice());
    compare(&guard.common.options(lists, size)?)
}
