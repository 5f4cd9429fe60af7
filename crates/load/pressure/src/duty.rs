//! The duty cycle: work during a share of the time, in fine slices.
//!
//! Time is cut into slices. In each, a kernel works for its quota and idles for the rest. A burst
//! of work cannot be cut short, so a slice overshoots by part of a burst; what was worked too much
//! or too little is carried into the next slice, and the long-run share is exact. The carry is
//! bounded: a thread that was preempted or frozen neither catches up in a storm nor
//! pays for time that it did not have. With [`Idle::Pace`] only CPU time is work, and more is carried, so
//! a thread that is preempted all the time uses its share all the same.

use crate::Idle;
use std::time::Duration;

/// A slice that sleeps gives the CPU away for this long at least: shorter ones cost more in
/// wake-ups than they give.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// The longest slice; only shares near 1 with [`Idle::Sleep`] come near it.
const LONGEST_SLICE: Duration = Duration::from_secs(1);
/// Work owed or overdone up to this is evened out (or up to a slice, where that is longer).
const LARGEST_CARRY: Duration = Duration::from_millis(2);
/// The same of a thread that keeps its pace.
const LARGEST_PACED: Duration = Duration::from_millis(25);

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One burst of work.
    Work,
    /// Nothing for at most this long.
    Idle(Duration),
}

/// The arithmetic of a duty cycle. It owns no clock: each call brings the time.
#[derive(Clone, Debug)]
pub struct Duty {
    wanted: Duration,
    idle: Idle,
    began: Duration,
    length: Duration,
    /// Seconds of work still due in this slice; negative after an overshoot.
    due_s: f64,
    seen: Duration,
    working: bool,
}

impl Duty {
    /// A cycle with slices of this length, or longer where [`Idle::Sleep`] needs it.
    #[must_use]
    pub fn new(slice: Duration, idle: Idle) -> Self {
        let wanted = slice.clamp(Duration::from_micros(1), LONGEST_SLICE);
        let zero = Duration::ZERO;
        Duty { wanted, idle, began: zero, length: zero, due_s: 0.0, seen: zero, working: false }
    }

    /// The step at `now` (time since the start, never going back) to work `share` (0..1) of the
    /// time. The share of a slice is the one seen at its begin.
    pub fn next(&mut self, now: Duration, share: f64) -> Step {
        let worked = if self.working { now.saturating_sub(self.seen) } else { Duration::ZERO };
        self.after(now, worked, share)
    }

    /// The same, where so much was worked since the last call, whatever time went by.
    pub fn after(&mut self, now: Duration, worked: Duration, share: f64) -> Step {
        self.due_s -= worked.as_secs_f64();
        self.seen = now;
        if now >= self.began + self.length {
            self.begin(now, share);
        }
        self.working = share >= 1.0 || (share > 0.0 && self.due_s > 0.0);
        if self.working { Step::Work } else { Step::Idle(self.began + self.length - now) }
    }

    /// Starts a slice. What is still due from the last one stays due, within bounds; the time by
    /// which the last slice ran over its end is time in which work was due too.
    fn begin(&mut self, now: Duration, share: f64) {
        let late_s = now.saturating_sub(self.began + self.length).as_secs_f64();
        let largest = if self.idle == Idle::Pace { LARGEST_PACED } else { LARGEST_CARRY };
        let bound = self.length.max(largest).as_secs_f64();
        self.length = self.slice(share);
        let carry = (self.due_s + share * late_s).clamp(-bound, bound);
        self.due_s = carry + share * self.length.as_secs_f64();
        self.began = now;
    }

    /// The same for threads that have to work at the same moments: slices begin at multiples of
    /// their length, the same for all who share a start and a share. Nothing is carried over, so a
    /// slice overshoots by half a burst on average.
    pub fn on_the_grid(&self, now: Duration, share: f64) -> Step {
        let length_s = self.slice(share).as_secs_f64();
        let into_s = now.as_secs_f64() % length_s;
        if share >= 1.0 || into_s < share * length_s {
            return Step::Work;
        }
        Step::Idle(Duration::from_secs_f64(length_s - into_s).max(Duration::from_nanos(1)))
    }

    fn slice(&self, share: f64) -> Duration {
        match self.idle {
            Idle::Sleep | Idle::Pace if share < 1.0 => {
                let needed = SHORTEST_SLEEP.as_secs_f64() / (1.0 - share);
                let longest = LONGEST_SLICE.as_secs_f64();
                self.wanted.max(Duration::from_secs_f64(needed.min(longest)))
            }
            _ => self.wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Plays a duty cycle in which each burst takes the next of `bursts`; gives the time worked
    /// and all the time, in seconds.
    fn play(duty: &mut Duty, share: f64, bursts: &[u64], total: Duration) -> (f64, f64) {
        let (mut now, mut worked) = (Duration::ZERO, Duration::ZERO);
        let mut bursts = bursts.iter().cycle();
        while now < total {
            match duty.next(now, share) {
                Step::Work => {
                    let burst = Duration::from_nanos(*bursts.next().unwrap());
                    worked += burst;
                    now += burst;
                }
                Step::Idle(rest) => now += rest.max(Duration::from_nanos(1)),
            }
        }
        (worked.as_secs_f64(), now.as_secs_f64())
    }

    #[test]
    fn works_its_share_to_the_nanosecond() {
        let mut duty = Duty::new(Duration::from_millis(1), Idle::Spin);
        let (worked, all) = play(&mut duty, 0.25, &[10_000], Duration::from_secs(1));
        assert!((worked / all - 0.25).abs() < 0.001, "{worked} of {all}");
    }

    #[test]
    fn sleeps_are_never_shorter_than_a_millisecond() {
        for percent in [1, 30, 50, 90, 99] {
            let share = f64::from(percent) / 100.0;
            let mut duty = Duty::new(Duration::from_micros(100), Idle::Sleep);
            let (mut now, mut sleeps) = (Duration::ZERO, 0);
            while sleeps < 50 {
                match duty.next(now, share) {
                    Step::Work => now += Duration::from_micros(5),
                    Step::Idle(rest) => {
                        // A burst may reach 5 us into the idle part.
                        assert!(rest >= Duration::from_micros(995), "{percent} %: {rest:?}");
                        now += rest;
                        sleeps += 1;
                    }
                }
            }
        }
    }

    #[test]
    fn on_the_grid_all_work_at_the_same_moments() {
        let duty = Duty::new(Duration::from_millis(1), Idle::Spin);
        for (at_us, share, work) in [
            (0, 0.3, true),
            (299, 0.3, true),
            (301, 0.3, false),
            (7_250, 0.3, true),
            (7_999, 0.3, false),
            (7_999, 1.0, true),
            (8_000, 0.0, false),
        ] {
            let step = duty.on_the_grid(Duration::from_micros(at_us), share);
            assert_eq!(step == Step::Work, work, "{at_us} us, {share}");
            if let Step::Idle(rest) = step {
                let end = (Duration::from_micros(at_us) + rest).as_micros();
                assert!(
                    (999..=1001).contains(&(end % 1000 + if end % 1000 < 2 { 1000 } else { 0 }))
                );
            }
        }
    }

    #[test]
    fn a_frozen_thread_does_not_catch_up() {
        let mut duty = Duty::new(Duration::from_millis(1), Idle::Spin);
        play(&mut duty, 0.5, &[10_000], Duration::from_millis(20));
        let thaw = Duration::from_secs(60);
        let (mut now, mut worked) = (thaw, Duration::ZERO);
        while now < thaw + Duration::from_millis(10) {
            match duty.next(now, 0.5) {
                Step::Work => {
                    now += Duration::from_micros(10);
                    worked += Duration::from_micros(10);
                }
                Step::Idle(rest) => now += rest,
            }
        }
        assert!(worked >= Duration::from_micros(2900), "it goes on working: {worked:?}");
        assert!(worked <= Duration::from_micros(7100), "it does not catch up: {worked:?}");
    }

    #[test]
    fn who_keeps_its_pace_uses_its_share_though_it_is_preempted_all_the_time() {
        // Half of the time that it wants to work somebody else has the CPU.
        for (idle, percent) in [(Idle::Sleep, 20), (Idle::Pace, 40)] {
            let mut duty = Duty::new(Duration::from_millis(1), idle);
            let [mut now, mut used, mut worked] = [Duration::ZERO; 3];
            while now < Duration::from_secs(1) {
                let step = match idle {
                    Idle::Pace => duty.after(now, worked, 0.4),
                    _ => duty.next(now, 0.4),
                };
                worked = Duration::ZERO;
                match step {
                    Step::Work => {
                        worked = Duration::from_micros(10);
                        now += 2 * worked;
                        used += worked;
                    }
                    Step::Idle(rest) => now += rest,
                }
            }
            let found = (used.as_secs_f64() * 100.0 / now.as_secs_f64()).round() as u32;
            assert_eq!(found, percent, "{idle:?}");
        }
    }

    #[test]
    fn who_keeps_its_pace_and_was_frozen_catches_up_for_a_moment() {
        let mut duty = Duty::new(Duration::from_millis(1), Idle::Pace);
        duty.after(Duration::ZERO, Duration::ZERO, 0.5);
        let (mut now, mut without_pause) = (Duration::from_secs(60), Duration::ZERO);
        let burst = Duration::from_micros(100);
        while duty.after(now, burst, 0.5) == Step::Work {
            now += burst;
            without_pause += burst;
        }
        let ms = without_pause.as_millis();
        assert!((45..=57).contains(&ms), "25 ms at half a CPU take 50 ms, not {ms}");
    }

    proptest! {
        #[test]
        fn the_share_is_kept_whatever_the_bursts(
            percent in 0u32..=100,
            bursts in proptest::collection::vec(100u64..200_000, 1..20),
            slice_us in 100u64..5_000,
            sleep in any::<bool>(),
        ) {
            let share = f64::from(percent) / 100.0;
            let idle = if sleep { Idle::Sleep } else { Idle::Spin };
            let mut duty = Duty::new(Duration::from_micros(slice_us), idle);
            let (worked, all) = play(&mut duty, share, &bursts, Duration::from_millis(300));
            let longest = *bursts.iter().max().unwrap() as f64 / 1e9;
            let slice = duty.slice(share).as_secs_f64();
            prop_assert!((worked - share * all).abs() <= slice + longest,
                "worked {worked} of {all}, slice {slice}");
        }

        #[test]
        fn all_is_all_and_nothing_is_nothing(t_us in proptest::collection::vec(0u64..5_000, 1..50)) {
            let (mut full, mut none) = (Duty::new(Duration::from_millis(1), Idle::Spin),
                                        Duty::new(Duration::from_millis(1), Idle::Spin));
            let mut now = Duration::ZERO;
            for step in t_us {
                now += Duration::from_micros(step);
                prop_assert_eq!(full.next(now, 1.0), Step::Work);
                prop_assert!(matches!(none.next(now, 0.0), Step::Idle(_)));
            }
        }
    }
}
