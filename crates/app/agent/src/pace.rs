//! When to sample, and how much of it.

use quell_platform::Scope;
use std::time::{Duration, Instant};

/// Full samples at the interval, fast ones between them.
#[derive(Debug)]
pub(crate) struct Pace {
    step: Duration,
    steps: u32,
    next: u32,
    last: Instant,
}

impl Pace {
    /// Fast steps are left out where no policy steps that often.
    pub(crate) fn new(interval: Duration, fast: Duration, shortest: Option<Duration>) -> Self {
        let wanted = shortest.is_some_and(|period| period < interval);
        let ratio = interval.as_secs_f64() / fast.as_secs_f64().max(1e-3);
        let steps = if wanted { (ratio.round() as u32).max(1) } else { 1 };
        Self { step: interval / steps, steps, next: 0, last: Instant::now() }
    }

    /// Time between two samples, and the scope of the next.
    pub(crate) fn next(&self) -> (Duration, Scope) {
        let scope = if self.next == 0 { Scope::Full } else { Scope::Fast };
        (self.step, scope)
    }

    /// How long there is nothing to do, with a little left for waking up.
    pub(crate) fn idle(&self) -> Duration {
        const WAKE_UP: Duration = Duration::from_millis(5);
        self.step.saturating_sub(self.last.elapsed()).saturating_sub(WAKE_UP)
    }

    /// A sample was taken.
    pub(crate) fn advance(&mut self) {
        self.next = (self.next + 1) % self.steps;
        self.last = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(mut pace: Pace) -> Vec<Scope> {
        let mut one = || {
            let scope = pace.next().1;
            pace.advance();
            scope
        };
        (0..5).map(|_| one()).collect()
    }

    #[test]
    fn fast_steps_lie_between_full_ones_where_a_policy_wants_them() {
        use Scope::{Fast, Full};
        let ms = Duration::from_millis;
        let quick = Pace::new(ms(1000), ms(250), Some(ms(250)));
        assert_eq!(quick.next().0, ms(250));
        assert_eq!(scopes(quick), [Full, Fast, Fast, Fast, Full]);
        let slow = Pace::new(ms(1000), ms(250), Some(ms(1000)));
        assert_eq!(slow.next().0, ms(1000));
        assert_eq!(scopes(slow), [Full; 5]);
        assert_eq!(scopes(Pace::new(ms(1000), ms(250), None)), [Full; 5]);
    }
}
