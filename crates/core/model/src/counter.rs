//! Rates of growing counters.

use quell_types::{Gap, Reading, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

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

/// The same for counters by CPU.
#[derive(Clone, Debug, Default)]
pub struct CounterByCpu {
    last: Option<(Time, Arc<BTreeMap<u32, u64>>)>,
    /// The rates of last time, if no counter had grown.
    still: Option<Arc<BTreeMap<u32, f64>>>,
}

impl CounterByCpu {
    /// Growth per second of each CPU that was read both times and did not begin anew.
    ///
    /// # Errors
    /// The reading's own gap, or [`Gap::NotYet`] at the first good value.
    pub fn rates(
        &mut self,
        time: Time,
        values: &Reading<Arc<BTreeMap<u32, u64>>>,
    ) -> Reading<Arc<BTreeMap<u32, f64>>> {
        let values = values.as_ref().map_err(Clone::clone)?;
        let Some((then, old)) = &mut self.last else {
            self.last = Some((time, values.clone()));
            return Err(Gap::not_yet("one sample so far"));
        };
        if time <= *then {
            return Err(Gap::not_yet("no time has passed"));
        }
        let seconds = time.since(std::mem::replace(then, time)).as_secs_f64();
        let old = std::mem::replace(old, values.clone());
        let grown = !Arc::ptr_eq(&old, values);
        if !grown && let Some(still) = &self.still {
            return Ok(still.clone());
        }
        let rates = Arc::new(growth_by_cpu(&old, values, seconds));
        self.still = (!grown).then(|| rates.clone());
        Ok(rates)
    }
}

fn growth_by_cpu(
    old: &BTreeMap<u32, u64>,
    now: &BTreeMap<u32, u64>,
    seconds: f64,
) -> BTreeMap<u32, f64> {
    if !now.keys().eq(old.keys()) {
        let both = now.iter().filter_map(|(cpu, now)| Some((cpu, now, *old.get(cpu)?)));
        return rates(both, seconds);
    }
    // The same CPUs as ever: no look-ups.
    rates(now.iter().zip(old.values()).map(|((cpu, now), old)| (cpu, now, *old)), seconds)
}

/// Growth per second of (CPU, now, before), but of those that began anew.
fn rates<'a>(
    counts: impl Iterator<Item = (&'a u32, &'a u64, u64)>,
    seconds: f64,
) -> BTreeMap<u32, f64> {
    let rate = |(cpu, now, before): (&u32, &u64, u64)| {
        Some((*cpu, now.checked_sub(before)? as f64 / seconds))
    };
    counts.filter_map(rate).collect()
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
    fn rates_by_cpu_leave_out_who_came_or_began_anew() {
        let mut c = CounterByCpu::default();
        let at = |n: u64| Time(n * 1_000_000_000);
        let told = |list: &[(u32, f64)]| Ok(Arc::new(list.iter().copied().collect()));
        let of = |list: &[(u32, u64)]| Ok(Arc::new(list.iter().copied().collect()));
        assert!(matches!(c.rates(at(1), &of(&[(0, 5), (1, 9)])), Err(Gap::NotYet(_))));
        assert!(matches!(c.rates(at(2), &Err(Gap::failed("x"))), Err(Gap::Failed(_))));
        let rates = c.rates(at(3), &of(&[(0, 25), (1, 2), (2, 7)]));
        assert_eq!(rates, told(&[(0, 10.0)]));
        assert!(c.rates(at(3), &of(&[(0, 99)])).is_err(), "no time has passed");
        assert_eq!(c.rates(at(4), &of(&[(1, 5), (2, 7)])), told(&[(1, 3.0), (2, 0.0)]));
        assert_eq!(c.rates(at(6), &of(&[(1, 9), (2, 3)])), told(&[(1, 2.0)]), "the same CPUs");
        assert_eq!(c.rates(at(7), &of(&[(1, 9), (2, 4)])), told(&[(1, 0.0), (2, 1.0)]));
    }

    #[test]
    fn counters_that_are_shared_did_not_grow() {
        let mut c = CounterByCpu::default();
        let at = |n: u64| Time(n * 1_000_000_000);
        let shared = Arc::new(BTreeMap::from([(0, 5), (1, 9)]));
        assert!(c.rates(at(1), &Ok(shared.clone())).is_err(), "the first");
        for second in 2..5 {
            let rates = c.rates(at(second), &Ok(shared.clone()));
            assert_eq!(rates, Ok(Arc::new([(0, 0.0), (1, 0.0)].into())), "second {second}");
        }
        let rates = c.rates(at(6), &Ok(Arc::new([(0, 9), (1, 9)].into())));
        assert_eq!(rates, Ok(Arc::new([(0, 2.0), (1, 0.0)].into())), "one grew");
    }

    #[test]
    fn a_sample_at_the_same_moment_changes_nothing() {
        let mut c = Counter::default();
        let _ = c.rate(Time(1_000_000_000), &Ok(10));
        assert!(c.rate(Time(1_000_000_000), &Ok(20)).is_err());
        assert_eq!(c.rate(Time(2_000_000_000), &Ok(30)), Ok(20.0));
    }
}
