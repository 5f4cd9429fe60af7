//! Which intensity is tried next on one resource, and what is known.

use super::Tolerance;
use quell_types::Time;

/// The first intensity.
const FIRST: f64 = 10.0;
/// What was kept may be exceeded by this factor at most.
const GROWTH: f64 = 2.0;
/// Known well enough: only changes are looked for.
const RESOLUTION: f64 = 10.0;
/// Nothing stronger can be asked for.
const MOST: f64 = 100.0;
/// Nothing weaker is tried.
const LEAST: f64 = 2.0;

/// An intensity: as it was asked for, and as it was really pressed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Level {
    pub(super) asked: f64,
    pub(super) pressed: f64,
}

impl Level {
    fn half(self) -> Level {
        Level { asked: self.asked / 2.0, pressed: self.pressed / 2.0 }
    }
}

/// What is known of one service and resource. What is tried next goes by what was asked for, what is
/// told by what was pressed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ladder {
    /// The highest that was kept.
    low: Level,
    /// The lowest that was lost.
    high: Option<Level>,
    /// Which end is looked at next when both are known.
    look_high: bool,
    /// Whether it was known on both sides once: what is found later only moves it.
    known: bool,
    probes: u32,
    told: Time,
    /// When it was probed last.
    pub(super) last: Option<Time>,
}

impl Ladder {
    /// The next intensity: never above what was lost, nor far above what was kept.
    pub(super) fn next(&self) -> f64 {
        let low = self.low.asked;
        let most = if low > 0.0 { GROWTH * low } else { FIRST };
        let wanted = match self.high.map(|high| high.asked) {
            None => most.max(FIRST),
            Some(high) if high - low > RESOLUTION => f64::midpoint(low, high).min(most),
            Some(high) if self.look_high => high.min(most),
            Some(_) => low,
        };
        wanted.clamp(LEAST, MOST)
    }

    /// What a probe has told.
    pub(super) fn tell(&mut self, kept: bool, at: Level, time: Time) {
        (self.probes, self.told) = (self.probes + 1, time);
        self.look_high = !self.look_high;
        if !kept {
            self.high = Some(at);
            if self.low.asked >= at.asked {
                self.low = at.half();
            }
        } else if at.asked >= self.low.asked {
            self.low = at;
            self.high = self.high.filter(|high| high.asked > at.asked);
        }
        self.known |= self.high.is_some() || self.low.asked >= MOST;
    }

    /// The highest intensity that was kept, as it was pressed.
    pub(super) fn kept(&self) -> f64 {
        self.low.pressed
    }

    /// None until it was known on both sides, or nothing stronger could be tried.
    pub(super) fn tolerance(&self) -> Option<Tolerance> {
        self.known.then_some(Tolerance {
            kept_percent: self.low.pressed,
            lost_percent: self.high.map_or(MOST, |high| high.pressed.max(self.low.pressed)),
            probes: self.probes,
            time: self.told,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What presses got all of its CPU.
    fn whole(percent: f64) -> Level {
        Level { asked: percent, pressed: percent }
    }

    fn climb(ladder: &mut Ladder, limit: f64, probes: u64) -> f64 {
        let mut most = 0.0f64;
        for i in 0..probes {
            let next = ladder.next();
            most = most.max(next);
            ladder.tell(next <= limit, whole(next), Time(i));
        }
        most
    }

    #[test]
    fn it_begins_with_little_and_never_more_than_doubles() {
        let (mut ladder, mut seen) = (Ladder::default(), Vec::new());
        for i in 0..6 {
            seen.push(ladder.next());
            let next = ladder.next();
            ladder.tell(true, whole(next), Time(i));
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
