//! What a victim's requests usually cost, also where they are slow for much of the time.
//!
//! The middle of the last samples tells, and the middle of their distances from it how much they
//! scatter, as long as the slow ones are few. Who is slow half of the time has no middle: any sample
//! could be it, and the distance between harm and rest would pass for scatter. So where the samples
//! fall into two heaps, each of a quarter at least, that are further apart than the lower one scatters,
//! the lower heap is the usual. Scatter alone makes two heaps seldom: the best split of a normal or an
//! even distribution is not far enough from what lies below it, and that of one with a long tail only
//! by chance.

use super::PulseParams;
use std::collections::VecDeque;

/// The least part of all samples that is a heap.
const LEAST_HEAP_FRAC: f64 = 0.25;
/// With fewer samples nobody can tell heaps.
const FEWEST_FOR_HEAPS: usize = 16;
/// From the median of distances to the standard deviation of a normal distribution.
const MEDIAN_TO_SD: f64 = 1.4826;

/// The middle of some costs and their standard deviation, both in ln.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    middle: f64,
    sd: f64,
}

/// ln of the cost in the last samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    costs: VecDeque<f64>,
    usual: Option<Spread>,
}

impl Level {
    /// Takes in a sample.
    pub(super) fn add(&mut self, ln_cost: f64, params: &PulseParams) {
        self.costs.push_back(ln_cost);
        if self.costs.len() > params.usual_samples {
            self.costs.pop_front();
        }
        let mut rising: Vec<f64> = self.costs.iter().copied().collect();
        rising.sort_by(f64::total_cmp);
        self.usual = (rising.len() >= params.fewest_samples)
            .then(|| lower_heap(&rising, params).or_else(|| spread(&rising)))
            .flatten();
    }

    /// By how much a cost is above the usual, and the standard deviation of what is usual, in ln.
    pub(super) fn above(&self, ln_cost: f64) -> Option<(f64, f64)> {
        self.usual.map(|usual| (ln_cost - usual.middle, usual.sd))
    }

    /// The same, if that makes it slow.
    pub(super) fn off(&self, ln_cost: f64, params: &PulseParams) -> Option<f64> {
        let (above, sd) = self.above(ln_cost)?;
        (above > params.least_ln.max(params.least_sd * sd)).then_some(above)
    }
}

fn spread(rising: &[f64]) -> Option<Spread> {
    let middle = *rising.get(rising.len() / 2)?;
    let mut distances: Vec<f64> = rising.iter().map(|cost| (cost - middle).abs()).collect();
    distances.sort_by(f64::total_cmp);
    Some(Spread { middle, sd: MEDIAN_TO_SD * distances.get(distances.len() / 2)? })
}

/// The lower of two heaps, if there are two.
fn lower_heap(rising: &[f64], params: &PulseParams) -> Option<Spread> {
    let (low, high) = rising.split_at(best_split(rising)?);
    let (low, high) = (spread(low)?, spread(high)?);
    let apart = params.least_ln.max(params.least_sd * low.sd);
    (high.middle - low.middle > apart).then_some(low)
}

/// Where to split, so that both parts scatter least around their means.
fn best_split(rising: &[f64]) -> Option<usize> {
    let count = rising.len();
    if count < FEWEST_FOR_HEAPS {
        return None;
    }
    let least = libm::ceil(LEAST_HEAP_FRAC * count as f64) as usize;
    let whole: f64 = rising.iter().sum();
    let mut below: f64 = rising[..least].iter().sum();
    let (mut best, mut split) = (f64::MIN, None);
    for (low, next) in rising.iter().enumerate().take(count - least + 1).skip(least) {
        let (lows, highs) = (low as f64, (count - low) as f64);
        let apart = (whole - below) / highs - below / lows;
        let between = lows * highs * apart * apart;
        if between > best {
            (best, split) = (between, Some(low));
        }
        below += next;
    }
    split
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(costs: impl Iterator<Item = f64>) -> Level {
        let mut level = Level::default();
        costs.for_each(|cost| level.add(cost, &PulseParams::default()));
        level
    }

    /// Evenly spread over 0..1, the same on every machine.
    fn chances(mut seed: u64) -> impl FnMut() -> f64 {
        move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        }
    }

    fn normal(chance: &mut impl FnMut() -> f64) -> f64 {
        (0..12).map(|_| chance()).sum::<f64>() - 6.0
    }

    #[test]
    fn who_is_slow_for_any_part_up_to_three_quarters_has_its_better_moments_as_usual() {
        for (slow, of) in [(1, 20), (1, 4), (2, 5), (1, 2), (3, 5), (7, 10)] {
            let mut chance = chances(slow);
            let cost = |sample: u64| {
                let height = if sample % of < slow { 0.4 } else { 0.0 };
                height + 0.05 * normal(&mut chance)
            };
            let level = level((0..120).map(cost));
            let params = PulseParams::default();
            let (usual, _) = level.above(0.0).unwrap();
            assert!(usual.abs() < 0.05, "{slow} of {of}: {usual}");
            assert!(level.off(0.4, &params).is_some(), "{slow} of {of}");
            assert!(level.off(0.1, &params).is_none(), "{slow} of {of}");
        }
    }

    /// Share of samples that are slow though they only scatter.
    fn slow_frac(mut cost: impl FnMut() -> f64) -> f64 {
        let params = PulseParams::default();
        let mut level = Level::default();
        let slow = (0..4000).filter(|_| {
            let cost = cost();
            let slow = level.off(cost, &params).is_some();
            level.add(cost, &params);
            slow
        });
        slow.count() as f64 / 4000.0
    }

    #[test]
    fn a_cost_that_only_scatters_has_one_heap() {
        for sd in [0.02, 0.1, 0.3] {
            let mut chance = chances(7);
            let frac = slow_frac(|| sd * normal(&mut chance));
            assert!(frac < 0.002, "{sd}: {frac}");
        }
        let chance = chances(8);
        let even = slow_frac(chance);
        assert!(even < 0.002, "{even}");
        let mut chance = chances(9);
        // A long tail has slow samples by the middle of all as well (one in thirty): they stay few.
        let long = slow_frac(|| -0.3 * libm::log(chance()));
        assert!(long < 0.08, "{long}");
    }
}
