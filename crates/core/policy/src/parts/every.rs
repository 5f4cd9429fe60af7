//! Periods without a clock.

use quell_types::Time;
use std::time::Duration;

/// Says on which observations a loop of some period steps: the first one, then the first at or
/// after each period. A late observation does not shift the later ones, a long silence (a machine
/// that slept) is not made up for.
#[derive(Clone, Debug)]
pub(crate) struct Every {
    period: Duration,
    next: Option<Time>,
}

/// A span of seconds as parameters give it. They are checked before; a bad one is taken as 0.
pub(crate) fn seconds(span_s: f64) -> Duration {
    Duration::try_from_secs_f64(span_s).unwrap_or_default()
}

impl Every {
    /// A loop that steps on the next observation.
    pub(crate) fn new(period_s: f64) -> Self {
        Self { period: seconds(period_s), next: None }
    }

    /// Whether the loop steps now.
    pub(crate) fn due(&mut self, now: Time) -> bool {
        match self.next {
            Some(next) if now < next => false,
            Some(next) if now < next + self.period => {
                self.next = Some(next + self.period);
                true
            }
            _ => {
                self.next = Some(now + self.period);
                true
            }
        }
    }

    /// How long it is until the loop steps.
    pub(crate) fn left(&self, now: Time) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.since(now))
    }

    /// Lets the loop wait a full period from now.
    pub(crate) fn restart(&mut self, now: Time) {
        self.next = Some(now + self.period);
    }

    /// Lets the loop rest for `rest` and then wait a period, as a loop does that sleeps in its
    /// body.
    pub(crate) fn rest(&mut self, now: Time, rest: Duration) {
        self.next = Some(now + rest + self.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn a_late_observation_does_not_shift_the_next_and_a_gap_is_not_made_up_for() {
        let mut every = Every::new(10.0);
        let due: Vec<bool> = [0.0, 5.0, 12.0, 19.0, 20.0, 95.0, 96.0, 104.0, 105.0]
            .into_iter()
            .map(|second| every.due(at(second)))
            .collect();
        assert_eq!(due, [true, false, true, false, true, true, false, false, true]);
    }

    #[test]
    fn a_rest_comes_on_top_of_the_period() {
        let mut every = Every::new(10.0);
        assert!(every.due(at(0.0)));
        every.rest(at(0.0), seconds(5.0));
        assert!(!every.due(at(14.9)));
        assert!(every.due(at(15.0)));
    }
}
