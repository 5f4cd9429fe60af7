//! A hand on a running generator, and what it came to so far.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A hand on a running generator: sets its rate or stops it. Clones share the same run.
#[derive(Clone, Debug, Default)]
pub struct Controls(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Counts changes; 0 means that the profile holds.
    version: AtomicU64,
    rate_bits: AtomicU64,
    stop: AtomicBool,
    asked: AtomicU64,
    failed: AtomicU64,
    answered: AtomicU64,
    sojourn_ns: AtomicU64,
    told: AtomicU64,
    service_ns: AtomicU64,
    keeps: AtomicBool,
    kept_ns: Mutex<Vec<u64>>,
}

/// Sojourns that are kept at a time: what is more is not kept.
const MOST_KEPT: usize = 1 << 20;

/// What a run came to so far, its warm-up included. It never falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that were due.
    pub asked: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Their sojourns together, in ns.
    pub sojourn_ns: u64,
    /// Those of them whose service time the server told.
    pub told: u64,
    /// Service times that it told, together, in ns.
    pub service_ns: u64,
}

impl Tally {
    /// What came since then.
    #[must_use]
    pub fn since(self, then: Tally) -> Tally {
        Tally {
            asked: self.asked.wrapping_sub(then.asked),
            failed: self.failed.wrapping_sub(then.failed),
            answered: self.answered.wrapping_sub(then.answered),
            sojourn_ns: self.sojourn_ns.wrapping_sub(then.sojourn_ns),
            told: self.told.wrapping_sub(then.told),
            service_ns: self.service_ns.wrapping_sub(then.service_ns),
        }
    }

    /// Requests that were due and of which nothing was heard.
    #[must_use]
    pub fn open(self) -> u64 {
        self.asked.saturating_sub(self.answered + self.failed)
    }

    /// The mean time that the server says that a request took, or the mean sojourn where it does not say, in ms; none
    /// without an answer.
    #[must_use]
    pub fn mean_ms(self) -> Option<f64> {
        let told = (self.service_ns, self.told);
        let (ns, count) = if self.told > 0 { told } else { (self.sojourn_ns, self.answered) };
        (count > 0).then(|| ns as f64 / count as f64 / 1e6)
    }
}

impl Controls {
    /// Leaves the profile and offers `qps` requests per second from now on, within a tenth of a
    /// second; after a rate of 0 within some milliseconds. What is no rate (negative, not finite) is ignored.
    pub fn set_rate(&self, qps: f64) {
        if qps.is_finite() && qps >= 0.0 {
            self.0.rate_bits.store(qps.to_bits(), Ordering::Release);
            self.0.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Ends the run early; what was measured so far is reported.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Release);
    }

    /// Whether the run is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.stop.load(Ordering::Acquire)
    }

    /// What the run came to so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            answered: read(&self.0.answered),
            failed: read(&self.0.failed),
            asked: read(&self.0.asked),
            sojourn_ns: read(&self.0.sojourn_ns),
            told: read(&self.0.told),
            service_ns: read(&self.0.service_ns),
        }
    }

    /// Keeps the sojourn of each answer from now on, up to about a million, and forgets those kept before.
    pub fn keep_sojourns(&self) {
        self.kept().clear();
        self.0.keeps.store(true, Ordering::Release);
    }

    /// Those kept, in ns, in the order of the answers; no more are kept.
    #[must_use]
    pub fn take_sojourns(&self) -> Vec<u64> {
        self.0.keeps.store(false, Ordering::Release);
        std::mem::take(&mut *self.kept())
    }

    fn kept(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.kept_ns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request that is due.
    pub(crate) fn count_asked(&self) {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that failed.
    pub(crate) fn count_failed(&self) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an answer.
    pub(crate) fn count(&self, sojourn_ns: u64, service_ns: Option<u64>) {
        if self.0.keeps.load(Ordering::Acquire) {
            let mut kept = self.kept();
            if kept.len() < MOST_KEPT {
                kept.push(sojourn_ns);
            }
        }
        self.0.answered.fetch_add(1, Ordering::Relaxed);
        self.0.sojourn_ns.fetch_add(sojourn_ns, Ordering::Relaxed);
        if let Some(ns) = service_ns {
            self.0.told.fetch_add(1, Ordering::Relaxed);
            self.0.service_ns.fetch_add(ns, Ordering::Relaxed);
        }
    }

    /// The number of changes so far and the newest rate, if any.
    pub(crate) fn rate(&self) -> (u64, f64) {
        let version = self.0.version.load(Ordering::Acquire);
        (version, f64::from_bits(self.0.rate_bits.load(Ordering::Acquire)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sound_rates_are_taken() {
        let controls = Controls::default();
        controls.set_rate(f64::NAN);
        controls.set_rate(-1.0);
        assert_eq!(controls.rate().0, 0);
        controls.set_rate(7.0);
        assert_eq!(controls.rate(), (1, 7.0));
    }

    #[test]
    fn sojourns_are_kept_between_two_words() {
        let controls = Controls::default();
        controls.count(1, None);
        controls.keep_sojourns();
        controls.count(2, None);
        controls.count(3, None);
        assert_eq!(controls.take_sojourns(), [2, 3]);
        controls.count(4, None);
        assert!(controls.take_sojourns().is_empty());
    }

    #[test]
    fn what_is_neither_answered_nor_failed_is_open() {
        let controls = Controls::default();
        (0..5).for_each(|_| controls.count_asked());
        controls.count(7, None);
        controls.count_failed();
        assert_eq!(controls.tally().open(), 3);
    }

    #[test]
    fn a_tally_tells_what_the_server_says_where_it_does() {
        let controls = Controls::default();
        assert_eq!(controls.tally().mean_ms(), None);
        controls.count(3_000_000, None);
        let then = controls.tally();
        assert_eq!(then.mean_ms(), Some(3.0));
        controls.count(8_000_000, Some(1_000_000));
        controls.count(8_000_000, Some(2_000_000));
        let since = controls.tally().since(then);
        assert_eq!((since.answered, since.sojourn_ns, since.told), (2, 16_000_000, 2));
        assert_eq!(since.mean_ms(), Some(1.5));
    }
}
