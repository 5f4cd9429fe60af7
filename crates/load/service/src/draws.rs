//! What requests are drawn from: at random, or evenly.
//!
//! # Problem
//! Requests differ in what they cost: a transaction that writes takes more than twice as long as one that reads, a
//! query of common words many times as long as one of rare ones. Who looks at a service for 40 ms sees some forty of
//! them, and what these cost in the middle is off by a tenth by chance alone, as much as many a neighbour does.
//!
//! # Idea
//! What a request costs is decided by a few of its draws: read or write, which words. Where windows are compared,
//! these are taken from a sequence that is even over 0..1 in any few dozen in a row, in place of independent ones:
//! Richtmyer's (*The evaluation of definite integrals, and a quasi-Monte-Carlo method*, 1951), the multiples of √2,
//! √3, √5 … without their whole part, one root for each draw of a request, from offsets drawn at random. Each request
//! is as likely as before, and sums over a window hardly differ from one to the next. The other draws stay random.
//!
//! Not for tails: those come from heavy requests that meet by chance, which happens less often then.

use crate::embedded::Ranks;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// One for each draw that can be even.
const PRIMES: [u32; 16] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53];

/// A stream of draws for requests.
pub struct Draws {
    rng: ChaCha8Rng,
    even: Option<Even>,
}

impl Draws {
    /// The draws of a seed; streams of the same seed do not depend on each other.
    #[must_use]
    pub fn new(seed: u64, stream: u64, is_even: bool) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        let even = is_even.then(|| Even::new(&mut rng));
        Self { rng, even }
    }

    /// For what does not decide what a request costs.
    pub fn rng(&mut self) -> &mut ChaCha8Rng {
        &mut self.rng
    }

    /// True in this share of all cases; `draw` numbers the draws of a request.
    pub(crate) fn chance(&mut self, draw: usize, frac: f64) -> bool {
        match self.next(draw) {
            Some(number) => number < frac,
            None => self.rng.random_bool(frac),
        }
    }

    /// A rank; `draw` numbers the draws of a request.
    pub(crate) fn rank(&mut self, draw: usize, ranks: &Ranks) -> u32 {
        match self.next(draw) {
            Some(number) => ranks.at(number),
            None => ranks.draw(&mut self.rng),
        }
    }

    fn next(&mut self, draw: usize) -> Option<f64> {
        self.even.as_mut()?.next(draw)
    }
}

/// Where the sequence of each draw stands.
struct Even {
    next: [f64; PRIMES.len()],
}

impl Even {
    fn new(rng: &mut ChaCha8Rng) -> Self {
        Self { next: std::array::from_fn(|_| rng.random_range(0.0..1.0)) }
    }

    /// 0 to 1, never 1; none for a draw that has no root of its own.
    fn next(&mut self, draw: usize) -> Option<f64> {
        let step = f64::from(*PRIMES.get(draw)?).sqrt();
        let this = self.next[draw];
        self.next[draw] = (this + step).fract();
        Some(this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How far counts of `chance(draw, frac)` in windows of so many are from their mean, at most.
    fn off(is_even: bool, draw: usize, frac: f64, window: usize) -> f64 {
        let mut draws = Draws::new(7, 0, is_even);
        let mut worst = 0.0_f64;
        for _ in 0..200 {
            let hits = (0..window).filter(|_| draws.chance(draw, frac)).count();
            worst = worst.max((hits as f64 - frac * window as f64).abs());
        }
        worst
    }

    #[test]
    fn even_draws_differ_little_between_windows() {
        for draw in 0..PRIMES.len() {
            for frac in [0.1, 0.5, 0.8] {
                let even = off(true, draw, frac, 40);
                assert!(even <= 4.0, "draw {draw}, {frac}: {even} of 40");
            }
        }
        assert!(off(true, 0, 0.5, 40) <= 2.0);
        assert!(off(false, 0, 0.5, 40) > 6.0);
    }

    #[test]
    fn draws_of_one_request_do_not_depend_on_each_other() {
        let mut draws = Draws::new(3, 0, true);
        let both = (0..4_000).filter(|_| draws.chance(0, 0.5) & draws.chance(1, 0.5)).count();
        assert!((950..1_050).contains(&both), "{both} of 4000");
    }

    #[test]
    fn a_draw_without_a_root_is_random() {
        let mut draws = Draws::new(3, 0, true);
        let hits = (0..4_000).filter(|_| draws.chance(99, 0.25)).count();
        assert!((880..1_120).contains(&hits), "{hits} of 4000");
    }

    #[test]
    fn seeds_and_streams_reproduce_and_differ() {
        let take = |seed, stream, is_even| -> Vec<bool> {
            let mut draws = Draws::new(seed, stream, is_even);
            (0..64).map(|_| draws.chance(0, 0.5)).collect()
        };
        for is_even in [false, true] {
            assert_eq!(take(1, 0, is_even), take(1, 0, is_even));
            assert_ne!(take(1, 0, is_even), take(2, 0, is_even));
            assert_ne!(take(1, 0, is_even), take(1, 1, is_even));
        }
    }
}
