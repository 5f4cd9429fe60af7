//! `quell who`: who slows a service?

use super::files;
use super::guarded::Guarded;
use anyhow::Context;
use quell_agent::{Signals, VictimReport, WhoOptions, WhoReport, ask, who};
use quell_model::blame::{Cause, Culprit, Pressing, Resource, Standing};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Finds out who slows each service, with or without hardware counters.
///
/// Batch groups are held for moments (50 ms, at most 1 % of their time) to see whether a service's
/// requests then cost less CPU time; the scheduler tells behind whom its threads stand. On a CPU that
/// is idle a few milliseconds of timed accesses (at most 1 % of it) tell what they fight over; turn
/// that off by [law.culprit] reporters = false. Nothing else is changed, and everything is put back. Needs root, and no other agent on the same groups.
/// Where nothing is named, the agent that guards now is asked what it knows.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell who
  quell who --service name=web,unit=nginx.service --batch cgroup=/jobs --batch cgroup=/backup
  quell who --config /etc/quell.toml --seconds 60 --json
  quell who --service cgroup=/web,ports=8080 --batch cgroup=/a --batch cgroup=/b --until-named

A culprit is `named` if experiments or the scheduler have shown it, `suspected` if it is only likely
or shares no more than its turn of the CPU. An objective
(p99=3ms) is not needed here.")]
pub(crate) struct Args {
    #[command(flatten)]
    guarded: Guarded,
    /// Where the agent that guards serves its metrics, to ask it.
    #[arg(long, value_name = "FILE", default_value = AGENT)]
    agent: PathBuf,
    /// How long to look [default: 30].
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// End as soon as somebody is named.
    #[arg(long)]
    until_named: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Where an agent serves if its configuration says nothing else.
const AGENT: &str = "/run/quell/metrics.sock";
/// How long is looked if nothing else is said.
const SECONDS: f64 = 30.0;
/// Progress is told that often.
const TELL_EVERY_S: f64 = 5.0;

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let report = if args.guarded.names_nothing() { asked(args)? } else { looked(args)? };
    if args.json {
        return files::print_json(&report);
    }
    files::print_text(&told(&report))
}

/// What the agent that guards now knows.
fn asked(args: &Args) -> anyhow::Result<WhoReport> {
    anyhow::ensure!(
        args.seconds.is_none() && !args.until_named && !args.guarded.says_how(),
        "--seconds, --until-named, --link, --set and --state-dir are for looking: name --service \
         and --batch, or --config"
    );
    ask(&args.agent).with_context(|| {
        format!(
            "no agent answers on {}; start one with `quell guard`, or name --service and --batch \
             (or --config) to look without one (its metrics may be at another socket: --agent \
             FILE; an address or \"off\" cannot be asked)",
            args.agent.display()
        )
    })
}

fn looked(args: &Args) -> anyhow::Result<WhoReport> {
    let seconds = args.seconds.unwrap_or(SECONDS);
    let limit = Duration::try_from_secs_f64(seconds).context("--seconds")?;
    let config = with_objectives(&args.guarded).checked(Some("none"))?;
    let signals = Signals::of_process().context("installing signal handlers")?;
    let say = |text: &str| eprintln!("quell: {text}");
    let wanted = WhoOptions { limit, until_named: args.until_named, say };
    let mut told_s = 0.0;
    Ok(who(&config, &wanted, &signals, |report| {
        if report.seconds >= told_s + TELL_EVERY_S {
            told_s += TELL_EVERY_S;
            eprintln!("quell: {}", progress(report, seconds));
        }
    })?)
}

/// Services need no objective here; the configuration wants one.
fn with_objectives(guarded: &Guarded) -> Guarded {
    let objective = |key: &str| matches!(key, "p50" | "p95" | "p99" | "p99.9" | "percentile");
    let has = |service: &str| {
        service.split(',').filter_map(|part| part.split_once('=')).any(|(key, _)| objective(key))
    };
    let complete = |service: &String| {
        if has(service) { service.clone() } else { format!("{service},p99=1s") }
    };
    Guarded { service: guarded.service.iter().map(complete).collect(), ..guarded.clone() }
}

fn progress(report: &WhoReport, seconds: f64) -> String {
    let all = report.victims.iter().flat_map(|victim| &victim.culprits);
    let named: Vec<&str> = all
        .filter(|culprit| culprit.status == Standing::Named)
        .map(|culprit| culprit.workload.as_str())
        .collect();
    let so_far = if named.is_empty() { "nobody is named".into() } else { named.join(", ") };
    format!("{:.0} s of {seconds:.0}: {so_far}", report.seconds)
}

/// The whole answer in plain sentences.
fn told(report: &WhoReport) -> String {
    let victims: Vec<String> = report.victims.iter().map(sentences).collect();
    victims.join("\n") + &pressures(&report.pressing)
}

/// Those who press on caches or memory, whoever has use for them.
fn pressures(all: &[Pressing]) -> String {
    let one = |one: &Pressing| {
        let reads = one.reads_ratio.filter(|_| one.loads_memory);
        let reads = reads.map(|ratio| format!("makes reads of memory {ratio:.2} times as long"));
        let out = (one.drives_out_frac > 0.0).then(|| {
            format!("drives {:.0} % out of the caches in a ms", 100.0 * one.drives_out_frac)
        });
        let told: Vec<String> = reads.into_iter().chain(out).collect();
        (!told.is_empty()).then(|| format!("  * {} {}\n", one.workload, told.join(" and ")))
    };
    let lines: String = all.iter().filter_map(one).collect();
    if lines.is_empty() { lines } else { format!("\nWho presses on what, harm or not:\n{lines}") }
}

fn sentences(victim: &VictimReport) -> String {
    let name = &victim.workload;
    let slowdown = victim.slowdown.unwrap_or(1.0);
    let mut text = match victim.cause {
        None => format!("{name}: nothing can be said.\n"),
        Some(Cause::None) => format!("{name} is not slowed by anybody, as far as can be seen.\n"),
        Some(Cause::Itself) => format!("{name} is slow of its own making.\n"),
        Some(Cause::Hypervisor) => format!("{name} is slowed by the host of this machine.\n"),
        Some(Cause::Overcommitted) => format!(
            "{name} waits for CPUs, of which others together want more than there is; its requests \
             take {slowdown:.2} times as long:\n"
        ),
        Some(Cause::Neighbour) if victim.resource == Some(Resource::Cpu) => {
            format!("{name} waits for CPUs; its requests take {slowdown:.2} times as long:\n")
        }
        Some(Cause::Neighbour) => {
            let over = victim.resource.map_or("", words);
            format!("{name} needs {slowdown:.2} times the CPU time for a request{over}:\n")
        }
    };
    // Writing to a String cannot fail.
    for culprit in &victim.culprits {
        let _ = writeln!(text, "  * {}", accusation(culprit));
    }
    for why in &victim.evidence {
        let _ = writeln!(text, "    {why}");
    }
    text
}

/// What they fight over, as far as a reporter tells.
fn words(resource: Resource) -> &'static str {
    match resource {
        Resource::BusLock => ", since bus locks hold its accesses back",
        Resource::LastLevelCache => ", over the last-level cache",
        Resource::MemoryBandwidth => ", over memory bandwidth",
        Resource::Memory | Resource::Cpu => "",
    }
}

fn accusation(culprit: &Culprit) -> String {
    let status = match culprit.status {
        Standing::Named => "named",
        Standing::Suspected => "suspected",
    };
    let share = match culprit.share_frac {
        0.0 => String::new(),
        share => format!(", {:.0} % of the harm", 100.0 * share),
    };
    format!("{} is {status} ({:.2} times{share})", culprit.workload, culprit.slowdown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(cause: Option<Cause>, culprits: Vec<Culprit>) -> WhoReport {
        let victim = VictimReport {
            workload: "web".into(),
            slowdown: cause.map(|_| 1.3),
            resource: None,
            culprits,
            cause,
            evidence: vec!["because".into()],
        };
        let pressing = vec![presses("jobs", 1.21, true, 0.0), presses("calm", 1.01, false, 0.04)];
        WhoReport { schema: "quell.who/1".into(), seconds: 5.0, victims: vec![victim], pressing }
    }

    fn presses(name: &str, ratio: f64, loads_memory: bool, drives_out_frac: f64) -> Pressing {
        Pressing {
            workload: name.into(),
            reads_ratio: Some(ratio),
            reads_sd: Some(0.03),
            loads_memory,
            line_ns: None,
            left_ms: None,
            lines: None,
            drives_out_frac,
        }
    }

    #[test]
    fn who_presses_is_told_whoever_it_hurts() {
        let text = told(&report(Some(Cause::None), vec![]));
        assert!(text.contains("jobs makes reads of memory 1.21 times as long\n"), "{text}");
        assert!(text.contains("calm drives 4 % out of the caches in a ms\n"), "{text}");
        assert_eq!(pressures(&[presses("calm", 1.01, false, 0.0)]), "");
    }

    #[test]
    fn the_culprit_is_told_with_its_effect_and_why() {
        let culprit = Culprit {
            workload: "jobs".into(),
            confidence: 0.999,
            serious_frac: 0.999,
            status: Standing::Named,
            slowdown: 1.3,
            resource: Resource::Memory,
            harm_ln_per_cpu: 0.5,
            experiments: 4,
            share_frac: 0.9,
            stood_frac: None,
            elsewhere_frac: 0.0,
            held_back_frac: None,
        };
        let report = report(Some(Cause::Neighbour), vec![culprit]);
        let text = told(&report);
        for part in
            ["web needs 1.30 times", "jobs is named (1.30 times, 90 % of the harm)", "because"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(progress(&report, 30.0), "5 s of 30: jobs");
    }

    #[test]
    fn what_they_fight_over_is_told_where_it_is_known() {
        let mut report = report(Some(Cause::Neighbour), vec![]);
        for (resource, part) in [
            (Resource::Memory, "for a request:"),
            (Resource::LastLevelCache, "over the last-level cache:"),
            (Resource::MemoryBandwidth, "over memory bandwidth:"),
            (Resource::BusLock, "bus locks"),
            (Resource::Cpu, "waits for CPUs"),
        ] {
            report.victims[0].resource = Some(resource);
            assert!(told(&report).contains(part), "{resource:?}: {}", told(&report));
        }
    }

    #[test]
    fn every_cause_has_its_sentence() {
        let table = [
            (None, "nothing can be said"),
            (Some(Cause::None), "not slowed by anybody"),
            (Some(Cause::Itself), "its own making"),
            (Some(Cause::Hypervisor), "the host"),
            (Some(Cause::Overcommitted), "others together want more than there is"),
        ];
        for (cause, part) in table {
            assert!(told(&report(cause, vec![])).contains(part), "{cause:?}");
        }
        assert_eq!(progress(&report(None, vec![]), 30.0), "5 s of 30: nobody is named");
    }
}
