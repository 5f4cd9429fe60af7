//! How hard to press, and how that changes with time.

use crate::PressureError;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// An intensity in percent, 0..100 (B-2).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Intensity(f64);

impl Intensity {
    /// Nothing at all.
    pub const ZERO: Intensity = Intensity(0.0);
    /// All that the kernel can do.
    pub const FULL: Intensity = Intensity(100.0);

    /// Checks the range; what is not a number is refused too.
    pub fn new(percent: f64) -> Result<Self, PressureError> {
        if (0.0..=100.0).contains(&percent) {
            Ok(Intensity(percent))
        } else {
            Err(PressureError::Intensity(percent.to_string()))
        }
    }

    /// 0..100.
    #[must_use]
    pub fn percent(self) -> f64 {
        self.0
    }

    /// 0..1.
    #[must_use]
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }

    /// This share of a whole, rounded down; the whole itself at 100.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        if self.0 >= 100.0 { whole } else { ((whole as f64) * self.share()) as u64 }
    }
}

impl fmt::Display for Intensity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Intensity {
    type Err = PressureError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || PressureError::Intensity(text.chars().take(40).collect());
        let percent = text.trim().trim_end_matches('%').parse().map_err(|_| bad())?;
        Intensity::new(percent).map_err(|_| bad())
    }
}

/// Intensity over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plan {
    /// The same all the time.
    Hold(Intensity),
    /// From one to the other in equal steps of time, then hold (B-3).
    Ramp {
        /// At the start.
        from: Intensity,
        /// At the end, and afterwards.
        to: Intensity,
        /// How long the way takes.
        over: Duration,
    },
}

impl Plan {
    /// B-3: a full ramp takes this long unless told otherwise.
    pub const RAMP: Duration = Duration::from_millis(10);

    /// The intensity `t` after the start.
    #[must_use]
    pub fn at(&self, t: Duration) -> Intensity {
        match *self {
            Plan::Hold(intensity) => intensity,
            Plan::Ramp { to, over, .. } if t >= over => to,
            Plan::Ramp { from, to, over } => {
                let way = t.as_secs_f64() / over.as_secs_f64();
                Intensity((from.0 + (to.0 - from.0) * way).clamp(0.0, 100.0))
            }
        }
    }

    /// Gives a ramp another duration; a held intensity stays as it is.
    #[must_use]
    pub fn over(self, over: Duration) -> Plan {
        match self {
            Plan::Ramp { from, to, .. } => Plan::Ramp { from, to, over },
            hold => hold,
        }
    }

    /// The highest intensity on the way.
    #[must_use]
    pub fn peak(&self) -> Intensity {
        match *self {
            Plan::Hold(intensity) => intensity,
            Plan::Ramp { from, to, .. } => Intensity(from.0.max(to.0)),
        }
    }

    /// The slice of a duty cycle that follows this plan: a ramp is cut into a hundred steps at
    /// least, however short it is, down to what the clock can tell apart.
    pub(crate) fn slice(&self, wanted: Duration) -> Duration {
        match *self {
            Plan::Hold(_) => wanted,
            Plan::Ramp { over, .. } => wanted.min(over / 100).max(Duration::from_micros(20)),
        }
    }
}

impl FromStr for Plan {
    type Err = PressureError;

    /// `70` holds, `0:100` ramps (over [`Plan::RAMP`] until [`Plan::over`] says otherwise).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None => Ok(Plan::Hold(text.parse()?)),
            Some((from, to)) => {
                Ok(Plan::Ramp { from: from.parse()?, to: to.parse()?, over: Plan::RAMP })
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::Hold(intensity) => write!(f, "{intensity}"),
            Plan::Ramp { from, to, over } => write!(f, "{from}:{to} in {} s", over.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_holds_and_ramps_and_refuses_the_rest() {
        assert_eq!("70".parse::<Plan>().unwrap(), Plan::Hold(Intensity(70.0)));
        assert_eq!("12.5%".parse::<Plan>().unwrap(), Plan::Hold(Intensity(12.5)));
        let ramp = "0:100".parse::<Plan>().unwrap();
        assert_eq!(ramp.to_string(), "0:100 in 0.01 s");
        for text in ["", "-1", "101", "NaN", "inf", "0:", ":100", "0:101", "a", "1:2:3"] {
            assert!(text.parse::<Plan>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_ramp_goes_all_the_way_and_holds() {
        let second = Duration::from_secs(1);
        let up = "0:100".parse::<Plan>().unwrap().over(second);
        let down = "80:20".parse::<Plan>().unwrap().over(second);
        for (plan, at_ms, percent) in [
            (up, 0, 0.0),
            (up, 250, 25.0),
            (up, 1000, 100.0),
            (up, 5000, 100.0),
            (down, 500, 50.0),
            (down, 9000, 20.0),
        ] {
            let got = plan.at(Duration::from_millis(at_ms)).percent();
            assert!((got - percent).abs() < 1e-9, "{plan} at {at_ms} ms: {got}");
        }
        assert_eq!(down.peak(), Intensity(80.0));
        assert_eq!(up.over(Duration::ZERO).at(Duration::ZERO), Intensity::FULL);
    }

    #[test]
    fn a_short_ramp_has_fine_slices() {
        let ms = Duration::from_millis(1);
        let ramp: Plan = "0:100".parse().unwrap();
        assert_eq!(ramp.slice(ms), Duration::from_micros(100));
        assert_eq!(ramp.over(Duration::from_secs(10)).slice(ms), ms);
        assert_eq!(Plan::Hold(Intensity::FULL).slice(ms), ms);
    }

    proptest! {
        #[test]
        fn never_leaves_the_range(from in 0.0..=100.0f64, to in 0.0..=100.0f64,
                                  over_us in 0u64..1_000_000, t_us in 0u64..2_000_000) {
            let plan = Plan::Ramp {
                from: Intensity(from), to: Intensity(to), over: Duration::from_micros(over_us),
            };
            let at = plan.at(Duration::from_micros(t_us)).percent();
            prop_assert!(at >= from.min(to) - 1e-9 && at <= from.max(to) + 1e-9);
        }

        #[test]
        fn a_share_is_a_share(percent in 0.0..=100.0f64, whole in 0u64..1 << 40) {
            let part = Intensity(percent).of(whole);
            prop_assert!(part <= whole);
            prop_assert!((part as f64 - whole as f64 * percent / 100.0).abs() <= 1.0);
        }
    }
}
