//! `quell trial`: does Quell name the right one?

use super::demo::Service;
use super::files;
use anyhow::Context;
use clap::Subcommand;
use quell_bench::{Harm, Interrupt, Taken, TrialOptions, trial};
use std::path::PathBuf;

/// Tries on this machine whether Quell names the right one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A service beside five batch groups, of which at most one hurts it: is it named, and does it
    /// help to limit it?
    Polluter(Polluter),
}

/// What runs in the groups is drawn from the seed before anything is measured. (How hard one works
/// who takes the CPU and is to do little harm, in short turns, is found before the trial, with Quell
/// off, by what it does to the service beside the groups drawn.) How much the culprit hurts, in CPU time per request or in the p95 of latency, is measured with Quell off by
/// stopping it in turn; a trial in which that is not in the wanted class is discarded and told. Then
/// `quell guard` begins with law `culprit`. As soon as somebody is named, the service's tail and the
/// work of innocents are measured in turns: everybody under the law, the service alone, and without
/// the culprit. Each trial takes at most 25 seconds, and such a culprit 15 more. Needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell trial polluter --trials 20
  quell trial polluter --trials 20 --taken cpu
  quell trial polluter --trials 60 --harm none --seed 3 --json none.json
  quell trial polluter --trials 5 --taken cpu --report trials")]
struct Polluter {
    /// Trials that shall count.
    #[arg(long, value_name = "N", default_value_t = 20)]
    trials: u32,
    /// How much the culprit hurts: none (there is no culprit), 1.05..1.2, or 1.2..
    #[arg(long, value_name = "CLASS", default_value = "1.2..")]
    harm: Harm,
    /// What the culprit takes: memory (caches and bandwidth) or cpu (several threads that never
    /// sleep, or that work in short turns where little harm is wanted).
    #[arg(long, value_name = "WHAT", default_value_t)]
    taken: Taken,
    /// What is drawn.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The service.
    #[arg(long, value_enum, default_value = "search")]
    service: Service,
    /// Writes the outcome, anew after each trial.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a report with the course of each trial that counts into this folder, anew after each.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let What::Polluter(polluter) = &args.what;
    let interrupt = Interrupt::default();
    interrupt.on_signals()?;
    let options = TrialOptions {
        trials: polluter.trials,
        harm: polluter.harm,
        taken: polluter.taken,
        seed: polluter.seed,
        service: polluter.service.spec(),
        json: polluter.json.clone(),
        report: polluter.report.clone(),
        program: std::env::current_exe().context("cannot find this program")?,
    };
    let report = trial(&options, &interrupt, &|line| eprintln!("quell: {line}"))?;
    files::print_text(&report.in_words())?;
    anyhow::ensure!(!interrupt.requested(), "interrupted; the trials until then are above");
    anyhow::ensure!(
        report.trials >= polluter.trials,
        "too many trials were discarded: on this machine hardly anything hurts the service so much"
    );
    Ok(())
}
