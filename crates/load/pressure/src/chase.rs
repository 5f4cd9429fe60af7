//! A pointer chase: what an access costs a thread that waits for each.
//!
//! Unlike a kernel it presses on nothing: between two timed chains it does no other work, so what
//! it takes of a cache is what its own accesses bring in.

use crate::PressureError;
use crate::kernel::{Probe, Stopwatch, below, flush, step, streams, time_chain};
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
        self.mean(span, false, Weight::Access)
    }

    /// The same, where no cache may hold what is reached: lines are flushed just before, if the
    /// processor lets a program do that ([`Chase::FLUSHES`]). Else only memory larger than all
    /// caches will do.
    pub fn far_access_ns(&mut self, span: Duration) -> Option<f64> {
        self.mean(span, true, Weight::Access)
    }

    /// What an access takes at any moment of a span, in nanoseconds: each chain counts for the time from
    /// the one before to its end. The mean over accesses has fewer of them while they take long; this one
    /// lies halfway between two values if each holds for half of the time.
    pub fn moment_ns(&mut self, span: Duration) -> Option<f64> {
        self.mean(span, false, Weight::Time)
    }

    /// The same as [`Chase::moment_ns`], reached as in [`Chase::far_access_ns`].
    pub fn far_moment_ns(&mut self, span: Duration) -> Option<f64> {
        self.mean(span, true, Weight::Time)
    }

    fn mean(&mut self, span: Duration, far: bool, weight: Weight) -> Option<f64> {
        let (begun, mut before, mut mean) = (Instant::now(), Duration::ZERO, Mean::default());
        while before < span {
            if far {
                self.flush_ahead();
            }
            let lines = &self.region.lines()[..self.lines];
            let probe = time_chain(self.watch, lines, &mut self.state, CHAIN);
            let now = begun.elapsed();
            if let Some(probe) = probe {
                mean.add(probe, now - before, weight);
            }
            before = now;
        }
        mean.ns()
    }

    /// Flushes the lines to which the next chain will go; no word has its top bit set, so that is known.
    fn flush_ahead(&self) {
        let lines = &self.region.lines()[..self.lines];
        let mut ahead = self.state;
        flush((0..CHAIN).map(|_| {
            let line = &lines[below(ahead, lines.len() as u64)];
            ahead = step(ahead);
            line
        }));
    }
}

/// For how much a chain counts in a mean.
#[derive(Clone, Copy)]
enum Weight {
    /// For its accesses.
    Access,
    /// For the time since the one before.
    Time,
}

/// A chain counts for no longer than so many times what it took: what is longer is time in which the thread
/// had no CPU.
const LONGEST_SINCE: u32 = 4;

/// A mean over chains.
#[derive(Default)]
struct Mean {
    sum: f64,
    all: f64,
}

impl Mean {
    fn add(&mut self, probe: Probe, since_last: Duration, weight: Weight) {
        let access_ns = probe.took.as_nanos() as f64 / probe.accesses as f64;
        let weight = match weight {
            Weight::Access => probe.accesses as f64,
            Weight::Time => since_last.min(LONGEST_SINCE * probe.took).as_secs_f64(),
        };
        self.sum += weight * access_ns;
        self.all += weight;
    }

    fn ns(&self) -> Option<f64> {
        (self.all > 0.0).then(|| self.sum / self.all)
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
    fn a_moment_lies_halfway_where_each_of_two_times_holds_for_half_of_the_span() {
        // A microsecond at 10 ns an access and one at 40: 100 and 25 accesses.
        let chains = [(10, 10); 10].into_iter().chain([(40, 10), (40, 10), (40, 5)]);
        let of = |weight| {
            let mut mean = Mean::default();
            for (ns, accesses) in chains.clone() {
                let took = Duration::from_nanos(ns * accesses);
                mean.add(Probe { took, accesses }, took, weight);
            }
            mean.ns().unwrap()
        };
        assert!((of(Weight::Time) - 25.0).abs() < 1e-9);
        assert!((of(Weight::Access) - 2000.0 / 125.0).abs() < 1e-9);
        assert_eq!(Mean::default().ns(), None);
    }

    #[test]
    fn time_without_a_cpu_counts_for_little() {
        let mut mean = Mean::default();
        let probe = |ns: u64| Probe { took: Duration::from_nanos(64 * ns), accesses: 64 };
        (0..100).for_each(|_| mean.add(probe(10), Duration::from_nanos(640), Weight::Time));
        mean.add(probe(20), Duration::from_secs(1), Weight::Time);
        assert!(mean.ns().unwrap() < 11.0);
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
