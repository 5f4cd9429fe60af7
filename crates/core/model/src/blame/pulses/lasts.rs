//! How long slow moments last, and whether one is about to end.
//!
//! A look begins when a slow sample is over. Moments of a polluter that keeps time are all as long, and a look
//! after the last sample of one comes too late. Banks make that worse: they pay for a look after just so many
//! whole seconds, so that who pulses once a second is met in the same phase each time. So no look is made after the
//! sample with which moments usually end, as long as they have an earlier one.

use super::Pulses;

/// Moments are told from each other to so much of a sample.
const ABOUT_SAMPLES: f64 = 0.5;

impl Pulses {
    /// The longest moment in seconds. Who was slow for longer of late, and then no more, has moments as
    /// long.
    pub(super) fn longest_s(&self) -> f64 {
        let lasted = self.lasted.iter().map(|(_, lasted_s)| 2.0 * lasted_s);
        lasted.fold(self.params.longest_s, f64::max)
    }

    /// How long moments usually last, in seconds; none before one is over.
    fn usual_s(&self) -> Option<f64> {
        let mut all: Vec<f64> = self.lasted.iter().map(|(_, lasted_s)| *lasted_s).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len().saturating_sub(1) / 2).copied()
    }

    /// Whether the sample that was felt last is the one with which moments usually end, and not their only one: a
    /// look would come too late.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        let (Some(open), Some(now)) = (&self.open, self.slow_at) else { return false };
        let Some(usual_s) = self.usual_s() else { return false };
        let sample_s = self.sample_s;
        let lasts_s = now.since(open.since).as_secs_f64() + sample_s;
        let about = |a: f64, b: f64| (a - b).abs() < ABOUT_SAMPLES * sample_s;
        about(lasts_s, usual_s) && !about(usual_s, sample_s)
    }
}
