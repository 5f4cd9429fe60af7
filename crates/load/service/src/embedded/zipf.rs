//! Ranks by Zipf's law.

use crate::LoadError;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Zipf};
use std::cell::OnceCell;

/// Draws ranks 0..n: rank k with a probability that falls as 1/(k+1)^exponent.
#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    law: Zipf<f64>,
    count: u32,
    exponent: f64,
    /// The share of all draws up to each rank; only where somebody asks by shares.
    up_to: OnceCell<Vec<f64>>,
}

impl Ranks {
    pub(crate) fn new(option: &'static str, n: u32, exponent: f64) -> Result<Self, LoadError> {
        let law = Zipf::new(f64::from(n), exponent);
        let law = law.map_err(|e| LoadError::option(option, e.to_string()))?;
        Ok(Self { law, count: n, exponent, up_to: OnceCell::new() })
    }

    pub(crate) fn draw(&self, rng: &mut ChaCha8Rng) -> u32 {
        (self.law.sample(rng) as u32).clamp(1, self.count) - 1
    }

    /// The rank below which this share of all draws lies: of numbers that are even over 0..1, ranks by the law.
    pub(crate) fn at(&self, share: f64) -> u32 {
        let up_to = self.up_to.get_or_init(|| self.shares());
        let below = up_to.partition_point(|&up_to| up_to <= share);
        (below as u32).min(self.count - 1)
    }

    fn shares(&self) -> Vec<f64> {
        let mut sum = 0.0;
        let sums = (0..self.count).map(|rank| {
            sum += f64::from(rank + 1).powf(-self.exponent);
            sum
        });
        let sums: Vec<f64> = sums.collect();
        sums.iter().map(|part| part / sum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn assert_as_the_law_says(draws: impl Iterator<Item = u32>, most_off: f64) {
        let mut counts = vec![0u32; 1000];
        draws.take(100_000).for_each(|rank| counts[rank as usize] += 1);
        let harmonic: f64 = (1..=1000).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [0usize, 1, 9] {
            let expected = 100_000.0 / harmonic / (rank + 1) as f64;
            let off = (f64::from(counts[rank]) - expected).abs() / expected;
            assert!(off < most_off, "rank {rank}: {} for {expected}", counts[rank]);
        }
    }

    #[test]
    fn low_ranks_come_as_often_as_the_law_says() {
        let ranks = Ranks::new("vocabulary", 1000, 1.0).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert_as_the_law_says(std::iter::repeat_with(|| ranks.draw(&mut rng)), 0.1);
        let even = (0..100_000).map(|k| ranks.at(f64::from(k) / 100_000.0));
        assert_as_the_law_says(even, 0.001);
    }

    #[test]
    fn every_share_has_a_rank() {
        let ranks = Ranks::new("vocabulary", 3, 0.5).unwrap();
        assert_eq!([0.0, 0.999_999, 1.0].map(|share| ranks.at(share)), [0, 2, 2]);
    }

    #[test]
    fn refuses_what_is_no_law() {
        assert!(Ranks::new("vocabulary", 0, 1.0).is_err());
        assert!(Ranks::new("vocabulary", 10, f64::NAN).is_err());
    }
}
