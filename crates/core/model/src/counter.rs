//! Rates of growing counters.

use quell_types::{Gap, Reading, Time};

/// Remembers the last good value of a growing counter and gives its growth.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    last: Option<(Time, u64)>,
}

impl Counter {
    /// Forgets the past (another workload, a counter made anew).
    pub fn reset(&mut self) {
        self.last = None;
    }

    /// Growth since the last good value and the seconds it took. A counter that went back was made
    /// anew: its past is forgotten and the answer is a gap.
    ///
    /// # Errors
    /// The reading's own gap, or [`Gap::NotYet`] at the first good value.
    pub fn growth(&mut self, time: Time, value: &Reading<u64>) -> Reading<(u64, f64)> {
        let value = *value.as_ref().map_err(Clone::clone)?;
        let before = self.last.replace((time, value));
        let Some((then, old)) = before else { return Err(Gap::not_yet("one sample so far")) };
        let seconds = time.since(then).as_secs_f64();
        if value < old {
            return Err(Gap::not_yet("the counter began anew"));
        }
        if seconds <= 0.0 {
            self.last = Some((then, old));
            return Err(Gap::not_yet("no time has passed"));
        }
        Ok((value - old, seconds))
    }

    /// Growth per second.
    ///
    /// # Errors
    /// As [`Counter::growth`].
    pub fn rate(&mut self, time: Time, value: &Reading<u64>) -> Reading<f64> {
        self.growth(time, value).map(|(units, seconds)| units as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_two_good_values() {
        let mut c = Counter::default();
        let s = |n: u64| Time(n * 1_000_000_000);
        assert!(matches!(c.rate(s(1), &Ok(10)), Err(Gap::NotYet(_))));
        assert!(matches!(c.rate(s(2), &Err(Gap::failed("x"))), Err(Gap::Failed(_))));
        assert_eq!(c.rate(s(3), &Ok(30)), Ok(10.0));
        assert!(matches!(c.rate(s(4), &Ok(5)), Err(Gap::NotYet(_))), "made anew");
        assert_eq!(c.rate(s(5), &Ok(6)), Ok(1.0));
    }

    #[test]
    fn a_sample_at_the_same_moment_changes_nothing() {
        let mut c = Counter::default();
        let _ = c.rate(Time(1_000_000_000), &Ok(10));
        assert!(c.rate(Time(1_000_000_000), &Ok(20)).is_err());
        assert_eq!(c.rate(Time(2_000_000_000), &Ok(30)), Ok(20.0));
    }
}
