//! How much of a harm looks see that takes its time to go.
//!
//! # Problem
//! A neighbour that empties the caches does harm for as long as a service takes to fill them again. That is over
//! in a millisecond for one that works on little, and takes half a second for one that keeps tens of megabytes
//! and asks for each of them now and then. A look holds a suspect for two chips of 50 ms or so. Of a harm that
//! goes within 300 ms it sees a sixth: a service that was slowed twofold seemed to be slowed by a tenth, too
//! little to limit anybody.
//!
//! # Idea
//! What is left of the harm when the second chip begins was there through all of the first. If the harm h goes
//! like exp(-t / τ), and is back at once when the suspect runs again (he empties a cache in milliseconds), the two
//! chips of length T show
//!
//! ```text
//! first:   h * (1 - τ/T * (1 - exp(-T/τ)))
//! second:  h * (1 - τ/T * (exp(-T/τ) - exp(-2T/τ)))
//! ```
//!
//! and a harm that is over at once shows in full in both. How much more the second shows than the first tells τ,
//! and τ tells which share of h both show together. τ is the service's own, so it is learnt from all looks at
//! whoever is probably guilty; h is each one's own.
//!
//! ```text
//! for each look at one who is probably guilty:
//!     mean  ← (first + second) / 2      ~ h * m(τ, T), with its variance
//!     apart ← second - first            ~ h * g(τ, T), with its variance; independent of the mean
//!     for each τ of a few: take both in, as evidence about his h, which is Normal(0, HARM_SD²)
//! likelihood(τ) = product over suspects of what their looks were as likely as
//! seen_frac = 1 while τ = 0 is likely at all, else the mean of m over the looks and the other τ
//! most_seen_frac = the same for the tenth of τ that go soonest: how sure a harm is to be great is reckoned by that
//! ```
//!
//! Looks differ in length (`who` makes long ones now and then, for harm of which short ones see next to nothing).
//! Who is guilty of what is reckoned from all of them as they are; so what is seen of it is the mean of what each of
//! them sees, by its weight.
//!
//! # Units
//! Effects in ln of CPU time per request; times in seconds.
//!
//! # Degradation
//! Where requests are few, or nobody is guilty, nothing is learnt, and what looks show stands. To be sure that a
//! harm takes time needs some ten looks that show it; a share of less than [`LEAST_FRAC`] is never assumed. What
//! looks say of *who* is guilty does not change: harm and its uncertainty grow alike.
//!
//! Source: issue "Name the polluter and limit only it" (right lags); trials in which who slowed a service twofold
//! was named and not limited.

use super::measure::Steps;
use quell_types::Tenant;
use std::collections::BTreeMap;

/// Times in which a harm may go, in seconds; the first is at once.
const TIMES_S: [f64; 7] = [0.0, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64];
/// Probability that it goes at once, before any look.
const AT_ONCE_FRAC: f64 = 0.5;
/// As long as it is so likely, it is taken for that.
const DOUBT_FRAC: f64 = 0.05;
/// What is assumed of how large a harm may be, in ln.
const HARM_SD: f64 = 0.5;
/// No smaller share of a harm is assumed to be what looks see.
const LEAST_FRAC: f64 = 0.15;
/// It is less likely than this that looks see more than the most that they may see.
const MORE_FRAC: f64 = 0.1;
/// What remains of earlier looks after one: a service's own ways change.
const KEEP_FRAC: f64 = 0.995;
/// Of so many suspects sums are kept, of those with the most looks.
const MOST_SUSPECTS: usize = 16;

/// Evidence about the harm of one suspect, for one time: of precision, and of precision times harm.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    precision: f64,
    weighed: f64,
    /// What looks showed of it on average: share and weight.
    shown: (f64, f64),
}

impl Sum {
    fn take(&mut self, seen: f64, share: f64, variance: f64) {
        self.precision += share * share / variance;
        self.weighed += share * seen / variance;
    }

    fn fade(&mut self) {
        let Self { precision, weighed, shown } = self;
        let sums = [precision, weighed, &mut shown.0, &mut shown.1];
        sums.into_iter().for_each(|sum| *sum *= KEEP_FRAC);
    }

    /// ln of how likely the looks are, whatever the harm is, up to a constant.
    fn evidence_ln(self) -> f64 {
        let prior = 1.0 / (HARM_SD * HARM_SD);
        let all = self.precision + prior;
        0.5 * (libm::log(prior / all) + self.weighed * self.weighed / all)
    }
}

/// What was learnt of one service.
#[derive(Clone, Debug, Default)]
pub struct Settling {
    suspects: BTreeMap<Tenant, [Sum; TIMES_S.len()]>,
}

impl Settling {
    /// Learns from a look at somebody who is probably guilty.
    pub fn look(&mut self, held: &Tenant, steps: &Steps) {
        if !(steps.chip_s > 0.0 && steps.first_ln.is_finite() && steps.second_ln.is_finite()) {
            return;
        }
        self.suspects.values_mut().flatten().for_each(Sum::fade);
        let mean_ln = f64::midpoint(steps.first_ln, steps.second_ln);
        let apart_ln = steps.second_ln - steps.first_ln;
        let sums = self.suspects.entry(held.clone()).or_default();
        for (sum, time_s) in sums.iter_mut().zip(TIMES_S) {
            let (first, second) = shares(time_s, steps.chip_s);
            let share = f64::midpoint(first, second);
            sum.take(mean_ln, share, steps.mean_variance);
            sum.take(apart_ln, second - first, steps.apart_variance);
            sum.shown.0 += share / steps.mean_variance;
            sum.shown.1 += 1.0 / steps.mean_variance;
        }
        if self.suspects.len() > MOST_SUSPECTS {
            let of = |sums: &[Sum; TIMES_S.len()]| sums[0].precision;
            let least = self.suspects.iter().min_by(|a, b| of(a.1).total_cmp(&of(b.1)));
            let least = least.map(|(tenant, _)| tenant.clone());
            least.into_iter().for_each(|tenant| self.forget(&tenant));
        }
    }

    /// Forgets one of them.
    pub fn forget(&mut self, suspect: &Tenant) {
        self.suspects.remove(suspect);
    }

    /// The share of a harm that looks see, of 0 to 1.
    #[must_use]
    pub fn seen_frac(&self) -> f64 {
        let weights = self.weights();
        let all: f64 = weights.iter().sum();
        if self.suspects.is_empty() || weights[0] >= DOUBT_FRAC * all {
            return 1.0;
        }
        let later = weights.iter().enumerate().skip(1);
        let seen: f64 = later.map(|(time, weight)| weight * self.shown_frac(time)).sum();
        (seen / (all - weights[0])).clamp(LEAST_FRAC, 1.0)
    }

    /// The most that it may be: what is limited for its harm is to do so much for sure.
    #[must_use]
    pub fn most_seen_frac(&self) -> f64 {
        if self.seen_frac() >= 1.0 {
            return 1.0;
        }
        let weights = self.weights();
        let all: f64 = weights.iter().sum();
        let mut sooner = 0.0;
        let time = weights.iter().position(|weight| {
            sooner += weight;
            sooner > MORE_FRAC * all
        });
        time.map_or(1.0, |time| self.shown_frac(time)).clamp(self.seen_frac(), 1.0)
    }

    /// What all looks together showed of a harm that goes in this time: long ones more than short ones.
    fn shown_frac(&self, time: usize) -> f64 {
        let all = self.suspects.values().map(|sums| sums[time].shown);
        let (share, weight) = all.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        share / weight.max(f64::MIN_POSITIVE)
    }

    /// How likely each time is, the likeliest about 1.
    fn weights(&self) -> [f64; TIMES_S.len()] {
        let later = (1.0 - AT_ONCE_FRAC) / (TIMES_S.len() - 1) as f64;
        let ln = |time: usize| {
            let evidence: f64 = self.suspects.values().map(|sums| sums[time].evidence_ln()).sum();
            evidence + libm::log(if time == 0 { AT_ONCE_FRAC } else { later })
        };
        let all: [f64; TIMES_S.len()] = std::array::from_fn(ln);
        let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        all.map(|ln| libm::exp(ln - most))
    }
}

/// Which shares of a harm that goes in this time the first and the second chip show.
fn shares(time_s: f64, chip_s: f64) -> (f64, f64) {
    if time_s <= 0.0 {
        return (1.0, 1.0);
    }
    let left = libm::exp(-chip_s / time_s);
    let gone = time_s / chip_s * (1.0 - left);
    (1.0 - gone, 1.0 - gone * left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHIP_S: f64 = 0.05;

    /// A look at a harm that goes in such a time, of which the noise is known.
    fn look(harm_ln: f64, time_s: f64, noise: (f64, f64)) -> Steps {
        let (first, second) = shares(time_s, CHIP_S);
        let (mean_variance, apart_variance) = (0.03 * 0.03, 0.05 * 0.05);
        Steps {
            first_ln: harm_ln * first + 0.03 * noise.0 - 0.025 * noise.1,
            second_ln: harm_ln * second + 0.03 * noise.0 + 0.025 * noise.1,
            mean_variance,
            apart_variance,
            chip_s: CHIP_S,
        }
    }

    /// Noise that is neither too regular nor to be drawn.
    fn noise(i: u32) -> (f64, f64) {
        (libm::sin(f64::from(i) * 12.9898) * 1.4, libm::sin(f64::from(i) * 78.233) * 1.4)
    }

    fn after(looks: u32, harm_ln: f64, time_s: f64) -> Settling {
        let mut settling = Settling::default();
        for i in 0..looks {
            settling.look(&"d".into(), &look(harm_ln, time_s, noise(i)));
        }
        settling
    }

    #[test]
    fn chips_show_more_and_more_of_what_takes_time() {
        assert_eq!(shares(0.0, CHIP_S), (1.0, 1.0));
        let (first, second) = shares(0.05, CHIP_S);
        assert!(
            (first - 0.368).abs() < 0.001 && (second - 0.767).abs() < 0.001,
            "{first} {second}"
        );
        let (first, second) = shares(5.0, CHIP_S);
        assert!(first < 0.01 && second < 0.02);
    }

    #[test]
    fn how_much_is_seen_of_it_is_found_out() {
        for (time_s, harm_ln) in [(0.04, 0.4), (0.1, 0.5), (0.32, 0.7)] {
            let (first, second) = shares(time_s, CHIP_S);
            let seen = after(60, harm_ln, time_s).seen_frac();
            let truly = f64::midpoint(first, second);
            assert!((seen / truly).max(truly / seen) < 1.5, "{time_s}: {seen} of {truly}");
        }
    }

    #[test]
    fn what_is_over_at_once_is_seen_in_full() {
        for looks in [0, 1, 5, 20, 200, 2000] {
            assert_eq!(after(looks, 0.3, 0.0).seen_frac(), 1.0, "{looks}");
            assert_eq!(after(looks, 0.0, 0.0).seen_frac(), 1.0, "{looks}");
        }
    }

    #[test]
    fn one_look_says_nothing_yet() {
        assert_eq!(after(1, 0.3, 0.1).seen_frac(), 1.0);
    }

    #[test]
    fn who_goes_takes_what_was_seen_of_him_along() {
        let mut settling = after(60, 0.5, 0.1);
        settling.forget(&"d".into());
        assert_eq!(settling.seen_frac(), 1.0);
        for i in 0..40_u32 {
            settling.look(&Tenant::new(format!("g{i}")), &look(0.3, 0.0, noise(i)));
        }
        assert_eq!(settling.suspects.len(), MOST_SUSPECTS);
    }

    proptest! {
        #[test]
        fn it_is_a_share_whatever_comes(
            steps in prop::collection::vec(
                (-9.0..9.0_f64, -9.0..9.0_f64, 1e-9..9.0_f64, 1e-9..9.0_f64, 1e-4..1.0_f64), 0..40),
        ) {
            let mut settling = Settling::default();
            for (first_ln, second_ln, mean_variance, apart_variance, chip_s) in steps {
                let steps = Steps { first_ln, second_ln, mean_variance, apart_variance, chip_s };
                settling.look(&"d".into(), &steps);
            }
            let (seen, most) = (settling.seen_frac(), settling.most_seen_frac());
            prop_assert!((LEAST_FRAC..=1.0).contains(&seen), "{seen}");
            prop_assert!((seen..=1.0).contains(&most), "{seen} {most}");
        }
    }
}
