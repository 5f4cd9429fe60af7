//! Which intensity is tried next on one resource, and what is known.

use super::Tolerance;
use quell_types::Time;

/// The first intensity.
const FIRST: f64 = 10.0;
/// What was kept may be exceeded by this factor at most.
const GROWTH: f64 = 2.0;
/// Known well enough: only changes are looked for.
const RESOLUTION: f64 = 10.0;
/// Nothing weaker is tried.
const LEAST: f64 = 2.0;

/// What is known of one service and resource.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ladder {
    /// The highest intensity that was kept.
    low: f64,
    /// The lowest that was lost.
    high: Option<f64>,
    /// Which end is looked at next when both are known.
    look_high: bool,
    probes: u32,
    told: Time,
    /// When it was probed last.
    pub(super) last: Option<Time>,
}

impl Ladder {
    /// The next intensity: never above what was lost, nor far above what was kept.
    pub(super) fn next(&self) -> f64 {
        let most = if self.low > 0.0 { GROWTH * self.low } else { FIRST };
        let wanted = match self.high {
            None => most.max(FIRST),
            Some(high) if high - self.low > RESOLUTION => f64::midpoint(self.low, high).min(most),
            Some(high) if self.look_high => high.min(most),
            Some(_) => self.low,
        };
        wanted.clamp(LEAST, 100.0)
    }

    /// What a probe at `percent`, as it was really pressed, has told.
    pub(super) fn tell(&mut self, kept: bool, percent: f64, time: Time) {
        (self.probes, self.told) = (self.probes + 1, time);
        self.look_high = !self.look_high;
        if kept {
            self.low = self.low.max(percent);
            self.high = self.high.filter(|high| *high > self.low);
        } else {
            self.high = Some(percent);
            if self.low >= percent {
                self.low = percent / 2.0;
            }
        }
    }

    /// The highest intensity that was kept.
    pub(super) fn kept(&self) -> f64 {
        self.low
    }

    /// None until it is known on both sides.
    pub(super) fn tolerance(&self) -> Option<Tolerance> {
        let settled = self.high.is_some() || self.low >= 99.0;
        (settled && self.probes > 0).then_some(Tolerance {
            kept_percent: self.low,
            lost_percent: self.high.unwrap_or(100.0),
            probes: self.probes,
            time: self.told,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn climb(ladder: &mut Ladder, limit: f64, probes: u64) -> f64 {
        let mut most = 0.0f64;
        for i in 0..probes {
            let next = ladder.next();
            most = most.max(next);
            ladder.tell(next <= limit, next, Time(i));
        }
        most
    }

    #[test]
    fn it_begins_with_little_and_never_more_than_doubles() {
        let (mut ladder, mut seen) = (Ladder::default(), Vec::new());
        for i in 0..6 {
            seen.push(ladder.next());
            let next = ladder.next();
            ladder.tell(true, next, Time(i));
        }
        assert_eq!(seen, [10.0, 20.0, 40.0, 80.0, 100.0, 100.0]);
        let found = ladder.tolerance().unwrap();
        assert_eq!((found.kept_percent, found.lost_percent), (100.0, 100.0));
    }

    #[test]
    fn a_service_that_became_weaker_or_stronger_is_found_so() {
        let mut ladder = Ladder::default();
        climb(&mut ladder, 55.0, 12);
        let found = ladder.tolerance().unwrap();
        assert!(found.kept_percent <= 55.0 && found.lost_percent > 55.0, "{found:?}");
        climb(&mut ladder, 15.0, 12);
        let weaker = ladder.tolerance().unwrap();
        assert!(weaker.kept_percent <= 15.0 && weaker.lost_percent <= 30.0, "{weaker:?}");
        climb(&mut ladder, 90.0, 20);
        let stronger = ladder.tolerance().unwrap();
        assert!(stronger.kept_percent > 70.0, "{stronger:?}");
    }

    proptest! {
        #[test]
        fn the_limit_is_found_without_going_far_beyond_it(limit in 3.0f64..100.0) {
            let mut ladder = Ladder::default();
            let most = climb(&mut ladder, limit, 16);
            let found = ladder.tolerance().unwrap();
            prop_assert!(found.kept_percent <= limit && found.lost_percent >= limit.min(100.0));
            prop_assert!(found.lost_percent - found.kept_percent <= RESOLUTION + 1e-9);
            prop_assert!(most <= (GROWTH * limit).max(FIRST) + 1e-9, "{most} for {limit}");
        }
    }
}
