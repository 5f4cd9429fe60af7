//! `quell simulate --faults`: faults by seed, thrown at the whole agent.

use super::super::files;
use super::{Args, drawn};
use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use quell_faults::{FaultReport, Limits, Played, Run};
use std::time::Duration;

/// What is asked of `--faults`.
#[derive(Debug, clap::Args)]
pub(super) struct FaultRun {
    /// Throws faults by seed at the whole agent on simulated servers, and looks after each step
    /// whether what it promises still holds.
    #[arg(long, conflicts_with = "policy")]
    pub(super) faults: bool,
    /// faults: simulated hours, at least.
    #[arg(long, value_name = "H", requires = "faults", default_value_t = 10.0)]
    hours: f64,
    /// faults: how many, at least.
    #[arg(long, value_name = "N", requires = "faults", default_value_t = 0)]
    least: u64,
    /// faults: plays the episode of this seed again, and tells what was thrown.
    #[arg(long, value_name = "SEED", requires = "faults")]
    episode: Option<u64>,
}

pub(super) fn run(asked: &Args) -> anyhow::Result<()> {
    let (args, how) = (&asked.faults, &asked.how);
    if let Some(seed) = args.episode {
        return again(seed);
    }
    if !(args.hours > 0.0 && args.hours <= 1e6) {
        bail!("--hours: give more than 0 and at most 1000000, not {}", args.hours);
    }
    let limits = Limits {
        hours: args.hours,
        faults: args.least,
        threads: how.jobs(),
        run: how.seed.unwrap_or(1),
    };
    let done = watched(&limits)?;
    if !how.silent() {
        files::print_text(&words(&done))?;
    }
    if let Some(folder) = &asked.report {
        drawn::faults(&done.report).write(folder)?;
        eprintln!("report: {}", folder.join("report.html").display());
    }
    how.write(&done.report)?;
    match done.report.broken {
        0 => Ok(()),
        broken => bail!("{broken} episodes broke a promise; --episode SEED plays one again"),
    }
}

fn watched(limits: &Limits) -> anyhow::Result<Run> {
    let bar = ProgressBar::new(limits.hours.ceil() as u64);
    // The template is a constant that is known to be good.
    if let Ok(style) = ProgressStyle::with_template("[{bar:40}] {pos}/{len} h, {msg}, {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    let done = quell_faults::run(limits, |so_far| {
        for broken in so_far.new {
            // At once, so that a run that is stopped has named what it found.
            bar.suspend(|| eprintln!("{broken}"));
        }
        bar.set_position(so_far.hours as u64);
        bar.set_message(format!("{} faults, {} broken", so_far.faults, so_far.broken));
        true
    });
    bar.finish_and_clear();
    done.map_err(anyhow::Error::msg)
}

fn words(done: &Run) -> String {
    let FaultReport { hours, faults, episodes, sites, sites_covered, broken, barred, .. } =
        &done.report;
    let mut text = format!("{}\n", done.coverage);
    for cell in done.coverage.missing() {
        text += &format!("not met: {cell}\n");
    }
    for seed in &done.report.broken_seeds {
        text += &format!("{seed}\n");
    }
    text + &format!(
        "{faults} faults in {hours:.1} simulated hours ({episodes} episodes): {sites_covered} of \
         {sites} kinds × write sites met, {broken} episodes broke a promise; in {barred} others \
         held CPUs of a set that could not go back"
    )
}

fn again(seed: u64) -> anyhow::Result<()> {
    let Played { law, seconds, faults, broken, .. } =
        quell_faults::replay(seed).map_err(anyhow::Error::msg)?;
    files::print_text(&format!("seed {seed}, law {law}, {seconds:.1} s, {faults} faults"))?;
    let Some(broken) = broken else { return files::print_text("no promise was broken") };
    files::print_text(&broken.thrown.join("\n"))?;
    bail!("at {:.2} s: {}", broken.at_s, broken.what)
}
