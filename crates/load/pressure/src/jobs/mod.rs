//! What each thread will do: footprints sized from the machine, flows connected.

mod caches;
mod core;
mod memory;
mod network;
mod storage;

pub(crate) use caches::{last_level, own_bytes};

use crate::kernel::{self, Integer, Kernel, Power, Units};
use crate::{Footprint, Options, PressureError, Resource, Sink, Stop, affinity};
use quell_types::Topology;
use std::ops::Range;

/// What the threads will do, and the addresses that they will do it to.
#[derive(Default)]
pub(crate) struct Jobs {
    pub(crate) jobs: Vec<Job>,
    pub(crate) addresses: Vec<Range<usize>>,
    pub(crate) notes: Vec<String>,
    pub(crate) sink: Option<Sink>,
    /// Of a capacity of caches: what is used behind the first of them.
    pub(crate) footprint: Option<Footprint>,
}

/// One thread's job: makes the kernel, on the thread that will use it.
pub(crate) type Job = Box<dyn FnOnce() -> Box<dyn Kernel> + Send>;

/// A job from what makes its kernel.
fn job<K: Kernel + 'static>(make: impl FnOnce() -> K + Send + 'static) -> Job {
    Box::new(move || Box::new(make()))
}

/// The CPU of each thread: the given ones in turn. Messages need two CPUs, so without any given
/// the interconnect takes the first two that this process may use; the SMT sibling kernel sits on the
/// siblings of the given ones.
pub(crate) fn seats(
    options: &Options,
    topology: &Topology,
) -> Result<Vec<Option<u32>>, PressureError> {
    let mut cpus = options.cpus.clone();
    if options.resource == Resource::Interconnect && cpus.is_empty() {
        let allowed = affinity::allowed()?;
        let online = topology.online();
        cpus = if online.is_empty() { allowed } else { allowed.intersection(&online) }.first(2);
    }
    if options.resource == Resource::SmtSibling {
        cpus = core::siblings(&cpus, topology)?;
    }
    let threads = match options.resource {
        Resource::NetworkBandwidth => options.workers(),
        _ => options.threads.unwrap_or(cpus.len().max(1)),
    };
    let cpus: Vec<u32> = cpus.iter().collect();
    Ok((0..threads).map(|i| cpus.get(i % cpus.len().max(1)).copied()).collect())
}

/// Makes the jobs that these options ask for, one for each of `cpus`.
pub(crate) fn plan(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
    stop: &Stop,
) -> Result<Jobs, PressureError> {
    match options.resource {
        Resource::MemoryCapacity => memory::capacity(options, cpus.len(), stop),
        Resource::StorageCapacity | Resource::StorageBandwidth => {
            storage::files(options, cpus.len())
        }
        Resource::MemoryBandwidth => memory::bandwidth(options, topology, cpus),
        Resource::NetworkBandwidth => network::bandwidth(options),
        Resource::LlcCapacity => caches::llc_capacity(options, topology, cpus),
        Resource::LlcBandwidth => caches::llc_bandwidth(options, topology, cpus),
        Resource::L2Capacity => caches::l2_capacity(options, topology, cpus),
        Resource::L2Bandwidth => caches::l2_bandwidth(options, topology, cpus),
        Resource::L1Instruction => caches::l1_instruction(options, topology, cpus),
        Resource::L1Data => caches::l1_data(options, topology, cpus),
        Resource::Tlb => core::tlb(options, cpus),
        Resource::Prefetcher => core::prefetcher(options, topology, cpus),
        Resource::Interconnect => core::interconnect(cpus),
        Resource::Integer => Ok(Jobs::same(cpus, Integer::new)),
        Resource::FloatingPoint => Ok(Jobs::same(cpus, || Units::new(kernel::float::form()))),
        Resource::Vector => Ok(Jobs::same(cpus, || Units::new(kernel::vector::form()))),
        Resource::PowerVirus => Ok(Jobs::same(cpus, Power::new)),
        Resource::SmtSibling => core::smt_sibling(cpus.len()),
        Resource::PageFaults => memory::page_faults(cpus.len()),
        Resource::BusLock => core::bus_lock(cpus),
    }
}

impl Jobs {
    /// The same for each thread.
    fn same<K: Kernel + 'static>(cpus: &[Option<u32>], make: fn() -> K) -> Jobs {
        Jobs { jobs: cpus.iter().map(|_| job(make)).collect(), ..Jobs::default() }
    }
}
