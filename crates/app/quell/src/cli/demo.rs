//! `quell demo`: the main job on an embedded default.

use super::embedded::Embedded;
use quell_bench::{Contender, DemoReport, GuardOptions, Interrupt, Mix, Size};
use std::path::PathBuf;

/// Shows the main job in about three minutes, with tables and plots.
///
/// A search engine runs on all CPUs. Its peak rate and its SLO are found; then for each load it
/// runs alone and beside cache, bandwidth and CPU polluters under `none`, `os-only`, `static` (the
/// best of a printed sweep) and `quell`. A flash crowd and a slow network link follow. Tails are
/// those of the load generator, from the scheduled arrival. Needs root; all groups, namespaces and
/// processes that it makes are removed, also at Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell demo --report DIR
  quell demo --seconds 60 --no-network --json demo.json")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// How long in all.
    #[arg(long, value_name = "N", default_value_t = 180.0)]
    seconds: f64,
    /// What is compared: alone, none, os-only, static, thesis, heracles, quell.
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values_t = Contender::DEMO)]
    laws: Vec<Contender>,
    /// Loads as shares of the peak.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [0.3, 0.6, 0.9])]
    loads: Vec<f64>,
}

/// Options of demo and bench.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// The service.
    #[arg(long, value_enum, default_value = "search")]
    service: Embedded,
    /// Its peak rate, in requests per second, where it is known: it is not searched then.
    #[arg(long, value_name = "QPS")]
    peak: Option<f64>,
    /// The judged percentile of the sojourn: 50, 95 or 99.
    #[arg(long, value_name = "P", default_value_t = 95.0)]
    percentile: f64,
    /// Writes the figures, anew after each cell.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a page with tables and plots, and each plot as SVG.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Leaves the part on the network out.
    #[arg(long)]
    no_network: bool,
    /// Leaves the flash crowd out.
    #[arg(long)]
    no_crowd: bool,
    /// A TOML file whose `[law.NAME]` tables are the laws' parameters.
    #[arg(long, value_name = "FILE")]
    law_parameters: Option<PathBuf>,
    /// Run by `sh -c` before each cell, as to wait until the machine is quiet. If it fails, so
    /// does the comparison.
    #[arg(long, value_name = "COMMAND")]
    before_cell: Option<String>,
    /// Seed of arrivals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Common {
    /// All options of a comparison.
    pub(crate) fn options(
        &self,
        (loads, laws, polluters): (&[f64], &[Contender], &[Mix]),
        size: Size,
    ) -> anyhow::Result<GuardOptions> {
        use anyhow::Context as _;
        let law_parameters = match &self.law_parameters {
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?,
            None => String::new(),
        };
        Ok(GuardOptions {
            service: self.service.spec(),
            peak_qps: self.peak,
            loads: loads.to_vec(),
            laws: laws.to_vec(),
            polluters: polluters.to_vec(),
            percentile: self.percentile,
            size,
            network: !self.no_network,
            crowd: !self.no_crowd && laws.contains(&Contender::Quell),
            seed: self.seed,
            law_parameters,
            json: self.json.clone(),
            report: self.report.clone(),
            before_cell: self.before_cell.clone(),
            program: std::env::current_exe().context("cannot find this program")?,
        })
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let size = Size::Total { seconds: args.seconds, rounds: 1 };
    let options = args.common.options((&args.loads, &args.laws, &[Mix::Mix]), size)?;
    compare(&options)
}

/// Runs a comparison and prints its tables.
pub(crate) fn compare(options: &GuardOptions) -> anyhow::Result<()> {
    let interrupt = Interrupt::default();
    interrupt.on_signals()?;
    let report = quell_bench::guard(options, &interrupt)?;
    print(&report);
    if let Some(folder) = &options.report {
        println!("report: {}", folder.join("report.html").display());
    }
    anyhow::ensure!(report.complete, "interrupted; the cells measured until then are above");
    anyhow::ensure!(report.knobs_restored, "some knobs were not put back; they are named above");
    Ok(())
}

fn print(report: &DemoReport) {
    println!("{}", quell_bench::table(report).to_text());
    if let Some(table) = quell_bench::network_table(&report.network) {
        println!("{}", table.to_text());
    }
}
