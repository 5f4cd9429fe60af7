//! `quell simulate`: scenarios on the simulated server.

mod drawn;
mod faults;
mod lc_be;
mod real;

use super::files;
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use quell_calibrate::{Effort, Guess};
use quell_policy::Law;
use quell_simulate::{
    LIBRARY, Options, SCENARIOS_SCHEMA, Scenario, ScenarioReport, ScenariosReport, Simulated,
    Status, find, markdown, simulate,
};
use quell_view::{Cell, Report, Table};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Plays published experiments, or one's own, on a simulated server.
///
/// What comes of them is laid beside what is published. A scenario is a short text: machine,
/// services, batch, load, policy, and what is expected. Quell carries those of the published
/// experiments; --list names them. The same control laws run as in `quell guard`, through hours of
/// machine time in seconds, and the same seed gives the same decisions to the byte.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  quell simulate --list
  quell simulate T-E2
  quell simulate T-E2 --policy quell --report t-e2
  quell simulate my.scenario --seed 7 --json result.json
  quell simulate --all --json scenarios.json
  quell simulate --speed --json speed.json
  quell simulate --faults --hours 10 --json faults.json
  quell simulate --calibrate --json calibration.json
  quell simulate --calibrated --report calibration
  quell simulate --measure-machine machine.json
  quell simulate --beside-real --json beside.json
  quell simulate lc-be --service xapian --machine e5-2683v4 --cores 8 \\
      --batch stream-llc --load 0.1..1.0 --policy thesis --json rows.json

Exit status: 0 all that was expected held; 1 something did not, or could not be played; 2 a
scenario is wrong."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// An experiment of the library by its id, or a file.
    #[arg(value_name = "SCENARIO", conflicts_with_all = ["all", "list", "speed", "faults", "calibrate", "calibrated", "measure_machine", "beside_real", "beside_again"])]
    scenarios: Vec<String>,
    /// Lists the library.
    #[arg(long)]
    list: bool,
    /// Plays the whole library.
    #[arg(long)]
    all: bool,
    /// Measures how fast simulation is, beside real time.
    #[arg(long)]
    speed: bool,
    /// Fits the simulator to the published tables from scratch, which takes minutes, and prints
    /// every parameter and cell. The figures that Quell carries stay as they are.
    #[arg(long)]
    calibrate: bool,
    /// Prints every parameter and cell with the figures that Quell carries, without a search; takes
    /// half a minute.
    #[arg(long, conflicts_with = "calibrate")]
    calibrated: bool,
    #[command(flatten)]
    real: real::RealRun,
    #[command(flatten)]
    faults: faults::FaultRun,
    #[command(flatten)]
    how: How,
    /// Writes tables and plots, and the decision journal of each run.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// How scenarios are played.
#[derive(Debug, clap::Args)]
struct How {
    /// This law in place of the scenario's.
    #[arg(long, value_name = "LAW")]
    policy: Option<Law>,
    /// This seed in place of the scenario's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Runs at once [default: one on each CPU].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Writes the figures as JSON, `-` to standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    // Docs here would replace those of its `Args` in the help.
    LcBe(lc_be::Args),
}

/// How long is simulated for each figure of `--speed`, in seconds.
const SPEED_S: u64 = 300;

/// Requests of a run of `--calibrated`, with which chance moves a cell by a point or so.
const CALIBRATED_REQUESTS: u32 = 40_000;

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        Some(What::LcBe(args)) => return lc_be::run(args),
        None if args.list => return files::print_text(&list()?.to_text()),
        None if args.speed => return speed(&args.how),
        None if args.faults.faults => return faults::run(args),
        None if args.calibrate || args.calibrated => return calibrate(args),
        None if args.real.is_asked_for() => return real::run(&args.real, &args.how),
        None => {}
    }
    let scenarios = match args.all {
        true => LIBRARY.iter().map(|(id, _)| read(id)).collect::<anyhow::Result<Vec<_>>>()?,
        false => args.scenarios.iter().map(|name| read(name)).collect::<anyhow::Result<_>>()?,
    };
    if scenarios.is_empty() {
        bail!("name a scenario, or --all; `quell simulate --list` shows them");
    }
    play(args, &scenarios)
}

fn read(name: &str) -> anyhow::Result<Scenario> {
    if let Some(found) = find(name) {
        return Ok(found?);
    }
    let path = Path::new(name);
    if !path.exists() {
        let ids = LIBRARY.iter().map(|(id, _)| *id);
        let near = quell_config::suggestion(name, ids);
        bail!("{name} is neither a file nor a scenario of the library: {near}");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    Ok(Scenario::parse(name, &text)?)
}

fn list() -> anyhow::Result<Table> {
    let mut table = Table::new("", &["id", "what it shows", "runs>", "state"]);
    for (id, _) in LIBRARY {
        let scenario = read(id)?;
        let state = match &scenario.pending {
            Some(why) => format!("pending: {why}"),
            None => "ready".into(),
        };
        table.push([
            (*id).into(),
            scenario.title.as_str().into(),
            Cell::number(scenario.runs() as f64, 0),
            state.into(),
        ]);
    }
    Ok(table)
}

impl How {
    fn jobs(&self) -> usize {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or(cpus).max(1)
    }

    fn options(&self, keep_journals: bool) -> Options {
        Options { law: self.policy, seed: self.seed, jobs: self.jobs(), keep_journals }
    }

    fn write(&self, value: &impl Serialize) -> anyhow::Result<()> {
        match &self.json {
            None => Ok(()),
            Some(path) if path.as_os_str() == "-" => files::print_json(value),
            Some(path) => {
                let text = serde_json::to_string_pretty(value)? + "\n";
                std::fs::write(path, text)
                    .with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }

    /// Whether standard output is for the JSON alone.
    fn silent(&self) -> bool {
        self.json.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }
}

fn play(args: &Args, scenarios: &[Scenario]) -> anyhow::Result<()> {
    let options = args.how.options(args.report.is_some());
    let mut all = ScenariosReport { schema: SCENARIOS_SCHEMA.into(), scenarios: Vec::new() };
    let mut report = Report::new("Scenarios");
    for scenario in scenarios {
        let simulated = with_bar(&scenario.id, |progress| simulate(scenario, &options, progress))?;
        if !args.how.silent() {
            let page = Report::new("").with(simulated.section.clone());
            files::print_text(&page.to_text(100))?;
            files::print_text(&verdict(&simulated.report))?;
        }
        if let Some(folder) = &args.report {
            keep_journals(folder, &simulated)?;
        }
        report = report.with(simulated.section);
        all.scenarios.push(simulated.report);
        if !args.how.silent() {
            args.how.write(&all)?;
        }
    }
    if args.how.silent() {
        args.how.write(&all)?;
    }
    if let Some(folder) = &args.report {
        report.write(folder)?;
        let page = folder.join("report.md");
        std::fs::write(&page, markdown(&report)).with_context(|| page.display().to_string())?;
        eprintln!("report: {}", folder.join("report.html").display());
    }
    let failed = all.scenarios.iter().filter(|s| s.status == Status::Failed);
    let failed: Vec<&str> = failed.map(|s| s.id.as_str()).collect();
    if !failed.is_empty() {
        bail!("not as expected: {}", failed.join(", "));
    }
    Ok(())
}

fn verdict(report: &ScenarioReport) -> String {
    let held = report.figures.iter().filter(|f| f.held).count();
    let figures = report.figures.len();
    match (report.status, &report.pending) {
        (Status::Pending, Some(why)) => {
            format!("{}: pending: {why}; {figures} figures are expected", report.id)
        }
        (status, _) => {
            let word = if status == Status::Passed { "passed" } else { "FAILED" };
            format!(
                "{}: {word}, {held} of {figures} figures as expected; {} runs, {:.0} s of machine \
                 time in {:.1} s; journals {}",
                report.id, report.runs, report.simulated_s, report.seconds, report.digest
            )
        }
    }
}

fn keep_journals(folder: &Path, simulated: &Simulated) -> anyhow::Result<()> {
    let folder = folder.join("journals").join(&simulated.report.id);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for (number, (point, journal)) in simulated.journals.iter().enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-=.%".contains(c) { c } else { '_' };
        let name: String = point.chars().map(plain).take(100).collect();
        let path = folder.join(format!("{:03}-{name}.jsonl", number + 1));
        std::fs::write(&path, journal).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Shows progress on a terminal while it runs; ids of long work on standard error elsewhere.
fn with_bar<T>(
    id: &str,
    work: impl FnOnce(&(dyn Fn(usize, usize) + Sync)) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let bar = ProgressBar::new(0);
    // The template is a constant that is known to be good.
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} runs, {elapsed}")
    {
        bar.set_style(style);
    }
    bar.set_message(id.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    let done = work(&|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    done
}

fn speed(how: &How) -> anyhow::Result<()> {
    let speed = quell_simulate::speed(SPEED_S)?;
    if !how.silent() {
        files::print_text(&format!(
            "{:.0} times real time; {:.0} times with every tick looked at ({SPEED_S} s simulated \
             for each, law quell, one core)",
            speed.realtime_ratio, speed.realtime_ratio_every_tick
        ))?;
    }
    how.write(&speed)
}

fn calibrate(args: &Args) -> anyhow::Result<()> {
    let report = match args.calibrated {
        true => quell_calibrate::report(&Guess::shipped(), CALIBRATED_REQUESTS, Vec::new()),
        false => quell_calibrate::calibrate(Effort::default(), &mut |line| eprintln!("{line}")),
    };
    if !args.how.silent() {
        let (held, cells) = (report.cells_held, report.cells.len());
        files::print_text(&report.markdown())?;
        files::print_text(&format!("{held} of {cells} cells within tolerance"))?;
    }
    if let Some(folder) = &args.report {
        drawn::calibration(&report).write(folder)?;
        eprintln!("report: {}", folder.join("report.html").display());
    }
    args.how.write(&report)
}
