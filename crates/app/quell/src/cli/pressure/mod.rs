//! `quell pressure`: one contention kernel at a chosen intensity.

mod list;
mod report;
mod validate;

pub(super) use list::Kernels;

use super::guard::end_with;
use anyhow::Context as _;
use quell_pressure::{Idle, Intensity, Options, PageSize, Plan, Progress, Report, Resource, Stop};
use quell_topology::Machine;
use quell_types::CpuSet;
use rustix::process::Signal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Time to arm and to report, beyond the pressure itself, before the process is ended by alarm.
const MARGIN: Duration = Duration::from_secs(60);

/// Presses on one shared resource and reports the work done.
///
/// A line of progress appears each interval, a report at the end. Ctrl-C and SIGTERM end it early.
/// Intensity is the share of a capacity that is occupied, or the share of time at work.
#[derive(Debug, clap::Args)]
#[command(
    after_help = list::after_help(),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// What to press on, as below.
    #[arg(value_name = "RESOURCE", required = true)]
    resource: Option<Resource>,
    /// How hard, 0 to 100.
    #[arg(long, value_name = "PERCENT", conflicts_with = "ramp")]
    intensity: Option<Intensity>,
    /// From one intensity to another, as 0:100.
    #[arg(long, value_name = "FROM:TO")]
    ramp: Option<Plan>,
    /// How long the ramp takes, in seconds; 0.01 if left out.
    #[arg(long, value_name = "S", requires = "ramp")]
    ramp_seconds: Option<f64>,
    /// Binds threads to these CPUs, as 0-3,8; free to move if left out.
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Threads; one for each CPU named, else one.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// For how long; 10 if left out, for bus-lock 0.5.
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// What happens in the idle part of a slice: spin, sleep, or pace (sleep, and catch up on CPU
    /// time that others took).
    #[arg(long, default_value = "spin", value_name = "HOW")]
    idle: Idle,
    /// Length of a slice of the duty cycle, in seconds; 0.001 if left out, longer where a sleep of a
    /// millisecond does not fit in.
    #[arg(long, value_name = "S")]
    slice: Option<f64>,
    /// Seconds between two lines of progress.
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    interval: f64,
    /// A file in which other processes see the work done.
    #[arg(long, value_name = "FILE")]
    feed: Option<PathBuf>,
    /// network: where to send, as 10.0.0.2:5201; a sink on loopback if left out.
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<SocketAddr>,
    /// network: TCP connections.
    #[arg(long, value_name = "N", default_value_t = 4)]
    flows: usize,
    /// network: congestion control.
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
    /// network: the link's rate in bits per second, for intensities below 100.
    #[arg(long, value_name = "BITS")]
    link_bits_per_s: Option<f64>,
    /// network: send from this namespace, a file as /run/netns/NAME.
    #[arg(long, value_name = "FILE")]
    netns: Option<PathBuf>,
    /// Caches: the size of the last-level one, where the machine does not tell.
    #[arg(long, value_name = "BYTES")]
    llc_bytes: Option<u64>,
    /// Caches: the size of the core's own one under pressure, likewise.
    #[arg(long, value_name = "BYTES")]
    cache_bytes: Option<u64>,
    /// memory-bandwidth: memory to stream through; memory-capacity: what 100 are.
    #[arg(long, value_name = "BYTES")]
    region_bytes: Option<u64>,
    /// llc, memory-bandwidth: use this file of a tmpfs as memory; what it holds already needs not
    /// be cleared when the kernel starts.
    #[arg(long, value_name = "FILE")]
    memory_file: Option<PathBuf>,
    /// tlb: pages to touch, small or huge (2 MiB of memory for each entry).
    #[arg(long, value_name = "SIZE", default_value = "small")]
    pages: PageSize,
    /// tlb: entries of the second level, where the processor does not tell.
    #[arg(long, value_name = "N")]
    tlb_entries: Option<u64>,
    /// storage: a folder on the disk; the one for temporary files if left out.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// storage: what 100 are; all that is free less a reserve, or 256 MiB for bandwidth.
    #[arg(long, value_name = "BYTES")]
    storage_bytes: Option<u64>,
    /// bus-lock: I know that this stops the memory accesses of all tenants of this host.
    #[arg(long)]
    i_know_this_hurts_everyone: bool,
    /// Is killed as soon as the parent process, which must be this one, has ended.
    #[arg(long, value_name = "PID", hide = true)]
    with_parent: Option<u32>,
    /// Progress and report as JSON, one line each.
    #[arg(long)]
    json: bool,
}

/// What is no pressure.
// Docs here would replace those of what is in them in the help.
#[derive(Debug, clap::Subcommand)]
enum Other {
    List(list::Args),
    Validate(Box<validate::Args>),
    #[command(hide = true)]
    Report(report::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.other {
        Some(Other::List(args)) => return list::run(args),
        Some(Other::Validate(args)) => return validate::run(args),
        Some(Other::Report(args)) => return report::run(args),
        None => {}
    }
    let resource = args.resource.context("which resource? quell pressure list explains them")?;
    let options = args.options(resource)?;
    if let Some(file) = &args.memory_file {
        quell_pressure::keep_memory_in(file)?;
    }
    args.with_parent.map_or(Ok(()), |parent| end_with(parent, Signal::KILL))?;
    let stop = Stop::new()?;
    stop.on_signals()?;
    quell_pressure::bound_process(Duration::from_secs_f64(options.seconds) + MARGIN);
    let json = args.json;
    let report =
        quell_pressure::run(&options, &Machine::new("/").topology(), &stop, &mut |progress| {
            println!("{}", if json { line(progress) } else { progress_words(progress) });
        })?;
    println!("{}", if json { line(&report) } else { report_words(&report) });
    Ok(())
}

impl Args {
    fn options(&self, resource: Resource) -> anyhow::Result<Options> {
        let mut options = Options::new(resource);
        options.plan = match (self.intensity, self.ramp) {
            (Some(intensity), _) => Plan::Hold(intensity),
            (None, Some(ramp)) => ramp,
            (None, None) => options.plan,
        };
        if let Some(seconds) = self.ramp_seconds {
            options.plan = options.plan.over(span("--ramp-seconds", seconds)?);
        }
        options.cpus = self.cpus.clone().unwrap_or_default();
        options.threads = self.threads;
        let usual = if resource == Resource::BusLock { 0.5 } else { options.seconds };
        options.seconds = span("--seconds", self.seconds.unwrap_or(usual))?.as_secs_f64();
        options.idle = self.idle;
        options.slice = self.slice.map_or(Ok(options.slice), |slice| span("--slice", slice))?;
        options.interval = span("--interval", self.interval)?;
        options.feed.clone_from(&self.feed);
        options.llc_bytes = self.llc_bytes;
        options.cache_bytes = self.cache_bytes;
        options.region_bytes = self.region_bytes;
        options.pages = self.pages;
        options.tlb_entries = self.tlb_entries;
        options.storage.folder.clone_from(&self.folder);
        options.storage.bytes = self.storage_bytes;
        options.hurts_everyone = self.i_know_this_hurts_everyone;
        options.network.peer = self.peer;
        options.network.flows = self.flows;
        options.network.congestion.clone_from(&self.congestion);
        options.network.link_bits_per_s = self.link_bits_per_s;
        options.network.netns.clone_from(&self.netns);
        Ok(options)
    }
}

fn span(option: &str, seconds: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .with_context(|| format!("{option} {seconds}: give a number of seconds"))
}

fn line(value: &impl serde::Serialize) -> String {
    // These types have no maps with odd keys, so this cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn latency_words(latency_ns: Option<f64>) -> String {
    latency_ns.map_or_else(String::new, |ns| format!(", {ns:.0} ns an access"))
}

fn progress_words(progress: &Progress) -> String {
    format!(
        "{:7.1} s  {:5.1} %  {:.3e} {}/s{}",
        progress.t_s,
        progress.intensity_percent,
        progress.work_per_s,
        progress.unit.name(),
        latency_words(progress.latency_ns)
    )
}

fn report_words(report: &Report) -> String {
    let mut words = format!(
        "{}: {:.3e} {} in {:.2} s ({:.3e}/s), at work {:.0} % of the time{}",
        report.kernel,
        report.work as f64,
        report.unit.name(),
        report.seconds,
        report.work_per_s,
        report.busy_frac * 100.0,
        latency_words(report.latency_ns)
    );
    for note in &report.notes {
        words.push_str("\nnote: ");
        words.push_str(note);
    }
    words
}
