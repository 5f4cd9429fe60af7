//! `quell tune`: what a program is hurt by and what it causes, ranked.

use super::counted::outside;
use super::{files, measure};
use quell_pressure::{Resource, Stop};
use quell_profiler::{
    Effort, LaunchOptions, Profile, ProfileOptions, Progress, Seats, Tuning, at_desk, launch,
    profile, tune,
};
use quell_types::Topology;
use quell_view::{Cell, Table};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Ranks what a program is hurt by and what it causes: what to change in it first.
///
/// What two CPUs share is measured beside the program; what a core has for itself by sharing the
/// program's CPU by time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell tune -- ./train.sh
  quell tune --only llc-bandwidth,l1-data --json - -- ./train.sh")]
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
    listens: 6,
    resolution: 100.0,
    budget: Duration::from_millis(4500),
};
/// Of what a core has for itself: what shows in a program that shares the core by time.
const PRIVATE: [Resource; 4] =
    [Resource::L1Instruction, Resource::L1Data, Resource::L2Capacity, Resource::Tlb];

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (stop, topology) = measure::begin()?;
    let bench = Bench { args, topology: &topology, stop: &stop };
    let ranked = tune(&bench.whole()?);
    if !measure::to_stdout(args.json.as_deref()) {
        files::print_text(&words(&ranked))?;
    }
    measure::write_json(args.json.as_deref(), &ranked)
}

fn words(ranked: &Tuning) -> String {
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
    let told = |(_, why): &(&Resource, &String)| why.as_str() != "not asked for";
    let absent = ranked
        .absent
        .iter()
        .filter(told)
        .map(|(what, why)| format!("not measured: {what}: {why}\n"));
    table.to_text() + &absent.collect::<String>()
}

/// What both halves of the measurement need.
struct Bench<'a> {
    args: &'a Args,
    topology: &'a Topology,
    stop: &'a Stop,
}

impl Bench<'_> {
    /// What is shared beside the program, and what a core has for itself on the program's own CPU.
    fn whole(&self) -> anyhow::Result<Profile> {
        let only = &self.args.measure.only;
        let seats = self.args.measure.seats()?;
        let is_private = |resource: &&Resource| PRIVATE.contains(resource) && !seats.same_core;
        let (private, shared): (Vec<Resource>, Vec<Resource>) =
            only.iter().partition(|resource| is_private(resource));
        let private = if only.is_empty() { PRIVATE.to_vec() } else { private };
        if !only.is_empty() && shared.is_empty() {
            return self.profile(private, one_cpu(seats));
        }
        let mut found = self.profile(shared, seats.clone())?;
        if !private.is_empty() {
            let own = self.profile(private, one_cpu(seats))?;
            found.absent.retain(|resource, _| !own.tolerated.contains_key(resource));
            found.tolerated.extend(own.tolerated);
            found.caused.extend(own.caused);
            found.curves.extend(own.curves);
        }
        Ok(found)
    }

    fn profile(&self, only: Vec<Resource>, seats: Seats) -> anyhow::Result<Profile> {
        let (args, stop, begun) = (self.args, self.stop, Instant::now());
        let cpus = seats.pressure.clone();
        let start = LaunchOptions {
            command: args.command.clone(),
            cpus: seats.workload.clone(),
            progress: args.progress.clone(),
            counters: outside(&self.topology.online()),
            settle: Duration::from_secs(1),
            longest_run: Duration::from_secs(10),
        };
        let options = ProfileOptions {
            only,
            quick: false,
            threshold: 0.95,
            effort: Some(EFFORT),
            within: None,
            yardsticks: false,
            witnesses: false,
            seats,
            pressure: args.measure.pressure(),
        };
        Ok(at_desk(&cpus, || {
            let mut subject = launch(&start, stop)?;
            let mut tell = |resource: Resource, _: &Profile| eprintln!("measured {resource}");
            profile(subject.as_mut(), &options, self.topology, stop, begun, &mut tell)
        })?)
    }
}

/// Program and pressure on the program's first CPU.
fn one_cpu(seats: Seats) -> Seats {
    let cpu = seats.workload.first(1);
    Seats { workload: cpu.clone(), pressure: cpu, same_core: true }
}
