//! How the offered rate goes over time.

use crate::LoadError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the rate varies steadily it is taken as constant for this long.
const PIECE_S: f64 = 0.01;
/// A day has at least so many pieces, and so cannot be too short.
const PIECES_A_DAY: f64 = 500.0;
const SHORTEST_DAY_S: f64 = 0.1;

/// The offered rate in requests per second as a function of the seconds since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "profile", rename_all = "snake_case")]
pub enum Profile {
    /// Always the same.
    Constant {
        /// The rate.
        qps: f64,
    },
    /// One rate, then from `at_s` on another.
    Step {
        /// Before.
        from_qps: f64,
        /// After.
        to_qps: f64,
        /// When.
        at_s: f64,
    },
    /// A straight line from `from_qps` to `to_qps`, flat before and after.
    Ramp {
        /// Before.
        from_qps: f64,
        /// After.
        to_qps: f64,
        /// When it begins to change.
        start_s: f64,
        /// How long the change takes.
        length_s: f64,
    },
    /// A jump from `base_qps` to `crowd_qps`, held, and back: 30 → 90 % of peak in the demo.
    FlashCrowd {
        /// Before and after.
        base_qps: f64,
        /// While the crowd is there.
        crowd_qps: f64,
        /// When it comes.
        at_s: f64,
        /// How long it stays.
        hold_s: f64,
    },
    /// A sine between two rates that begins at its low.
    Diurnal {
        /// At night.
        low_qps: f64,
        /// At noon.
        high_qps: f64,
        /// Length of a day, at least 0.1 s.
        period_s: f64,
    },
}

impl Profile {
    /// The rate at a time.
    #[must_use]
    pub fn rate_at(&self, t_s: f64) -> f64 {
        match *self {
            Profile::Constant { qps } => qps,
            Profile::Step { from_qps, to_qps, at_s } => {
                if t_s < at_s {
                    from_qps
                } else {
                    to_qps
                }
            }
            Profile::Ramp { from_qps, to_qps, start_s, length_s } => {
                let done = ((t_s - start_s) / length_s.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
                from_qps + (to_qps - from_qps) * done
            }
            Profile::FlashCrowd { base_qps, crowd_qps, at_s, hold_s } => {
                if t_s >= at_s && t_s < at_s + hold_s { crowd_qps } else { base_qps }
            }
            Profile::Diurnal { low_qps, high_qps, period_s } => {
                let phase = (t_s / period_s * std::f64::consts::TAU).cos();
                low_qps + (high_qps - low_qps) * (1.0 - phase) / 2.0
            }
        }
    }

    /// The end of the piece that begins at `t_s` on which the rate may be taken as constant.
    fn piece_end(&self, t_s: f64) -> f64 {
        let next = |edges: &[f64]| {
            edges.iter().copied().filter(|&edge| edge > t_s).fold(f64::INFINITY, f64::min)
        };
        match *self {
            Profile::Constant { .. } => f64::INFINITY,
            Profile::Step { at_s, .. } => next(&[at_s]),
            Profile::FlashCrowd { at_s, hold_s, .. } => next(&[at_s, at_s + hold_s]),
            Profile::Diurnal { period_s, .. } => t_s + PIECE_S.min(period_s / PIECES_A_DAY),
            Profile::Ramp { start_s, length_s, .. } => {
                let edge = next(&[start_s, start_s + length_s]);
                let varies = t_s >= start_s && t_s < start_s + length_s;
                if varies { edge.min(t_s + PIECE_S) } else { edge }
            }
        }
    }

    /// The rate on a piece, taken at its middle.
    fn piece_rate(&self, from_s: f64, to_s: f64) -> f64 {
        if to_s.is_finite() {
            self.rate_at(f64::midpoint(from_s, to_s))
        } else {
            self.rate_at(from_s)
        }
    }

    /// The expected number of requests between two times.
    #[must_use]
    pub fn expected(&self, from_s: f64, to_s: f64) -> f64 {
        let (mut at, mut sum) = (from_s, 0.0);
        while at < to_s {
            let end = self.piece_end(at).min(to_s);
            sum += self.piece_rate(at, end) * (end - at);
            at = end;
        }
        sum
    }

    /// The time by which `expected` more requests are due after `from_s`; infinite if the rate
    /// stays zero.
    #[must_use]
    pub fn time_of(&self, from_s: f64, expected: f64) -> f64 {
        let (mut at, mut left) = (from_s, expected);
        loop {
            let end = self.piece_end(at);
            let rate = self.piece_rate(at, end);
            if rate > 0.0 && left <= rate * (end - at) {
                return at + time_for(left, rate, self.slope(at), end - at);
            }
            if end.is_infinite() {
                return f64::INFINITY;
            }
            left -= rate.max(0.0) * (end - at);
            at = end;
        }
    }

    /// How fast the rate grows from a time on, where it does so steadily within a piece.
    fn slope(&self, t_s: f64) -> f64 {
        match *self {
            Profile::Ramp { from_qps, to_qps, start_s, length_s }
                if t_s >= start_s && t_s < start_s + length_s =>
            {
                (to_qps - from_qps) / length_s
            }
            _ => 0.0,
        }
    }

    /// Every rate a finite number that is not negative and not all zero, every time positive.
    pub fn check(&self) -> Result<(), LoadError> {
        let (rates, times): (&[f64], &[f64]) = match self {
            Profile::Constant { qps } => (&[*qps], &[]),
            Profile::Step { from_qps, to_qps, at_s } => (&[*from_qps, *to_qps], &[*at_s]),
            Profile::Ramp { from_qps, to_qps, start_s, length_s } => {
                (&[*from_qps, *to_qps], &[*start_s, *length_s])
            }
            Profile::FlashCrowd { base_qps, crowd_qps, at_s, hold_s } => {
                (&[*base_qps, *crowd_qps], &[*at_s, *hold_s])
            }
            Profile::Diurnal { low_qps, high_qps, period_s } => {
                if !(period_s.is_finite() && *period_s >= SHORTEST_DAY_S) {
                    return Err(LoadError::option("period_s", "must be at least 0.1"));
                }
                (&[*low_qps, *high_qps], &[])
            }
        };
        let sound = |x: &f64| x.is_finite() && *x >= 0.0;
        if !rates.iter().all(sound) || rates.iter().sum::<f64>() <= 0.0 {
            return Err(LoadError::option(
                "qps",
                "rates must be finite, not negative, not all zero",
            ));
        }
        if !times.iter().all(sound) {
            return Err(LoadError::option("profile", "times must be finite and not negative"));
        }
        Ok(())
    }
}

/// How long it takes until so many requests are due, within a piece of this length whose rate in the middle is
/// known and grows steadily.
fn time_for(requests: f64, middle_qps: f64, slope: f64, piece_s: f64) -> f64 {
    if slope == 0.0 {
        return requests / middle_qps;
    }
    let first_qps = middle_qps - slope * piece_s / 2.0;
    let last_qps = (first_qps * first_qps + 2.0 * slope * requests).max(0.0).sqrt();
    2.0 * requests / (first_qps + last_qps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn profiles() -> impl Strategy<Value = Profile> {
        let (rate, time) = (1.0..5000.0f64, 0.01..5.0f64);
        prop_oneof![
            rate.clone().prop_map(|qps| Profile::Constant { qps }),
            (rate.clone(), rate.clone(), time.clone())
                .prop_map(|(from_qps, to_qps, at_s)| Profile::Step { from_qps, to_qps, at_s }),
            (rate.clone(), rate.clone(), time.clone(), time.clone()).prop_map(
                |(from_qps, to_qps, start_s, length_s)| Profile::Ramp {
                    from_qps,
                    to_qps,
                    start_s,
                    length_s
                }
            ),
            (rate.clone(), rate.clone(), time.clone(), time.clone()).prop_map(
                |(base_qps, crowd_qps, at_s, hold_s)| Profile::FlashCrowd {
                    base_qps,
                    crowd_qps,
                    at_s,
                    hold_s
                }
            ),
            (rate.clone(), rate, 0.1..5.0f64).prop_map(|(low_qps, high_qps, period_s)| {
                Profile::Diurnal { low_qps, high_qps, period_s }
            }),
        ]
    }

    #[test]
    fn rates_follow_their_shape() {
        let crowd =
            Profile::FlashCrowd { base_qps: 300.0, crowd_qps: 900.0, at_s: 2.0, hold_s: 3.0 };
        let ramp = Profile::Ramp { from_qps: 100.0, to_qps: 200.0, start_s: 1.0, length_s: 2.0 };
        let day = Profile::Diurnal { low_qps: 10.0, high_qps: 110.0, period_s: 10.0 };
        for (profile, at, rate) in [
            (&crowd, 1.9, 300.0),
            (&crowd, 2.0, 900.0),
            (&crowd, 5.0, 300.0),
            (&ramp, 0.5, 100.0),
            (&ramp, 2.0, 150.0),
            (&ramp, 9.0, 200.0),
            (&day, 0.0, 10.0),
            (&day, 5.0, 110.0),
        ] {
            assert!((profile.rate_at(at) - rate).abs() < 1e-9, "{profile:?} at {at}");
        }
    }

    #[test]
    fn refuses_what_is_no_profile() {
        for bad in [
            Profile::Constant { qps: 0.0 },
            Profile::Constant { qps: f64::NAN },
            Profile::Step { from_qps: -1.0, to_qps: 5.0, at_s: 1.0 },
            Profile::Step { from_qps: 1.0, to_qps: 5.0, at_s: f64::INFINITY },
            Profile::Diurnal { low_qps: 1.0, high_qps: 2.0, period_s: 0.0 },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_rate_that_ends_at_zero_has_no_next_request() {
        let gone = Profile::Step { from_qps: 10.0, to_qps: 0.0, at_s: 1.0 };
        assert!(gone.time_of(0.0, 11.0).is_infinite());
        let back = Profile::FlashCrowd { base_qps: 10.0, crowd_qps: 0.0, at_s: 1.0, hold_s: 2.0 };
        assert!((back.time_of(0.0, 11.0) - 3.1).abs() < 1e-9);
    }

    #[test]
    fn a_steep_ramp_has_its_requests_where_they_are_due() {
        let ramp = Profile::Ramp { from_qps: 500.0, to_qps: 3000.0, start_s: 0.2, length_s: 0.07 };
        let to = ramp.time_of(0.18, 135.0);
        assert!((ramp.expected(0.18, to) - 135.0).abs() < 1e-6, "{to}");
        let down = Profile::Ramp { from_qps: 3000.0, to_qps: 0.0, start_s: 0.0, length_s: 0.1 };
        assert!((down.time_of(0.0, 150.0) - 0.1).abs() < 1e-3);
    }

    proptest! {
        #[test]
        fn time_of_inverts_expected(profile in profiles(), from in 0.0..5.0f64, n in 0.1..200.0f64) {
            let to = profile.time_of(from, n);
            prop_assert!(to >= from);
            let back = profile.expected(from, to);
            // The two cut a sine into pieces at different places.
            let highest = (0..500).map(|i| profile.rate_at(f64::from(i) * 0.01)).fold(0.0, f64::max);
            let tolerance = 1e-3 * n.max(1.0) + 2e-5 * highest * (1.0 + to - from);
            prop_assert!((back - n).abs() < tolerance, "{back} for {n}");
        }
    }
}
