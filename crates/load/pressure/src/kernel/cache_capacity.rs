//! Capacity of a cache: uniform random accesses over x % of it, as fast as they go (B-2: 6, 6', 9).
//!
//! A cache of a core's own is pressed on line by line. The last level is shared, and full of what others
//! use: what counts there is how fast lines come into it, and that they stay. Stores to random lines wait for
//! each other, 8 GB/s from memory where streams reach 25. So there the kernel takes random *rows* of 4 KiB,
//! asks for the next row while it writes this one, and reads each a second time ([`super::rows`],
//! [`super::again`]).

use super::latency::{Stopwatch, time_chain};
use super::random::{below, step, streams};
use super::rows::{ROW, Rows};
use super::{Kernel, Probe};
use crate::Intensity;
use crate::region::{LINE, Line, Region};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Independent generators: as many as stay in registers, so that none waits for another.
const STREAMS: usize = 4;
/// Accesses a burst.
const BURST: usize = 2048;
/// One access in this many goes to the sweep.
const SWEEP_EVERY: usize = 16;
/// Dependent accesses in a latency sample.
const CHAIN: u32 = 16;

/// The part of one thread in the footprint behind one cache. Each thread has lines of its own:
/// written by several, they would press on the interconnect instead.
#[derive(Clone, Debug)]
pub(crate) struct CacheShare {
    /// The footprint at 100 %.
    pub(crate) region: Arc<Region>,
    /// Bytes of it that are used at 100 %: the size of the cache.
    pub(crate) cache_bytes: u64,
    /// Capacity of the cache before it, which is the thread's own; 0 if none or unknown.
    pub(crate) nearer_bytes: u64,
    /// Which thread of how many.
    pub(crate) part: (usize, usize),
    /// Whether it is the last cache before memory, which is pressed on row by row.
    pub(crate) last: bool,
}

/// The kernel. Rows and lines are written first: stores leave the core several times as fast as loads, which
/// fill its window, and a written line is one that the cache has to keep.
///
/// Random order defeats the prefetchers. What would stay in the nearer caches never reaches this
/// one, so a light sweep over as much memory as those hold takes their place there: what is in this
/// cache then is the footprint, also where it is exclusive of the nearer ones. The first level has
/// none before it and needs no sweep.
pub(crate) struct CacheCapacity {
    share: CacheShare,
    sweep: Option<Region>,
    sweep_at: usize,
    lines: Range<usize>,
    states: [u64; STREAMS],
    rows: Rows,
    watch: Stopwatch,
}

impl CacheShare {
    /// This thread's lines of the first `all`.
    fn lines(&self, all: usize) -> Range<usize> {
        let (part, parts) = self.part;
        all * part / parts..all * (part + 1) / parts
    }
}

impl CacheCapacity {
    pub(crate) fn new(share: CacheShare) -> Self {
        let states = streams(share.part.0);
        let sweep = usize::try_from(share.nearer_bytes).ok().filter(|&bytes| bytes > 0);
        let sweep = sweep.and_then(|bytes| Region::map(bytes).ok());
        let watch = Stopwatch::new();
        let rows = Rows::new(states[0], share.nearer_bytes);
        CacheCapacity { share, sweep, sweep_at: 0, lines: 0..0, states, rows, watch }
    }

    /// One line of the sweep, in order.
    fn sweep_once(&mut self) {
        let Some(region) = &self.sweep else { return };
        let lines = (self.share.nearer_bytes as usize / LINE).max(1);
        self.sweep_at = (self.sweep_at + 1) % lines;
        region.lines()[self.sweep_at].word.store(0, Relaxed);
    }
}

/// Writes `BURST` random lines.
fn scatter(lines: &[Line], states: &mut [u64; STREAMS]) {
    let bound = lines.len() as u64;
    let mut now = *states;
    for _ in 0..BURST / STREAMS {
        for state in &mut now {
            *state = step(*state);
            // The top bit stays clear: the latency chain relies on it.
            lines[below(*state, bound)].word.store(*state >> 1, Relaxed);
        }
    }
    *states = now;
}

/// `BURST` accesses to rows, or a row more.
fn scatter_rows(lines: &[Line], rows: &mut Rows) -> usize {
    let mut accesses = 0;
    while accesses < BURST {
        accesses += rows.advance(lines);
    }
    accesses
}

impl Kernel for CacheCapacity {
    fn prepare(&mut self) {
        let all = self.share.region.lines();
        for line in &all[self.share.lines(all.len())] {
            line.word.store(1, Relaxed);
        }
        for line in self.sweep.iter().flat_map(|sweep| sweep.lines()) {
            line.word.store(1, Relaxed);
        }
    }

    fn set_intensity(&mut self, intensity: Intensity) {
        let most = self.share.region.bytes() as u64;
        let footprint = intensity.of(self.share.cache_bytes).min(most) as usize;
        self.lines = self.share.lines(footprint / LINE);
    }

    fn burst(&mut self) -> Result<u64, String> {
        if self.lines.is_empty() {
            return Ok(0);
        }
        let lines = &self.share.region.lines()[self.lines.clone()];
        let accesses = if self.share.last && lines.len() >= ROW {
            scatter_rows(lines, &mut self.rows)
        } else {
            scatter(lines, &mut self.states);
            BURST
        };
        for _ in 0..BURST / SWEEP_EVERY {
            self.sweep_once();
        }
        Ok(accesses as u64)
    }

    fn probe(&mut self) -> Option<Probe> {
        let lines = &self.share.region.lines()[self.lines.clone()];
        if lines.is_empty() {
            return None;
        }
        let state = &mut self.states[0];
        time_chain(self.watch, lines, state, CHAIN)
    }

    fn footprint_bytes(&self) -> u64 {
        (self.lines.len() * LINE) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(mib: u64, last: bool) -> CacheCapacity {
        let region = Arc::new(Region::map((mib << 20) as usize).unwrap());
        let (cache_bytes, nearer_bytes) = (mib << 20, 1 << 20);
        let share = CacheShare { region, cache_bytes, nearer_bytes, part: (0, 1), last };
        let mut kernel = CacheCapacity::new(share);
        kernel.prepare();
        kernel
    }

    #[test]
    fn the_footprint_is_the_share_and_work_the_accesses() {
        let mut kernel = kernel(4, true);
        for (percent, lines) in [(0.0, 0), (25.0, 16_384), (50.0, 32_768), (100.0, 65_536)] {
            kernel.set_intensity(Intensity::new(percent).unwrap());
            assert_eq!(kernel.footprint_bytes(), lines * LINE as u64, "{percent} %");
            assert_eq!(kernel.burst().unwrap(), if lines == 0 { 0 } else { BURST as u64 });
        }
    }

    #[test]
    fn accesses_are_uniform_and_stay_in_the_share() {
        [true, false].into_iter().for_each(uniform);
    }

    fn uniform(last: bool) {
        let mut kernel = kernel(4, last);
        kernel.set_intensity(Intensity::new(50.0).unwrap());
        let bursts = 1 + 32_768 * 16 / BURST;
        for _ in 0..bursts {
            kernel.burst().unwrap();
        }
        let lines = kernel.share.region.lines();
        let touched = |range: std::ops::Range<usize>| {
            lines[range].iter().filter(|line| line.word.load(Relaxed) != 1).count()
        };
        // Sixteen accesses a line leave out one line in nine million, and each quarter gets its own.
        for quarter in 0..4 {
            let found = touched(quarter * 8192..(quarter + 1) * 8192);
            assert!(found >= 8188, "quarter {quarter}: {found} of 8192 lines");
        }
        assert_eq!(touched(32_768..65_536), 0, "outside of the share");
    }

    #[test]
    fn threads_part_the_footprint_between_them() {
        let region = Arc::new(Region::map(2 << 20).unwrap());
        for parts in 1..=7 {
            let share = |part| CacheShare {
                region: Arc::clone(&region),
                cache_bytes: 2 << 20,
                nearer_bytes: 0,
                part: (part, parts),
                last: true,
            };
            let ranges: Vec<_> = (0..parts).map(|part| share(part).lines(1000)).collect();
            assert_eq!((ranges[0].start, ranges[parts - 1].end), (0, 1000));
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start), "{ranges:?}");
        }
    }

    #[test]
    fn the_top_bit_stays_clear_and_latency_is_sampled() {
        let mut kernel = kernel(2, true);
        kernel.set_intensity(Intensity::FULL);
        kernel.burst().unwrap();
        assert!(kernel.share.region.lines().iter().all(|l| l.word.load(Relaxed) >> 63 == 0));
        let probe = (0..10_000).find_map(|_| kernel.probe()).unwrap();
        assert_eq!(probe.accesses, u64::from(CHAIN));
        kernel.set_intensity(Intensity::ZERO);
        assert_eq!(kernel.probe(), None);
    }
}
