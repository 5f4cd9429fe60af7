//! Seeded randomness. Every consumer has a stream of its own, so adding one changes no other.
//!
//! Transcendental functions come from `libm`, which computes the same bits everywhere.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    bits: ChaCha8Rng,
    /// Box and Muller make two at once; the other one.
    spare: Option<f64>,
}

impl Stream {
    /// The stream `number` of a seed.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(number);
        Self { bits: rng, spare: None }
    }

    /// Uniform in (0, 1].
    pub(crate) fn uniform(&mut self) -> f64 {
        // 53 bits, never 0, so that its logarithm exists.
        ((self.bits.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Uniform between two values.
    pub(crate) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.uniform()
    }

    /// Exponential with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(self.uniform())
    }

    /// Standard normal (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = libm::sqrt(-2.0 * libm::log(self.uniform()));
        let (sin, cos) = libm::sincos(2.0 * std::f64::consts::PI * self.uniform());
        self.spare = Some(radius * sin);
        radius * cos
    }

    /// Passes over so many standard normals: what comes next is as if they had been drawn.
    pub(crate) fn skip_normals(&mut self, count: usize) {
        let rest = count - usize::from(count > 0 && self.spare.take().is_some());
        // A pair takes two uniforms of two words each.
        self.bits.set_word_pos(self.bits.get_word_pos() + 4 * (rest / 2) as u128);
        if rest % 2 == 1 {
            self.normal();
        }
    }

    /// One draw.
    pub(crate) fn log_normal(&mut self, of: &LogNormal) -> f64 {
        match of.logarithm {
            Some((deviation, shift)) => of.mean * libm::exp(self.normal() * deviation - shift),
            None => of.mean,
        }
    }

    /// A factor around 1 with this standard deviation, never negative.
    pub(crate) fn noise(&mut self, deviation: f64) -> f64 {
        if deviation <= 0.0 { 1.0 } else { (1.0 + deviation * self.normal()).max(0.0) }
    }
}

/// A log-normal distribution, with what all draws share worked out once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogNormal {
    mean: f64,
    /// Of the logarithm: its standard deviation and half its variance; none where nothing varies.
    logarithm: Option<(f64, f64)>,
}

impl LogNormal {
    /// With this mean and coefficient of variation; always the mean at 0.
    pub(crate) fn new(mean: f64, variation: f64) -> Self {
        let logarithm = (variation > 0.0).then(|| {
            let variance = libm::log(1.0 + variation * variation);
            (libm::sqrt(variance), variance / 2.0)
        });
        Self { mean, logarithm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |seed, number| Stream::new(seed, number).uniform();
        assert_eq!(draw(1, 2).to_bits(), draw(1, 2).to_bits());
        assert_ne!(draw(1, 2).to_bits(), draw(1, 3).to_bits());
        assert_ne!(draw(1, 2).to_bits(), draw(2, 2).to_bits());
    }

    #[test]
    fn normals_that_are_passed_over_are_those_that_would_have_been_drawn() {
        for (before, count) in [(0, 0), (0, 72), (1, 72), (0, 7), (1, 7), (3, 1), (2, 1)] {
            let (mut drawn, mut skipped) = (Stream::new(5, 3), Stream::new(5, 3));
            for _ in 0..before {
                drawn.normal();
                skipped.normal();
            }
            for _ in 0..count {
                drawn.normal();
            }
            skipped.skip_normals(count);
            for _ in 0..3 {
                assert_eq!(
                    drawn.normal().to_bits(),
                    skipped.normal().to_bits(),
                    "{before} {count}"
                );
            }
        }
    }

    #[test]
    fn means_and_variations_are_those_asked_for() {
        let mut stream = Stream::new(7, 0);
        let n = 40_000;
        let sizes = LogNormal::new(3.0, 0.5);
        let values: Vec<f64> = (0..n).map(|_| stream.log_normal(&sizes)).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let var = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / f64::from(n);
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
        assert!((var.sqrt() / mean - 0.5).abs() < 0.03, "{}", var.sqrt() / mean);
        let mean = (0..n).map(|_| stream.exponential(2.0)).sum::<f64>() / f64::from(n);
        assert!((mean - 2.0).abs() < 0.05, "{mean}");
    }
}
