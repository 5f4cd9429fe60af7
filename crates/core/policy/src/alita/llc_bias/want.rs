//! What a tenant loses by the cache that it does not hold, and who presses, as far as traffic and
//! occupancy tell.

use super::TenantShare;

/// Bytes of a line.
const LINE: f64 = 64.0;
/// What a miss costs if it is waited for in full: about the latency of memory on servers.
const MISS_S: f64 = 100e-9;
/// Misses under way from which a CPU reads ahead. Code that waits for what it has read keeps one or
/// two under way on average over all time. Sweeps, which are fetched before they are asked for,
/// keep five and more, or somewhat over half of that on a CPU that shares its core.
const AHEAD: f64 = 3.0;

/// Misses that each of its CPUs has under way at least, on average over all time. Lines that are
/// written back are counted with those that are read.
pub(super) fn under_way(share: &TenantShare) -> f64 {
    share.gb_per_s * 1e9 / LINE * MISS_S / f64::from(share.cpus.max(1))
}

/// Whether a tenant fetches ahead of what it asks for, as a sweep does; a rate of so many percent
/// that holds it back is counted out.
pub(super) fn sweeps(share: &TenantShare, percent: u32) -> bool {
    under_way(share) * 100.0 / f64::from(percent.max(1)) >= AHEAD
}

/// The most of its CPU time that a tenant can be waiting for misses, as a share; at most 1, and 0
/// for a sweep, whose misses are not waited for. Misses that overlap cost less.
pub(super) fn waiting_frac(share: &TenantShare, percent: u32) -> f64 {
    if sweeps(share, percent) { 0.0 } else { under_way(share).min(1.0) }
}

/// The share of its CPU time that a tenant that waits so much loses by what it lacks of its share
/// of the cache, if misses go away in proportion. `part_held` is what it holds over its share.
pub(super) fn lost_frac(waiting_frac: f64, part_held: f64) -> f64 {
    waiting_frac * (1.0 - part_held).max(0.0)
}
