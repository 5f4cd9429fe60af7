//! A pointer chase: what an access costs a thread that waits for each.
//!
//! Unlike a kernel it presses on nothing: between two timed chains it does no other work, so what
//! it takes of a cache is what its own accesses bring in.

use crate::PressureError;
use crate::kernel::{Stopwatch, below, flush, step, streams, time_chain};
use crate::region::{LINE, Region};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Dependent accesses that are timed together: long against the clock, short against an
/// interruption.
const CHAIN: u32 = 64;

/// Dependent accesses at random over so many bytes, in huge pages where the kernel gives them.
#[derive(Debug)]
pub struct Chase {
    region: Region,
    lines: usize,
    state: u64,
    watch: Stopwatch,
}

impl Chase {
    /// Whether lines can be flushed from all caches here.
    pub const FLUSHES: bool = cfg!(target_arch = "x86_64");

    /// Maps and touches `bytes`, at least a line.
    ///
    /// # Errors
    /// The memory is not to be had.
    pub fn new(bytes: usize) -> Result<Self, PressureError> {
        let [state] = streams::<1>(0);
        let chase = Self {
            region: Region::map(bytes)?,
            lines: (bytes / LINE).max(1),
            state,
            watch: Stopwatch::new(),
        };
        chase.touch();
        Ok(chase)
    }

    /// Bytes that are chased through.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lines * LINE
    }

    /// Writes every line once, in order: brings in as much of them as the caches take.
    pub fn touch(&self) {
        self.region.lines()[..self.lines].iter().for_each(|line| line.word.store(1, Relaxed));
    }

    /// The mean time of an access over a span, in nanoseconds; chains in which the thread was
    /// evidently interrupted are left out. None if there was no other.
    pub fn access_ns(&mut self, span: Duration) -> Option<f64> {
        let (begun, mut took, mut accesses) = (Instant::now(), Duration::ZERO, 0);
        while begun.elapsed() < span {
            let lines = &self.region.lines()[..self.lines];
            if let Some(probe) = time_chain(self.watch, lines, &mut self.state, CHAIN) {
                took += probe.took;
                accesses += probe.accesses;
            }
        }
        (accesses > 0).then(|| took.as_nanos() as f64 / accesses as f64)
    }

    /// The same, where no cache may hold what is reached: lines are flushed just before, if the
    /// processor lets a program do that ([`Chase::FLUSHES`]). Else only memory larger than all
    /// caches will do.
    pub fn far_access_ns(&mut self, span: Duration) -> Option<f64> {
        let (begun, mut took, mut accesses) = (Instant::now(), Duration::ZERO, 0);
        while begun.elapsed() < span {
            let lines = &self.region.lines()[..self.lines];
            // Where the chain will go, since no word has its top bit set.
            let mut ahead = self.state;
            flush((0..CHAIN).map(|_| {
                let line = &lines[below(ahead, lines.len() as u64)];
                ahead = step(ahead);
                line
            }));
            if let Some(probe) = time_chain(self.watch, lines, &mut self.state, CHAIN) {
                took += probe.took;
                accesses += probe.accesses;
            }
        }
        (accesses > 0).then(|| took.as_nanos() as f64 / accesses as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_flushed_is_as_far_as_memory_however_little_it_is() {
        let mut chase = Chase::new(1 << 20).unwrap();
        let span = Duration::from_millis(5);
        let mut median = |far: bool| {
            let once = |_| if far { chase.far_access_ns(span) } else { chase.access_ns(span) };
            let mut seen: Vec<f64> = (0..9).filter_map(once).collect();
            seen.sort_by(f64::total_cmp);
            seen[seen.len() / 2]
        };
        let (near, far) = (median(false), median(true));
        assert!(!Chase::FLUSHES || far > 1.5 * near, "{near} ns and {far} ns");
    }

    #[test]
    fn what_fits_into_a_core_is_reached_sooner_than_what_fits_nowhere() {
        let median = |bytes: usize| {
            let mut chase = Chase::new(bytes).unwrap();
            assert_eq!(chase.bytes(), bytes);
            let mut seen: Vec<f64> =
                (0..9).filter_map(|_| chase.access_ns(Duration::from_millis(5))).collect();
            seen.sort_by(f64::total_cmp);
            seen[seen.len() / 2]
        };
        // A factor of ten and more on every machine of today; 1.5 is safe beside any neighbour.
        let (near, far) = (median(16 << 10), median(256 << 20));
        assert!(far > 1.5 * near, "{near} ns and {far} ns");
    }
}
