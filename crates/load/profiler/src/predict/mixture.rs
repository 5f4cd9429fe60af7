//! A neighbour as a mixture of kernels.
//!
//! **Problem.** One score a resource says how *much* B presses, by what one kernel loses beside it. A
//! stream loses by traffic, a chase through the shared cache by what is thrown out of it, a chase
//! through memory by how full the channels are; programs are like one or like another, so what one of
//! them loses says little of the others, and how losses by several resources add up is a guess.
//!
//! **Idea.** Over any stretch of time B does to everybody what some kernels would do in turns: for a
//! share of the time it is like one, for a share like another, for the rest like none. Witnesses of
//! different nature (a chase near, a chase far, a stream) stood beside each kernel and stand beside B;
//! the shares are those that explain what all of them lose beside B. A, whose losses beside each kernel
//! are its sensitivity curves, loses the same mixture of them. No weight is fitted to pairs, and nobody is
//! foretold to lose more than beside the worst kernel.
//!
//! ```text
//! k      a kernel at an intensity (LEVELS of each resource that has curves)
//! m_w,k  what witness w loses beside k        y_w  what it loses beside B
//! s      = argmin Σ_w c_w (y_w - Σ_k s_k m_w,k)² + RIDGE Σ_k s_k²,   s_k >= 0, Σ_k s_k <= 1
//! c_w    = 1 / (FLOOR² + half-width of y_w²), scaled to a mean of 1
//! loss   = Σ_k s_k (1 - curve_A(k))
//! ```
//!
//! Solved by projected gradient; a handful of unknowns. **Units.** Shares of speed and of time, 0..1.
//! **Degradation.** Without two witnesses at least, or without a curve of A on any resource that
//! witnesses were heard about, there is no answer. **Sources.** R-1 (bubbles and reporters), extended.

use super::Bound;
use crate::Profile;
use crate::profile::{CurvePoint, Witness};
use crate::stats::Estimate;
use quell_pressure::Resource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// So much of the time B is like this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The kernel's resource.
    pub resource: Resource,
    /// Its intensity.
    pub intensity_percent: f64,
    /// The share of the time, 0..1.
    pub share: f64,
}

/// Witnesses that an answer needs.
const LEAST: usize = 2;
/// No loss is known better than this, as a share of speed.
const FLOOR: f64 = 0.03;
/// Of mixtures that explain the same, the even one.
const RIDGE: f64 = 1e-3;
/// Steps of the descent, which is settled long before.
const STEPS: usize = 2000;

/// What A loses beside B, as a share of its speed; none if the profiles do not tell.
#[must_use]
pub fn mixed(a: &Profile, b: &Profile, bound: Bound) -> Option<f64> {
    let beside = |part: &Part| {
        let points = a.curves.get(&part.resource)?;
        let speeds: Vec<(f64, f64)> =
            points.iter().map(|p| (p.intensity_percent, bound.of_speed(&p.speed_frac))).collect();
        Some(part.share * (1.0 - crate::Curve::through(&speeds).at(part.intensity_percent)))
    };
    Some(parts(a, b, bound)?.iter().filter_map(beside).sum())
}

/// What B is like, by the kernels that A was profiled beside; none if the profiles do not tell.
#[must_use]
pub fn parts(a: &Profile, b: &Profile, bound: Bound) -> Option<Vec<Part>> {
    let kernels: Vec<(Resource, f64)> = kernels(a, b);
    let rows: Vec<Row> =
        b.witnesses.iter().filter_map(|(w, kept)| row(b, *w, kept, bound, &kernels)).collect();
    if rows.len() < LEAST || kernels.is_empty() {
        return None;
    }
    let shares = shares(&rows, kernels.len());
    let part = |((resource, intensity_percent), share)| Part { resource, intensity_percent, share };
    Some(kernels.into_iter().zip(shares).map(part).collect())
}

/// One witness: what it loses beside each kernel and beside B, and how much it counts.
struct Row {
    kernels: Vec<f64>,
    beside: f64,
    counts: f64,
}

/// The kernels that witnesses were heard about, at each intensity, and that A has a curve on.
fn kernels(a: &Profile, b: &Profile) -> Vec<(Resource, f64)> {
    let heard = b.bubbles.iter().filter(|(resource, _)| a.curves.contains_key(resource));
    let levels = |points: &Vec<CurvePoint>| points.iter().map(|p| p.intensity_percent).collect();
    heard
        .filter_map(|(resource, by)| Some((*resource, by.values().next().map(levels)?)))
        .flat_map(|(resource, levels): (_, Vec<f64>)| {
            levels.into_iter().map(move |l| (resource, l))
        })
        .collect()
}

/// Losses below 0 are noise, but as far as losses above are that, too: they stay, or it would add up to
/// mixtures of what costs nobody anything.
fn row(
    b: &Profile,
    witness: Witness,
    kept: &Estimate,
    bound: Bound,
    kernels: &[(Resource, f64)],
) -> Option<Row> {
    let loss = |(resource, level): &(Resource, f64)| {
        let points = b.bubbles.get(resource)?.get(&witness)?;
        let at = points.iter().find(|p| (p.intensity_percent - level).abs() < 1.0)?;
        Some((1.0 - at.speed_frac.value).clamp(-1.0, 1.0))
    };
    let half = kept.width() / 2.0;
    Some(Row {
        kernels: kernels.iter().map(loss).collect::<Option<_>>()?,
        beside: (1.0 - bound.of_speed(kept)).clamp(-1.0, 1.0),
        counts: 1.0 / (FLOOR * FLOOR + half * half),
    })
}

/// The shares that explain these rows.
fn shares(rows: &[Row], count: usize) -> Vec<f64> {
    let mean = rows.iter().map(|row| row.counts).sum::<f64>() / rows.len() as f64;
    let sum = |of: &dyn Fn(&Row) -> f64| rows.iter().map(|r| r.counts / mean * of(r)).sum::<f64>();
    let square: Vec<Vec<f64>> = (0..count)
        .map(|i| (0..count).map(|j| sum(&|r| r.kernels[i] * r.kernels[j])).collect())
        .collect();
    let aim: Vec<f64> = (0..count).map(|i| sum(&|r| r.kernels[i] * r.beside)).collect();
    // The trace bounds the steepest curvature, so steps of its inverse never overshoot.
    let steep = RIDGE + (0..count).map(|i| square[i][i]).sum::<f64>();
    let mut shares = vec![0.0; count];
    for _ in 0..STEPS {
        let down = |i: usize| {
            let pull: f64 = square[i].iter().zip(&shares).map(|(m, s)| m * s).sum();
            shares[i] - (pull - aim[i] + RIDGE * shares[i]) / steep
        };
        shares = within((0..count).map(down).collect());
    }
    shares
}

/// The nearest shares that are none below 0 and together at most 1.
fn within(shares: Vec<f64>) -> Vec<f64> {
    let lowered = |by: f64| shares.iter().map(|s| (s - by).max(0.0)).collect::<Vec<f64>>();
    let plain = lowered(0.0);
    if plain.iter().sum::<f64>() <= 1.0 {
        return plain;
    }
    let mut sorted = shares.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut sum = 0.0;
    let mut by = 0.0;
    for (count, share) in (1..).zip(&sorted) {
        sum += share;
        let tried = (sum - 1.0) / f64::from(count);
        if *share <= tried {
            break;
        }
        by = tried;
    }
    lowered(by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KERNELS: [Resource; 2] = [Resource::LlcCapacity, Resource::MemoryBandwidth];
    /// What each witness loses beside each kernel at full intensity.
    const HURT: [(Witness, [f64; 2]); 3] = [
        (Witness::NearChase, [0.6, 0.8]),
        (Witness::FarChase, [0.0, 0.3]),
        (Witness::Stream, [0.05, 0.45]),
    ];

    fn curve(loss: f64) -> Vec<CurvePoint> {
        // Beside half of a kernel more than half is lost.
        [(50.0, 0.6 * loss), (100.0, loss)]
            .map(|(intensity_percent, loss)| CurvePoint {
                intensity_percent,
                speed_frac: Estimate::exact(1.0 - loss),
                pairs: 4,
            })
            .to_vec()
    }

    /// Who loses so much beside each kernel, and is like each of them for such a share of the time.
    fn program(loses: [f64; 2], like: [f64; 2]) -> Profile {
        let mut profile = Profile::begun("made up", &crate::Machine::default());
        profile.curves = KERNELS.into_iter().zip(loses.map(curve)).collect();
        for (place, kernel) in KERNELS.into_iter().enumerate() {
            let by = HURT.map(|(witness, hurt)| (witness, curve(hurt[place])));
            profile.bubbles.insert(kernel, by.into_iter().collect());
        }
        let kept = |hurt: [f64; 2]| 1.0 - like[0] * hurt[0] - like[1] * hurt[1];
        profile.witnesses =
            HURT.map(|(witness, hurt)| (witness, Estimate::exact(kept(hurt)))).into();
        profile
    }

    #[test]
    fn a_mixture_is_found_and_foretells() {
        for like in [[0.0, 0.0], [0.5, 0.0], [0.0, 0.4], [0.3, 0.5], [0.0, 1.0]] {
            for loses in [[0.4, 0.1], [0.0, 0.5], [0.3, 0.3]] {
                let found =
                    mixed(&program(loses, [0.0; 2]), &program([0.0; 2], like), Bound::Middle);
                let truth = like[0] * loses[0] + like[1] * loses[1];
                let off = (found.unwrap() - truth).abs();
                assert!(off < 0.015, "{like:?} {loses:?}: {found:?} for {truth}");
            }
        }
    }

    #[test]
    fn what_was_not_heard_is_not_told() {
        let (a, whole) = (program([0.3, 0.3], [0.0; 2]), program([0.0; 2], [0.5, 0.0]));
        let mut few = whole.clone();
        few.witnesses.retain(|witness, _| *witness == Witness::Stream);
        assert_eq!(mixed(&a, &few, Bound::Middle), None, "one witness is none");
        let deaf = Profile { bubbles: Default::default(), ..whole.clone() };
        assert_eq!(mixed(&a, &deaf, Bound::Middle), None);
        let flat = Profile { curves: Default::default(), ..a.clone() };
        assert_eq!(mixed(&flat, &whole, Bound::Middle), None, "A was beside none of them");
        let mut one = a;
        one.curves.remove(&Resource::LlcCapacity);
        let parts = parts(&one, &whole, Bound::Middle).unwrap();
        assert!(parts.iter().all(|part| part.resource == Resource::MemoryBandwidth), "{parts:?}");
    }

    #[test]
    fn ends_of_intervals_are_in_order() {
        let (a, mut b) = (program([0.4, 0.4], [0.0; 2]), program([0.0; 2], [0.2, 0.3]));
        for kept in b.witnesses.values_mut() {
            (kept.low, kept.high) = (kept.value - 0.1, kept.value + 0.1);
        }
        let at = |bound| mixed(&a, &b, bound).unwrap();
        assert!(at(Bound::Low) < at(Bound::Middle) && at(Bound::Middle) < at(Bound::High));
    }

    proptest! {
        #[test]
        fn nobody_is_foretold_more_than_the_worst_kernel(
            loses in proptest::array::uniform2(0.0f64..0.9),
            kept in proptest::array::uniform3(-0.5f64..1.5),
        ) {
            let mut b = program([0.0; 2], [0.0; 2]);
            b.witnesses = HURT.iter().zip(kept).map(|((w, _), k)| (*w, Estimate::exact(k))).collect();
            let a = program(loses, [0.0; 2]);
            let parts = parts(&a, &b, Bound::Middle).unwrap();
            let all: f64 = parts.iter().map(|part| part.share).sum();
            prop_assert!(all <= 1.0 + 1e-9 && parts.iter().all(|part| part.share >= 0.0));
            let loss = mixed(&a, &b, Bound::Middle).unwrap();
            prop_assert!(loss <= loses[0].max(loses[1]) + 1e-9 && loss >= 0.0, "{}", loss);
        }

        #[test]
        fn what_lies_within_stays(shares in proptest::collection::vec(-1.0f64..1.5, 1..6)) {
            let near = within(shares.clone());
            prop_assert!(near.iter().sum::<f64>() <= 1.0 + 1e-9 && near.iter().all(|s| *s >= 0.0));
            let again = within(near.clone());
            prop_assert!(near.iter().zip(&again).all(|(a, b)| (a - b).abs() < 1e-9));
        }
    }
}
