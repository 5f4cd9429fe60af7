//! How hard a culprit works that is to do little harm.

use super::Taken;
use std::time::Duration;

/// How hard each thread of a culprit works that is to do little harm, in percent of a CPU.
///
/// One who takes the CPU works in turns of half a millisecond and sleeps between two, so that less of
/// it is fewer turns, not shorter ones, and harm goes to nothing with it. (At a low CPU weight turns
/// would be rare, not short, and who comes in one waits for its end. With turns a millisecond apart the
/// wake-ups alone do harm.) One who takes memory, from CPUs that are not the service's, may work all
/// the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Duty {
    percent: f64,
    taken: Taken,
}

impl Duty {
    const TURN_S: f64 = 0.0005;

    /// The least and the most. Who takes the CPU with more than 45 has turns longer than 0.8 ms, since
    /// sleeps are of a millisecond at least.
    pub(in super::super) fn bounds(taken: Taken) -> (f64, f64) {
        match taken {
            Taken::Cpu => (0.5, 45.0),
            Taken::Memory => (5.0, 100.0),
        }
    }

    /// Kept within bounds, to a tenth of a percent.
    pub(in super::super) fn new(taken: Taken, percent: f64) -> Self {
        let (least, most) = Self::bounds(taken);
        Self { percent: (10.0 * percent.clamp(least, most)).round() / 10.0, taken }
    }

    pub(in super::super) fn percent(self) -> f64 {
        self.percent
    }

    /// Length of a slice of its duty cycle; none: as short as a sleep allows.
    pub(super) fn slice(self) -> Option<Duration> {
        let short = Duration::from_secs_f64(100.0 * Self::TURN_S / self.percent);
        (self.taken == Taken::Cpu).then_some(short)
    }
}
