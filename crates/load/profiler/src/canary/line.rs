//! A line of cache that two CPUs pass to and fro: how long it is on its way tells whether they share a cache.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::{Duration, Instant};

/// Ways to and fro that are timed together: some microseconds, so that the clock does not count.
const BURST: u32 = 32;

/// A line of its own. Odd is to be answered, even was.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Line(AtomicU32);

impl Line {
    /// Passes it until then, to somebody who answers meanwhile. What one way took in the fastest burst, in
    /// ns; none if no burst was answered in time.
    pub(super) fn passes_ns(&self, end: Instant) -> Option<f64> {
        let mut least: Option<Duration> = None;
        while let Some(took) = self.burst(end) {
            least = Some(least.map_or(took, |known| known.min(took)));
        }
        least.map(|took| took.as_nanos() as f64 / f64::from(2 * BURST))
    }

    fn burst(&self, end: Instant) -> Option<Duration> {
        let begun = Instant::now();
        for _ in 0..BURST {
            let asked = self.0.load(Relaxed) | 1;
            self.0.store(asked, Release);
            let mut waited = 0_u32;
            while self.0.load(Acquire) == asked {
                waited += 1;
                // The clock costs as much as the way: it is asked only of who does not answer.
                if waited.is_multiple_of(256) && Instant::now() >= end {
                    return None;
                }
            }
        }
        let now = Instant::now();
        (now < end).then(|| now - begun)
    }

    /// Answers until then.
    pub(super) fn answers(&self, end: Instant) {
        while Instant::now() < end {
            for _ in 0..256 {
                let found = self.0.load(Acquire);
                if found & 1 == 1 {
                    self.0.store(found.wrapping_add(1), Release);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_is_timed_and_who_does_not_is_not_waited_for() {
        let line = Line::default();
        let end = || Instant::now() + Duration::from_millis(300);
        assert_eq!(line.passes_ns(Instant::now() + Duration::from_millis(2)), None);
        let until = end();
        std::thread::scope(|scope| {
            scope.spawn(|| line.answers(until));
            let ns = line.passes_ns(until);
            // On one CPU they never run at once.
            assert!(ns.is_none_or(|ns| ns > 1.0), "{ns:?}");
        });
    }
}
