//! `quell pressure validate`: whether the kernels do what they say, on the machine at hand.

mod report;

use super::super::latency::{Service, ServiceArgs};
use super::super::wire::Wire;
use super::super::{files, measure};
use quell_pressure::Stop;
use quell_profiler::{
    Counters, LaunchOptions, Progress, Subject, VALIDATE_SCHEMA, ValidateOptions, Validation,
    at_desk, launch, serve_sources, validate, words,
};
use quell_types::CpuSet;
use report::report;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

/// Validates the kernels here: linearity, impact on applications, cross-talk.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell pressure validate --report DIR
  quell pressure validate --parts linearity --rounds 5 --json linearity.json
  quell pressure validate --parts linearity,crosstalk --link-mbit 1000
  quell pressure validate --from linearity.json --report DIR")]
pub(crate) struct Args {
    #[command(flatten)]
    measure: measure::Common,
    #[command(flatten)]
    load: ServiceArgs,
    /// Rounds over all levels and pairs; more narrow the noise.
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// The length of a window, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 40)]
    window_ms: u64,
    /// linearity and impact: for each kernel, or level, how long to wait for a host that runs the CPUs on cores
    /// without a common cache meanwhile, in seconds.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(..=600))]
    patience: u64,
    /// What is validated.
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',',
          default_values_t = [Part::Linearity, Part::Timing, Part::Impact, Part::Crosstalk])]
    parts: Vec<Part>,
    /// impact: a further application: a command, quoted as in a shell; several times. By default gzip.
    #[arg(long = "application", value_name = "COMMAND")]
    applications: Vec<String>,
    /// impact: services under load whose tails are measured: search, store, topics, redis if it is installed; or none.
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values = ["search", "store", "redis"])]
    services: Vec<Listed>,
    /// network: a link of its own, of so many Mbit/s, between two namespaces that go with it, in place of loopback. Needs
    /// root.
    #[arg(long, value_name = "MBIT", conflicts_with = "peer",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    link_mbit: Option<u32>,
    /// Shows what was measured before and kept as JSON, in place of measuring.
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["parts", "rounds", "window_ms", "link_mbit", "patience", "applications", "services"])]
    from: Option<PathBuf>,
    /// Writes the validation as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a report with plots.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// The pressing side of cross-talk, on these CPUs: does what standard input says.
    #[arg(long, hide = true, value_name = "LIST")]
    sources: Option<CpuSet>,
}

/// A part of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// What is seen grows in proportion to intensity.
    Linearity,
    /// How fast pressure comes and goes.
    Timing,
    /// Applications fare worse as it grows.
    Impact,
    /// Kernels leave each other alone.
    Crosstalk,
}

/// A service of the impact part; none in the place of `none`.
#[derive(Clone, Copy, Debug)]
struct Listed(Option<Service>);

impl FromStr for Listed {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if text == "none" {
            return Ok(Self(None));
        }
        let service = text.parse().map_err(|why| anyhow::anyhow!("{why}, or none"))?;
        Ok(Self(Some(service)))
    }
}

/// A compression job that most machines have.
const COMPRESSION: &str = "gzip -1 -c /proc/self/exe";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(file) = &args.from {
        return told(args, &measure::read_json(file, VALIDATE_SCHEMA)?);
    }
    let (stop, topology) = measure::begin()?;
    anyhow::ensure!((1..=100).contains(&args.rounds), "--rounds {}: give 1 to 100", args.rounds);
    anyhow::ensure!(
        (5..=5000).contains(&args.window_ms),
        "--window-ms {}: give 5 to 5000",
        args.window_ms
    );
    let link = args.link_mbit.map(Wire::build).transpose()?;
    let mut options = args.options(link.as_ref())?;
    if let Some(cpus) = &args.sources {
        options.seats.pressure.clone_from(cpus);
        let serve = || {
            let (input, output) = (std::io::stdin().lock(), std::io::stdout());
            serve_sources(&options, &topology, &stop, input, output)
        };
        return Ok(at_desk(&options.seats.pressure, serve)?);
    }
    let found = at_desk(&options.seats.pressure, || {
        let mut applications = Vec::new();
        if options.impact {
            applications = start(&args.applications, &options, &stop)?;
            applications.extend(services(args, &options, &stop));
        }
        let mut tell = |line: &str| eprintln!("{line}");
        validate(&options, &mut applications, &topology, &stop, &mut tell)
    })?;
    told(args, &found)
}

impl Args {
    fn options(&self, link: Option<&Wire>) -> anyhow::Result<ValidateOptions> {
        let seats = self.measure.seats()?;
        let mut pressure = self.measure.pressure();
        link.map_or(Ok(()), |link| link.press_over(&mut pressure))?;
        let (wanted, apart) = (|part| self.parts.contains(&part), !seats.same_core);
        Ok(ValidateOptions {
            only: self.measure.only.clone(),
            rounds: self.rounds,
            window: Duration::from_millis(self.window_ms),
            patience: Duration::from_secs(self.patience),
            linearity: wanted(Part::Linearity),
            timing: wanted(Part::Timing),
            impact: apart && wanted(Part::Impact),
            crosstalk: apart && wanted(Part::Crosstalk),
            seats,
            pressure,
            sources: Some(Box::new(sources)),
        })
    }
}

/// Writes what was found where it is wanted.
fn told(args: &Args, found: &Validation) -> anyhow::Result<()> {
    if let Some(folder) = &args.report {
        report(found).write(folder)?;
    }
    if !measure::to_stdout(args.json.as_deref()) {
        files::print_text(&report(found).to_text(100))?;
    }
    measure::write_json(args.json.as_deref(), found)?;
    if let Some(why) = &found.ended_early {
        anyhow::bail!("{why}; what was measured until then is in what was written");
    }
    Ok(())
}

/// This program with these arguments again, as the pressing side of cross-talk on these CPUs.
fn sources(cpus: &CpuSet) -> Command {
    let mut again = Command::new("/proc/self/exe");
    again.args(std::env::args_os().skip(1)).arg("--sources").arg(cpus.to_string());
    again
}

/// Those of the services that can be started; why not, where one cannot.
fn services(args: &Args, options: &ValidateOptions, stop: &Stop) -> Vec<Box<dyn Subject>> {
    let one = |listed: &Listed| {
        let opened = args.load.open(listed.0?, &options.seats, stop);
        let told = opened.inspect_err(|why| eprintln!("not measured: {why:#}"));
        told.ok().map(|loaded| Box::new(loaded) as Box<dyn Subject>)
    };
    args.services.iter().filter_map(one).collect()
}

fn start(
    commands: &[String],
    options: &ValidateOptions,
    stop: &Stop,
) -> Result<Vec<Box<dyn Subject>>, quell_profiler::ProfileError> {
    let usual = [COMPRESSION.to_owned()];
    let commands = if commands.is_empty() { &usual } else { commands };
    let one = |command: &String| {
        let how = LaunchOptions {
            command: words(command)?,
            cpus: options.seats.workload.first(1),
            progress: Progress::Runs,
            counters: Counters::default(),
            settle: Duration::from_secs(1),
            longest_run: Duration::from_secs(5),
        };
        launch(&how, stop)
    };
    commands.iter().map(one).collect()
}
