//! A sensitivity curve: how fast a workload still is at each intensity of pressure on one resource
//! and where its quality of service is lost (B-6).

use crate::stats::{Estimate, Resampler, falling, falling_medians, might_be};

/// Draws for the interval of a tolerated intensity.
const DRAWS: usize = 300;

/// What was measured at one intensity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Level {
    /// The intensity, 0..100.
    pub percent: f64,
    /// Speed under pressure over the speed in the quiet moments beside it, one a pair.
    pub ratios: Vec<f64>,
}

/// Speed against intensity, as a share of the speed alone. It never rises and is 1 at 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// Through points of (intensity, speed) in rising order of intensity; rises are evened out.
    #[must_use]
    pub fn through(points: &[(f64, f64)]) -> Curve {
        let beyond = points.iter().filter(|(percent, _)| *percent > 0.0);
        let (x, y): (Vec<f64>, Vec<f64>) = beyond.copied().unzip();
        Curve::evened(&x, &falling(&y))
    }

    fn evened(percents: &[f64], speeds: &[f64]) -> Curve {
        let pairs = percents.iter().zip(speeds).map(|(x, speed)| (*x, speed.clamp(0.0, 1.0)));
        Curve { points: std::iter::once((0.0, 1.0)).chain(pairs).collect() }
    }

    /// Through the medians of what was measured; levels that rise are put together.
    #[must_use]
    pub fn of(levels: &[Level]) -> Curve {
        Curve::drawn(levels, <[f64]>::to_vec)
    }

    /// The same of other ratios that those of each level might have been.
    fn drawn(levels: &[Level], mut draw: impl FnMut(&[f64]) -> Vec<f64>) -> Curve {
        let mut one = |level: &Level| {
            let finite = level.ratios.iter().copied().filter(|ratio| ratio.is_finite());
            let finite: Vec<f64> = finite.collect();
            (level.percent > 0.0 && !finite.is_empty()).then(|| (level.percent, draw(&finite)))
        };
        let mut drawn: Vec<(f64, Vec<f64>)> = levels.iter().filter_map(&mut one).collect();
        drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (percents, ratios): (Vec<f64>, Vec<Vec<f64>>) = drawn.into_iter().unzip();
        Curve::evened(&percents, &falling_medians(&ratios))
    }

    /// The points, from (0, 1) on.
    #[must_use]
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The speed at an intensity; beyond the last point as there.
    #[must_use]
    pub fn at(&self, percent: f64) -> f64 {
        let steps = self.points.windows(2).map(|pair| (pair[0], pair[1]));
        let mut inside = steps.filter(|(a, b)| (a.0..=b.0).contains(&percent));
        match inside.next() {
            Some((a, b)) => a.1 + (b.1 - a.1) * (percent - a.0) / (b.0 - a.0),
            None if percent <= 0.0 => 1.0,
            None => self.points.last().map_or(1.0, |last| last.1),
        }
    }

    /// The lowest intensity at which the speed has fallen to `speed`; 100 if it never does.
    #[must_use]
    pub fn reaches(&self, speed: f64) -> f64 {
        let steps = self.points.windows(2).map(|pair| (pair[0], pair[1]));
        let mut falls = steps.filter(|(a, b)| a.1 >= speed && b.1 < speed);
        falls.next().map_or(100.0, |(a, b)| a.0 + (b.0 - a.0) * (a.1 - speed) / (a.1 - b.1))
    }
}

/// The highest intensity at which the speed is `threshold` of that alone, with its interval: from
/// the curve through what was measured, and from curves through what might have been.
#[must_use]
pub fn tolerated(levels: &[Level], threshold: f64) -> Estimate {
    let value = Curve::of(levels).reaches(threshold);
    let mut resampler = Resampler::new(levels.len() as u64);
    let mut one =
        || Curve::drawn(levels, |ratios| might_be(ratios, &mut resampler)).reaches(threshold);
    let draws: Vec<f64> = (0..DRAWS).map(|_| one()).collect();
    Estimate::of_draws(value, &draws)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn levels(speed: impl Fn(f64) -> f64, noise: f64) -> Vec<Level> {
        let mut source = Resampler::new(3);
        let mut near = |v: f64| v + noise * (source.below(1001) as f64 / 500.0 - 1.0);
        let level = |percent: f64| (percent, speed(percent));
        [100.0, 50.0, 25.0, 75.0]
            .map(level)
            .map(|(percent, v)| Level { percent, ratios: (0..6).map(|_| near(v)).collect() })
            .to_vec()
    }

    #[test]
    fn the_crossing_is_found_between_the_levels() {
        let found = tolerated(&levels(|x| 1.0 - 0.002 * x, 0.0), 0.95);
        assert!((found.value - 25.0).abs() < 1e-9, "{found:?}");
        let noisy = tolerated(&levels(|x| 1.0 - 0.004 * x, 0.02), 0.95);
        assert!(noisy.low <= 13.0 && noisy.high >= 11.0 && noisy.width() < 15.0, "{noisy:?}");
    }

    #[test]
    fn what_is_never_lost_is_tolerated_in_full() {
        assert_eq!(tolerated(&levels(|_| 0.99, 0.01), 0.95), Estimate::exact(100.0));
        assert_eq!(Curve::through(&[]).reaches(0.95), 100.0);
        assert_eq!(Curve::through(&[]).at(50.0), 1.0);
    }

    #[test]
    fn a_level_measured_often_outweighs_one_below_that_was_hardly_measured() {
        let level = |percent, value, count| Level { percent, ratios: vec![value; count] };
        let few = |count| [level(25.0, 0.9, 4), level(100.0, 0.99, count)];
        assert_eq!(tolerated(&few(20), 0.95), Estimate::exact(100.0));
        assert!(tolerated(&few(4), 0.95).value < 100.0, "as many say so as not");
    }

    #[test]
    fn two_ratios_do_not_tell_a_place_to_five_points() {
        let level = |ratios: &[f64]| [Level { percent: 100.0, ratios: ratios.to_vec() }];
        let few = tolerated(&level(&[0.88, 0.90]), 0.95);
        assert!((few.value - 45.5).abs() < 0.1 && few.width() > 25.0, "{few:?}");
        let many = tolerated(&level(&[0.88, 0.90].repeat(10)), 0.95);
        assert!(many.width() < 12.0, "{many:?}");
    }

    #[test]
    fn between_points_it_is_straight() {
        let curve = Curve::through(&[(50.0, 0.9), (100.0, 0.5)]);
        for (percent, speed) in [(0.0, 1.0), (25.0, 0.95), (50.0, 0.9), (75.0, 0.7), (120.0, 0.5)] {
            assert!((curve.at(percent) - speed).abs() < 1e-12, "{percent}");
        }
        assert!((curve.reaches(0.7) - 75.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn reaches_and_at_are_inverse(y in proptest::collection::vec(0.1f64..1.0, 4), at in 1.0f64..99.0) {
            let curve = Curve::through(&[(25.0, y[0]), (50.0, y[1]), (75.0, y[2]), (100.0, y[3])]);
            let speed = curve.at(at);
            prop_assert!(curve.reaches(speed) <= 100.0);
            if curve.reaches(speed) < 100.0 {
                prop_assert!((curve.at(curve.reaches(speed)) - speed).abs() < 1e-6);
            }
        }
    }
}
