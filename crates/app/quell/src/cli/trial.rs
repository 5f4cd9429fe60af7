//! `quell trial`: does Quell name the right one?

mod bus;

use super::embedded::Embedded;
use super::files;
use anyhow::Context;
use clap::Subcommand;
use quell_bench::{
    Harm, Interrupt, Program, Taken, TrialOptions, TrialService, USUAL_GROUPS, trial,
};
use quell_service::Target;
use std::path::PathBuf;
use std::time::Duration;

/// Tries on this machine whether Quell names the right one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

// Docs here would replace those of what is in them in the help.
#[derive(Debug, Subcommand)]
enum What {
    Polluter(Box<Polluter>),
    BusLock(bus::BusLock),
    #[command(hide = true)]
    BusLocker(bus::BusLocker),
}

/// Puts a service beside batch groups, of which at most one hurts it: is it named?
///
/// Also told is whether it helps to limit it. What runs in the groups is drawn from the seed before
/// anything is measured. How much the culprit hurts (in the service's mean latency, its CPU time
/// per answer, or its answers in time, whichever is worst) is measured with Quell off, in pairs of
/// short turns beside it and without it, with the same arrivals; a trial in which that is not in
/// the wanted class is discarded and told. Then `quell guard` begins with law `culprit`. With much
/// harm, once somebody is limited or has been named for five seconds, the service's tail and the
/// work of innocents are measured in turns: everybody under the law, the service alone, and without the culprit. With little harm,
/// more pairs are played with Quell off for 6 seconds once the law has ended, and all count
/// together. How hard one works who is to do little harm is found before its trial, with Quell off,
/// by what it does to the service beside the groups drawn. Each trial takes at most 25 seconds, 31
/// with little harm, and this search 15 more. Where harm by memory is wanted, each polluter is
/// played twice before, for 8 seconds at most: who hurts too little here is not drawn, and told.
/// Needs root.
///
/// In place of Quell's own kernels programs can be drawn: --polluter and --innocent, each as often
/// as there are programs. One that is over is begun anew; how hard it works is its own, so an
/// innocent should leave much of a CPU. All are ended after each trial. And the service may be
/// anybody's server: --server starts it, --asks says where it listens and what is asked of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell trial polluter --trials 20
  quell trial polluter --trials 20 --taken cpu
  quell trial polluter --trials 20 --apart
  quell trial polluter --trials 60 --taken cpu --harm 1.05..1.2
  quell trial polluter --trials 10 --taken cpu --harm 1.05..1.2 --control
  quell trial polluter --trials 60 --harm none --seed 3 --json none.json
  quell trial polluter --trials 5 --taken cpu --report trials
  quell trial polluter --trials 20 --apart --service store --groups 11 \\
    --polluter 'stress-ng --stream 1' --polluter 'stress-ng --cache 1'
  quell trial polluter --apart --server 'redis-server --port 7001 --save \"\"' \\
    --asks 'redis://127.0.0.1:7001?keys=200000&value_bytes=1000'
  quell trial polluter --apart --server 'memcached -l 127.0.0.1 -p 7002 -u nobody' \\
    --asks memcached://127.0.0.1:7002
  quell trial polluter --harm none --innocent 'sh -c \"gzip -c /bin/* | wc -c; sleep 1\"'")]
struct Polluter {
    /// Trials that shall count.
    #[arg(long, value_name = "N", default_value_t = 20)]
    trials: u32,
    /// How much the culprit hurts: none (there is no culprit), 1.05..1.2, or 1.2..
    #[arg(long, value_name = "CLASS", default_value = "1.2..")]
    harm: Harm,
    /// What the culprit takes: memory (caches and bandwidth, by a thread for each second CPU) or cpu (one to
    /// two threads for each, that never sleep, or work in short turns where little harm is wanted).
    #[arg(long, value_name = "WHAT", default_value_t)]
    taken: Taken,
    /// The service has half of the CPUs for itself and batch the others, so that who hurts it hurts
    /// by caches and memory alone. Always so for --taken memory --harm 1.05..1.2.
    #[arg(long)]
    apart: bool,
    /// What is drawn.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Measures the harm of a culprit that is never stopped, and tries nothing else: what is found is
    /// chance. Tells how far the harm of a trial may be off.
    #[arg(long)]
    control: bool,
    /// The service.
    #[arg(long, value_enum, default_value = "search")]
    service: Embedded,
    /// Anybody's server as the service: what starts it. It may go to the background.
    #[arg(long, value_name = "COMMAND", requires = "asks", conflicts_with = "service")]
    server: Option<Program>,
    /// Where that listens, and what is asked of it: redis://HOST:PORT, memcached://HOST:PORT, both with
    /// ?keys=N&value_bytes=N&set_frac=FRAC if you like, or http://HOST:PORT/PATH.
    #[arg(long, value_name = "URL", requires = "server")]
    asks: Option<Target>,
    /// Batch groups: innocents, and the culprit if there is one.
    #[arg(long, value_name = "N", default_value_t = USUAL_GROUPS)]
    groups: usize,
    /// What the culprit may run, in place of a kernel that takes memory. May be repeated.
    #[arg(long = "polluter", value_name = "COMMAND")]
    polluters: Vec<Program>,
    /// What innocents may run, in place of kernels that compute. May be repeated.
    #[arg(long = "innocent", value_name = "COMMAND")]
    innocents: Vec<Program>,
    /// Counts trials in which others use a tenth of the machine or more. Else these are discarded: what
    /// others do is put down to nobody, or to the wrong one.
    #[arg(long)]
    with_others: bool,
    /// Waits so many seconds at most before a trial of who takes memory, until the host has the CPUs on cores that
    /// share a cache: where they share none, nobody hurts by memory.
    #[arg(long, value_name = "S", default_value_t = 120)]
    patience: u64,
    /// Writes the outcome, anew after each trial.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a report with the course of each trial that counts into this folder, anew after each.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

impl Polluter {
    /// On the service's own CPUs who takes memory does more by being there than by memory.
    fn apart(&self) -> bool {
        self.apart || (self.harm, self.taken) == (Harm::Little, Taken::Memory)
    }

    fn service(&self) -> TrialService {
        match (&self.server, &self.asks) {
            (Some(command), Some(target)) => {
                TrialService::Server { command: command.clone(), target: target.clone() }
            }
            _ => TrialService::Own(self.service.spec()),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Polluter(polluter) => run_polluter(polluter),
        What::BusLock(args) => bus::run(args),
        What::BusLocker(args) => bus::lock(args),
    }
}

fn run_polluter(polluter: &Polluter) -> anyhow::Result<()> {
    let interrupt = Interrupt::default();
    interrupt.on_signals()?;
    let options = TrialOptions {
        trials: polluter.trials,
        harm: polluter.harm,
        taken: polluter.taken,
        apart: polluter.apart(),
        seed: polluter.seed,
        control: polluter.control,
        service: polluter.service(),
        groups: polluter.groups,
        polluters: polluter.polluters.clone(),
        innocents: polluter.innocents.clone(),
        with_others: polluter.with_others,
        patience: Duration::from_secs(polluter.patience),
        json: polluter.json.clone(),
        report: polluter.report.clone(),
        program: std::env::current_exe().context("cannot find this program")?,
    };
    let report = trial(&options, &interrupt, &|line| eprintln!("quell: {line}"))?;
    tell(&report.in_words(), &interrupt, "trials")?;
    anyhow::ensure!(
        polluter.control || report.trials >= polluter.trials,
        "too many trials were discarded: on this machine hardly anything hurts the service as much as \
         is wanted"
    );
    Ok(())
}

/// Prints what was found, and says so if somebody ended it early.
fn tell(words: &str, interrupt: &Interrupt, parts: &str) -> anyhow::Result<()> {
    files::print_text(words)?;
    anyhow::ensure!(!interrupt.requested(), "interrupted; the {parts} until then are above");
    Ok(())
}
