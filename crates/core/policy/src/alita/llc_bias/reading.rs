//! What is seen of a socket, and what follows from it alone: who is entitled to what, how far the
//! division is from that, and how many ways a culprit keeps.

use quell_types::{Tenant, Time};
use std::collections::BTreeMap;

/// One tenant on a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TenantShare {
    /// Its CPUs there.
    pub cpus: u32,
    /// Bytes of the cache that it holds.
    pub occupied_bytes: f64,
    /// Its memory traffic in gigabytes per second.
    pub gb_per_s: f64,
}

/// One socket in one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketReading {
    /// When.
    pub time: Time,
    /// Bytes of its last-level cache.
    pub llc_bytes: f64,
    /// Ways of that.
    pub ways: u32,
    /// The fewest of them that a tenant can be given.
    pub least_ways: u32,
    /// Its CPUs.
    pub cpus: u32,
    /// Its memory traffic in gigabytes per second, of all.
    pub gb_per_s: f64,
    /// The tenants; the host is none.
    pub tenants: BTreeMap<Tenant, TenantShare>,
}

/// What a tenant is entitled to, in bytes.
pub(super) fn quota(seen: &SocketReading, share: &TenantShare) -> f64 {
    let all: u32 = seen.tenants.values().map(|share| share.cpus).sum();
    seen.llc_bytes * f64::from(share.cpus) / f64::from(all.max(1))
}

/// The Bhattacharyya coefficient of entitled and real occupancy; 1 where nothing is held.
pub(super) fn fairness(seen: &SocketReading) -> f64 {
    let held: f64 = seen.tenants.values().map(|share| share.occupied_bytes).sum();
    if held <= 0.0 || seen.llc_bytes <= 0.0 {
        return 1.0;
    }
    let part = |share: &TenantShare| {
        let entitled = quota(seen, share) / seen.llc_bytes;
        (entitled * share.occupied_bytes / held).sqrt()
    };
    seen.tenants.values().map(part).sum()
}

/// Ways that a culprit keeps.
pub(super) fn ways_of(seen: &SocketReading, share: &TenantShare) -> u32 {
    (seen.ways * share.cpus).div_ceil(seen.cpus.max(1)) + 1
}
