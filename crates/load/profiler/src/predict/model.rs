//! Bubble-Up with several bubbles.
//!
//! **Problem.** What does A lose beside B, from measurements of A and of B alone, so that n programs
//! take n profiles and not n² runs?
//!
//! **Idea.** For each shared resource: a kernel of known intensity (the bubble) gives A's
//! *sensitivity curve*; the same kernel as a reporter beside B loses some of its work. Beside itself
//! at intensity s it loses as much: s is B's *score*. A beside B fares as A beside the bubble at s.
//!
//! ```text
//! score_B(k)  = the intensity at which the reporter's own curve has lost what B causes
//! x_k(A, B)   = 1 - curve_A,k(score_B(k))                  a share of speed, 0..1
//! loss(A, B)  = F(x)   with F one of
//!     max      the worst resource alone counts (the others hide behind it)
//!     sum      each counts in full
//!     product  1 - Π(1 - x_k): each takes its share of what the others left
//!     weighted Σ w_k x_k, w_k >= 0: one bubble presses on several resources at once, so the x_k
//!              overlap; the weights are fitted to pairs measured together, and each is 1 as far as
//!              these tell nothing
//! ```
//!
//! The form is chosen on pairs that are not predicted. Where profiles have witnesses B is told as a *mixture* of
//! kernels too (`mixture.rs`), and what is foretold is the mean of that and the worst resource: one goes by what
//! witnesses lose beside B and the other by what reporters do, in windows of their own, so that each errs in its own
//! way, and a host that changes while one is measured spoils half of it. **Units.** Shares of speed, 0..1.
//! **Degradation.** A resource without both a curve and a score counts nothing; where the reporter
//! loses next to nothing beside itself, what B causes is below what can be told, and the score is 0.

use crate::Profile;
use crate::curve::Curve;
use crate::stats::Estimate;
use quell_pressure::Resource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Predicted loss of speed by resource, as shares.
pub type Losses = BTreeMap<Resource, f64>;

/// How losses on several resources become one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The worst.
    Max,
    /// All together.
    Sum,
    /// Shares of shares.
    Product,
    /// Weights fitted to measured pairs.
    Weighted,
    /// B as a mixture of kernels (`mixture.rs`), which is no form of these losses.
    Mixture,
    /// The mean of that and the worst.
    Mean,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 6] =
        [Form::Max, Form::Sum, Form::Product, Form::Weighted, Form::Mixture, Form::Mean];
    /// Those of losses by resource.
    pub const BY_RESOURCE: [Form; 4] = [Form::Max, Form::Sum, Form::Product, Form::Weighted];

    /// Whether it wants witnesses.
    #[must_use]
    pub fn mixes(self) -> bool {
        matches!(self, Form::Mixture | Form::Mean)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Max => "max",
            Form::Sum => "sum",
            Form::Product => "product",
            Form::Weighted => "weighted",
            Form::Mixture => "mixture",
            Form::Mean => "mean",
        })
    }
}

/// A form with its weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// The form.
    pub form: Form,
    /// The weights of [`Form::Weighted`].
    pub weights: BTreeMap<Resource, f64>,
}

/// Which end of the intervals is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The least harm.
    Low,
    /// The values.
    Middle,
    /// The most harm.
    High,
}

impl Bound {
    /// Of a harm.
    fn of(self, harm: &Estimate) -> f64 {
        match self {
            Bound::Low => harm.low,
            Bound::Middle => harm.value,
            Bound::High => harm.high,
        }
    }

    /// Of a speed, which is low where harm is high.
    pub(super) fn of_speed(self, speed: &Estimate) -> f64 {
        match self {
            Bound::Low => speed.high,
            Bound::Middle => speed.value,
            Bound::High => speed.low,
        }
    }
}

/// Below this the reporter's own curve tells nothing.
const FLAT: f64 = 0.02;

/// The intensity of the bubble that does to the reporter what a workload does, 0..100.
#[must_use]
pub fn score(yardstick: &Curve, caused_percent: f64) -> f64 {
    let kept = 1.0 - caused_percent.clamp(0.0, 100.0) / 100.0;
    if 1.0 - yardstick.at(100.0) < FLAT { 0.0 } else { yardstick.reaches(kept) }
}

/// What A loses beside B by each resource.
#[must_use]
pub fn losses(a: &Profile, b: &Profile, bound: Bound) -> Losses {
    let one = |(resource, caused): (&Resource, &Estimate)| {
        let yardstick = Curve::through(&points(b, *resource, true, Bound::Middle)?);
        let curve = Curve::through(&points(a, *resource, false, bound)?);
        Some((*resource, 1.0 - curve.at(score(&yardstick, bound.of(caused)))))
    };
    b.caused.iter().filter_map(one).collect()
}

/// How much B presses on each resource: the score of the bubble that stands for it, in percent.
#[must_use]
pub fn scores(b: &Profile) -> BTreeMap<Resource, f64> {
    let one = |(resource, caused): (&Resource, &Estimate)| {
        let yardstick = Curve::through(&points(b, *resource, true, Bound::Middle)?);
        Some((*resource, score(&yardstick, caused.value)))
    };
    b.caused.iter().filter_map(one).collect()
}

fn points(
    profile: &Profile,
    resource: Resource,
    yardstick: bool,
    bound: Bound,
) -> Option<Vec<(f64, f64)>> {
    let curves = if yardstick { &profile.yardsticks } else { &profile.curves };
    let pair = |p: &crate::CurvePoint| (p.intensity_percent, bound.of_speed(&p.speed_frac));
    Some(curves.get(&resource)?.iter().map(pair).collect())
}

/// Passes of the fit: it converges long before.
const PASSES: usize = 300;
/// As long as pairs hardly speak of it, a resource counts in full: as if so much of squared loss said that
/// (five pairs that lose 10 % by it).
const RIDGE: f64 = 0.05;
const FULL: f64 = 1.0;

impl Model {
    /// Without weights to fit.
    #[must_use]
    pub fn plain(form: Form) -> Model {
        Model { form, weights: BTreeMap::new() }
    }

    /// Fits weights to measured pairs by least squares, none below 0 (coordinate descent).
    #[must_use]
    pub fn fitted(pairs: &[(Losses, f64)]) -> Model {
        let resources: std::collections::BTreeSet<Resource> =
            pairs.iter().flat_map(|(losses, _)| losses.keys().copied()).collect();
        let mut weights: BTreeMap<Resource, f64> = resources.iter().map(|r| (*r, FULL)).collect();
        for _ in 0..PASSES {
            for resource in &resources {
                let best = best_weight(pairs, &weights, *resource);
                weights.insert(*resource, best);
            }
        }
        Model { form: Form::Weighted, weights }
    }

    /// The loss of speed as a share, 0..1, by each resource and, if it is known, as a mixture.
    #[must_use]
    pub fn loss_of(&self, losses: &Losses, mixed: Option<f64>) -> f64 {
        match (self.form, mixed) {
            (Form::Mixture, Some(mixed)) => mixed,
            (Form::Mean, Some(mixed)) => f64::midpoint(mixed, self.loss(losses)),
            _ => self.loss(losses),
        }
    }

    /// The loss of speed as a share, 0..1, by each resource; where a mixture is wanted, which these losses do not
    /// tell, the worst one.
    #[must_use]
    pub fn loss(&self, losses: &Losses) -> f64 {
        let all = || losses.values().copied();
        let loss = match self.form {
            Form::Max | Form::Mixture | Form::Mean => all().fold(0.0, f64::max),
            Form::Sum => all().sum(),
            Form::Product => 1.0 - all().map(|loss| 1.0 - loss).product::<f64>(),
            Form::Weighted => weighted(losses, &self.weights),
        };
        loss.clamp(0.0, 1.0)
    }
}

fn weighted(losses: &Losses, weights: &BTreeMap<Resource, f64>) -> f64 {
    losses.iter().map(|(resource, loss)| weights.get(resource).unwrap_or(&FULL) * loss).sum()
}

/// The weight of one resource that fits best with the others as they are.
fn best_weight(
    pairs: &[(Losses, f64)],
    weights: &BTreeMap<Resource, f64>,
    resource: Resource,
) -> f64 {
    let own = weights.get(&resource).copied().unwrap_or(FULL);
    let (mut up, mut down) = (RIDGE * FULL, RIDGE);
    for (losses, measured) in pairs {
        let x = losses.get(&resource).copied().unwrap_or(0.0);
        up += x * (measured - weighted(losses, weights) + own * x);
        down += x * x;
    }
    (up / down).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Resource = Resource::LlcCapacity;
    const B: Resource = Resource::MemoryBandwidth;

    fn both(a: f64, b: f64) -> Losses {
        [(A, a), (B, b)].into_iter().collect()
    }

    #[test]
    fn forms_of_two_losses() {
        let losses = both(0.2, 0.5);
        for (form, loss) in [(Form::Max, 0.5), (Form::Sum, 0.7), (Form::Product, 0.6)] {
            assert!((Model::plain(form).loss(&losses) - loss).abs() < 1e-12, "{form}");
        }
        let unfitted = Model::plain(Form::Weighted).loss(&losses);
        assert!((unfitted - 0.7).abs() < 1e-12, "each counts in full: {unfitted}");
    }

    #[test]
    fn with_a_mixture_the_mean_of_it_and_the_worst_is_told_and_without_the_worst() {
        let losses = both(0.2, 0.5);
        for (form, mixed, loss) in [
            (Form::Mean, Some(0.3), 0.4),
            (Form::Mean, None, 0.5),
            (Form::Mixture, Some(0.3), 0.3),
            (Form::Mixture, None, 0.5),
            (Form::Sum, Some(0.3), 0.7),
        ] {
            let told = Model::plain(form).loss_of(&losses, mixed);
            assert!((told - loss).abs() < 1e-12, "{form} {mixed:?}: {told}");
        }
    }

    #[test]
    fn weights_are_found_and_never_negative() {
        let truth = |a: f64, b: f64| 0.8 * a + 0.3 * b;
        let pairs: Vec<(Losses, f64)> = (0..400)
            .map(|i| (f64::from(i % 7) / 10.0, f64::from(i % 5) / 10.0))
            .map(|(a, b)| (both(a, b), truth(a, b)))
            .collect();
        let model = Model::fitted(&pairs);
        assert!((model.weights[&A] - 0.8).abs() < 0.01 && (model.weights[&B] - 0.3).abs() < 0.01);
        let against: Vec<_> = pairs.iter().map(|(x, _)| (x.clone(), 0.5 - x[&A])).collect();
        assert_eq!(Model::fitted(&against).weights[&A], 0.0);
        assert!(Model::fitted(&[]).weights.is_empty());
        let faint: Vec<(Losses, f64)> = (0..40).map(|_| (both(0.01, 0.01), 0.0)).collect();
        assert!(Model::fitted(&faint).weights[&A] > 0.8, "they hardly speak of it");
    }

    #[test]
    fn a_score_is_the_bubble_that_hurts_as_much() {
        let yardstick = Curve::through(&[(50.0, 0.9), (100.0, 0.6)]);
        for (caused, intensity) in
            [(0.0, 0.0), (5.0, 25.0), (10.0, 50.0), (25.0, 75.0), (70.0, 100.0)]
        {
            assert!((score(&yardstick, caused) - intensity).abs() < 1e-9, "{caused}");
        }
        let flat = Curve::through(&[(50.0, 1.0), (100.0, 0.995)]);
        assert_eq!(score(&flat, 20.0), 0.0, "a reporter that feels nothing tells nothing");
    }

    proptest! {
        #[test]
        fn more_harm_never_predicts_less(a in 0.0f64..1.0, b in 0.0f64..1.0, more in 0.0f64..0.5) {
            for form in [Form::Max, Form::Sum, Form::Product] {
                let model = Model::plain(form);
                let (less, harm) = (model.loss(&both(a, b)), model.loss(&both((a + more).min(1.0), b)));
                prop_assert!(harm >= less - 1e-12 && (0.0..=1.0).contains(&harm));
            }
        }
    }
}
