//! `quell simulate lc-be`: rows for machines to read.

use super::{How, files, with_bar};
use anyhow::bail;
use clap::ValueEnum;
use quell_policy::Law;
use quell_simulate::{Batch, LcBeOptions, lc_be};
use quell_view::{Cell, Table};

/// Steps of a range of loads.
const STEP: f64 = 0.1;

/// Plays a service beside one kind of batch at each load and prints steady figures.
///
/// The set-up is that of the thesis: as many streaming threads as cores (or one iperf), one link
/// of 1 Gbit/s, 120 s to settle and 60 s that are measured.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell simulate lc-be --service xapian --machine e5-2683v4 --cores 8 --batch stream-llc \\
      --load 0.1..1.0 --policy thesis --json rows.json
  quell simulate lc-be --service silo --machine i9-7960x --batch none --load 0.5")]
pub(crate) struct Args {
    /// The service: xapian, silo, search, …
    #[arg(long, value_name = "NAME")]
    service: String,
    /// The machine: e5-2683v4, i9-7960x, haswell2, …
    #[arg(long, value_name = "NAME")]
    machine: String,
    /// Cores that are used [default: all].
    #[arg(long, value_name = "N")]
    cores: Option<u32>,
    /// What runs beside the service.
    #[arg(long, value_enum, default_value = "none")]
    batch: Beside,
    /// Share of the peak rate, or a range in steps of 0.1.
    #[arg(long, value_name = "FROM..TO", default_value = "0.1..1.0", value_parser = loads)]
    load: Loads,
    #[command(flatten)]
    how: How,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Beside {
    None,
    StreamLlc,
    StreamDram,
    Iperf,
}

/// Shares of the peak rate.
#[derive(Clone, Debug)]
struct Loads(Vec<f64>);

fn loads(text: &str) -> Result<Loads, String> {
    let share = |text: &str| {
        let value = text.trim().parse::<f64>().ok().filter(|v| *v > 0.0 && *v <= 2.0);
        value.ok_or_else(|| format!("`{text}` is no share of the peak such as 0.5"))
    };
    let Some((from, to)) = text.split_once("..") else { return Ok(Loads(vec![share(text)?])) };
    let (from, to) = (share(from)?, share(to)?);
    if from > to {
        return Err(format!("the range falls from {from} to {to}"));
    }
    let steps = ((to - from) / STEP + 1e-9) as u32;
    let at = |n: u32| ((from + f64::from(n) * STEP) * 1e6).round() / 1e6;
    Ok(Loads((0..=steps).map(at).collect()))
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.cores == Some(0) {
        bail!("--cores must be at least 1");
    }
    let asked = LcBeOptions {
        service: args.service.clone(),
        machine: args.machine.clone(),
        cores: args.cores,
        batch: match args.batch {
            Beside::None => Batch::None,
            Beside::StreamLlc => Batch::StreamLlc,
            Beside::StreamDram => Batch::StreamDram,
            Beside::Iperf => Batch::Iperf,
        },
        loads: args.load.0.clone(),
        law: args.how.policy.unwrap_or(Law::None),
        options: args.how.options(false),
    };
    let rows = with_bar("lc-be", |progress| lc_be(&asked, progress))?;
    if !args.how.silent() {
        let heads = ["load>", "p95 ms>", "CPU utilisation>", "memory MB/s>", "egress Mbit/s>"];
        let mut table = Table::new("", &heads);
        for row in &rows.rows {
            table.push([
                Cell::number(row.load_frac, 2),
                row.p95_ms.map_or(Cell::Missing("no request".into()), |ms| Cell::number(ms, 3)),
                Cell::number(row.cpu_utilisation_frac, 3),
                Cell::number(row.memory_mb_per_s, 0),
                Cell::number(row.egress_mbit_per_s, 1),
            ]);
        }
        files::print_text(&table.to_text())?;
    }
    args.how.write(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_go_in_steps_of_a_tenth() {
        let all = loads("0.1..1.0").map(|l| l.0).unwrap_or_default();
        assert_eq!(all, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]);
        assert_eq!(loads("0.5").map(|l| l.0), Ok(vec![0.5]));
        for bad in ["", "0", "3", "0.5..0.1", "a..b", "0.1.."] {
            assert!(loads(bad).is_err(), "{bad}");
        }
    }
}
