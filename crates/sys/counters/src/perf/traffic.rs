//! Memory traffic from cache misses, where resctrl does not count it.

use super::counters::{Counters, PerfError, Target};
use super::event::Event;
use quell_types::{BandwidthReading, Gap, Reading};

/// Bytes that a target fetched from memory: last-level cache misses × line size. It leaves out
/// what hardware prefetchers and write-backs move, so it is a lower bound that serves for
/// comparing groups, not for nearing the machine's limit.
#[derive(Debug)]
pub struct MemoryTraffic {
    counters: Counters,
    line_bytes: u32,
}

impl MemoryTraffic {
    /// Begins to count. `line_bytes` is the cache's line (64 on all x86).
    ///
    /// # Errors
    /// If the target cannot be had. A machine that cannot count misses gives gaps.
    pub fn open(target: &Target, line_bytes: u32) -> Result<Self, PerfError> {
        Ok(Self { counters: Counters::open(target, &[Event::CacheMisses])?, line_bytes })
    }

    /// Bytes since it was opened.
    ///
    /// # Errors
    /// Why misses are not counted (no PMU), or not now.
    pub fn read(&mut self) -> Reading<BandwidthReading> {
        let misses = self.counters.read().remove(&Event::CacheMisses);
        let misses = misses.unwrap_or_else(|| Err(Gap::absent("cache misses are not counted")))?;
        Ok(BandwidthReading { bytes: misses.saturating_mul(u64::from(self.line_bytes)) })
    }
}
