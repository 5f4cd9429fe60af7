//! Kernels of a core and of what lies between cores.

use super::{Jobs, job};
use crate::kernel::{
    Alias, BusLock, Interconnect, Pages, Prefetcher, Ring, SMALL, SmtSibling, Tlb, pages_for,
};
use crate::region::{HUGE, Region, available_bytes};
use crate::tlb::Entries;
use crate::{Options, PageSize, PressureError, Resource};
use quell_types::{CpuSet, Topology};
use std::sync::Arc;

/// Memory for broken streams where the second-level cache is unknown.
const LIKELY_PREFETCH: u64 = 4 << 20;

/// Pages for each thread.
pub(super) fn tlb(options: &Options, cpus: &[Option<u32>]) -> Result<Jobs, PressureError> {
    let mut jobs = Jobs::default();
    let entries = Entries::of(options.tlb_entries, cpus.first().copied().flatten());
    let (known, source) = (entries.count, entries.source.words());
    jobs.notes.push(format!("second-level TLB of {known} entries, {source}"));
    let count = pages_for(known);
    for i in 0..cpus.len() {
        let pages = match options.pages {
            PageSize::Small => Pages::Small(Alias::map(count as usize)?),
            PageSize::Huge => {
                let available = available_bytes().map(|bytes| bytes / cpus.len() as u64);
                let (region, note) = Region::map_within(count * HUGE as u64, available)?;
                jobs.notes.extend(note);
                jobs.addresses.push(region.addresses());
                Pages::Huge(region)
            }
        };
        jobs.jobs.push(job(move || Tlb::new(pages, i)));
    }
    let size = if options.pages == PageSize::Small { SMALL } else { HUGE };
    jobs.notes.push(format!("{count} pages of {} KiB at 100 %", size >> 10));
    Ok(jobs)
}

/// Twice the second-level cache for each thread: what is prefetched has to come from beyond it.
pub(super) fn prefetcher(
    options: &Options,
    topology: &Topology,
    cpus: &[Option<u32>],
) -> Result<Jobs, PressureError> {
    let mut jobs = Jobs::default();
    for (i, cpu) in cpus.iter().enumerate() {
        let cpu = cpu.or_else(|| topology.cpus.first().map(|cpu| cpu.id)).unwrap_or(0);
        let known = topology.cache(cpu, 2).ok().map(|l2| l2.size_bytes);
        let bytes = options.cache_bytes.or(known).map_or(LIKELY_PREFETCH, |l2| 2 * l2);
        let (region, note) = Region::map_within(bytes, available_bytes())?;
        jobs.notes.extend(note);
        jobs.addresses.push(region.addresses());
        jobs.jobs.push(job(move || Prefetcher::new(region, i)));
    }
    Ok(jobs)
}

/// A ring of all threads, which need two CPUs at least.
pub(super) fn interconnect(cpus: &[Option<u32>]) -> Result<Jobs, PressureError> {
    let seats: std::collections::BTreeSet<_> = cpus.iter().flatten().collect();
    if seats.len() < 2 {
        return Err(PressureError::OneCpu);
    }
    let ring = Arc::new(Ring::of(cpus.len()));
    let jobs = (0..cpus.len()).map(|me| {
        let ring = Arc::clone(&ring);
        job(move || Interconnect::new(ring, me))
    });
    Ok(Jobs { jobs: jobs.collect(), ..Jobs::default() })
}

/// The hardware threads that share a core with these CPUs. An error for the first that has none.
pub(super) fn siblings(cpus: &CpuSet, topology: &Topology) -> Result<CpuSet, PressureError> {
    if cpus.is_empty() {
        return Err(PressureError::Option {
            option: "cpus",
            value: "not given".to_owned(),
            allowed: "name the CPUs whose siblings shall be loaded",
        });
    }
    let mut all = CpuSet::new();
    for cpu in cpus.iter() {
        let others = topology.siblings(cpu).difference(&CpuSet::of(cpu));
        if others.is_empty() {
            return Err(PressureError::NoSibling { cpu });
        }
        all = all.union(&others);
    }
    Ok(all)
}

/// A little memory for each thread.
pub(super) fn smt_sibling(threads: usize) -> Result<Jobs, PressureError> {
    let mut jobs = Jobs::default();
    for _ in 0..threads {
        let region = Region::map(HUGE)?;
        jobs.jobs.push(job(|| SmtSibling::new(region)));
    }
    Ok(jobs)
}

/// Refused where the processor has no bus locks, or where the kernel would end us for the first.
pub(super) fn bus_lock(cpus: &[Option<u32>]) -> Result<Jobs, PressureError> {
    let absent = |why| Err(PressureError::Absent { resource: Resource::BusLock, why });
    if !cfg!(target_arch = "x86_64") {
        return absent("only x86 processors lock the bus for accesses across lines");
    }
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if command_line.split_whitespace().any(|word| word == "split_lock_detect=fatal") {
        return absent("the kernel ends whoever does it (split_lock_detect=fatal)");
    }
    let mut jobs = Jobs::same(cpus, BusLock::new);
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if flags.contains("split_lock_detect") {
        let note = "the kernel slows bus locks here, unless told otherwise (split_lock_detect)";
        jobs.notes.push(note.to_owned());
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::Cpu;

    #[test]
    fn the_sibling_shares_the_core_and_is_not_oneself() {
        let cpu = |id, core| Cpu { id, socket: 0, core, node: 0 };
        let smt = Topology {
            cpus: vec![cpu(0, 0), cpu(1, 1), cpu(2, 0), cpu(3, 1), cpu(4, 2)],
            ..Topology::default()
        };
        assert_eq!(siblings(&CpuSet::of(0), &smt).unwrap(), CpuSet::of(2));
        let both: CpuSet = [0, 3].into_iter().collect();
        assert_eq!(siblings(&both, &smt).unwrap(), [1, 2].into_iter().collect());
        let alone = siblings(&CpuSet::of(4), &smt).unwrap_err();
        assert!(alone.to_string().contains("CPU 4 has no SMT sibling"), "{alone}");
        assert!(siblings(&CpuSet::new(), &smt).unwrap_err().to_string().contains("name the CPUs"));
    }

    #[test]
    fn messages_need_two_cpus() {
        assert!(interconnect(&[Some(0), Some(0)]).is_err());
        assert!(interconnect(&[None, None]).is_err());
        assert_eq!(interconnect(&[Some(0), Some(3)]).unwrap().jobs.len(), 2);
    }
}
