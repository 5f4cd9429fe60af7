//! Who looks at a kernel. Each sees one number in a window that should grow in proportion to the
//! kernel's intensity.

use super::ValidateOptions;
use super::prober::Prober;
use crate::ProfileError;
use crate::desk::pause;
use crate::trial::Mark;
use quell_pressure::{Idle, Intensity, NetworkOptions, Resource, Running, Stop};
use quell_types::{CpuSet, Topology};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// An observer.
pub(super) enum Observer {
    /// The kernel's own count of its work.
    OwnWork,
    /// The kernel's own footprint.
    OwnFootprint,
    /// Counters of the operating system that grow.
    Counter(&'static str, Box<dyn Fn() -> Option<u64>>),
    /// Something that the operating system says is taken.
    Level(&'static str, Box<dyn FnMut() -> Option<f64>>),
    /// Timed reads on a thread of its own.
    Probe(Prober),
}

/// Beside what a look is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    /// No pressure.
    Quiet,
    /// Full pressure.
    Full,
    /// Both: what a lost line costs is the host's too, where it comes back from what all share.
    Both,
}

/// A look at a cache lasts so many slices of the kernel's duty cycle: a whole number, so that each has the same
/// part of them, and few, so that strangers who drive lines out for a moment spoil few looks, of which the middle
/// one counts.
const SLICES: u32 = 2;
/// What is read of memory, past all caches; where these cannot be got past, so much that they hold little of it.
const MEMORY_READ: usize = if quell_pressure::Chase::FLUSHES { 64 << 20 } else { 512 << 20 };
/// What is read of a cache that cores share, in parts of the one that a core has to itself, which then holds
/// less than half of it. Little more: what the shared one has of it is to stay there beside anybody.
const OF_L2: (u64, u64) = (5, 2);
/// The same where the core's own is unknown.
const LIKELY_BEYOND_L2: usize = 4 << 20;

impl Observer {
    /// The best one there is for a kernel, which rests meanwhile.
    pub(super) fn of(
        resource: Resource,
        kernel: &Running,
        options: &ValidateOptions,
        topology: &Topology,
        stop: &Stop,
    ) -> Result<Observer, ProfileError> {
        let other = options.seats.workload.first(1);
        Ok(match resource {
            Resource::MemoryBandwidth => {
                Observer::Probe(Prober::of_memory(&other, MEMORY_READ, options.window)?)
            }
            Resource::LlcBandwidth => Observer::Probe(Prober::of_cache(
                &other,
                beyond_l2(topology, &other),
                look_at_cache(options),
            )?),
            Resource::LlcCapacity => Observer::of_llc(kernel, options, topology, &other)?,
            Resource::L1Data | Resource::L1Instruction | Resource::L2Capacity | Resource::Tlb => {
                let own = options.options(resource, &options.seats.pressure);
                Prober::in_place(own, topology, stop)?
                    .map_or(Observer::OwnFootprint, Observer::Probe)
            }
            Resource::MemoryCapacity => {
                Observer::Level("resident memory of the process", Box::new(resident))
            }
            Resource::StorageCapacity => {
                let folder = options.pressure.storage.folder.clone();
                Observer::Level("room taken on the disk", disk(folder))
            }
            Resource::StorageBandwidth => {
                Observer::Counter("bytes of all disks", Box::new(disk_bytes))
            }
            Resource::NetworkBandwidth => Observer::of_network(&options.pressure.network),
            Resource::PageFaults => {
                Observer::Counter("page faults of the machine", Box::new(page_faults))
            }
            _ => Observer::OwnWork,
        })
    }

    /// What links say that they sent, where the flows come from.
    fn of_network(options: &NetworkOptions) -> Observer {
        if options.peer.is_none() {
            return Observer::Counter("bytes of the loopback link", Box::new(loopback_bytes));
        }
        let netns = options.netns.clone();
        let sent = move || quell_pressure::sent_bytes(netns.as_deref());
        Observer::Counter("bytes of all links but loopback", Box::new(sent))
    }

    /// How much of its footprint a kernel has, by its own lines where these can be told from memory, else by
    /// what others lose.
    fn of_llc(
        kernel: &Running,
        options: &ValidateOptions,
        topology: &Topology,
        other: &CpuSet,
    ) -> Result<Observer, ProfileError> {
        if let Some(print) = kernel.footprint()
            && let Some(prober) = Prober::of_footprint(other, print)?
        {
            return Ok(Observer::Probe(prober));
        }
        Ok(match llc_bytes(options, topology) {
            Some(bytes) => Observer::Probe(Prober::beside(other, bytes)?),
            None => Observer::OwnFootprint,
        })
    }

    /// In words, and whether it shares nothing with the kernel but the resource.
    pub(super) fn words(&self) -> (String, bool) {
        match self {
            Observer::OwnWork => ("its own work".to_owned(), false),
            Observer::OwnFootprint => ("its own footprint".to_owned(), false),
            Observer::Counter(what, _) => ((*what).to_owned(), true),
            Observer::Level(what, _) => ((*what).to_owned(), true),
            Observer::Probe(prober) => (prober.words().to_owned(), true),
        }
    }

    /// Beside what each look is judged: what it sees depends on the host's other tenants too, so only
    /// windows right beside each other are compared. None where what it sees is nobody else's.
    pub(super) fn reference(&self) -> Option<Reference> {
        match self {
            Observer::Probe(prober) if prober.is_in_place() => Some(Reference::Both),
            Observer::Probe(prober) if prober.sees_shares() => None,
            Observer::Probe(_) => Some(Reference::Quiet),
            Observer::OwnWork | Observer::Counter(..) => Some(Reference::Full),
            Observer::OwnFootprint | Observer::Level(..) => None,
        }
    }

    /// What a look says, from what was seen over what was seen at the reference.
    pub(super) fn share(&self, over_reference: f64) -> f64 {
        match self {
            Observer::Probe(_) => over_reference - 1.0,
            _ => over_reference,
        }
    }

    /// Whether what it sees depends on where the host runs its CPU and the kernel's.
    pub(super) fn depends_on_the_host(&self) -> bool {
        matches!(self, Observer::Probe(prober) if !prober.is_in_place())
    }

    /// Whether it turns the kernel itself, or lets one of its own work in its place.
    pub(super) fn turns_the_kernel(&self) -> bool {
        matches!(self, Observer::Probe(prober) if prober.turns_the_kernel())
    }

    /// What it sees in a window of this length beside pressure of this intensity, to which the
    /// kernel was turned unless the observer [does that](Observer::turns_the_kernel).
    pub(super) fn see(
        &mut self,
        kernel: &mut Running,
        intensity: Intensity,
        window: Duration,
        stop: &Stop,
    ) -> Result<f64, ProfileError> {
        match self {
            Observer::OwnWork => {
                let mark = Mark::of(kernel);
                pause(window, stop)?;
                Ok(mark.rate(kernel))
            }
            Observer::OwnFootprint => {
                pause(window, stop)?;
                Ok(kernel.progress().footprint_bytes as f64)
            }
            Observer::Counter(what, count) => {
                let gone = || ProfileError::Stalled((*what).to_owned());
                let (before, begun) = (count().ok_or_else(gone)?, Instant::now());
                pause(window, stop)?;
                let grown = count().ok_or_else(gone)?.saturating_sub(before);
                Ok(grown as f64 / begun.elapsed().as_secs_f64())
            }
            Observer::Level(what, read) => {
                pause(window, stop)?;
                read().ok_or_else(|| ProfileError::Stalled((*what).to_owned()))
            }
            Observer::Probe(prober) => prober.see(kernel, intensity, window, stop),
        }
    }
}

/// How long to look at a cache while a kernel works by time.
fn look_at_cache(options: &ValidateOptions) -> Duration {
    match options.pressure.idle {
        Idle::Spin => SLICES * options.pressure.slice,
        // Its slices are longer the more it works.
        Idle::Sleep | Idle::Pace => options.window,
    }
}

/// Bytes that these CPUs' own caches do not hold and a shared one does.
fn beyond_l2(topology: &Topology, cpus: &CpuSet) -> usize {
    let l2 = cpus.iter().next().and_then(|cpu| topology.cache(cpu, 2).ok());
    let bytes = l2.and_then(|cache| usize::try_from(cache.size_bytes * OF_L2.0 / OF_L2.1).ok());
    bytes.unwrap_or(LIKELY_BEYOND_L2)
}

fn llc_bytes(options: &ValidateOptions, topology: &Topology) -> Option<usize> {
    let told = topology.llc.first().map(|llc| llc.size_bytes);
    usize::try_from(options.pressure.llc_bytes.or(told)?).ok()
}

/// Resident pages of this process, in bytes.
fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some((pages * rustix::param::page_size() as u64) as f64)
}

/// Bytes taken on the file system of a folder.
fn disk(folder: Option<PathBuf>) -> Box<dyn FnMut() -> Option<f64>> {
    let folder = folder.unwrap_or_else(std::env::temp_dir);
    Box::new(move || {
        let room = rustix::fs::statvfs(&folder).ok()?;
        Some(((room.f_blocks - room.f_bfree) * room.f_frsize) as f64)
    })
}

/// Bytes read and written by all disks.
fn disk_bytes() -> Option<u64> {
    let disks = std::fs::read_dir("/sys/block").ok()?.flatten();
    let virtual_ones = ["loop", "ram", "zram", "dm-", "md"];
    let real = disks
        .filter(|d| !virtual_ones.iter().any(|v| d.file_name().to_string_lossy().starts_with(v)));
    let sectors = |text: &str| {
        let field = |n| text.split_whitespace().nth(n)?.parse::<u64>().ok();
        Some(field(2)? + field(6)?)
    };
    let of =
        |disk: std::fs::DirEntry| sectors(&std::fs::read_to_string(disk.path().join("stat")).ok()?);
    Some(real.filter_map(of).sum::<u64>() * 512)
}

/// Bytes sent over loopback.
fn loopback_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/net/dev").ok()?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:"))?;
    line.split_whitespace().nth(8)?.parse().ok()
}

/// Faults of all processes.
fn page_faults() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("pgfault "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells() {
        assert!(resident().is_some_and(|bytes| bytes > 0.0));
        assert!(disk(None)().is_some_and(|bytes| bytes > 0.0));
        assert!(page_faults().is_some_and(|count| count > 0));
        let before = loopback_bytes().expect("a loopback link");
        assert!(loopback_bytes().expect("still there") >= before);
    }
}
