//! `quell predict`: how much slower two workloads are together, from their profiles.

mod report;

use super::kept::{self, Place};
use super::{files, measure};
use anyhow::Context as _;
use quell_profiler::predict::{
    CheckOptions, Form, Model, PREDICT_SCHEMA, Pair, PredictReport, Prediction, check, form,
    predict, programs, rounds_in_a_pass,
};
use quell_profiler::{Effort, Profile, ProfileOptions, SHARED_BY_CPUS, Watched, at_desk};
use quell_view::{Cell, Table};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Predicts how much slower workloads are together, from profiles measured apart.
///
/// A neighbour is told in two ways: as the mixture of kernels that costs witnesses (two chases and a
/// stream) what it costs them, beside which a workload loses that mixture of its own losses; and by the
/// one resource on which that costs the workload most. What is foretold is the mean of both.
///
/// Profiles come from quell profile --yardsticks, on one machine: files (--json FILE) or the names
/// that they are kept by (--store). With --check all pairs of a list of programs are profiled,
/// predicted and measured.
///
/// A host may run both CPUs on the threads of one core for a while, without telling: all measured
/// then seems to hurt. Or it runs them on cores that share no cache, though the machine is told that
/// they do, and hardly anything hurts. Short looks find that out; what was measured meanwhile is
/// measured again, and marked where it stays so.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell predict train search
  quell predict train.json search.json --json -
  quell predict --check programs.txt --rounds 20 --report DIR
  quell predict --from check.json --report DIR")]
pub(crate) struct Args {
    /// Profiles, two or more: files, or names in the store.
    #[arg(value_name = "PROFILE", required_unless_present_any = ["check", "from"])]
    profiles: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// Profiles, predicts and measures all pairs of the programs in this file: one a line, as
    /// `name: program arguments`, quoted as in a shell.
    #[arg(long, value_name = "LIST", conflicts_with = "profiles")]
    check: Option<PathBuf>,
    /// check: shows what was measured before and kept as JSON, in place of measuring.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profiles", "check", "rounds", "passes"])]
    from: Option<PathBuf>,
    /// check: how often all of it is measured, from profiles to pairs; what a host does for minutes
    /// then falls on both alike.
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "profiles")]
    passes: usize,
    /// check: windows beside each neighbour, in all passes together; what others on the host do falls
    /// out with many.
    // `requires` is not heeded beside profiles, since --check must not be there.
    #[arg(long, value_name = "N", default_value_t = 15, conflicts_with = "profiles")]
    rounds: usize,
    #[command(flatten)]
    measure: measure::Common,
    /// Writes the predictions as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// check: writes a report with plots.
    #[arg(long, value_name = "DIR", conflicts_with = "profiles")]
    report: Option<PathBuf>,
}

/// Predictions without a check.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Predictions {
    /// `quell.prediction/1`.
    schema: String,
    /// Each beside each other.
    pairs: Vec<Predicted>,
}

/// One beside another.
#[derive(Debug, Serialize, JsonSchema)]
struct Predicted {
    /// Who is slowed.
    a: String,
    /// Who runs beside it.
    b: String,
    /// The loss of A's speed, in percent.
    predicted: Prediction,
    /// By what: the mean of a mixture and the worst resource where profiles have witnesses, else the latter.
    form: Form,
}

/// The length of a check's windows.
const WINDOW: Duration = Duration::from_millis(40);
/// How long all passes together profile a program on one resource at most.
const PROFILING: Duration = Duration::from_secs(13);

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match (&args.from, &args.check) {
        (Some(file), _) => told(args, &measure::read_json(file, PREDICT_SCHEMA)?),
        (None, Some(list)) => checked(args, list),
        (None, None) => predicted(args),
    }
}

fn predicted(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(args.profiles.len() > 1, "name two profiles at least");
    let read = |given: &String| kept::named(&args.place, given);
    let profiles = args.profiles.iter().map(read).collect::<anyhow::Result<Vec<Profile>>>()?;
    for (name, profile) in args.profiles.iter().zip(&profiles) {
        let first = &profiles[0].machine;
        anyhow::ensure!(
            profile.machine.fingerprint == first.fingerprint,
            "{name} was measured on another machine than {}",
            args.profiles[0]
        );
        anyhow::ensure!(
            !profile.yardsticks.is_empty(),
            "{name} has no yardsticks: profile with --yardsticks"
        );
        if profile.host.as_ref().is_some_and(Watched::is_disturbed) {
            eprintln!(
                "quell: while {name} was profiled the host ran both CPUs on one core: what follows \
                 from it says too much for CPUs on two"
            );
        }
    }
    let mut pairs = Vec::new();
    for a in 0..profiles.len() {
        for b in (0..profiles.len()).filter(|b| *b != a) {
            // The form that did best where it was measured (docs/experiments/prediction.md).
            let form = form(&profiles[a], &profiles[b]);
            let predicted = predict(&profiles[a], &profiles[b], &Model::plain(form));
            let name = |i: usize| profiles[i].workload.name.clone();
            pairs.push(Predicted { a: name(a), b: name(b), predicted, form });
        }
    }
    let found = Predictions { schema: "quell.prediction/1".to_owned(), pairs };
    if !measure::to_stdout(args.json.as_deref()) {
        let line = |p: &Predicted| {
            let Prediction { value, low, high } = p.predicted;
            format!(
                "{} beside {}: loses {value:.1} % of its speed ({low:.1}–{high:.1})\n",
                p.a, p.b
            )
        };
        files::print_text(&found.pairs.iter().map(line).collect::<String>())?;
    }
    measure::write_json(args.json.as_deref(), &found)
}

fn checked(args: &Args, list: &PathBuf) -> anyhow::Result<()> {
    anyhow::ensure!((3..=50).contains(&args.rounds), "--rounds {}: give 3 to 50", args.rounds);
    anyhow::ensure!((1..=10).contains(&args.passes), "--passes {}: give 1 to 10", args.passes);
    let text =
        std::fs::read_to_string(list).with_context(|| format!("cannot read {}", list.display()))?;
    let list = programs(&text)?;
    let (stop, topology) = measure::begin()?;
    let seats = args.measure.seats()?;
    let cpus = seats.pressure.clone();
    let only = if args.measure.only.is_empty() {
        SHARED_BY_CPUS.to_vec()
    } else {
        args.measure.only.clone()
    };
    let profile = ProfileOptions {
        only,
        quick: false,
        threshold: 0.95,
        within: None,
        effort: Some(Effort {
            window: WINDOW,
            settle: Duration::from_millis(10),
            grid: &[50.0],
            pairs: rounds_in_a_pass(args.rounds, args.passes),
            listens: rounds_in_a_pass(args.rounds, args.passes),
            resolution: 100.0,
            budget: PROFILING / args.passes as u32,
        }),
        yardsticks: true,
        witnesses: true,
        seats,
        pressure: args.measure.pressure(),
    };
    let (passes, rounds) = (args.passes, args.rounds);
    let options = CheckOptions { profile, passes, rounds, window: WINDOW };
    let report = at_desk(&cpus, || {
        check(&list, &options, &topology, &stop, &mut |line| eprintln!("{line}"))
    })?;
    told(args, &report)
}

/// Writes what a check found where it is wanted.
fn told(args: &Args, found: &PredictReport) -> anyhow::Result<()> {
    let words = words(found);
    if let Some(folder) = &args.report {
        report::report(found, &words).write(folder)?;
    }
    if !measure::to_stdout(args.json.as_deref()) {
        files::print_text(&words)?;
    }
    measure::write_json(args.json.as_deref(), found)
}

fn words(report: &PredictReport) -> String {
    let head = ["program", "beside", "predicted %>", "measured %>", "95 %>", "off>"];
    let mut table = Table::new("Loss of speed", &head);
    let row = |pair: &Pair| {
        [
            Cell::from(pair.a.as_str()),
            Cell::from(pair.b.as_str()),
            Cell::number(pair.predicted, 1),
            Cell::number(pair.measured, 1),
            Cell::Text(format!("{:.1}–{:.1}", pair.measured_low, pair.measured_high)),
            Cell::Text(format!("{:.1}{}", pair.error(), if pair.disturbed { " *" } else { "" })),
        ]
    };
    report.pairs.iter().for_each(|pair| table.push(row(pair)));
    let host = host(report).map_or(String::new(), |words| format!("{words}\n"));
    let forms = report.forms.iter().map(|f| format!("{} {:.2}", f.form, f.mean_abs_error_points));
    format!(
        "{}{} pairs, {} with more than 10 %; mean error {:.2} points, by each program's mean {:.2}; \
         half-width of the measurements {:.2}; by form: {}; {:.0} s\n{host}",
        table.to_text(),
        report.pairs.len(),
        report.pairs_above_10_percent,
        report.mean_abs_error_points,
        report.mean_of_others_error_points,
        report.measurement_half_width_points,
        forms.collect::<Vec<_>>().join(", "),
        report.seconds
    )
}

/// What the host was seen to do, and what is left without it; none if it was seen to do nothing.
fn host(report: &PredictReport) -> Option<String> {
    let seen = report.host.as_ref()?;
    let again = report.pairs.iter().filter(|pair| pair.tries > 1).count();
    let disturbed = report.pairs.iter().filter(|pair| pair.disturbed).count();
    if seen.together + seen.distant == 0 && again == 0 && disturbed == 0 {
        return None;
    }
    let error = |error: Option<f64>| error.map_or("none".to_owned(), |e| format!("{e:.2}"));
    let left = report.undisturbed.map_or((0, None), |u| (u.pairs, Some(u.mean_abs_error_points)));
    Some(format!(
        "host: both CPUs on one core in {} of {} looks, on cores that share no cache in {} ({} could not \
         tell); {again} pairs were measured again, {disturbed} stayed disturbed (*); mean error by first tries {}, over the {} undisturbed \
         pairs {}",
        seen.together,
        seen.looks,
        seen.distant,
        seen.unknown,
        error(report.mean_abs_error_points_first_tries),
        left.0,
        error(left.1)
    ))
}
