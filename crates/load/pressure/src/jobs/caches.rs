//! Kernels that live in a cache: its size is read from the machine.

use super::{Job, Jobs, job};
use crate::kernel::{CacheCapacity, CacheShare, Code, InstructionCache, Memory};
use crate::region::{LINE, Region, available_bytes};
use crate::{Footprint, Options, PressureError, Resource};
use quell_types::{Cache, CacheKind, Topology};
use std::sync::Arc;

/// A stream that shall miss a cache is so many times its size.
const BEYOND: u64 = 4;

/// What of an instruction cache is never to be had: the code that runs between (the loops of whoever
/// measures or presses, interrupts) and lines fetched ahead. Code that fills the rest leaves nothing
/// to others; as much as the whole cache would already do so at nine tenths of it. A page is one line of
/// every set in the caches of most processors, whose ways are as large as a page: with less, some sets
/// have room for what runs between, and others do not.
const RUNNING: u64 = 4 << 10;

/// A cache that threads will press on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    /// Tells one such cache from another.
    key: u32,
    size_bytes: u64,
    /// The cache before it; 0 if there is none known.
    nearer_bytes: u64,
}

/// The CPU that stands for a thread which is bound to none.
fn stand_in(topology: &Topology, cpu: Option<u32>) -> u32 {
    cpu.or_else(|| topology.cpus.first().map(|cpu| cpu.id)).unwrap_or(0)
}

/// The size of this CPU's data or unified cache of a level, if it is known and below a limit.
fn below(topology: &Topology, cpu: u32, level: u32, limit: u64) -> u64 {
    topology.cache(cpu, level).map_or(0, |c| if c.size_bytes < limit { c.size_bytes } else { 0 })
}

/// The size of the second cache of a thread's CPU where that is not the last; 0 if there is none known.
pub(super) fn second_level_bytes(topology: &Topology, cpu: Option<u32>) -> u64 {
    let cpu = stand_in(topology, cpu);
    let last = topology.llc_of(cpu).or_else(|| topology.llc.first());
    below(topology, cpu, 2, last.map_or(u64::MAX, |last| last.size_bytes))
}

fn llc(options: &Options, topology: &Topology, cpu: Option<u32>) -> Result<Target, PressureError> {
    let cpu = stand_in(topology, cpu);
    let domain = topology.llc_of(cpu).or_else(|| topology.llc.first());
    let known = domain.map(|llc| llc.size_bytes);
    let size_bytes = options.llc_bytes.or(known).ok_or(PressureError::UnknownLlc)?;
    let nearer_bytes = below(topology, cpu, 2, size_bytes);
    Ok(Target { key: domain.map_or(0, |llc| llc.id), size_bytes, nearer_bytes })
}

/// The size of a CPU's last-level cache, and of the one before it; 0 if there is none known.
pub(crate) fn last_level(
    options: &Options,
    topology: &Topology,
    cpu: u32,
) -> Result<(u64, u64), PressureError> {
    let Target { size_bytes, nearer_bytes, .. } = llc(options, topology, Some(cpu))?;
    Ok((size_bytes, nearer_bytes))
}

/// A cache of the core itself: its level, and whether it is the one for instructions.
fn private(
    options: &Options,
    topology: &Topology,
    cpu: Option<u32>,
    (level, kind): (u32, CacheKind),
) -> Result<Target, PressureError> {
    let cpu = stand_in(topology, cpu);
    let fits = |c: &&Cache| {
        let code = c.kind == CacheKind::Instruction;
        c.level == level && code == (kind == CacheKind::Instruction) && c.cpus.contains(cpu)
    };
    let known = topology.caches.iter().find(fits);
    let key = known.and_then(|c| c.cpus.iter().next()).unwrap_or(cpu);
    let size = options.cache_bytes.or(known.map(|c| c.size_bytes));
    let size_bytes = size.ok_or(PressureError::UnknownCache { level, cpu })?;
    let nearer_bytes = if level > 1 { below(topology, cpu, level - 1, size_bytes) } else { 0 };
    Ok(Target { key, size_bytes, nearer_bytes })
}

fn l2(options: &Options, topology: &Topology, cpu: Option<u32>) -> Result<Target, PressureError> {
    private(options, topology, cpu, (2, CacheKind::Unified))
}

/// Bytes of the cache of a core's own that a capacity kernel presses on, as far as it is known;
/// none for other kernels.
pub(crate) fn own_bytes(options: &Options, topology: &Topology, cpu: u32) -> Option<u64> {
    let level = match options.resource {
        Resource::L1Data => (1, CacheKind::Data),
        Resource::L1Instruction => (1, CacheKind::Instruction),
        Resource::L2Capacity => (2, CacheKind::Unified),
        _ => return None,
    };
    let size = private(options, topology, Some(cpu), level).ok()?.size_bytes;
    Some(if level.1 == CacheKind::Instruction { code_bytes(size) } else { size })
}

/// The bytes of code that take an instruction cache of this size.
fn code_bytes(size: u64) -> u64 {
    size - RUNNING.min(size / 4)
}

fn targets(
    cpus: &[Option<u32>],
    of: impl Fn(Option<u32>) -> Result<Target, PressureError>,
) -> Result<Vec<Target>, PressureError> {
    cpus.iter().map(|cpu| of(*cpu)).collect()
}

pub(super) fn llc_capacity(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
) -> Result<Jobs, PressureError> {
    capacity(&targets(cpus, |cpu| llc(options, topology, cpu))?, true)
}

pub(super) fn l2_capacity(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
) -> Result<Jobs, PressureError> {
    capacity(&targets(cpus, |cpu| l2(options, topology, cpu))?, false)
}

pub(super) fn l1_data(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
) -> Result<Jobs, PressureError> {
    let first = (1, CacheKind::Data);
    capacity(&targets(cpus, |cpu| private(options, topology, cpu, first))?, false)
}

/// One footprint for each cache that has threads, shared by those; the `last` caches before memory or not.
fn capacity(targets: &[Target], last: bool) -> Result<Jobs, PressureError> {
    let mut jobs = Jobs::default();
    let mut seated: Vec<(usize, Job)> = Vec::new();
    let keys: std::collections::BTreeSet<u32> = targets.iter().map(|target| target.key).collect();
    for key in keys {
        let members: Vec<usize> = (0..targets.len()).filter(|&i| targets[i].key == key).collect();
        let Target { size_bytes: cache_bytes, nearer_bytes, .. } = targets[members[0]];
        let (region, note) = Region::map_within(cache_bytes, available_bytes())?;
        jobs.notes.extend(note);
        jobs.addresses.push(region.addresses());
        let region = Arc::new(region);
        let (lines, nearer) = (cache_bytes as usize / LINE, nearer_bytes as usize);
        let print = || Footprint::new(Arc::clone(&region), lines, nearer);
        jobs.footprint = jobs.footprint.or_else(|| Some(print()));
        for (rank, &i) in members.iter().enumerate() {
            let (region, part) = (Arc::clone(&region), (rank, members.len()));
            let share = CacheShare { region, cache_bytes, nearer_bytes, part, last };
            seated.push((i, job(|| CacheCapacity::new(share))));
        }
    }
    seated.sort_by_key(|(i, _)| *i);
    jobs.jobs = seated.into_iter().map(|(_, job)| job).collect();
    Ok(jobs)
}

/// Code that fills the instruction cache, for each thread its part of it.
pub(super) fn l1_instruction(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
) -> Result<Jobs, PressureError> {
    let first = (1, CacheKind::Instruction);
    let targets = targets(cpus, |cpu| private(options, topology, cpu, first))?;
    let mut jobs = Jobs::default();
    for target in &targets {
        let whole = Target { size_bytes: code_bytes(target.size_bytes), ..*target };
        let code = Code::generate(part_of(&whole, &targets) as usize)?;
        jobs.jobs.push(job(|| InstructionCache::new(code)));
    }
    Ok(jobs)
}

/// The bytes of a cache for each of the threads that share it.
fn part_of(target: &Target, targets: &[Target]) -> u64 {
    let sharers = targets.iter().filter(|other| other.key == target.key).count() as u64;
    target.size_bytes / sharers.max(1)
}

pub(super) fn llc_bandwidth(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
) -> Result<Jobs, PressureError> {
    bandwidth(&targets(cpus, |cpu| llc(options, topology, cpu))?)
}

pub(super) fn l2_bandwidth(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
) -> Result<Jobs, PressureError> {
    bandwidth(&targets(cpus, |cpu| l2(options, topology, cpu))?)
}

/// The window of a stream: what misses the nearer cache surely, but at most half of the thread's
/// part of this one, so that it stays there.
fn window(part: u64, nearer: u64) -> u64 {
    let wanted = if nearer == 0 { part / 4 } else { BEYOND * nearer };
    wanted.min(part / 2).max(4096)
}

/// A window for each thread.
fn bandwidth(targets: &[Target]) -> Result<Jobs, PressureError> {
    let mut jobs = Jobs::default();
    for target in targets {
        let bytes = window(part_of(target, targets), target.nearer_bytes);
        if bytes <= target.nearer_bytes {
            jobs.notes.push(format!(
                "the window of {} KiB fits into the nearer cache of {} KiB: use fewer threads",
                bytes >> 10,
                target.nearer_bytes >> 10
            ));
        }
        let (region, note) = Region::map_within(bytes, available_bytes())?;
        jobs.notes.extend(note);
        jobs.addresses.push(region.addresses());
        jobs.jobs.push(job(move || Memory::in_cache(region, bytes as usize)));
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn target(key: u32) -> Target {
        Target { key, size_bytes: 2 * MIB, nearer_bytes: 48 << 10 }
    }

    #[test]
    fn a_window_misses_the_nearer_cache_and_stays_in_this_one() {
        assert_eq!(window(2 * MIB, 48 << 10), 192 << 10);
        assert_eq!(window(480 * MIB, 2 * MIB), 8 * MIB);
        assert_eq!(window(6 * MIB, 2 * MIB), 3 * MIB, "a small one: half of it");
        assert_eq!(window(8 * MIB, 0), 2 * MIB, "nothing known of the nearer one");
    }

    #[test]
    fn code_leaves_room_for_what_runs_besides() {
        assert_eq!(code_bytes(32 << 10), 28 << 10);
        assert_eq!(code_bytes(64 << 10), 60 << 10);
        assert_eq!(code_bytes(4 << 10), 3 << 10, "a small part: three quarters of it");
    }

    #[test]
    fn threads_of_one_cache_share_it() {
        let targets = [target(0), target(4), target(0)];
        assert_eq!(part_of(&targets[0], &targets), MIB);
        assert_eq!(part_of(&targets[1], &targets), 2 * MIB);
        let jobs = capacity(&targets, true).unwrap();
        assert_eq!((jobs.jobs.len(), jobs.addresses.len()), (3, 2));
        let bandwidth = bandwidth(&[target(0); 40]).unwrap();
        assert!(bandwidth.notes[0].contains("fewer threads"), "{:?}", bandwidth.notes);
    }
}
