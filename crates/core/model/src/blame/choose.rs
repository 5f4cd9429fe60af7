//! Whom to hold next: the set about whose effect the hypotheses disagree most.
//!
//! Each hypothesis foretells what the victim would gain if a set were held. The variance of that
//! over all hypotheses, against the noise of one look, is what the look can tell. A set is grown
//! from the best single suspect while another member adds to it; it stops by itself near half of
//! the guilt, where it is even odds that the culprit is inside.

use super::guilt::Guilt;
use quell_types::Tenant;

/// How sets are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChooseParams {
    /// Another member must make the set tell this many times as much.
    pub growth_ratio: f64,
    /// Most members of a set.
    pub most: usize,
    /// No look if even the best set's effect is disputed by less variance than this share of the
    /// noise of a look.
    pub least_dispute_frac: f64,
}

impl Default for ChooseParams {
    fn default() -> Self {
        Self { growth_ratio: 1.05, most: 32, least_dispute_frac: 0.02 }
    }
}

/// A suspect that may be held now.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Who.
    pub suspect: Tenant,
    /// CPUs that it uses, and would lose.
    pub cpus: f64,
}

/// The set to hold next, given the variance of one look; empty if nothing would be learned.
#[must_use]
pub fn choose(
    guilt: &Guilt,
    candidates: &[Candidate],
    variance: f64,
    params: &ChooseParams,
) -> Vec<Tenant> {
    let mut dispute = Dispute::new(guilt, candidates);
    let mut set: Vec<usize> = Vec::new();
    let mut reached = params.least_dispute_frac * variance;
    while set.len() < params.most {
        let Some((next, variance)) = dispute.best_addition(&set) else { break };
        let needed = if set.is_empty() { reached } else { reached * params.growth_ratio };
        if variance <= needed {
            break;
        }
        dispute.add(next);
        set.push(next);
        reached = variance;
    }
    set.into_iter().map(|index| candidates[index].suspect.clone()).collect()
}

/// A hypothesis of less weight disputes nothing: all 5,000 about pairs of a hundred suspects together are
/// less than a look could tell.
const LEAST_WEIGHT: f64 = 1e-8;

/// What the hypotheses foretell of a growing set.
struct Dispute {
    weights: Vec<f64>,
    /// By hypothesis: the effect of the set so far, in ln.
    foretold: Vec<f64>,
    /// By candidate: the hypotheses that hold it guilty, with the effect that it adds there.
    adds: Vec<Vec<(usize, f64)>>,
    /// Mean and mean square of the effect of the set so far.
    moments: (f64, f64),
}

impl Dispute {
    fn new(guilt: &Guilt, candidates: &[Candidate]) -> Self {
        let adds = candidates.iter().map(|candidate| added(guilt, candidate)).collect();
        Self {
            weights: guilt.weights().to_vec(),
            foretold: vec![0.0; guilt.hypotheses().len()],
            adds,
            moments: (0.0, 0.0),
        }
    }

    /// The candidate that makes the set most disputed, and how disputed it is then. The first of
    /// equals, so that the choice is the same everywhere.
    fn best_addition(&self, set: &[usize]) -> Option<(usize, f64)> {
        let open = (0..self.adds.len()).filter(|i| !set.contains(i) && !self.adds[*i].is_empty());
        let with = |index: usize| {
            let (mean, square) = self.moments_with(index);
            (index, square - mean * mean)
        };
        open.map(with).fold(None, |best: Option<(usize, f64)>, next| match best {
            Some(best) if best.1 >= next.1 => Some(best),
            _ => Some(next),
        })
    }

    fn add(&mut self, candidate: usize) {
        self.moments = self.moments_with(candidate);
        for (hypothesis, effect) in &self.adds[candidate] {
            self.foretold[*hypothesis] += effect;
        }
    }

    /// Only the hypotheses that hold the candidate guilty foretell something else with it.
    fn moments_with(&self, candidate: usize) -> (f64, f64) {
        let (mut mean, mut square) = self.moments;
        for (hypothesis, effect) in &self.adds[candidate] {
            let (weight, before) = (self.weights[*hypothesis], self.foretold[*hypothesis]);
            mean += weight * effect;
            square += weight * effect * (2.0 * before + effect);
        }
        (mean, square)
    }
}

fn added(guilt: &Guilt, candidate: &Candidate) -> Vec<(usize, f64)> {
    let Some(place) = guilt.index(&candidate.suspect).filter(|_| candidate.cpus > 0.0) else {
        return Vec::new();
    };
    let weights = guilt.weights();
    let dose = guilt.dose(place, candidate.cpus);
    let shown = dose * guilt.seen_frac();
    let effect = |index: usize| guilt.harm(index, place).map(|(harm, _)| (index, harm * shown));
    let counts = guilt.against(place).filter(|index| weights[*index] >= LEAST_WEIGHT);
    let mut all = Vec::with_capacity(guilt.suspects().len());
    all.extend(counts.filter_map(effect));
    all
}

#[cfg(test)]
mod tests {
    use super::super::guilt::{GuiltParams, Measurement};
    use super::*;
    use quell_types::Time;
    use std::collections::BTreeSet;

    const CPUS: f64 = 0.5;

    fn all(count: usize) -> Vec<Candidate> {
        let one = |i| Candidate { suspect: Tenant::new(format!("g{i:02}")), cpus: CPUS };
        (0..count).map(one).collect()
    }

    fn unknown(candidates: &[Candidate]) -> Guilt {
        let mut guilt = Guilt::new(GuiltParams::default());
        let names: Vec<Tenant> = candidates.iter().map(|c| c.suspect.clone()).collect();
        guilt.keep(&names);
        guilt
    }

    /// A sum of evenly spread numbers, near enough to normal; the same on every machine.
    fn noise(seed: &mut u64) -> f64 {
        let mut sum = -6.0;
        for _ in 0..12 {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            sum += (*seed >> 11) as f64 / (1_u64 << 53) as f64;
        }
        sum
    }

    /// Looks until all is clear; how many it took, and who was named.
    fn looks(count: usize, culprit: Option<usize>, sd: f64, seed: u64) -> (usize, Vec<usize>) {
        let candidates = all(count);
        let mut guilt = unknown(&candidates);
        let mut seed = seed;
        for look in 0..400 {
            let bad = |i: usize| guilt.harmful(&candidates[i].suspect, CPUS, 0.05);
            let named: Vec<usize> = (0..count).filter(|i| bad(*i) > 0.995).collect();
            if !named.is_empty() || (0..count).all(|i| bad(i) < 0.002) {
                return (look, named);
            }
            let set = choose(&guilt, &candidates, sd * sd, &ChooseParams::default());
            if set.is_empty() {
                return (look, Vec::new());
            }
            let held: BTreeSet<Tenant> = set.into_iter().collect();
            let hit = culprit.is_some_and(|c| held.contains(&candidates[c].suspect));
            guilt.measure(&Measurement {
                time: Time(look as u64),
                ln_slowdown: if hit { 0.25 } else { 0.0 } + sd * noise(&mut seed),
                variance: sd * sd,
                doses_cpus: held.into_iter().map(|t| (t, CPUS)).collect(),
                experiment: true,
                void_frac: 0.0,
            });
        }
        (400, Vec::new())
    }

    #[test]
    fn the_culprit_among_many_is_found_with_fewer_looks_than_suspects() {
        for culprit in [0, 13, 31] {
            let (took, named) = looks(32, Some(culprit), 0.03, 7);
            assert!(took <= 16, "{culprit}: {took}");
            assert_eq!(named, [culprit]);
        }
    }

    #[test]
    fn in_noise_nobody_else_is_named() {
        let mut wrong = 0;
        for seed in 1..=40 {
            let culprit = (seed % 3 != 0).then_some(seed as usize % 5);
            let (_, named) = looks(5, culprit, 0.1, seed);
            wrong += usize::from(named.iter().any(|n| Some(*n) != culprit));
        }
        assert!(wrong <= 1, "{wrong} of 40");
    }

    #[test]
    fn what_is_known_is_not_looked_at_again() {
        let candidates = all(2);
        let mut guilt = unknown(&candidates);
        for look in 0..400 {
            let one = &candidates[look % 2].suspect;
            guilt.measure(&Measurement {
                time: Time(1),
                ln_slowdown: 0.0,
                variance: 1e-4,
                doses_cpus: [(one.clone(), CPUS)].into(),
                experiment: true,
                void_frac: 0.0,
            });
        }
        let set = choose(&guilt, &candidates, 0.01, &ChooseParams::default());
        assert!(set.is_empty(), "{set:?}");
    }

    #[test]
    fn who_uses_nothing_or_is_no_suspect_is_never_held() {
        let mut candidates = all(2);
        let guilt = unknown(&candidates);
        candidates[0].cpus = 0.0;
        candidates.push(Candidate { suspect: "stranger".into(), cpus: 1.0 });
        let set = choose(&guilt, &candidates, 0.01, &ChooseParams::default());
        assert_eq!(set, [Tenant::from("g01")]);
        assert!(choose(&guilt, &[], 0.01, &ChooseParams::default()).is_empty());
    }
}
