//! `quell doctor`: what this machine lets one measure and control.

mod cache_room;
mod distance;

use super::files;
use cache_room::Room;
use distance::Distance;
use quell_linux::doctor;
use quell_types::{Capability, CapabilityReport, Topology};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::Path;

/// Says what this machine lets one measure and control.
///
/// Where something is missing it says what Quell does without it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  quell doctor\n  quell doctor --caches\n  quell doctor --json | jq .capabilities"
)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Also finds out how much of the last-level cache a program can count on: it is filled for about half a
    /// second for each 32 MiB, which drives out what others have there.
    #[arg(long)]
    caches: bool,
}

/// The report.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// `quell.doctor/1`.
    schema: &'static str,
    /// The machine's shape.
    topology: Topology,
    /// One line for each capability.
    capabilities: Vec<CapabilityReport>,
    /// How far apart the host runs the CPUs; null where it cannot be told.
    distance: Option<Distance>,
    /// How much of the last-level cache a program can count on; null where that was not asked for, or cannot be
    /// told.
    cache_room: Option<Room>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let seen = doctor(Path::new("/"));
    let distance = Distance::look();
    let cache_room = args.caches.then(|| Room::look(&seen.topology)).flatten();
    if args.json {
        return files::print_json(&Report {
            schema: "quell.doctor/1",
            topology: seen.topology,
            capabilities: seen.capabilities,
            distance,
            cache_room,
        });
    }
    let colours = std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let mut text = table(&seen.topology, &seen.capabilities, colours);
    if let Some(distance) = distance {
        let _ = writeln!(text, "\n{}", distance.words());
    }
    if args.caches {
        let words = cache_room.map_or_else(Room::unknown, |room| room.words());
        let _ = writeln!(text, "{words}");
    }
    files::print_text(&text)
}

fn table(topology: &Topology, lines: &[CapabilityReport], colours: bool) -> String {
    let mut text = format!(
        "{}: {} CPUs, {} sockets, {} NUMA nodes, {:.1} GiB memory\n\n",
        topology.model,
        topology.cpus.len(),
        topology.sockets(),
        topology.nodes.len(),
        topology.memory_bytes as f64 / f64::from(1 << 30),
    );
    for line in lines {
        let kind = serde_json::to_value(line.kind).unwrap_or_default();
        let name = kind.as_str().unwrap_or_default().replace('_', " ");
        let (word, colour, detail) = match &line.capability {
            Capability::Native(detail) => ("native", 32, detail),
            Capability::Emulated(how) => ("emulated", 33, how),
            Capability::Absent(why) => ("absent", 31, why),
        };
        let word = format!("{word:<9}");
        let word = if colours { format!("\x1b[{colour}m{word}\x1b[0m") } else { word };
        let _ = writeln!(text, "{name:<22}{word} {detail}");
        if !line.without.is_empty() {
            let _ = writeln!(text, "{:<32}without: {}", "", line.without);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::CapabilityKind;

    #[test]
    fn colours_are_for_terminals_only() {
        let line = CapabilityReport {
            kind: CapabilityKind::CpuBandwidth,
            capability: Capability::Absent("no cpu controller".into()),
            without: "CPU sets".into(),
        };
        let plain = table(&Topology::default(), std::slice::from_ref(&line), false);
        assert!(plain.contains("cpu bandwidth         absent    no cpu controller"), "{plain}");
        assert!(plain.contains("without: CPU sets") && !plain.contains('\x1b'));
        assert!(table(&Topology::default(), &[line], true).contains("\x1b[31mabsent"));
    }
}
