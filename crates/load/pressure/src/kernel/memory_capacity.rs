//! Memory capacity: a footprint that grows to x % of what may be taken (B-2: 1), touched at random
//! so that it stays, and so seldom that it costs hardly any bandwidth.
//!
//! A held intensity is occupied when the pressure starts. A ramp occupies on the way, as fast as the
//! kernel clears pages: the report tells how far it came.

use super::latency::{Stopwatch, time_chain};
use super::random::{below, step, streams};
use super::{Kernel, Probe};
use crate::region::{HUGE, LINE, Region};
use crate::{Intensity, Stop};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Accesses a burst, each into a sum of its own: none waits for another (B-2).
const BURST: usize = 32;
/// Time of a burst; the rest of it is waited for on PAUSE. Two million accesses a second.
const PACE: Duration = Duration::from_micros(16);
/// Dependent accesses in a latency sample.
const CHAIN: u32 = 8;
/// Each of these is touched: the smallest page there is.
const PAGE: usize = 4096;

/// The kernel.
pub(crate) struct MemoryCapacity {
    region: Region,
    /// Bytes at 100 %.
    whole: u64,
    /// Bytes that are occupied, from the start of the region: whole huge pages.
    taken: usize,
    target: usize,
    first: Intensity,
    stop: Stop,
    state: u64,
    watch: Stopwatch,
}

impl MemoryCapacity {
    /// `first` is what prepare occupies; `stop` ends that early, since it may take seconds.
    pub(crate) fn new(region: Region, whole: u64, first: Intensity, stop: Stop) -> Self {
        let ([state], watch) = (streams(0), Stopwatch::new());
        MemoryCapacity { region, whole, taken: 0, target: 0, first, stop, state, watch }
    }

    /// One huge page nearer to the target; false if there.
    fn approach(&mut self) -> bool {
        if self.taken > self.target {
            self.taken = self.region.give_back(self.target);
        }
        let next = (self.taken + HUGE).min(self.target);
        if next <= self.taken {
            return false;
        }
        for line in self.region.lines()[self.taken / LINE..next / LINE].iter().step_by(PAGE / LINE)
        {
            line.word.store(1, Relaxed);
        }
        self.taken = next;
        true
    }

    fn touch(&mut self) {
        let lines = &self.region.lines()[..self.taken / LINE];
        let mut sums = [0u64; BURST];
        for sum in &mut sums {
            self.state = step(self.state);
            let line = below(self.state, lines.len() as u64);
            *sum = sum.wrapping_add(lines[line].word.load(Relaxed));
        }
        std::hint::black_box(sums);
    }
}

impl Kernel for MemoryCapacity {
    fn prepare(&mut self) {
        self.set_intensity(self.first);
        while !self.stop.requested() && self.approach() {}
    }

    fn set_intensity(&mut self, intensity: Intensity) {
        let bytes = intensity.of(self.whole).min(self.region.bytes() as u64) as usize;
        self.target = bytes / HUGE * HUGE;
    }

    fn burst(&mut self) -> Result<u64, String> {
        let start = Instant::now();
        let growing = self.approach();
        if self.taken == 0 {
            return Ok(0);
        }
        self.touch();
        while !growing && start.elapsed() < PACE {
            std::hint::spin_loop();
        }
        Ok(BURST as u64)
    }

    fn probe(&mut self) -> Option<Probe> {
        let lines = &self.region.lines()[..self.taken / LINE];
        if lines.is_empty() {
            return None;
        }
        time_chain(self.watch, lines, &mut self.state, CHAIN)
    }

    fn footprint_bytes(&self) -> u64 {
        self.taken as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupies_its_share_and_gives_it_back() {
        let whole = 16 << 20;
        let region = Region::map(whole).unwrap();
        let stop = Stop::new().unwrap();
        let half = Intensity::new(50.0).unwrap();
        let mut kernel = MemoryCapacity::new(region, whole as u64, half, stop.clone());
        kernel.prepare();
        assert_eq!(kernel.footprint_bytes(), 8 << 20, "a held intensity is there at once");
        assert_eq!(kernel.burst().unwrap(), BURST as u64);
        kernel.set_intensity(Intensity::FULL);
        while kernel.footprint_bytes() < whole as u64 {
            let before = kernel.footprint_bytes();
            kernel.burst().unwrap();
            assert!(kernel.footprint_bytes() > before, "each burst brings some");
        }
        assert!(kernel.region.resident_bytes().unwrap() >= whole as u64);
        kernel.set_intensity(Intensity::new(25.0).unwrap());
        kernel.burst().unwrap();
        assert_eq!(kernel.footprint_bytes(), 4 << 20);
        assert!(kernel.region.resident_bytes().unwrap() <= 4 << 20, "given back");
        kernel.set_intensity(Intensity::ZERO);
        assert_eq!((kernel.burst().unwrap(), kernel.probe()), (0, None));
        stop.request();
        kernel.first = Intensity::FULL;
        kernel.prepare();
        assert_eq!(kernel.footprint_bytes(), 0, "arming ends when asked to");
    }
}
