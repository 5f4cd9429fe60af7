//! Pressure on one shared resource at a time, at a chosen intensity (B-1, B-2).
//!
//! A *kernel* presses on one resource and is at the same time a *reporter*: it counts the work it
//! got done and samples the latency of its own accesses, so what a neighbour costs it can be seen.
//!
//! | resource | intensity x means | work is counted in |
//! |---|---|---|
//! | capacity of memory and storage | x % of what is free less a reserve is occupied | accesses, bytes |
//! | capacity of caches and TLB | random accesses at full rate over x % of it | accesses |
//! | bandwidth of memory, caches and storage | streaming during x % of the time | bytes |
//! | units of a core, prefetcher, power, SMT sibling, page faults, bus locks | work during x % of the time | operations, accesses, faults |
//! | [`Resource::Interconnect`] | messages during x % of the time, the same for all | messages |
//! | [`Resource::NetworkBandwidth`] | several TCP flows at x % of the link, no limit at 100 | bytes acknowledged by the peer |
//!
//! [`Resource::words`] has a line on each.
//!
//! [`arm`] maps and touches everything; [`Armed::start`] releases it; [`Running::finish`] gives the
//! [`Report`]. [`run`] does all three for a command line. Every load is bounded: each thread knows
//! its own deadline and needs nobody to stop it.

mod affinity;
mod bursts;
mod cache_room;
mod chase;
mod child;
mod dial;
mod duty;
mod error;
mod footprint;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hugepages;
mod in_place;
mod intensity;
mod jobs;
mod kernel;
mod meter;
mod netns;
mod options;
mod page_probe;
mod polluter;
mod prime_probe;
mod queued;
mod region;
mod registers;
mod report;
mod reporter;
mod resource;
mod room;
mod sink;
mod stop;
mod ticks;
mod tlb;
mod worker;

pub use affinity::{allowed as allowed_cpus, bind_all, bind_process, run_before_others};
pub use bursts::{BusBurst, BusBursts, lock_bus_in_bursts};
pub use cache_room::CacheRoom;
pub use chase::Chase;
pub use child::{Bound, Ended, process_cpu_time, spawn_bound};
pub use duty::{Duty, Step};
pub use error::PressureError;
pub use footprint::Footprint;
pub use hugepages::HugePages;
pub use in_place::InPlace;
pub use intensity::{Intensity, Plan};
pub use meter::{FeedReader, FeedReading};
pub use netns::sent_bytes;
pub use options::{Idle, NetworkOptions, Options, PageSize, StorageOptions};
pub use polluter::{Armed, Running, arm, run};
pub use prime_probe::{Look, PrimeProbe};
pub use region::keep_memory_in;
pub use registers::Registers;
pub use report::{End, Progress, Report, ThreadReport, Timing};
pub use reporter::{Pace, Reporter, ReporterSizes};
pub use resource::{Resource, Unit};
pub use sink::Sink;
pub use stop::{Stop, bound_process, die_with_parent};
