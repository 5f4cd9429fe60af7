//! Kernels that work in memory.

use super::caches::second_level_bytes;
use super::{Jobs, job};
use crate::kernel::{FAULT_BYTES, Memory, MemoryCapacity, PageFaults};
use crate::region::{Region, available_bytes};
use crate::{Options, PressureError, Stop, room};
use quell_types::Topology;
use std::time::Duration;

/// Memory to stream through if nothing else is known.
const LEAST_REGION: u64 = 256 << 20;
/// The region is so many times the last-level cache: of what is streamed hardly anything is there.
const REGION_PER_LLC: u64 = 8;
/// Enough even where a virtual machine is told of its host's whole cache, of which it has a part:
/// to clear much more takes many seconds before the first byte is streamed.
const MOST_REGION: u64 = 1 << 30;
/// Never less than so many times the cache all the same.
const LEAST_PER_LLC: u64 = 2;
/// The least region of one thread.
const LEAST_SHARE: u64 = 4 << 20;

/// A region for each thread, together much larger than the caches.
pub(super) fn bandwidth(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
) -> Result<Jobs, PressureError> {
    let llc: u64 =
        options.llc_bytes.unwrap_or_else(|| topology.llc.iter().map(|l| l.size_bytes).sum());
    let all = options.region_bytes.unwrap_or_else(|| whole_region(llc));
    let threads = cpus.len() as u64;
    let share = (all / threads).max(LEAST_SHARE);
    let available = available_bytes().map(|bytes| bytes / threads);
    let mut jobs = Jobs::default();
    if llc == 0 {
        jobs.notes.push("the last-level cache is unknown: the region may be too small".to_owned());
    }
    for cpu in cpus {
        let (region, note) = Region::map_within(share, available)?;
        let nearer_bytes = second_level_bytes(topology, *cpu);
        jobs.notes.extend(note);
        jobs.addresses.push(region.addresses());
        jobs.jobs.push(job(move || Memory::new(region, nearer_bytes)));
    }
    Ok(jobs)
}

/// What to stream through beside a last-level cache of this size, in bytes.
fn whole_region(llc: u64) -> u64 {
    let most = MOST_REGION.max(llc.saturating_mul(LEAST_PER_LLC));
    llc.saturating_mul(REGION_PER_LLC).clamp(LEAST_REGION, most)
}

/// A part of all that may be taken for each thread. What is held from the start is occupied while
/// arming, unless `stop` ends that.
pub(super) fn capacity(
    options: &Options,
    threads: usize,
    stop: &Stop,
) -> Result<Jobs, PressureError> {
    let mut jobs = Jobs::default();
    let share = threads.max(1) as u64;
    let whole = match (room::memory(), options.region_bytes) {
        (Some(room), asked) => {
            let (whole, note) = room.whole("memory", asked, LEAST_SHARE * share)?;
            jobs.notes.extend(note);
            whole
        }
        (None, Some(asked)) => asked,
        (None, None) => return Err(PressureError::UnknownMemory),
    };
    let (bytes, first) = (whole / share, options.plan.at(Duration::ZERO));
    for _ in 0..threads {
        let region = Region::map(bytes as usize)?;
        let stop = stop.clone();
        jobs.jobs.push(job(move || MemoryCapacity::new(region, bytes, first, stop)));
    }
    jobs.notes.push(format!("100 % are {} MiB", whole >> 20));
    Ok(jobs)
}

/// A little memory for each thread.
pub(super) fn page_faults(threads: usize) -> Result<Jobs, PressureError> {
    let mut jobs = Jobs::default();
    for _ in 0..threads {
        let region = Region::map(FAULT_BYTES)?;
        jobs.jobs.push(job(|| PageFaults::new(region)));
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_is_larger_than_the_cache_and_soon_cleared() {
        const MIB: u64 = 1 << 20;
        let sizes = [0, 8, 32, 105, 480, 1152].map(|llc| whole_region(llc * MIB) / MIB);
        assert_eq!(sizes, [256, 256, 256, 840, 1024, 2304]);
        assert_eq!(whole_region(u64::MAX), u64::MAX, "absurd, but no overflow");
    }
}
