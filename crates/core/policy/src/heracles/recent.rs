//! Slack over the last seconds.

use crate::parts::seconds;
use quell_types::Time;
use std::collections::VecDeque;

/// The slacks that were seen within a window.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    seen: VecDeque<(Time, f64)>,
}

impl Recent {
    /// The mean slack over the last `window_s` seconds, this one included; none where this one is
    /// not known, so that what was does not stand in for what is.
    pub(super) fn mean(&mut self, now: Time, slack: Option<f64>, window_s: f64) -> Option<f64> {
        let window = seconds(window_s);
        while self.seen.front().is_some_and(|(then, _)| *then + window <= now) {
            self.seen.pop_front();
        }
        let slack = slack?;
        self.seen.push_back((now, slack));
        let sum: f64 = self.seen.iter().map(|(_, slack)| slack).sum();
        Some(sum / self.seen.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn the_window_slides_and_an_unknown_slack_stays_unknown() {
        let mut recent = Recent::default();
        let mut mean = |second, slack| recent.mean(at(second), slack, 2.0);
        assert_eq!(mean(0.0, Some(0.4)), Some(0.4));
        assert_eq!(mean(1.0, Some(0.2)).map(|m| (m * 10.0).round()), Some(3.0));
        assert_eq!(mean(1.5, None), None);
        // The first is two seconds old now.
        assert_eq!(mean(2.0, Some(-0.2)), Some(0.0));
        assert_eq!(mean(60.0, Some(0.3)), Some(0.3));
    }

    #[test]
    fn without_a_window_the_newest_counts() {
        let mut recent = Recent::default();
        assert_eq!(recent.mean(at(0.0), Some(0.9), 0.0), Some(0.9));
        assert_eq!(recent.mean(at(0.5), Some(-0.1), 0.0), Some(-0.1));
    }
}
