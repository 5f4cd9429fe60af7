//! `quell trial bus-lock`, and the process that it starts to lock the bus.

use super::super::embedded::Embedded;
use super::super::guard::end_with;
use anyhow::Context;
use quell_bench::{BusTrialOptions, Interrupt, bus_trial};
use quell_pressure::{BusBursts, Stop, lock_bus_in_bursts};
use rustix::process::Signal;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// How often, how long, and what in between. There are bounds that nobody can lift.
#[derive(Debug, clap::Args)]
struct Bursts {
    /// How many bursts, 1 to 10; 5 s of bus locks in all.
    #[arg(long, value_name = "N", default_value_t = 10)]
    bursts: u32,
    /// Length of each in milliseconds, 200 to 500: what shorter ones do cannot be told in windows
    /// of 100 ms.
    #[arg(long, value_name = "MS", default_value_t = 400)]
    burst_ms: u64,
    /// Before each burst, in seconds, 2 to 30.
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    pause_s: f64,
    /// Share of a CPU that the culprit uses in pauses, in percent, 0 to 60; 0: it sleeps.
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    rest_percent: u32,
    /// I know that this stops the memory accesses of all tenants of this host.
    #[arg(long)]
    i_know_this_hurts_everyone: bool,
}

impl Bursts {
    fn plan(&self) -> anyhow::Result<BusBursts> {
        let pause = Duration::try_from_secs_f64(self.pause_s)
            .with_context(|| format!("--pause-s {}: give a number of seconds", self.pause_s))?;
        let plan = BusBursts {
            bursts: self.bursts,
            length: Duration::from_millis(self.burst_ms),
            pause,
            rest_percent: self.rest_percent,
        };
        plan.check(self.i_know_this_hurts_everyone)?;
        Ok(plan)
    }
}

/// Locks the bus in bursts beside a service. HURTS ALL TENANTS OF THE HOST; opt-in only.
///
/// Beside the service four groups compute for a tenth to a third of a CPU and sleep in between; the
/// process of a fifth pauses and locks the bus in turn. `quell guard` runs with law `culprit` from
/// before the first burst (and with `bus-lock`, where the processor counts bus locks). Told is in
/// which burst the culprit was named and limited, whether anybody else was, and the service's mean,
/// p95 and CPU time for each answer in each burst over the quiet before it, with medians of those
/// before and under the limit. Who it is, and what the others do, is drawn from the seed. It takes
/// about a minute. Needs root.
///
/// A bus lock stops the memory accesses of the whole socket for about a microsecond, those of other
/// tenants of the host too. So it is refused without --i-know-this-hurts-everyone, it never runs in
/// tests, and bursts are bounded in number, in length and in all. The process that locks the bus ends
/// each burst by its own clock, is ended by an alarm if it does not, and is killed as soon as this
/// command has ended, however it ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell trial bus-lock --i-know-this-hurts-everyone
  quell trial bus-lock --i-know-this-hurts-everyone --bursts 6 --burst-ms 300 --json bus.json
  quell trial bus-lock --i-know-this-hurts-everyone --rest-percent 20 --report bus")]
pub(super) struct BusLock {
    #[command(flatten)]
    bursts: Bursts,
    /// What is drawn.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The service.
    #[arg(long, value_enum, default_value = "search")]
    service: Embedded,
    /// Writes the outcome.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a report with the course of it into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// The process that locks the bus.
#[derive(Debug, clap::Args)]
pub(super) struct BusLocker {
    #[command(flatten)]
    bursts: Bursts,
    /// Is killed as soon as the parent process, which must be this one, has ended.
    #[arg(long, value_name = "PID")]
    with_parent: u32,
}

pub(super) fn run(args: &BusLock) -> anyhow::Result<()> {
    let bursts = args.bursts.plan()?;
    let interrupt = Interrupt::default();
    interrupt.on_signals()?;
    let options = BusTrialOptions {
        bursts,
        hurts_everyone: args.bursts.i_know_this_hurts_everyone,
        seed: args.seed,
        service: args.service.spec(),
        json: args.json.clone(),
        report: args.report.clone(),
        program: std::env::current_exe().context("cannot find this program")?,
    };
    let report = bus_trial(&options, &interrupt, &|line| eprintln!("quell: {line}"))?;
    super::tell(&report.in_words(), &interrupt, "bursts")
}

/// Locks the bus in bursts, and writes a line after each.
pub(super) fn lock(args: &BusLocker) -> anyhow::Result<()> {
    let plan = args.bursts.plan()?;
    end_with(args.with_parent, Signal::KILL)?;
    let stop = Stop::new()?;
    stop.on_signals()?;
    let consent = args.bursts.i_know_this_hurts_everyone;
    let mut told = Ok(());
    lock_bus_in_bursts(&plan, consent, &stop, &mut |burst| {
        let line = serde_json::to_string(burst).context("a burst");
        // Not as for people, to whom a reader that went away is no error.
        told = line.and_then(|line| {
            writeln!(std::io::stdout().lock(), "{line}").context("cannot tell of a burst")
        });
        if told.is_err() {
            // Nobody listens any more.
            stop.request();
        }
    })?;
    told
}

#[cfg(test)]
mod tests {
    use super::super::super::Cli;
    use clap::Parser as _;

    fn parsed(args: &str) -> Result<(), String> {
        let line = format!("quell trial {args}");
        let cli = Cli::try_parse_from(line.split_whitespace()).map_err(|e| e.to_string())?;
        let super::super::super::Command::Trial(trial) = cli.command else {
            return Err("another command".to_owned());
        };
        match &trial.what {
            super::super::What::BusLock(args) => args.bursts.plan().map(drop),
            super::super::What::BusLocker(args) => args.bursts.plan().map(drop),
            super::super::What::Polluter(_) => return Err("another trial".to_owned()),
        }
        .map_err(|error| error.to_string())
    }

    #[test]
    fn bus_locks_want_consent_and_have_bounds_for_the_command_and_for_its_process() {
        for (what, more) in [("bus-lock", ""), ("bus-locker", " --with-parent 1")] {
            let refused = |args: &str| parsed(&format!("{what}{more} {args}")).unwrap_err();
            let consent = "--i-know-this-hurts-everyone";
            assert_eq!(parsed(&format!("{what}{more} {consent}")), Ok(()));
            assert!(refused("").contains(consent), "{}", refused(""));
            for (args, why) in [
                ("--bursts 11", "1 to 10"),
                ("--bursts 0", "1 to 10"),
                ("--burst-ms 501", "10 to 500"),
                ("--pause-s 1.9", "2 to 30"),
                ("--pause-s=-3", "pause-s"),
                ("--pause-s nan", "pause-s"),
                ("--rest-percent 80", "0 to 60"),
            ] {
                let said = refused(&format!("{consent} {args}"));
                assert!(said.contains(why), "{args}: {said}");
            }
        }
        assert!(parsed("bus-locker --i-know-this-hurts-everyone").is_err(), "without a parent");
    }
}
