//! `quell tune`: what a program is hurt by and what it causes, ranked.

use super::{files, measure};
use quell_pressure::Resource;
use quell_profiler::{
    Effort, LaunchOptions, Profile, ProfileOptions, Progress, at_desk, launch, profile, tune,
};
use quell_view::{Cell, Table};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Ranks what a program is hurt by and what it causes, so that the most telling is changed first.
///
/// What two CPUs share is measured beside the program; what a core has for itself by sharing the
/// program's CPU by time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    measure: measure::Common,
    /// What counts as progress: auto, runs, lines, bytes, or a text that printed lines hold.
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    progress: Progress,
    /// Writes the ranking as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The program, after --.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// What matters is the loss at full pressure, not where it begins.
const EFFORT: Effort = Effort {
    window: Duration::from_millis(60),
    settle: Duration::from_millis(10),
    grid: &[],
    pairs: 6,
    resolution: 100.0,
    budget: Duration::from_secs(3),
};
/// Of what a core has for itself: what shows in a program that shares the core by time.
const PRIVATE: [Resource; 4] =
    [Resource::L1Instruction, Resource::L1Data, Resource::L2Capacity, Resource::Tlb];

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut found = measured(args, args.measure.only.clone(), false)?;
    if args.measure.only.is_empty() {
        let private = measured(args, PRIVATE.to_vec(), true)?;
        found.tolerated.extend(private.tolerated);
        found.caused.extend(private.caused);
        found.curves.extend(private.curves);
    }
    let ranked = tune(&found);
    if !measure::to_stdout(args.json.as_deref()) {
        let head = ["what", "it loses %>", "it causes %>", "what helps"];
        let mut table = Table::new(format!("{}, the most telling first", ranked.program), &head);
        for advice in &ranked.advice {
            let causes = match advice.causes_percent {
                Some(causes) => Cell::number(causes, 0),
                None => Cell::Missing("not measured".to_owned()),
            };
            let hint = if advice.certain { advice.hint.as_str() } else { "(within the noise)" };
            let loses = Cell::number(advice.loses_percent, 0);
            table.push([Cell::from(advice.name.as_str()), loses, causes, Cell::from(hint)]);
        }
        files::print_text(&table.to_text())?;
    }
    measure::write_json(args.json.as_deref(), &ranked)
}

fn measured(args: &Args, only: Vec<Resource>, same_core: bool) -> anyhow::Result<Profile> {
    let begun = Instant::now();
    let (stop, topology) = measure::begin()?;
    let mut seats = args.measure.seats()?;
    if same_core {
        seats.workload = seats.workload.first(1);
        seats.pressure = seats.workload.clone();
        seats.same_core = true;
    }
    let cpus = seats.pressure.clone();
    let start = LaunchOptions {
        command: args.command.clone(),
        cpus: seats.workload.clone(),
        progress: args.progress.clone(),
        settle: Duration::from_secs(1),
        longest_run: Duration::from_secs(10),
    };
    let options = ProfileOptions {
        only,
        quick: false,
        threshold: 0.95,
        effort: Some(EFFORT),
        yardsticks: false,
        seats,
        pressure: args.measure.pressure(),
    };
    Ok(at_desk(&cpus, || {
        let mut subject = launch(&start, &stop)?;
        let mut tell = |resource: Resource, _: &Profile| eprintln!("measured {resource}");
        profile(subject.as_mut(), &options, &topology, &stop, begun, &mut tell)
    })?)
}
