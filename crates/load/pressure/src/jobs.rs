//! What each thread will do: footprints sized from the machine, flows connected.

use crate::kernel::{self, Flow, Integer, Kernel, Link, Llc, LlcShare, Memory};
use crate::region::{Region, available_bytes};
use crate::{Intensity, Options, Plan, PressureError, Resource, Sink};
use quell_types::Topology;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

/// Memory to stream through if nothing else is known.
const LEAST_REGION: u64 = 256 << 20;
/// The region is so many times the last-level cache: of what is streamed hardly anything is there.
const REGION_PER_LLC: u64 = 8;
/// The least region of one thread.
const LEAST_SHARE: u64 = 4 << 20;

/// What the threads will do, and the addresses that they will do it to.
pub(crate) struct Jobs {
    pub(crate) jobs: Vec<Job>,
    pub(crate) addresses: Vec<Range<usize>>,
    pub(crate) notes: Vec<String>,
    pub(crate) sink: Option<Sink>,
}

/// One thread's job, before its kernel is made on that thread.
pub(crate) enum Job {
    Llc(LlcShare),
    Memory(Region),
    Integer,
    Network(Box<Flow>),
}

impl Job {
    /// To be called on the thread that will use it.
    pub(crate) fn kernel(self) -> Box<dyn Kernel> {
        match self {
            Job::Llc(share) => Box::new(Llc::new(share)),
            Job::Memory(region) => Box::new(Memory::new(region)),
            Job::Integer => Box::new(Integer::new()),
            Job::Network(flow) => flow,
        }
    }
}

/// The CPU of each thread: the given ones in turn.
pub(crate) fn seats(options: &Options) -> Vec<Option<u32>> {
    let cpus: Vec<u32> = options.cpus.iter().collect();
    (0..options.workers()).map(|i| cpus.get(i % cpus.len().max(1)).copied()).collect()
}

/// Makes the jobs that these options ask for, one for each of `cpus`.
pub(crate) fn plan(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
) -> Result<Jobs, PressureError> {
    match options.resource {
        Resource::LlcCapacity => llc_jobs(options, topology, cpus),
        Resource::MemoryBandwidth => memory_jobs(options, topology, cpus),
        Resource::Integer => Ok(Jobs::of(cpus.iter().map(|_| Job::Integer).collect())),
        Resource::NetworkBandwidth => network_jobs(options),
    }
}

impl Jobs {
    fn of(jobs: Vec<Job>) -> Jobs {
        Jobs { jobs, addresses: Vec::new(), notes: Vec::new(), sink: None }
    }
}

/// One footprint for each last-level cache that has threads, shared by those.
fn llc_jobs(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
) -> Result<Jobs, PressureError> {
    let domain = |cpu: Option<u32>| match cpu {
        Some(cpu) => topology.llc_of(cpu),
        None => topology.llc.first(),
    };
    let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (i, cpu) in cpus.iter().enumerate() {
        groups.entry(domain(*cpu).map_or(0, |llc| llc.id)).or_default().push(i);
    }
    let mut jobs = Jobs::of(Vec::new());
    let mut seated: Vec<(usize, Job)> = Vec::new();
    for members in groups.values() {
        let cpu = cpus[members[0]];
        let known = domain(cpu).map(|llc| llc.size_bytes);
        let llc_bytes = options.llc_bytes.or(known).ok_or(PressureError::UnknownLlc)?;
        let (region, note) = Region::map_within(llc_bytes, available_bytes())?;
        jobs.notes.extend(note);
        jobs.addresses.push(region.addresses());
        let region = Arc::new(region);
        let private_bytes = private_bytes(topology, cpu, llc_bytes);
        for (rank, &i) in members.iter().enumerate() {
            let (region, part) = (Arc::clone(&region), (rank, members.len()));
            seated.push((i, Job::Llc(LlcShare { region, llc_bytes, private_bytes, part })));
        }
    }
    seated.sort_by_key(|(i, _)| *i);
    jobs.jobs = seated.into_iter().map(|(_, job)| job).collect();
    Ok(jobs)
}

/// The size of the level-2 cache before the last-level one; 0 if there is none known.
fn private_bytes(topology: &Topology, cpu: Option<u32>, llc_bytes: u64) -> u64 {
    let cpu = cpu.or_else(|| topology.cpus.first().map(|cpu| cpu.id)).unwrap_or(0);
    topology.cache(cpu, 2).map_or(0, |l2| if l2.size_bytes < llc_bytes { l2.size_bytes } else { 0 })
}

/// A region for each thread, together much larger than the caches.
fn memory_jobs(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
) -> Result<Jobs, PressureError> {
    let llc: u64 =
        options.llc_bytes.unwrap_or_else(|| topology.llc.iter().map(|l| l.size_bytes).sum());
    let all = options.region_bytes.unwrap_or_else(|| (llc * REGION_PER_LLC).max(LEAST_REGION));
    let threads = cpus.len() as u64;
    let share = (all / threads).max(LEAST_SHARE);
    let available = available_bytes().map(|bytes| bytes / threads);
    let mut jobs = Jobs::of(Vec::new());
    if llc == 0 {
        jobs.notes.push("the last-level cache is unknown: the region may be too small".to_owned());
    }
    for _ in cpus {
        let (region, note) = Region::map_within(share, available)?;
        jobs.notes.extend(note);
        jobs.addresses.push(region.addresses());
        jobs.jobs.push(Job::Memory(region));
    }
    Ok(jobs)
}

/// Connected flows, to our own sink if no peer is given.
fn network_jobs(options: &Options) -> Result<Jobs, PressureError> {
    let network = &options.network;
    let mut jobs = Jobs::of(Vec::new());
    let peer = match network.peer {
        Some(peer) => peer,
        None => {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let sink = Sink::start(any, network.netns.as_deref())?;
            jobs.notes
                .push(format!("no peer given: flows go to a sink of our own, {}", sink.address()));
            jobs.sink.insert(sink).address()
        }
    };
    let paced = options.plan != Plan::Hold(Intensity::FULL);
    let link = paced.then(|| Arc::new(Link::of(network.flows)));
    for _ in 0..network.flows {
        jobs.jobs.push(Job::Network(Box::new(kernel::connect(peer, network, link.clone())?)));
    }
    Ok(jobs)
}
