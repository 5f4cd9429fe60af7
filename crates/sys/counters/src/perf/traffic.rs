//! Memory traffic from cache misses, where resctrl does not count it.

use super::check::CounterCheck;
use super::counters::{Counters, PerfError, Target};
use super::event::Event;
use super::probe;
use quell_types::{BandwidthReading, Gap, Reading};

/// Bytes that a target fetched from memory: last-level cache misses × line size. It leaves out
/// what hardware prefetchers and write-backs move, so it is a lower bound that serves for
/// comparing groups, not for nearing the machine's limit.
///
/// One counter of the PMU is used on each CPU. Of targets that run at the same time (a CPU and a
/// cgroup on it) no more may be counted than [`CounterCheck::agreeing`] says.
#[derive(Debug)]
pub struct MemoryTraffic {
    counters: Counters,
    event: Event,
    bytes_each: u32,
}

impl MemoryTraffic {
    /// Whether this machine counts cache misses, and how many counters really count.
    ///
    /// # Errors
    /// Absent without a PMU or without the event; failed if the PMU that is shown does not count.
    pub fn usable() -> Reading<CounterCheck> {
        probe::can_open(Event::CacheMisses)?;
        CounterCheck::run()
    }

    /// Begins to count. `line_bytes` is the cache's line (64 on all x86).
    ///
    /// # Errors
    /// If the target cannot be had. A machine that cannot count misses gives gaps.
    pub fn open(target: &Target, line_bytes: u32) -> Result<Self, PerfError> {
        Self::by(Event::CacheMisses, line_bytes, target)
    }

    /// The same by another event that stands for so many bytes each (an event of an uncommon PMU;
    /// page faults show the way of a reading where there is no PMU at all).
    ///
    /// # Errors
    /// If the target cannot be had. A machine that cannot count the event gives gaps.
    pub fn by(event: Event, bytes_each: u32, target: &Target) -> Result<Self, PerfError> {
        Ok(Self { counters: Counters::open(target, &[event])?, event, bytes_each })
    }

    /// Open files that it holds; each is read once by [`MemoryTraffic::read`].
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.counters.descriptors()
    }

    /// Bytes since it was opened.
    ///
    /// # Errors
    /// Why misses are not counted (no PMU), or not now.
    pub fn read(&mut self) -> Reading<BandwidthReading> {
        let count = self.counters.read().remove(&self.event);
        let missing = || Err(Gap::absent(format!("{} is not counted", self.event)));
        let count = count.unwrap_or_else(missing)?;
        Ok(BandwidthReading { bytes: count.saturating_mul(u64::from(self.bytes_each)) })
    }
}
