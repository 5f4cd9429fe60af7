//! What a few noisy ratios tell of a sensitivity curve.
//!
//! **Problem.** A level has two to ten ratios of short windows, each off by 3 to 20 % on a shared host. The place where the
//! curve through their middles falls below 95 % is then mostly chance: a workload that loses nothing has a middle
//! below 0.95 now and then, and was told to tolerate 14, 58 or 100 of the same resource in three profiles (B-6).
//!
//! **Idea.** Not every curve is as likely as any other before anything was measured: most workloads lose nothing that
//! can be told to most resources; a loss may be small or large; more pressure never makes faster. Weigh each curve
//! of a family by how well it explains **all** ratios of a resource, the noise unknown as well, and tell the middle of
//! what is then believed, with the interval that holds 95 % of it (Bayes' rule on a grid). Who loses nothing needs
//! few ratios for that; who loses something needs as many as it takes to say so.
//!
//! ```text
//! curve:    speed(x) = 1 − a·g(x/100);  g straight from (0, 0) by a knee (u, f) to (1, 1)
//!           knees: u of 0.1 to 0.9, f of 0 to 1: nothing until late, evenly, nearly all at once
//! before:   a = 0 with a half; else ln a even between 0.01 and 0.95; knees alike; ln σ normal around 0.04, twice or half
//! ratio r:  ln(r / speed(x)) of Student's law, 4 degrees of freedom, scale σ (a shared host has outliers)
//! after:    weight(a, u, f) = before × Σ over σ of before(σ) × the product over all ratios
//! told:     the weighted middle, and the quantiles 2.5 and 97.5 %, of the place where speed = threshold, or of a
//! ```
//!
//! Units: intensities in percent, speeds and losses as shares. Degradation: without ratios what was believed before is
//! told, which is 100 tolerated and 0 lost with intervals that say how little that is worth. A loss of less than 1 % is
//! taken for none. Source: B-6; the family holds what R-1's curves look like.

use super::Level;
use crate::stats::Estimate;
use std::sync::LazyLock;

/// Before anything was measured: that nothing is lost.
const NOTHING_LOST: f64 = 0.5;
/// Losses at full pressure that count as some, as shares, and how many between.
const LEAST_LOSS: f64 = 0.01;
const MOST_LOSS: f64 = 0.95;
const LOSSES: usize = 48;
/// Where knees are.
const KNEES_AT: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
const KNEES_FELL: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
/// The scale of the noise: what is usual, by which factor it may be off, and the grid around it. No less than a hundredth,
/// since real curves are not quite of the family.
const USUAL_NOISE: f64 = 0.04;
const NOISE_FACTOR: f64 = 2.0;
const NOISES: usize = 9;
const LEAST_NOISE: f64 = 0.01;
const NOISE_STEP: f64 = 1.5;
/// Degrees of freedom.
const FREEDOM: f64 = 4.0;
/// Speeds at which a ratio's likelihood is tabulated, from 1 down.
const SPEEDS: usize = 400;
const SPEED_STEP: f64 = 0.0025;
/// Who does nothing at all under pressure counts as doing so much.
const STANDS_STILL: f64 = 0.02;

/// One curve of the family.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// The loss at full pressure.
    loss: f64,
    /// Of the way to full pressure, and of the loss, where the knee is.
    at: f64,
    fell: f64,
    /// The logarithm of how likely it is before anything was measured.
    before: f64,
}

impl Candidate {
    fn speed(&self, percent: f64) -> f64 {
        let u = (percent / 100.0).clamp(0.0, 1.0);
        let part = if u <= self.at {
            self.fell * u / self.at
        } else {
            self.fell + (1.0 - self.fell) * (u - self.at) / (1.0 - self.at)
        };
        1.0 - self.loss * part
    }

    /// It stands for all losses that are nearest to its own: three of them.
    fn cell(self) -> [Candidate; 3] {
        let third = loss_step().powf(1.0 / 3.0);
        [1.0 / third, 1.0, third]
            .map(|part| Candidate { loss: (part * self.loss).min(1.0), ..self })
    }

    /// The lowest intensity at which the speed has fallen to `speed`; 100 if it never does.
    fn reaches(&self, speed: f64) -> f64 {
        let part = (1.0 - speed) / self.loss.max(1e-12);
        if part >= 1.0 {
            return 100.0;
        }
        let u = if part < self.fell {
            self.at * part / self.fell
        } else {
            self.at + (1.0 - self.at) * (part - self.fell) / (1.0 - self.fell)
        };
        100.0 * u
    }
}

/// From one loss to the next.
fn loss_step() -> f64 {
    (MOST_LOSS / LEAST_LOSS).powf(1.0 / (LOSSES - 1) as f64)
}

/// The family, the curve that loses nothing first.
static FAMILY: LazyLock<Vec<Candidate>> = LazyLock::new(|| {
    let knees = KNEES_AT.iter().flat_map(|at| KNEES_FELL.iter().map(move |fell| (*at, *fell)));
    let some = (KNEES_AT.len() * KNEES_FELL.len() * LOSSES) as f64;
    let before = ((1.0 - NOTHING_LOST) / some).ln();
    let losses = std::iter::successors(Some(LEAST_LOSS), |loss| Some(loss * loss_step()));
    let losses: Vec<f64> = losses.take(LOSSES).collect();
    let lose = knees.flat_map(|(at, fell)| {
        losses.iter().map(move |&loss| Candidate { loss, at, fell, before })
    });
    let nothing = Candidate { loss: 0.0, at: 0.5, fell: 0.5, before: NOTHING_LOST.ln() };
    std::iter::once(nothing).chain(lose).collect()
});

/// Scales of the noise, each with the logarithm of how likely it is before anything was measured.
fn noises() -> impl Iterator<Item = (f64, f64)> {
    (0..NOISES).map(|step| {
        let scale = LEAST_NOISE * NOISE_STEP.powf(step as f64);
        let off = (scale / USUAL_NOISE).ln() / NOISE_FACTOR.ln();
        (scale, -0.5 * off * off)
    })
}

/// How many speeds below 1 one is, in the table of a likelihood.
fn step_of(speed: f64) -> usize {
    (((1.0 - speed) / SPEED_STEP).round() as usize).min(SPEEDS - 1)
}

/// The logarithm of how likely ratios are, by the speed around which they lie, with noise of one scale.
fn likelihood(ratio_logs: &[f64], scale: f64) -> Vec<f64> {
    let one = |off: f64| -0.5 * (FREEDOM + 1.0) * (off * off / FREEDOM).ln_1p() - scale.ln();
    let at = |step: usize| {
        let speed = (1.0 - SPEED_STEP * step as f64).ln();
        ratio_logs.iter().map(|log| one((log - speed) / scale)).sum()
    };
    (0..SPEEDS).map(at).collect()
}

/// The logarithms of the ratios that count, and each candidate's speed at their level; none without any.
fn heard(level: &Level) -> Option<(Vec<f64>, Vec<usize>)> {
    let counts = |ratio: &&f64| ratio.is_finite() && **ratio >= 0.0;
    let log = |ratio: &f64| ratio.max(STANDS_STILL).ln();
    let logs: Vec<f64> = level.ratios.iter().filter(counts).map(log).collect();
    let speeds = || FAMILY.iter().map(|candidate| step_of(candidate.speed(level.percent)));
    (level.percent > 0.0 && !logs.is_empty()).then(|| (logs, speeds().collect()))
}

/// What is believed of a curve once its ratios are known.
#[derive(Clone, Debug)]
pub struct Posterior {
    /// By the family's order; they sum up to 1.
    weights: Vec<f64>,
}

impl Posterior {
    /// After these.
    #[must_use]
    pub fn of(levels: &[Level]) -> Posterior {
        let heard: Vec<(Vec<f64>, Vec<usize>)> = levels.iter().filter_map(heard).collect();
        let by_noise: Vec<Vec<f64>> = noises()
            .map(|(scale, before)| {
                let mut logs: Vec<f64> = FAMILY.iter().map(|one| before + one.before).collect();
                for (ratios, speeds) in &heard {
                    let by_speed = likelihood(ratios, scale);
                    logs.iter_mut().zip(speeds).for_each(|(log, &step)| *log += by_speed[step]);
                }
                logs
            })
            .collect();
        let most = by_noise.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        let weight = |at: usize| by_noise.iter().map(|logs| (logs[at] - most).exp()).sum();
        let mut weights: Vec<f64> = (0..FAMILY.len()).map(weight).collect();
        let all: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= all);
        Posterior { weights }
    }

    /// The lowest intensity at which the speed has fallen to `speed`, 0..100.
    #[must_use]
    pub fn reaches(&self, speed: f64) -> Estimate {
        self.told(|candidate| candidate.reaches(speed))
    }

    /// The loss at full pressure, as a share.
    #[must_use]
    pub fn loss(&self) -> Estimate {
        self.told(|candidate| candidate.loss)
    }

    fn told(&self, of: impl Fn(&Candidate) -> f64) -> Estimate {
        let believed = FAMILY.iter().zip(&self.weights);
        let mut sorted: Vec<(f64, f64)> = believed
            .flat_map(|(one, weight)| one.cell().map(|part| (of(&part), weight / 3.0)))
            .collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let quantile = |share: f64| {
            let mut below = 0.0;
            let mut reached = sorted.iter().skip_while(|(_, weight)| {
                below += weight;
                below < share
            });
            reached.next().or(sorted.last()).map_or(f64::NAN, |(value, _)| *value)
        };
        Estimate { value: quantile(0.5), low: quantile(0.025), high: quantile(0.975) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Resampler;
    use proptest::prelude::*;

    const KEPT: f64 = 0.95;

    fn level(percent: f64, ratios: &[f64]) -> Level {
        Level { percent, ratios: ratios.to_vec() }
    }

    /// As many at each of these levels; one ratio in ten is three times as far off as the others.
    fn measured(
        speed: impl Fn(f64) -> f64,
        noise: f64,
        pairs: usize,
        source: &mut Resampler,
    ) -> Vec<Level> {
        let mut off = || {
            let further = if source.below(10) == 0 { 3.0 } else { 1.0 };
            noise * further * source.normal()
        };
        let mut at = |percent: f64| {
            let ratios: Vec<f64> = (0..pairs).map(|_| speed(percent) * (1.0 + off())).collect();
            level(percent, &ratios)
        };
        [100.0, 50.0, 25.0, 75.0].map(&mut at).to_vec()
    }

    #[test]
    fn curves_and_places_on_them_are_inverse() {
        for candidate in FAMILY.iter() {
            let at = candidate.reaches(KEPT);
            let speed = candidate.speed(at);
            assert!(at >= 100.0 || (speed - KEPT).abs() < 1e-9, "{candidate:?}: {at} {speed}");
            assert!(candidate.speed(100.0) <= candidate.speed(50.0), "{candidate:?}");
            assert!((candidate.speed(100.0) - (1.0 - candidate.loss)).abs() < 1e-9);
        }
    }

    #[test]
    fn a_clear_loss_is_found_where_it_is() {
        let mut source = Resampler::new(3);
        for (what, speed, noise, at, off) in [
            ("even", (|x| 1.0 - 0.002 * x) as fn(f64) -> f64, 0.001, 25.0, 3.0),
            ("even, noise", |x| 1.0 - 0.004 * x, 0.02, 12.5, 4.0),
            ("late", |x| 1.0 - 0.01 * (x - 60.0).max(0.0), 0.01, 65.0, 6.0),
            ("soon", |x| 1.0 - 0.01 * x.min(30.0), 0.01, 5.0, 3.0),
        ] {
            let found = Posterior::of(&measured(speed, noise, 6, &mut source)).reaches(KEPT);
            assert!((found.value - at).abs() < off, "{what}: {found:?}");
            assert!(
                found.low <= at && at <= found.high && found.width() < 20.0,
                "{what}: {found:?}"
            );
        }
    }

    #[test]
    fn who_loses_nothing_is_told_to_tolerate_all_again_and_again() {
        for (noise, pairs, least) in [(0.03, 4, 100), (0.08, 4, 98), (0.15, 4, 90)] {
            let mut source = Resampler::new(5);
            let mut whole =
                || Posterior::of(&measured(|_| 1.0, noise, pairs, &mut source)).reaches(KEPT).value;
            let hits = (0..100).filter(|_| whole() >= 90.0).count();
            assert!(hits >= least, "{hits} of 100 with noise of {noise}");
        }
    }

    #[test]
    fn intervals_hold_the_truth() {
        let mut source = Resampler::new(11);
        for (loss, noise) in [(0.0, 0.08), (0.04, 0.05), (0.08, 0.03), (0.15, 0.08), (0.4, 0.12)] {
            let speed = |x: f64| 1.0 - loss * x / 100.0;
            let at = if loss <= 0.05 { 100.0 } else { 5.0 / loss };
            let mut holds = || {
                let found = Posterior::of(&measured(speed, noise, 5, &mut source)).reaches(KEPT);
                found.low <= at + 1.0 && at - 1.0 <= found.high
            };
            let hits = (0..100).filter(|_| holds()).count();
            assert!(hits >= 88, "{hits} of 100 at a loss of {loss} with noise of {noise}");
        }
    }

    #[test]
    fn one_bad_ratio_of_four_moves_little() {
        let found = Posterior::of(&[level(100.0, &[1.0, 0.5, 1.01, 0.99])]);
        assert_eq!((found.reaches(KEPT).value, found.loss().value), (100.0, 0.0));
        let lost = Posterior::of(&[level(100.0, &[0.8, 0.81, 1.2, 0.79, 0.8, 0.78])]).loss().value;
        assert!((lost - 0.2).abs() < 0.02, "{lost}");
    }

    #[test]
    fn few_ratios_that_differ_tell_little() {
        let found = |ratios: &[f64]| Posterior::of(&[level(100.0, ratios)]).reaches(KEPT);
        let (few, many) = (found(&[0.88, 0.90]), found(&[0.88, 0.90].repeat(10)));
        assert!(few.width() > 50.0, "{few:?}");
        assert!(many.value > 20.0 && many.value < 70.0, "the knee is not known: {many:?}");
    }

    #[test]
    fn who_stands_still_has_lost_all() {
        let found = Posterior::of(&[level(100.0, &[0.0; 4]), level(50.0, &[0.5, 0.52, 0.48, 0.5])]);
        assert!(found.loss().value > 0.85, "{:?}", found.loss());
        assert!(found.reaches(KEPT).value < 15.0, "{:?}", found.reaches(KEPT));
    }

    #[test]
    fn without_ratios_it_is_said_that_nothing_is_known() {
        for levels in [vec![], vec![level(100.0, &[])], vec![level(100.0, &[f64::NAN, -1.0])]] {
            let found = Posterior::of(&levels);
            let (reached, lost) = (found.reaches(KEPT), found.loss());
            assert!(reached.high >= 100.0 && reached.low < 20.0, "{reached:?}");
            assert!(lost.low <= 0.0 && lost.high > 0.5, "{lost:?}");
        }
    }

    proptest! {
        #[test]
        fn ends_enclose_the_value(ratios in proptest::collection::vec(0.01f64..3.0, 1..12), threshold in 0.5f64..0.99) {
            let found = Posterior::of(&[level(100.0, &ratios[..ratios.len() / 2]), level(50.0, &ratios)]);
            for (one, most) in [(found.reaches(threshold), 100.0), (found.loss(), 1.0)] {
                prop_assert!(0.0 <= one.low && one.low <= one.value, "{one:?}");
                prop_assert!(one.value <= one.high && one.high <= most, "{one:?}");
            }
        }
    }
}
