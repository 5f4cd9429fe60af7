//! `quell matrix`: the interference table of a latency-critical service (T-1 to T-6): load against
//! antagonist.

mod windows;

use super::latency::{self, Loaded, Service};
use super::wire::Wire;
use super::{files, measure};
use quell_pressure::{Intensity, Options, Plan, Resource, Running, Stop, arm};
use quell_profiler::stats::{Estimate, estimate};
use quell_profiler::{Machine, ProfileError, Seats, at_desk};
use quell_types::Topology;
use quell_view::{Cell, Plot, Report, Section, Series, Style, Table};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use windows::{ATTEMPTS, Places, Windows};

/// Measures a service's tail beside each antagonist, load by load.
///
/// Told is the 95th percentile as a share of that alone at the same load. Each cell is the median
/// of ratios of windows, alone and beside the antagonist in turn. A window in which the hypervisor
/// took CPUs away, or ran them on cores that share no cache though the machine is told that they do,
/// is measured again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell matrix search --loads 0.2,0.8 --report DIR
  quell matrix store --peak 1200 --json -")]
pub(crate) struct Args {
    /// search, store, topics or redis.
    #[arg(value_name = "SERVICE")]
    service: Service,
    /// Requests per second that count as a load of 1; the highest rate that the service sustains
    /// on its CPUs if left out, which is looked for first (about half a minute).
    #[arg(long, value_name = "QPS")]
    peak: Option<f64>,
    /// Loads as shares of the peak.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [0.2, 0.4, 0.6, 0.8])]
    loads: Vec<f64>,
    /// Pairs of windows a cell.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// The length of a window, in seconds.
    #[arg(long, value_name = "S", default_value_t = 0.7)]
    window: f64,
    #[command(flatten)]
    measure: measure::Common,
    /// Writes the table as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a report with a plot.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// This one needs a link of its own.
const SHAPED: &str = "network, 100 Mbit";
const FAST_ETHERNET_MBIT: u32 = 100;
/// The thesis' antagonists as kernels at an intensity: a quarter, half and all of the cache.
const ANTAGONISTS: [(&str, Resource, f64); 8] = [
    ("LLC small", Resource::LlcCapacity, 25.0),
    ("LLC medium", Resource::LlcCapacity, 50.0),
    ("LLC big", Resource::LlcCapacity, 100.0),
    ("DRAM", Resource::MemoryBandwidth, 100.0),
    ("hyper-thread", Resource::SmtSibling, 100.0),
    ("network, unshaped", Resource::NetworkBandwidth, 100.0),
    (SHAPED, Resource::NetworkBandwidth, 100.0),
    ("storage", Resource::StorageBandwidth, 100.0),
];

/// The table.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Matrix {
    /// `quell.matrix/1`.
    schema: String,
    /// Where it was measured.
    machine: Machine,
    /// Which service.
    service: String,
    /// Requests per second at a load of 1.
    peak_qps: f64,
    /// All cells.
    cells: Vec<MatrixCell>,
    /// Antagonists that were left out, and why.
    absent: BTreeMap<String, String>,
    /// Why it ended before its end; null if it did not. What was measured until then is here.
    ended_early: Option<String>,
    /// How long it took.
    seconds: f64,
}

/// One cell.
#[derive(Debug, Serialize, JsonSchema)]
struct MatrixCell {
    /// Beside whom.
    antagonist: String,
    /// The share of the peak rate.
    load_frac: f64,
    /// The 95th percentile over that alone, in percent: 100 is undisturbed.
    p95_percent_of_alone: Estimate,
    /// The 95th percentile alone: the median of the quiet windows.
    alone_p95_ms: f64,
    /// Windows that were measured again, since the hypervisor took CPUs away in them, or had them elsewhere.
    windows_again: usize,
    /// Windows that count although it took CPUs away, after several attempts.
    windows_disturbed: usize,
    /// Windows that count although it ran the CPUs on cores that share no cache.
    windows_distant: usize,
}

/// A kernel's bound in time, where windows are few and short.
const LEAST_BOUND_S: f64 = 1800.0;
/// What a window takes besides its length: warm-up, and what is answered late.
const WINDOW_MARGIN_S: f64 = 1.5;

/// No kernel runs longer: time for all windows of its row, each measured as often as may be.
fn longest_s(args: &Args) -> f64 {
    let windows = args.loads.len() * (2 * args.rounds + 1) * ATTEMPTS;
    LEAST_BOUND_S.max(windows as f64 * (args.window + WINDOW_MARGIN_S))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(peak) = args.peak {
        anyhow::ensure!(peak > 0.0 && peak < 1e7, "--peak {peak}: give a rate");
    }
    anyhow::ensure!((1..=50).contains(&args.rounds), "--rounds {}: give 1 to 50", args.rounds);
    anyhow::ensure!(
        (0.05..=60.0).contains(&args.window),
        "--window {}: give 0.05 to 60",
        args.window
    );
    let fits = |load: &f64| *load > 0.0 && *load <= 2.0;
    anyhow::ensure!(args.loads.iter().all(fits), "--loads: give shares of the peak, as 0.2,0.8");
    let (stop, topology) = measure::begin()?;
    let seats = args.measure.seats()?;
    let cpus = seats.pressure.clone();
    let matrix = at_desk(&cpus, || Ok(measured(args, &seats, &topology, &stop)))??;
    if let Some(folder) = &args.report {
        report(&matrix).write(folder)?;
    }
    if !measure::to_stdout(args.json.as_deref()) {
        files::print_text(&report(&matrix).to_text(100))?;
    }
    measure::write_json(args.json.as_deref(), &matrix)?;
    match &matrix.ended_early {
        Some(why) => anyhow::bail!("{why}; what was measured until then is in what was written"),
        None => Ok(()),
    }
}

/// What all rows need.
struct Bench<'a> {
    args: &'a Args,
    seats: &'a Seats,
    topology: &'a Topology,
    stop: &'a Stop,
    peak_qps: f64,
}

fn measured(
    args: &Args,
    seats: &Seats,
    topology: &Topology,
    stop: &Stop,
) -> anyhow::Result<Matrix> {
    let begun = Instant::now();
    let mut service = latency::open(args.service, seats, None, stop)?;
    let peak_qps = peak(args, &mut service)?;
    let bench = Bench { args, seats, topology, stop, peak_qps };
    let mut matrix = Matrix::new(args, topology, peak_qps);
    let only = &args.measure.only;
    for antagonist in ANTAGONISTS {
        if !only.is_empty() && !only.contains(&antagonist.1) {
            matrix.absent.insert(antagonist.0.to_owned(), "not asked for".to_owned());
            continue;
        }
        let done = match antagonist.0 {
            SHAPED => bench.behind_a_wire(antagonist, &mut matrix),
            _ => bench.row(&mut service, &bench.pressure(), antagonist, &mut matrix),
        };
        match done {
            Ok(()) => {}
            Err(why) if stop.requested() => {
                anyhow::ensure!(!matrix.cells.is_empty(), "{why:#}");
                matrix.ended_early = Some(format!("{why:#}"));
                break;
            }
            Err(why) => drop(matrix.absent.insert(antagonist.0.to_owned(), format!("{why:#}"))),
        }
    }
    matrix.seconds = begun.elapsed().as_secs_f64();
    Ok(matrix)
}

/// Few ratios that differ much have an interval that is stretched beyond what a ratio can be.
fn no_less_than_nothing(ratio: Estimate) -> Estimate {
    ratio.map(|end| end.max(0.0))
}

fn peak(args: &Args, service: &mut Loaded) -> anyhow::Result<f64> {
    if let Some(given) = args.peak {
        return Ok(given);
    }
    let found = service.find_peak(&mut |qps| eprintln!("looking for the peak: {qps:.0}/s"))?;
    eprintln!("peak: {found:.0} requests/s");
    Ok(found)
}

impl Matrix {
    fn new(args: &Args, topology: &Topology, peak_qps: f64) -> Matrix {
        Matrix {
            schema: "quell.matrix/1".to_owned(),
            machine: Machine::of(topology),
            service: args.service.name().to_owned(),
            peak_qps,
            cells: Vec::new(),
            absent: BTreeMap::new(),
            ended_early: None,
            seconds: 0.0,
        }
    }
}

impl Bench<'_> {
    fn pressure(&self) -> Options {
        self.args.measure.pressure()
    }

    fn window(&self) -> Duration {
        Duration::from_secs_f64(self.args.window)
    }

    /// The network row at 100 Mbit/s: the service before the wire and the bulk sender beside it.
    fn behind_a_wire(
        &self,
        antagonist: (&str, Resource, f64),
        matrix: &mut Matrix,
    ) -> anyhow::Result<()> {
        let wire = Wire::build(FAST_ETHERNET_MBIT)?;
        let (args, seats) = (self.args, self.seats);
        let mut service = latency::open(args.service, seats, Some(&wire), self.stop)?;
        let mut pressure = self.pressure();
        wire.press_over(&mut pressure)?;
        self.row(&mut service, &pressure, antagonist, matrix)
    }

    /// All loads beside one antagonist.
    fn row(
        &self,
        service: &mut Loaded,
        pressure: &Options,
        (name, resource, percent): (&str, Resource, f64),
        matrix: &mut Matrix,
    ) -> anyhow::Result<()> {
        let running = self.antagonist(resource, pressure)?;
        let mut places = Places::between(self.seats, self.topology);
        for &load in &self.args.loads {
            service.set_rate(load * self.peak_qps);
            let windows = Windows::new(service, self.window(), &mut places);
            let cell = cell(self.args, windows, &running, (name, percent, load))?;
            let found = cell.p95_percent_of_alone;
            eprintln!("{name} at {load}: {:.0} % of alone", found.value);
            matrix.cells.push(cell);
        }
        Ok(())
    }

    fn antagonist(&self, resource: Resource, pressure: &Options) -> anyhow::Result<Running> {
        let mut options = pressure.clone();
        (options.resource, options.seconds) = (resource, longest_s(self.args));
        options.cpus = self.seats.pressure.clone();
        options.plan = Plan::Hold(Intensity::ZERO);
        if resource == Resource::SmtSibling {
            options.cpus = self.seats.workload.clone();
        }
        let running = arm(&options, self.topology, self.stop)?.start();
        running.mute();
        Ok(running)
    }
}

/// Windows alone and beside the antagonist in turn, all with the antagonist's CPU as awake as the
/// load generator there makes it.
fn cell(
    args: &Args,
    mut windows: Windows<'_>,
    antagonist: &Running,
    (name, percent, load): (&str, f64, f64),
) -> anyhow::Result<MatrixCell> {
    antagonist.turn_to(Intensity::ZERO);
    let (mut before, mut ratios, mut alone) = (windows.p95_ms()?, Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        antagonist.turn_to(Intensity::new(percent)?);
        let beside = windows.p95_ms()?;
        antagonist.turn_to(Intensity::ZERO);
        let after = windows.p95_ms()?;
        ratios.push(100.0 * beside / f64::midpoint(before, after));
        alone.push(before);
        before = after;
    }
    antagonist.mute();
    let longest_s = longest_s(args);
    anyhow::ensure!(!antagonist.is_over(), "the antagonist's time of {longest_s:.0} s was over");
    let stalled = || ProfileError::Stalled(name.to_owned());
    Ok(MatrixCell {
        antagonist: name.to_owned(),
        load_frac: load,
        p95_percent_of_alone: no_less_than_nothing(estimate(&ratios).ok_or_else(stalled)?),
        alone_p95_ms: quell_profiler::stats::median(&alone).ok_or_else(stalled)?,
        windows_again: windows.again,
        windows_disturbed: windows.disturbed,
        windows_distant: windows.distant,
    })
}

/// An antagonist, and what was found beside it at each load.
type Row = (&'static str, Vec<(f64, Option<Estimate>)>);

fn report(matrix: &Matrix) -> Report {
    let mut loads: Vec<f64> = matrix.cells.iter().map(|cell| cell.load_frac).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let rows = rows(matrix, &loads);
    let title = format!("p95 of {} as a share of that alone, in percent", matrix.service);
    let section = Section::new("Load against antagonist")
        .with(table(matrix, &title, &loads, &rows))
        .with(plot(&title, &rows));
    Report::new(format!("Interference with {}", matrix.service)).with(section)
}

/// Of all antagonists beside which anything was measured.
fn rows(matrix: &Matrix, loads: &[f64]) -> Vec<Row> {
    let row = |(name, _, _): (&'static str, Resource, f64)| {
        let of = |load: f64| {
            let here = |c: &&MatrixCell| c.antagonist == name && c.load_frac == load;
            matrix.cells.iter().find(here).map(|cell| cell.p95_percent_of_alone)
        };
        let values: Vec<_> = loads.iter().map(|&load| (load, of(load))).collect();
        (name, values)
    };
    let measured = |(_, values): &Row| values.iter().any(|(_, value)| value.is_some());
    ANTAGONISTS.into_iter().map(row).filter(measured).collect()
}

fn table(matrix: &Matrix, title: &str, loads: &[f64], rows: &[Row]) -> Table {
    let heads: Vec<String> = loads.iter().map(|load| format!("{:.0} %>", 100.0 * load)).collect();
    let mut columns = vec!["antagonist"];
    columns.extend(heads.iter().map(String::as_str));
    let mut table = Table::new(title, &columns);
    let shown = |(_, value): &(f64, Option<Estimate>)| match value {
        Some(e) => Cell::Text(format!("{:.0} ({:.0}–{:.0})", e.value, e.low, e.high)),
        None => Cell::Missing("not measured".to_owned()),
    };
    for (name, values) in rows {
        table.push(std::iter::once(Cell::from(*name)).chain(values.iter().map(shown)));
    }
    let sum = |of: fn(&MatrixCell) -> usize| matrix.cells.iter().map(of).sum::<usize>();
    let (again, disturbed) = (sum(|c| c.windows_again), sum(|c| c.windows_disturbed));
    let distant = sum(|c| c.windows_distant);
    if again + disturbed + distant > 0 {
        table.notes.push(format!(
            "the hypervisor took CPUs away, or ran them on cores that share no cache: {again} windows were \
             measured again; {disturbed} count although it took some, {distant} although they shared none"
        ));
    }
    table.notes.extend(matrix.absent.iter().map(|(name, why)| format!("{name}: {why}")));
    table
}

fn plot(title: &str, rows: &[Row]) -> Plot {
    let mut plot =
        Plot::new(title, "load (% of the peak)", "p95 (% of that alone)").h_line(100.0, "alone");
    for (name, values) in rows {
        let known = values.iter().filter_map(|(load, value)| Some((*load, (*value)?)));
        let points = known.map(|(load, e)| (100.0 * load, e.value));
        plot.series.push(Series::new(*name, Style::Line, points));
    }
    plot
}
