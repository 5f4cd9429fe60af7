//! A dial that turns a running polluter by hand, in place of its plan.
//!
//! A measurement switches pressure on and off many times a second. To arm anew each time would take
//! longer than the measurement, so an armed polluter can be turned, and muted: muted threads sleep,
//! and many may lie ready beside each other on one CPU.

use crate::{Intensity, Plan};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Follows the plan: no intensity has these bits.
const PLAN: u64 = u64::MAX;
/// Sleeps.
const MUTED: u64 = u64::MAX - 1;

/// What a thread does now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Course {
    /// Presses (at 0 it idles, awake).
    At(Intensity),
    /// Sleeps until the dial is turned.
    Muted,
}

/// The dial: an intensity as bits, or one of the two words above.
#[derive(Debug)]
pub(crate) struct Dial(AtomicU64);

impl Dial {
    /// Nobody has touched it: the plan holds.
    pub(crate) fn new() -> Dial {
        Dial(AtomicU64::new(PLAN))
    }

    pub(crate) fn turn_to(&self, intensity: Intensity) {
        self.0.store(intensity.percent().to_bits(), Relaxed);
    }

    pub(crate) fn mute(&self) {
        self.0.store(MUTED, Relaxed);
    }

    /// Tells one position from another.
    pub(crate) fn setting(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn course(&self, plan: &Plan, now: Duration) -> Course {
        match self.setting() {
            PLAN => Course::At(plan.at(now)),
            MUTED => Course::Muted,
            bits => Course::At(Intensity::new(f64::from_bits(bits)).unwrap_or(Intensity::ZERO)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_holds_until_somebody_turns() {
        let (dial, plan) = (Dial::new(), Plan::Hold(Intensity::FULL));
        assert_eq!(dial.course(&plan, Duration::ZERO), Course::At(Intensity::FULL));
        for percent in [0.0, 0.1, 40.0, 100.0] {
            let wanted = Intensity::new(percent).unwrap();
            dial.turn_to(wanted);
            assert_eq!(dial.course(&plan, Duration::from_secs(9)), Course::At(wanted));
        }
        dial.mute();
        assert_eq!(dial.course(&plan, Duration::ZERO), Course::Muted);
    }
}
