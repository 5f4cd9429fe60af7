//! `quell bench`: what is promised, measured at full length.

use super::demo::{Common, compare};
use super::embedded::Embedded;
use super::files;
use anyhow::Context as _;
use clap::Subcommand;
use quell_bench::{Cause, Contender, Interrupt, Mix, SignalOptions, Size};
use std::path::PathBuf;

/// Measures at full length what is promised.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

// Docs here would replace those of what is in them in the help.
#[derive(Debug, Subcommand)]
enum What {
    Guard(Guard),
    Signal(Signal),
}

/// Tells whether CPU time per request shows a neighbour's harm, not a service's own load.
///
/// One cause at a time is turned on and off beside a service: its own load, integer loops, cache
/// and bandwidth polluters and, if asked for, split locks. Compared are the service's CPU time per
/// request and the sojourn that clients see. Needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell bench signal
  quell bench signal --causes load,llc --pairs 40 --json signal.json
  quell bench signal --causes bus-lock --pairs 5 --i-know-this-hurts-everyone")]
struct Signal {
    /// What is turned on and off: load, cpu, llc, membw, bus-lock.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = Cause::SAFE)]
    causes: Vec<Cause>,
    /// Pairs of turns of each; of bus-lock at most ten, five seconds apart.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pairs: u32,
    /// Lets idle CPUs halt; else idle-class loops keep them awake in all turns.
    #[arg(long)]
    halting: bool,
    /// bus-lock: I know that this stops the memory accesses of all tenants of this host.
    #[arg(long)]
    i_know_this_hurts_everyone: bool,
    /// The service.
    #[arg(long, value_enum, default_value = "search")]
    service: Embedded,
    /// Seed of arrivals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Writes the figures, anew after each cause.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures the main job: all laws, each polluter alone and mixed, in interleaved rounds.
///
/// Needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell bench guard --polluters mix --loads 0.5 --json out.json
  quell bench guard --laws none,quell --rounds 1 --report DIR")]
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
    match &args.what {
        What::Guard(guard) => run_guard(guard),
        What::Signal(signal) => run_signal(signal),
    }
}

fn run_guard(guard: &Guard) -> anyhow::Result<()> {
    let size = Size::Windows { windows: guard.windows, rounds: guard.rounds };
    let lists = (guard.loads.as_slice(), guard.laws.as_slice(), guard.polluters.as_slice());
    compare(&guard.common.options(lists, size)?)
}

fn run_signal(args: &Signal) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.i_know_this_hurts_everyone || !args.causes.contains(&Cause::BusLock),
        "bus-lock stops the memory accesses of all tenants of this host, also of those outside \
         this machine; say --i-know-this-hurts-everyone if you may"
    );
    let interrupt = Interrupt::default();
    interrupt.on_signals()?;
    let options = SignalOptions {
        causes: args.causes.clone(),
        pairs: args.pairs,
        awake: !args.halting,
        service: args.service.spec(),
        seed: args.seed,
        json: args.json.clone(),
        program: std::env::current_exe().context("cannot find this program")?,
    };
    let report = quell_bench::signal(&options, &interrupt, &|line| eprintln!("quell: {line}"))?;
    files::print_text(&report.table().to_text())?;
    anyhow::ensure!(!interrupt.requested(), "interrupted; what was measured until then is above");
    Ok(())
}
