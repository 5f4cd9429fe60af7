//! `quell explain`: why is this tenant limited?

use super::files::{self, State};
use super::moment;
use quell_agent::{AgentState, Explained, Limit, explain};
use quell_types::{Knob, Setting, Tenant};
use std::fmt::Write;
use std::io;
use std::path::Path;

/// Says why a tenant is limited.
///
/// That is: limited to what, since when, by which law and rule, on which inputs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  quell explain batch")]
pub(crate) struct Args {
    /// A service or batch group, by the name that the configuration gives it.
    tenant: String,
    #[command(flatten)]
    state: State,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let state = args.state.folder();
    files::permitted(&state.decisions())?;
    let explained = explain(&state, &Tenant::from(args.tenant.as_str()))
        .map_err(|error| unreadable(error, &state.decisions()))?;
    if args.json {
        return files::print_json(&explained);
    }
    files::print_text(&told(&explained, moment::now_ms()))
}

/// Why the journal cannot be read, and what helps.
fn unreadable(error: io::Error, path: &Path) -> anyhow::Error {
    let denied = error.kind() == io::ErrorKind::PermissionDenied;
    let helps = if denied { ": run it as root" } else { "" };
    anyhow::Error::new(error).context(format!("cannot read {}{helps}", path.display()))
}

/// The whole answer in plain sentences.
fn told(explained: &Explained, now_ms: u64) -> String {
    let tenant = &explained.tenant;
    let mut text = match &explained.agent {
        AgentState::Never => return format!("{tenant}: no agent ever ran with this state folder."),
        AgentState::Stopped => {
            return format!("{tenant} is not limited: no agent runs, and every knob is as it was.");
        }
        AgentState::Died => {
            "The agent died; what it set stands until `quell restore` or the next `quell guard`.\n"
                .to_owned()
        }
        AgentState::Running { .. } => String::new(),
        AgentState::Unknown => "Whether the agent still runs, only root can tell: run it as root. \
            This is what it last wrote down.\n"
            .to_owned(),
    };
    if !explained.known {
        let _ = writeln!(text, "{tenant}: no decision concerns such a tenant.");
        return text;
    }
    let (holding, other): (Vec<&Limit>, Vec<&Limit>) =
        explained.limits.iter().partition(|limit| limit.limits);
    let _ = match holding.len() {
        0 => writeln!(text, "{tenant} is not limited."),
        _ => writeln!(text, "{tenant} is limited:"),
    };
    holding.iter().for_each(|limit| sentence(&mut text, limit, now_ms));
    if !other.is_empty() {
        let _ = writeln!(text, "Set without holding it back:");
        other.iter().for_each(|limit| sentence(&mut text, limit, now_ms));
    }
    for probe in &explained.probes {
        let known: Vec<String> = probe
            .inputs
            .iter()
            .map(|input| format!("{} = {:.2}", input.name, input.value))
            .collect();
        let _ = writeln!(
            text,
            "Pressed on {} at {:.0} % {} ago, rule {} on {}.",
            probe.resource,
            probe.intensity_percent,
            moment::ago(probe.unix_ms, now_ms),
            probe.rule,
            known.join(", ")
        );
    }
    if explained.runs_tasks == Some(false) {
        let _ = writeln!(text, "Tasks of the queue may not run in it now.");
    }
    text
}

/// What, since when, why.
fn sentence(text: &mut String, limit: &Limit, now_ms: u64) {
    let since = limit.since_unix_ms;
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "  * It {} since {} ({} ago).",
        effect(&limit.knob, &limit.setting),
        moment::local(since),
        moment::ago(since, now_ms),
    );
    let inputs: Vec<String> =
        limit.inputs.iter().map(|input| format!("{} = {:.4}", input.name, input.value)).collect();
    let on = if inputs.is_empty() { String::new() } else { format!(" on {}", inputs.join(", ")) };
    let confirmed = moment::ago(limit.confirmed_unix_ms, now_ms);
    let _ = writeln!(
        text,
        "    Law {}, rule {}{on}; last confirmed {confirmed} ago.",
        limit.law, limit.rule
    );
}

fn effect(knob: &Knob, setting: &Setting) -> String {
    match (knob, setting) {
        (Knob::CpuBandwidth { .. }, Setting::Bandwidth(b)) => match b.limit_cpus {
            Some(cpus) => {
                let period = b.period_us as f64 / 1e3;
                format!("has had at most {:.3} CPU (in periods of {period} ms)", cpus.0)
            }
            None => "has had no CPU budget".into(),
        },
        (Knob::CpuIdle { .. }, Setting::Flag(true)) => {
            "has been in the idle class (runs only where nobody else wants to)".into()
        }
        (Knob::CpuIdle { .. }, _) => "has been in the normal class".into(),
        (Knob::Frozen { .. }, Setting::Flag(true)) => "has been frozen".into(),
        (Knob::Frozen { .. }, _) => "has not been frozen".into(),
        (Knob::Cpus { .. }, Setting::Cpus(cpus)) => format!("has had CPUs {cpus} only"),
        (Knob::EgressCeiling { link, .. }, _) => format!("has had {setting} on {link}"),
        _ => format!("has had {knob} at {setting}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::{CpuBandwidth, Input};
    use std::time::Duration;

    fn explained(agent: AgentState, limits: Vec<Limit>) -> Explained {
        Explained {
            schema: "quell.explain/1".into(),
            tenant: "jobs".into(),
            agent,
            known: true,
            limits,
            runs_tasks: None,
            probes: Vec::new(),
            last_entry_unix_ms: Some(1),
        }
    }

    fn limit() -> Limit {
        Limit {
            knob: Knob::CpuBandwidth { tenant: "jobs".into() },
            setting: Setting::Bandwidth(CpuBandwidth::limited(0.35, Duration::from_millis(5))),
            limits: true,
            since_unix_ms: 1_700_000_000_000,
            confirmed_unix_ms: 1_700_000_100_000,
            law: "quell".into(),
            rule: "harm-budget".into(),
            inputs: vec![Input::new("slack_frac", 0.125)],
        }
    }

    #[test]
    fn a_limit_is_told_with_what_since_when_and_why() {
        let running = AgentState::Running { pid: Some(1) };
        let text = told(&explained(running, vec![limit()]), 1_700_000_180_000);
        for part in [
            "jobs is limited",
            "at most 0.350 CPU (in periods of 5 ms)",
            "3 min ago",
            "Law quell, rule harm-budget on slack_frac = 0.1250; last confirmed 80 s ago",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn who_may_not_read_is_told_to_be_root() {
        let told = |kind: io::ErrorKind| format!("{:#}", unreadable(kind.into(), Path::new("/j")));
        assert!(told(io::ErrorKind::PermissionDenied).contains("/j: run it as root"));
        assert!(!told(io::ErrorKind::InvalidData).contains("root"));
    }

    #[test]
    fn nothing_is_told_as_nothing() {
        let at = |agent| told(&explained(agent, vec![]), 1);
        assert!(at(AgentState::Never).contains("no agent ever ran"));
        assert!(at(AgentState::Stopped).contains("not limited"));
        assert!(at(AgentState::Running { pid: None }).contains("not limited"));
        assert!(at(AgentState::Died).contains("quell restore"));
        assert!(at(AgentState::Unknown).contains("run it as root"));
    }
}
