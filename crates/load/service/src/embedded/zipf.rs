//! Ranks by Zipf's law.

use crate::LoadError;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Zipf};

/// Draws ranks 0..n: rank k with a probability that falls as 1/(k+1)^exponent.
#[derive(Clone, Debug)]
pub(crate) struct Ranks(Zipf<f64>, u32);

impl Ranks {
    pub(crate) fn new(option: &'static str, n: u32, exponent: f64) -> Result<Self, LoadError> {
        let law = Zipf::new(f64::from(n), exponent);
        let law = law.map_err(|e| LoadError::option(option, e.to_string()))?;
        Ok(Self(law, n))
    }

    pub(crate) fn draw(&self, rng: &mut ChaCha8Rng) -> u32 {
        (self.0.sample(rng) as u32).clamp(1, self.1) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn low_ranks_come_as_often_as_the_law_says() {
        let ranks = Ranks::new("vocabulary", 1000, 1.0).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut counts = vec![0u32; 1000];
        for _ in 0..100_000 {
            counts[ranks.draw(&mut rng) as usize] += 1;
        }
        let harmonic: f64 = (1..=1000).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [0usize, 1, 9] {
            let expected = 100_000.0 / harmonic / (rank + 1) as f64;
            let off = (f64::from(counts[rank]) - expected).abs() / expected;
            assert!(off < 0.1, "rank {rank}: {} for {expected}", counts[rank]);
        }
    }

    #[test]
    fn refuses_what_is_no_law() {
        assert!(Ranks::new("vocabulary", 0, 1.0).is_err());
        assert!(Ranks::new("vocabulary", 10, f64::NAN).is_err());
    }
}
