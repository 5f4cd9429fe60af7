//! `quell pressure list`: the resources, for readers and for machines.

use super::super::files;
use quell_pressure::{Resource, Unit};
use schemars::JsonSchema;
use serde::Serialize;

/// Explains all resources.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  quell pressure list\n  quell pressure list --json | jq .kernels"
)]
pub(crate) struct Args {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// All kernels.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Kernels {
    /// `quell.kernels/1`.
    schema: String,
    /// One a resource.
    kernels: Vec<Kernel>,
}

/// One kernel.
#[derive(Debug, Serialize, JsonSchema)]
struct Kernel {
    /// The resource's name.
    resource: Resource,
    /// Other names that commands understand.
    aliases: Vec<String>,
    /// What it does.
    words: String,
    /// What its work is counted in.
    unit: Unit,
    /// Whether intensity is the share of time at work; if not, the share of a capacity or a rate.
    works_by_time: bool,
}

/// What stands below the help of `quell pressure`.
pub(super) fn after_help() -> String {
    let examples = "\
Examples:
  quell pressure memory-bandwidth --intensity 50 --seconds 10 --cpus 1
  quell pressure llc --ramp 0:100 --ramp-seconds 5 --json";
    format!("{examples}\n\n{}", words())
}

/// One line for each resource: its names, and what its kernel does.
pub(super) fn words() -> String {
    let line = |resource: Resource| {
        let other = resource.aliases().join(", ");
        let other = if other.is_empty() { other } else { format!(" ({other})") };
        format!("  {:<28} {}\n", format!("{resource}{other}"), resource.words())
    };
    format!("Resources:\n{}", Resource::ALL.map(line).concat())
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if !args.json {
        return files::print_text(&words());
    }
    let kernel = |resource: Resource| Kernel {
        resource,
        aliases: resource.aliases().iter().map(|name| (*name).to_owned()).collect(),
        words: resource.words().to_owned(),
        unit: resource.unit(),
        works_by_time: resource.works_by_time(),
    };
    let kernels = Resource::ALL.into_iter().map(kernel).collect();
    files::print_json(&Kernels { schema: "quell.kernels/1".to_owned(), kernels })
}
