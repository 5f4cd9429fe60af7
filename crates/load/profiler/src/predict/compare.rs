//! Predictions beside measurements. Pure.
//!
//! Where profiles have witnesses a pair is predicted by the mean of a mixture and the worst resource, which learns
//! nothing from pairs; else by the form that does best on others.
//!
//! What is learnt (forms, weights, means) is learnt from pairs that the host did not disturb, as far as
//! there are any; predicted and judged are all.

use super::mixture::{Part, mixed, parts};
use super::model::{Bound, Losses, losses, scores};
use super::{Form, FormError, Model, PREDICT_SCHEMA, Pair, PredictReport, Prediction, Undisturbed};
use crate::stats::Estimate;
use crate::{Machine, Profile, Watched};
use quell_pressure::Resource;
use std::collections::BTreeMap;

/// What was measured of a pair.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Together {
    pub(super) a: usize,
    pub(super) b: usize,
    /// Loss of speed as a share.
    pub(super) lost: Estimate,
    /// Whether the host ran both CPUs on one core meanwhile.
    pub(super) disturbed: bool,
    /// How often it was measured until then.
    pub(super) tries: u32,
    /// Steal meanwhile, in percent of the CPUs' time.
    pub(super) steal_percent: Option<f64>,
}

/// Predicts each pair without its programs, and compares. Profiles are those of each pass.
pub(super) fn compare(
    names: &[&str],
    profiles: &[&[Profile]],
    measured: &[Together],
    machine: Machine,
) -> PredictReport {
    let x = |t: &Together, bound| views(profiles, (t.a, t.b), bound);
    let clean = |t: &&Together| !t.disturbed || measured.iter().all(|t| t.disturbed);
    let learnt: Vec<Together> = measured.iter().filter(clean).cloned().collect();
    let known: Vec<Known> =
        learnt.iter().map(|t| (t.a, t.b, x(t, Bound::Middle), t.lost.value)).collect();
    let one = |t: &Together| {
        let (others, seen) = (others(&known, t.a, t.b), x(t, Bound::Middle));
        let form = if seen.mixed.is_some() { Form::Mean } else { best_form(&others) };
        let model = model(form, &others);
        let at = |bound| 100.0 * x(t, bound).loss(&model);
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
            by_mixture: seen.mixed.map(|share| 100.0 * share),
            mixture: mean_parts(profiles, (t.a, t.b)),
            by_resource: in_percent(seen.losses),
            scores: mean_by_resource(profiles.iter().map(|pass| scores(&pass[t.b]))),
            mean_of_others: mean_of_others(&learnt, t),
            disturbed: t.disturbed,
            tries: t.tries,
            steal_percent: t.steal_percent,
        }
    };
    let pairs: Vec<Pair> = measured.iter().map(one).collect();
    let mixes = known.iter().any(|k| k.2.mixed.is_some());
    let forms = Form::ALL.into_iter().filter(|form| mixes || !form.mixes());
    let forms = forms.map(|form| FormError { form, mean_abs_error_points: error_of(form, &known) });
    PredictReport {
        schema: PREDICT_SCHEMA.to_owned(),
        machine,
        mean_abs_error_points: mean(pairs.iter().map(Pair::error)),
        undisturbed: undisturbed(&pairs, names, profiles),
        mean_abs_error_points_first_tries: None,
        host: None,
        mean_of_others_error_points: mean(
            pairs.iter().map(|p| (p.mean_of_others - p.measured).abs()),
        ),
        measurement_half_width_points: mean(
            pairs.iter().map(|p| (p.measured_high - p.measured_low) / 2.0),
        ),
        pairs_above_10_percent: pairs.iter().filter(|p| p.measured > 10.0).count(),
        forms: forms.collect(),
        passes: profiles.len(),
        pairs,
        profiles: profiles.iter().map(|pass| pass.to_vec()).collect(),
        seconds: 0.0,
    }
}

/// What profiles say of a pair.
#[derive(Clone, Debug)]
struct Views {
    /// What A loses by each resource.
    losses: Losses,
    /// What it loses beside B as a mixture of kernels.
    mixed: Option<f64>,
}

impl Views {
    fn loss(&self, model: &Model) -> f64 {
        model.loss_of(&self.losses, self.mixed)
    }
}

/// Means over the passes that tell.
fn views(passes: &[&[Profile]], (a, b): (usize, usize), bound: Bound) -> Views {
    let each: Vec<f64> =
        passes.iter().filter_map(|pass| mixed(&pass[a], &pass[b], bound)).collect();
    let mixed = (!each.is_empty()).then(|| mean(each.iter().copied()));
    Views { losses: mean_losses(passes, (a, b), bound), mixed }
}

/// What B is like: the mean over the passes, which have the same kernels.
fn mean_parts(passes: &[&[Profile]], (a, b): (usize, usize)) -> Vec<Part> {
    let each: Vec<Vec<Part>> =
        passes.iter().filter_map(|pass| parts(&pass[a], &pass[b], Bound::Middle)).collect();
    let like = |part: &Part| {
        let same = |other: &&Part| {
            other.resource == part.resource && other.intensity_percent == part.intensity_percent
        };
        let shares = each.iter().filter_map(|pass| pass.iter().find(same).map(|p| p.share));
        Part { share: mean(shares), ..*part }
    };
    each.first().map(|pass| pass.iter().map(like).collect()).unwrap_or_default()
}

/// What A loses beside B by each resource: the mean over the passes that tell of it.
fn mean_losses(passes: &[&[Profile]], (a, b): (usize, usize), bound: Bound) -> Losses {
    mean_by_resource(passes.iter().map(|pass| losses(&pass[a], &pass[b], bound)))
}

fn mean_by_resource(
    passes: impl Iterator<Item = BTreeMap<Resource, f64>>,
) -> BTreeMap<Resource, f64> {
    let mut sums: BTreeMap<Resource, (f64, f64)> = BTreeMap::new();
    for (resource, value) in passes.flatten() {
        let (sum, count) = sums.entry(resource).or_default();
        (*sum, *count) = (*sum + value, *count + 1.0);
    }
    sums.into_iter().map(|(resource, (sum, count))| (resource, sum / count)).collect()
}

fn in_percent(shares: Losses) -> BTreeMap<Resource, f64> {
    shares.into_iter().map(|(resource, share)| (resource, 100.0 * share)).collect()
}

/// The pairs in which neither the measurement nor a profile was disturbed.
fn undisturbed(pairs: &[Pair], names: &[&str], passes: &[&[Profile]]) -> Option<Undisturbed> {
    let is_disturbed = |profile: &Profile| profile.host.as_ref().is_some_and(Watched::is_disturbed);
    let place = |name: &String| names.iter().position(|n| n == name);
    let clean = |pair: &&Pair| {
        let places = [place(&pair.a), place(&pair.b)].into_iter().flatten();
        let mut profiles = places.flat_map(|place| passes.iter().map(move |pass| &pass[place]));
        !pair.disturbed && !profiles.any(is_disturbed)
    };
    let clean: Vec<&Pair> = pairs.iter().filter(clean).collect();
    (!clean.is_empty()).then(|| Undisturbed {
        pairs: clean.len(),
        mean_abs_error_points: mean(clean.iter().map(|pair| pair.error())),
        pairs_above_10_percent: clean.iter().filter(|pair| pair.measured > 10.0).count(),
    })
}

type Known = (usize, usize, Views, f64);

/// The pairs without either of these programs.
fn others(known: &[Known], a: usize, b: usize) -> Vec<Known> {
    let apart = |k: &&Known| ![k.0, k.1].contains(&a) && ![k.0, k.1].contains(&b);
    known.iter().filter(apart).cloned().collect()
}

fn model(form: Form, known: &[Known]) -> Model {
    let pairs: Vec<(Losses, f64)> = known.iter().map(|k| (k.2.losses.clone(), k.3)).collect();
    if form == Form::Weighted { Model::fitted(&pairs) } else { Model::plain(form) }
}

/// The form with the least error on these pairs, each left out with its programs.
fn best_form(known: &[Known]) -> Form {
    let errors = Form::BY_RESOURCE.map(|form| (form, error_of(form, known)));
    let best = errors.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(Form::Max, |(form, _)| form)
}

/// The mean absolute error of a form in points.
fn error_of(form: Form, known: &[Known]) -> f64 {
    let one = |k: &Known| {
        let fitted = if form == Form::Weighted { others(known, k.0, k.1) } else { Vec::new() };
        100.0 * (k.2.loss(&model(form, &fitted)) - k.3).abs()
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
