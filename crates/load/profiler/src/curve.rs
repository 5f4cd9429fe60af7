//! A sensitivity curve: how fast a workload still is at each intensity of pressure on one resource
//! and where its quality of service is lost (B-6).

mod posterior;

pub use posterior::Posterior;

use crate::stats::falling;

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
        let pairs = x.into_iter().zip(falling(&y)).map(|(x, speed)| (x, speed.clamp(0.0, 1.0)));
        Curve { points: std::iter::once((0.0, 1.0)).chain(pairs).collect() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_points_nothing_is_lost() {
        assert_eq!(Curve::through(&[]).reaches(0.95), 100.0);
        assert_eq!(Curve::through(&[]).at(50.0), 1.0);
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
