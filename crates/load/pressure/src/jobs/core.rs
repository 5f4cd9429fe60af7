//! Kernels of a core and of what lies between cores.

use super::{Jobs, job};
use crate::kernel::{Alias, Interconnect, Pages, Prefetcher, Ring, SMALL, Tlb, pages_for};
use crate::region::{HUGE, Region, available_bytes};
use crate::{Options, PageSize, PressureError, tlb};
use quell_types::Topology;
use std::sync::Arc;

/// Entries of the second-level TLB where the processor does not tell: as many as the largest have.
const LIKELY_ENTRIES: u64 = 4096;
/// Memory for broken streams where the second-level cache is unknown.
const LIKELY_PREFETCH: u64 = 4 << 20;

/// Pages for each thread.
pub(super) fn tlb(options: &Options, cpus: &[Option<u32>]) -> Result<Jobs, PressureError> {
    let mut jobs = Jobs::default();
    let told = options.tlb_entries.or_else(tlb::entries);
    let entries = told.unwrap_or(LIKELY_ENTRIES);
    jobs.notes.push(match told {
        Some(entries) => format!("second-level TLB of {entries} entries"),
        None => format!("the processor does not tell its TLB: {entries} entries taken as likely"),
    });
    let count = pages_for(entries);
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
