//! The schedule of an open-loop generator: exponential gaps, drawn ahead from a seed (L-3).

use crate::controls::Controls;
use crate::profile::Profile;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};

/// Scheduled arrival times of one client thread, in seconds since the start, without end.
///
/// Gaps are drawn at unit rate and stretched by the rate that holds when they pass, so the same
/// seed gives the same draws whatever the profile, and a live change of the rate applies to the
/// rest of the running gap, as it does for a Poisson process.
#[derive(Clone, Debug)]
pub struct Arrivals {
    rng: ChaCha8Rng,
    profile: Profile,
    /// The part of the whole rate that this thread offers.
    share: f64,
    version: u64,
    /// From here on `left` is counted.
    since_s: f64,
    /// Expected requests that pass before the next arrival.
    left: f64,
    next_s: f64,
}

impl Arrivals {
    /// The schedule of client thread `client` of `clients`.
    #[must_use]
    pub fn new(profile: Profile, seed: u64, client: u32, clients: u32) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(u64::from(client));
        let share = 1.0 / f64::from(clients.max(1));
        let left = 0.0;
        let mut arrivals =
            Self { rng, profile, share, version: 0, since_s: 0.0, left, next_s: 0.0 };
        arrivals.draw(0.0);
        arrivals
    }

    /// When the next request is due; infinite if the rate is zero from now on.
    #[must_use]
    pub fn peek(&self) -> f64 {
        self.next_s
    }

    /// Takes a live change of the rate into account, as of `now_s`.
    pub fn follow(&mut self, controls: &Controls, now_s: f64) {
        let (version, qps) = controls.rate();
        if version == self.version || self.next_s <= now_s {
            return;
        }
        self.version = version;
        let from = self.since_s.max(0.0);
        self.left -= self.profile.expected(from, now_s.max(from)) * self.share;
        self.left = self.left.max(0.0);
        self.since_s = now_s.max(from);
        self.profile = Profile::Constant { qps };
        self.settle();
    }

    fn draw(&mut self, since_s: f64) {
        self.since_s = since_s;
        self.left = Exp1.sample(&mut self.rng);
        self.settle();
    }

    fn settle(&mut self) {
        self.next_s = self.profile.time_of(self.since_s, self.left / self.share);
    }
}

impl Iterator for Arrivals {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let due = self.next_s;
        if due.is_finite() {
            self.draw(due);
        }
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(arrivals: Arrivals, count: usize) -> Vec<f64> {
        let times: Vec<f64> = arrivals.take(count + 1).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// The largest distance between the gaps' distribution and the exponential one.
    fn kolmogorov_smirnov(mut gaps: Vec<f64>, rate: f64) -> f64 {
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = |(i, gap): (usize, &f64)| {
            let expected = 1.0 - (-rate * gap).exp();
            (expected - i as f64 / n).abs().max((expected - (i + 1) as f64 / n).abs())
        };
        gaps.iter().enumerate().map(distance).fold(0.0, f64::max)
    }

    #[test]
    fn gaps_are_exponential() {
        for seed in 0..5 {
            let n = 20_000;
            let gaps = gaps(Arrivals::new(Profile::Constant { qps: 800.0 }, seed, 0, 1), n);
            // 1.95/√n is the 0.1 % critical value.
            let distance = kolmogorov_smirnov(gaps, 800.0);
            assert!(distance < 1.95 / (n as f64).sqrt(), "seed {seed}: {distance}");
        }
    }

    #[test]
    fn gaps_do_not_depend_on_each_other() {
        let gaps = gaps(Arrivals::new(Profile::Constant { qps: 1.0 }, 3, 0, 1), 20_000);
        let product: f64 = gaps.windows(2).map(|p| (p[0] - 1.0) * (p[1] - 1.0)).sum();
        let correlation = product / gaps.len() as f64;
        assert!(correlation.abs() < 0.03, "{correlation}");
    }

    #[test]
    fn seeds_reproduce_and_differ() {
        let take = |seed, client| -> Vec<f64> {
            Arrivals::new(Profile::Constant { qps: 100.0 }, seed, client, 2).take(50).collect()
        };
        assert_eq!(take(7, 0), take(7, 0));
        assert_ne!(take(7, 0), take(8, 0));
        assert_ne!(take(7, 0), take(7, 1));
    }

    #[test]
    fn clients_share_the_rate() {
        for clients in [1u32, 2, 5] {
            let count: usize = (0..clients)
                .map(|client| {
                    Arrivals::new(Profile::Constant { qps: 1000.0 }, 1, client, clients)
                        .take_while(|&t| t < 20.0)
                        .count()
                })
                .sum();
            assert!((19_300..20_700).contains(&count), "{clients} clients: {count}");
        }
    }

    #[test]
    fn a_crowd_comes_when_it_should() {
        let crowd =
            Profile::FlashCrowd { base_qps: 300.0, crowd_qps: 900.0, at_s: 10.0, hold_s: 10.0 };
        let times: Vec<f64> = Arrivals::new(crowd, 5, 0, 1).take_while(|&t| t < 30.0).collect();
        let between = |from, to| times.iter().filter(|&&t| t >= from && t < to).count();
        assert!((2_750..3_250).contains(&between(0.0, 10.0)), "{}", between(0.0, 10.0));
        assert!((8_600..9_400).contains(&between(10.0, 20.0)), "{}", between(10.0, 20.0));
        assert!((2_750..3_250).contains(&between(20.0, 30.0)), "{}", between(20.0, 30.0));
    }

    #[test]
    fn a_live_change_applies_to_the_running_gap() {
        let controls = Controls::default();
        let mut arrivals = Arrivals::new(Profile::Constant { qps: 0.001 }, 1, 0, 1);
        let slow = arrivals.peek();
        controls.set_rate(1000.0);
        arrivals.follow(&controls, 1.0);
        let left = slow * 0.001 - 0.001;
        assert!((arrivals.peek() - (1.0 + left / 1000.0)).abs() < 1e-9);
        let count = arrivals.take_while(|&t| t < 11.0).count();
        assert!((9_500..10_500).contains(&count), "{count}");
    }

    #[test]
    fn a_rate_of_zero_waits_and_comes_back() {
        let controls = Controls::default();
        let mut arrivals = Arrivals::new(Profile::Constant { qps: 10.0 }, 1, 0, 1);
        controls.set_rate(0.0);
        arrivals.follow(&controls, 0.0);
        assert!(arrivals.peek().is_infinite());
        controls.set_rate(10.0);
        arrivals.follow(&controls, 5.0);
        assert!(arrivals.peek() > 5.0 && arrivals.peek() < 8.0);
    }
}
