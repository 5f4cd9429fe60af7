//! Prefetchers and branch predictor: short runs that promise a stream and break it off (B-2: 13).
//!
//! Each step begins at a random page and touches a few neighbouring lines, up or down as a random
//! bit says. That trains a stream: the prefetchers bring the lines that would follow, and nobody asks
//! for them. The bit decides over a real jump, so it is mispredicted half of the time.

use super::latency::{Stopwatch, time_chain};
use super::random::{below, step};
use super::{Kernel, Probe};
use crate::region::{LINE, Line, Region};
use std::sync::atomic::Ordering::Relaxed;

/// Lines of a page: streams end at its border.
const PAGE: usize = 4096 / LINE;
/// Lines touched in one direction: enough for a stream to be seen.
const RUN: usize = 4;
/// Runs a burst.
const BURST: usize = 256;
/// Dependent accesses in a latency sample.
const CHAIN: u32 = 8;

/// The kernel. Intensity is its share of the time.
pub(crate) struct Prefetcher {
    region: Region,
    state: u64,
    watch: Stopwatch,
}

impl Prefetcher {
    pub(crate) fn new(region: Region, thread: usize) -> Self {
        let [state] = super::random::streams(thread);
        Prefetcher { region, state, watch: Stopwatch::new() }
    }
}

/// 1 or `usize::MAX` (a step down) by the top bit, over a jump that cannot be predicted.
fn direction(bits: u64) -> usize {
    let mut way: usize = 1;
    // SAFETY: changes one register; the jump goes over one instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("test {bits}, {bits}", "js 2f", "neg {way}", "2:",
            bits = in(reg) bits, way = inout(reg) way, options(pure, nomem, nostack));
    }
    // SAFETY: changes one register; the jump goes over one instruction.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("tbnz {bits}, 63, 2f", "neg {way}, {way}", "2:",
            bits = in(reg) bits, way = inout(reg) way, options(pure, nomem, nostack));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    if std::hint::black_box(bits) >> 63 == 0 {
        way = usize::MAX;
    }
    way
}

/// Touches `RUN` lines of a page, up or down from its middle.
fn run(page: &[Line], state: u64) -> u64 {
    let (way, mut at, mut sum) = (direction(state << 20), PAGE / 2, 0u64);
    for _ in 0..RUN {
        sum = sum.wrapping_add(page[at % PAGE].word.load(Relaxed));
        at = at.wrapping_add(way);
    }
    sum
}

impl Kernel for Prefetcher {
    fn prepare(&mut self) {
        self.region.lines().iter().for_each(|line| line.word.store(1, Relaxed));
    }

    fn burst(&mut self) -> Result<u64, String> {
        let lines = self.region.lines();
        let (mut state, mut sum) = (self.state, 0u64);
        for _ in 0..BURST {
            state = step(state);
            let first = below(state, (lines.len() / PAGE) as u64) * PAGE;
            sum = sum.wrapping_add(run(&lines[first..first + PAGE], state));
        }
        self.state = state;
        std::hint::black_box(sum);
        Ok((BURST * RUN) as u64)
    }

    fn probe(&mut self) -> Option<Probe> {
        let lines = self.region.lines();
        time_chain(self.watch, lines, &mut self.state, CHAIN)
    }

    fn footprint_bytes(&self) -> u64 {
        self.region.bytes() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_come_alike() {
        let (mut state, mut up) = (1, 0);
        for _ in 0..10_000 {
            state = step(state);
            match direction(state << 20) {
                1 => up += 1,
                other => assert_eq!(other, usize::MAX),
            }
        }
        assert!((4_500..5_500).contains(&up), "{up}");
        assert_eq!((direction(1 << 63), direction(0)), (1, usize::MAX));
    }

    #[test]
    fn counts_each_line_touched() {
        let mut kernel = Prefetcher::new(Region::map(4 << 20).unwrap(), 0);
        kernel.prepare();
        assert_eq!(kernel.burst().unwrap(), (BURST * RUN) as u64);
        assert!((0..10_000).find_map(|_| kernel.probe()).is_some());
        let page = &kernel.region.lines()[..PAGE];
        assert_eq!(run(page, 0), RUN as u64, "within the page, each line holds 1");
    }
}
