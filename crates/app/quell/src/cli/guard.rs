//! `quell guard`: the agent.

use super::files;
use super::guarded::Guarded;
use anyhow::Context;
use quell_agent::{Agent, AgentError, AgentOptions, Ended, Signals};
use quell_config::Checked;
use std::path::PathBuf;
use std::time::Duration;

/// Guards services while batch uses the rest: the agent.
///
/// It runs until it is stopped; then every knob is put back. Needs root. SIGTERM and SIGINT stop
/// it, SIGHUP reloads the configuration.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell guard --config /etc/quell.toml
  quell guard --service name=search,unit=redis.service,p99=3ms --batch cgroup=/batch
  quell guard --service cgroup=/web,p95=20ms,ports=8080 --batch cgroup=/a --batch cgroup=/b \\
      --law quell --set agent.interval_s=0.5 --set law.quell.start_trust=0.3
  quell guard --config /etc/quell.toml --set agent.beside=bus-lock,power

Exit codes: 0 stopped, every knob as before; 1 could not guard; 2 the command line or configuration
is wrong; 3 stopped, but something could not be put back, or batch had to be held on the safe side.")]
pub(crate) struct Args {
    #[command(flatten)]
    guarded: Guarded,
    /// Control law: none, os-only, static, thesis, heracles, parties, static-ways, llc-bias,
    /// bus-lock, power, alita, culprit, quell.
    #[arg(long, value_name = "NAME")]
    law: Option<String>,
    /// Stop after so many seconds.
    #[arg(long = "for", value_name = "SECONDS")]
    limit_s: Option<f64>,
    /// Rewrite this file with the present status (JSON) every interval.
    #[arg(long, value_name = "FILE")]
    status_json: Option<PathBuf>,
    /// Measure what the eBPF programs cost, too.
    #[arg(long)]
    bpf_stats: bool,
    /// Stop as soon as the parent process, which must be this one, has ended, however it ends.
    #[arg(long, value_name = "PID")]
    with_parent: Option<u32>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let ends = |parent| end_with(parent, rustix::process::Signal::TERM);
    args.with_parent.map_or(Ok(()), ends)?;
    let limit = args.limit_s.map(Duration::try_from_secs_f64).transpose().context("--for")?;
    let config = args.checked()?;
    let signals = Signals::of_process().context("installing signal handlers")?;
    let options = AgentOptions {
        status_file: args.status_json.as_deref().map(files::absolute).transpose()?,
        bpf_stats: args.bpf_stats,
        say,
    };
    let what = described(&config);
    let agent = Agent::open(config, options)?;
    say(&format!("guarding {what}"));
    let ended =
        agent.run(&signals, limit, || args.checked().map_err(|error| format!("{error:#}")))?;
    say(match ended {
        Ended::Asked => "stopped as asked; every knob is as it was found",
        Ended::TimeUp => "the time is over; every knob is as it was found",
    });
    Ok(())
}

/// Makes the kernel send this signal once the parent has ended.
pub(super) fn end_with(parent: u32, signal: rustix::process::Signal) -> anyhow::Result<()> {
    use rustix::process::{Pid, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(signal)).context("--with-parent")?;
    // It may have ended before.
    let is_parent = getppid().map(Pid::as_raw_nonzero).map(i32::from) == i32::try_from(parent).ok();
    anyhow::ensure!(is_parent, "--with-parent: process {parent} is not, or no longer, the parent");
    Ok(())
}

/// The exit code of an error of this command; none if it is an ordinary one.
pub(crate) fn exit_code(error: &anyhow::Error) -> Option<u8> {
    match error.downcast_ref::<AgentError>()? {
        AgentError::Config(_) => Some(2),
        AgentError::FailSafe(_) | AgentError::NotRestored(_) => Some(3),
        _ => None,
    }
}

impl Args {
    /// Read anew for every reload.
    fn checked(&self) -> anyhow::Result<Checked> {
        self.guarded.checked(self.law.as_deref())
    }
}

fn described(config: &Checked) -> String {
    let services: Vec<&str> = config.services.iter().map(|s| s.name.as_str()).collect();
    let batch: Vec<&str> = config.batch.iter().map(|b| b.name.as_str()).collect();
    let beside = if batch.is_empty() { "no batch".to_owned() } else { batch.join(", ") };
    let laws = [&[config.agent.law.clone()][..], &config.agent.beside].concat().join(" and ");
    format!("{} beside {beside}, law {laws}", services.join(", "))
}

fn say(text: &str) {
    eprintln!("quell: {text}");
}
