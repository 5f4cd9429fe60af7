//! All pairs of a list of programs: profiled, predicted, measured.
//!
//! A pair is predicted by a model that saw no pair with either of its programs; the form of the
//! model, too, is chosen without them.

use super::model::{Bound, Losses, losses};
use super::{Form, FormError, Model, PREDICT_SCHEMA, Pair, PredictReport, Prediction};
use crate::desk::{pause, percent, ready};
use crate::profile::{ProfileOptions, profile};
use crate::stats::{Estimate, estimate};
use crate::{Machine, Profile, ProfileError, Repeated, Subject, looped};
use quell_pressure::{Resource, Running, Stop};
use quell_types::Topology;
use std::time::{Duration, Instant};

/// A program of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in the report.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
}

/// A check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// How programs are profiled.
    pub profile: ProfileOptions,
    /// Windows beside each neighbour.
    pub rounds: usize,
    /// The length of a window.
    pub window: Duration,
}

/// The longest run of a program.
const LONGEST_RUN: Duration = Duration::from_secs(20);
/// After a neighbour was woken or stopped.
const SETTLE: Duration = Duration::from_millis(10);

/// The programs of a list: one a line, `name: program arguments…`, with `#` before remarks. Words
/// are parted by spaces; who needs more writes `sh -c` in a script of its own.
///
/// # Errors
/// A line without a name or a program; a name that was there before; fewer than two programs.
pub fn programs(list: &str) -> Result<Vec<Program>, ProfileError> {
    let bad = |value: &str, allowed| ProfileError::Option {
        option: "the list of programs",
        value: value.chars().take(60).collect(),
        allowed,
    };
    let mut found: Vec<Program> = Vec::new();
    for line in list.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (name, rest) =
            line.split_once(": ").ok_or_else(|| bad(line, "give name: program arguments"))?;
        let command: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
        if command.is_empty() || found.iter().any(|p| p.name == name) {
            return Err(bad(line, "give each name once, and a program after it"));
        }
        found.push(Program { name: name.to_owned(), command });
    }
    if found.len() < 2 {
        return Err(bad("too short", "name two programs at least"));
    }
    Ok(found)
}

/// What was measured of a pair.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Together {
    pub(super) a: usize,
    pub(super) b: usize,
    /// Loss of speed as a share.
    pub(super) lost: Estimate,
}

/// Profiles all programs, measures all ordered pairs, and compares. Called at the desk.
///
/// # Errors
/// A program fails; somebody asked to stop.
pub fn check(
    programs: &[Program],
    options: &CheckOptions,
    topology: &Topology,
    stop: &Stop,
    tell: &mut dyn FnMut(&str),
) -> Result<PredictReport, ProfileError> {
    let begun = Instant::now();
    let profiles = profiles(programs, options, topology, stop, tell)?;
    let mut awake = options.profile.pressure.clone();
    (awake.resource, awake.seconds) = (Resource::Integer, 3600.0);
    awake.cpus = options.profile.seats.pressure.clone();
    let awake = ready(&awake, topology, stop)?;
    let mut measured = Vec::new();
    for a in 0..programs.len() {
        for b in (0..programs.len()).filter(|b| *b != a) {
            let lost = pair(&programs[a], &programs[b], options, &awake, stop)?;
            let (x, y, loss) = (&programs[a].name, &programs[b].name, 100.0 * lost.value);
            tell(&format!("{x} beside {y}: loses {loss:.1} %"));
            measured.push(Together { a, b, lost });
        }
    }
    let names: Vec<&str> = programs.iter().map(|p| p.name.as_str()).collect();
    let mut report = compare(&names, &profiles, &measured, Machine::of(topology));
    report.seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

/// All profiles, with the yardsticks of the first: they are the machine's, not the program's.
fn profiles(
    programs: &[Program],
    options: &CheckOptions,
    topology: &Topology,
    stop: &Stop,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<Profile>, ProfileError> {
    let mut found: Vec<Profile> = Vec::new();
    for program in programs {
        let mut how = options.profile.clone();
        how.yardsticks = found.is_empty();
        let cpus = how.seats.workload.clone();
        let mut subject = Repeated::new(&program.command, &cpus, stop, LONGEST_RUN);
        let begun = Instant::now();
        let mut one = profile(&mut subject, &how, topology, stop, begun, &mut |_, _| ())?;
        if let Some(first) = found.first() {
            one.yardsticks.clone_from(&first.yardsticks);
        }
        tell(&format!("profiled {} in {:.1} s", program.name, one.seconds));
        found.push(one);
    }
    Ok(found)
}

/// Windows of A, alone and beside B in turn. While B rests its CPU is kept awake.
fn pair(
    a: &Program,
    b: &Program,
    options: &CheckOptions,
    awake: &Running,
    stop: &Stop,
) -> Result<Estimate, ProfileError> {
    let seats = &options.profile.seats;
    let mut subject = Repeated::new(&a.command, &seats.workload, stop, LONGEST_RUN);
    let neighbour = looped(&b.command, &seats.pressure)?;
    let gone = |e| ProfileError::subject(&b.name, e);
    let mut quiet = || {
        neighbour.pause().map_err(gone)?;
        awake.turn_to(percent(0.0));
        pause(SETTLE, stop)?;
        Ok::<f64, ProfileError>(subject.speed(options.window)?.by_wall)
    };
    let (mut before, mut losses) = (quiet()?, Vec::new());
    let mut other = Repeated::new(&a.command, &seats.workload, stop, LONGEST_RUN);
    for _ in 0..options.rounds.max(3) {
        awake.mute();
        neighbour.resume().map_err(gone)?;
        pause(SETTLE, stop)?;
        let beside = other.speed(options.window)?.by_wall;
        if neighbour.wait(Duration::ZERO).map_err(gone)?.is_some() {
            return Err(ProfileError::Stalled(b.name.clone()));
        }
        let after = quiet()?;
        losses.push(1.0 - beside / f64::midpoint(before, after));
        before = after;
    }
    awake.mute();
    estimate(&losses).ok_or_else(|| ProfileError::Stalled(a.name.clone()))
}

/// Predicts each pair without its programs, and compares.
pub(super) fn compare(
    names: &[&str],
    profiles: &[Profile],
    measured: &[Together],
    machine: Machine,
) -> PredictReport {
    let x = |t: &Together, bound| losses(&profiles[t.a], &profiles[t.b], bound);
    let known: Vec<(usize, usize, Losses, f64)> =
        measured.iter().map(|t| (t.a, t.b, x(t, Bound::Middle), t.lost.value)).collect();
    let one = |t: &Together| {
        let others = others(&known, t);
        let form = best_form(&others);
        let model = model(form, &others);
        let at = |bound| 100.0 * model.loss(&x(t, bound));
        let value = at(Bound::Middle);
        let said =
            Prediction { value, low: at(Bound::Low).min(value), high: at(Bound::High).max(value) };
        let lost = t.lost.map(|share| 100.0 * share);
        Pair {
            a: names[t.a].to_owned(),
            b: names[t.b].to_owned(),
            predicted: said.value,
            predicted_low: said.low,
            predicted_high: said.high,
            measured: lost.value,
            measured_low: lost.low,
            measured_high: lost.high,
            form,
            mean_of_others: mean_of_others(measured, t),
        }
    };
    let pairs: Vec<Pair> = measured.iter().map(one).collect();
    let forms =
        Form::ALL.map(|form| FormError { form, mean_abs_error_points: error_of(form, &known) });
    PredictReport {
        schema: PREDICT_SCHEMA.to_owned(),
        machine,
        mean_abs_error_points: mean(pairs.iter().map(|p| (p.predicted - p.measured).abs())),
        mean_of_others_error_points: mean(
            pairs.iter().map(|p| (p.mean_of_others - p.measured).abs()),
        ),
        measurement_half_width_points: mean(
            pairs.iter().map(|p| (p.measured_high - p.measured_low) / 2.0),
        ),
        pairs_above_10_percent: pairs.iter().filter(|p| p.measured > 10.0).count(),
        forms: forms.to_vec(),
        pairs,
        seconds: 0.0,
    }
}

type Known = (usize, usize, Losses, f64);

/// The pairs without either of these programs.
fn others(known: &[Known], t: &Together) -> Vec<Known> {
    let apart = |k: &&Known| ![k.0, k.1].contains(&t.a) && ![k.0, k.1].contains(&t.b);
    known.iter().filter(apart).cloned().collect()
}

fn model(form: Form, known: &[Known]) -> Model {
    let pairs: Vec<(Losses, f64)> = known.iter().map(|k| (k.2.clone(), k.3)).collect();
    if form == Form::Weighted { Model::fitted(&pairs) } else { Model::plain(form) }
}

/// The form with the least error on these pairs, each left out with its programs.
fn best_form(known: &[Known]) -> Form {
    let errors = Form::ALL.map(|form| (form, error_of(form, known)));
    let best = errors.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(Form::Max, |(form, _)| form)
}

/// The mean absolute error of a form in points.
fn error_of(form: Form, known: &[Known]) -> f64 {
    let one = |k: &Known| {
        let t = Together { a: k.0, b: k.1, lost: Estimate::exact(k.3) };
        let fitted = if form == Form::Weighted { others(known, &t) } else { Vec::new() };
        100.0 * (model(form, &fitted).loss(&k.2) - k.3).abs()
    };
    mean(known.iter().map(one))
}

fn mean_of_others(measured: &[Together], t: &Together) -> f64 {
    mean(measured.iter().filter(|o| o.a == t.a && o.b != t.b).map(|o| 100.0 * o.lost.value))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}
