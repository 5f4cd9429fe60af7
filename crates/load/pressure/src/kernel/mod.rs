//! The kernels: what a thread does in a burst.

mod again;
mod bus_lock;
mod cache_capacity;
mod fetch;
pub(crate) mod float;
mod flush;
mod instruction_cache;
mod integer;
mod interconnect;
mod latency;
mod link;
mod memory;
mod memory_capacity;
mod network;
mod pace;
mod page_faults;
mod power;
mod prefetcher;
mod random;
mod rows;
mod smt_sibling;
mod storage;
mod tlb;
mod triad;
mod units;
pub(crate) mod vector;

pub(crate) use bus_lock::BusLock;
pub(crate) use cache_capacity::{CacheCapacity, CacheShare};
pub(crate) use flush::flush;
pub(crate) use instruction_cache::{Code, InstructionCache};
pub(crate) use integer::Integer;
pub(crate) use interconnect::{Interconnect, Ring};
pub(crate) use latency::{Stopwatch, time_chain};
pub(crate) use link::Link;
pub(crate) use memory::Memory;
pub(crate) use memory_capacity::MemoryCapacity;
pub(crate) use network::connect;
pub(crate) use page_faults::{BYTES as FAULT_BYTES, PageFaults};
pub(crate) use power::Power;
pub(crate) use prefetcher::Prefetcher;
pub(crate) use random::{below, step, streams};
pub(crate) use smt_sibling::SmtSibling;
pub(crate) use storage::{Scratch, StorageBandwidth, StorageCapacity};
pub(crate) use tlb::{Alias, Pages, SMALL, Tlb, pages_for};
pub(crate) use units::Units;

use crate::Intensity;
use std::time::Duration;

/// A measurement of a kernel's own accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// All accesses together.
    pub(crate) took: Duration,
    /// How many.
    pub(crate) accesses: u64,
}

/// What presses on a resource. A kernel lives on one thread and is made there, so that its memory
/// is touched first from the CPU that uses it.
pub(crate) trait Kernel {
    /// Touches its memory and makes its choices. Whatever takes time belongs here.
    fn prepare(&mut self) {}

    /// Follows the plan. Only kernels that scale themselves care; the others work by time.
    fn set_intensity(&mut self, _intensity: Intensity) {}

    /// Works for a few microseconds and says how much it did, or why it cannot go on.
    fn burst(&mut self) -> Result<u64, String>;

    /// Samples the latency of its own accesses, in about a microsecond.
    fn probe(&mut self) -> Option<Probe>;

    /// Bytes that it occupies at the present intensity.
    fn footprint_bytes(&self) -> u64 {
        0
    }

    /// What a reader of the report should know: the variant chosen, what was learnt.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
