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
    /// The slack that counts: the mean over the last `window_s` seconds, this one included, for
    /// growth that chance in one tail shall not move; the newest where that is below 0, since then
    /// every second counts; none where the newest is not known, so that what was does not stand in
    /// for what is.
    pub(super) fn judged(&mut self, now: Time, slack: Option<f64>, window_s: f64) -> Option<f64> {
        let window = seconds(window_s);
        while self.seen.front().is_some_and(|(then, _)| *then + window <= now) {
            self.seen.pop_front();
        }
        let newest = slack?;
        self.seen.push_back((now, newest));
        let sum: f64 = self.seen.iter().map(|(_, slack)| slack).sum();
        let mean = sum / self.seen.len() as f64;
        Some(if newest < 0.0 { newest } else { mean })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn the_window_slides_and_an_unknown_slack_stays_unknown() {
        let mut recent = Recent::default();
        let mut judged = |second, slack| recent.judged(at(second), slack, 2.0);
        assert_eq!(judged(0.0, Some(0.4)), Some(0.4));
        assert_eq!(judged(1.0, Some(0.2)).map(|m| (m * 10.0).round()), Some(3.0));
        assert_eq!(judged(1.5, None), None);
        // The first is two seconds old now.
        assert_eq!(judged(2.0, Some(0.4)).map(|m| (m * 10.0).round()), Some(3.0));
        // Over a missed objective nothing is averaged, and after it the mean remembers.
        assert_eq!(judged(3.0, Some(-0.4)), Some(-0.4));
        assert_eq!(judged(4.0, Some(0.6)).map(|m| (m * 10.0).round()), Some(1.0));
        assert_eq!(judged(60.0, Some(0.3)), Some(0.3));
    }

    #[test]
    fn without_a_window_the_newest_counts() {
        let mut recent = Recent::default();
        assert_eq!(recent.judged(at(0.0), Some(0.9), 0.0), Some(0.9));
        assert_eq!(recent.judged(at(0.5), Some(-0.1), 0.0), Some(-0.1));
    }
}
