//! Biased LLC and bandwidth isolation: who takes more than its share gets a corner of the cache;
//! all others keep all of it.
//!
//! # Problem
//! Tenants of a socket share its last-level cache and its memory channels without a say. Static
//! partitions waste what their owners do not use.
//!
//! # Idea
//! Entitled is each tenant to the cache in proportion to its CPUs. How far the real division is
//! from that says one number, the Bhattacharyya coefficient of the two distributions: 1 = just as
//! entitled. As published a low one is enough: whoever is furthest above its quota is the culprit.
//!
//! That number knows nobody who suffers, so it errs both ways. Beside two equal polluters a tenant
//! that holds 30 % of its share makes 0.957, which is fair. And a tenant that fills what others do
//! not want, or what the confined must leave, makes a low one and hurts nobody. So by default the
//! division is looked at from below (`literal_fairness` gives back the published rule):
//!
//! * *Who loses.* A tenant that holds less than its share and waits for memory would wait less with
//!   the rest of it. What it loses is at most its misses, each waited for in full, times the part
//!   of its share that it lacks. From 5 % of its CPU time on, the loss counts.
//! * *Who takes.* Occupancy follows misses, so a culprit holds more than its quota, moves its share
//!   of the traffic or more, and reads ahead: it has more misses under way than code has that waits
//!   for them. A tenant that takes much and waits for it has use for it; two that want the same are
//!   rivals, not polluters.
//! * *Who is let go.* Who is quiet; and everybody, step by step, while nobody who is free waits
//!   for more. As soon as one does, what is held back stays so.
//!
//! Who is confined is not a loser: it holds little because it was told to. A slot has the ways of
//! the culprit's CPUs and one more (A-25), which is 4 of 11 for two culprits that have no use for
//! any: what they read ahead is gone before they come back to it. So while somebody free waits, a
//! confined sweep loses a way each interval, down to the fewest that can be set.
//!
//! The culprit is moved into one of two slots at the ends of the cache. Where the channels are
//! full, those above their share of traffic have their rate halved. Both are taken back in steps.
//! As published that share is an even part for each CPU of the socket, so that beside two polluters
//! on a socket that is half idle their victim is above it, and was throttled with them. By default
//! it is a tenth over the mean of those who use the channels: several that want the same are rivals
//! here too, and who has them to itself harms nobody.
//!
//! # Units
//! Occupancy in bytes; traffic in gigabytes per second for a socket (A-37 (4)); rates in percent.
//! The coefficient has none.
//!
//! # Pseudo-code (A-23)
//! ```text
//! each 5 s and socket with two tenants or more, first that fits:
//!   somebody suffers, traffic >= 3, cache filled to 10 %:
//!                    culprit = argmax(occupancy - quota) of those who take, into a slot
//!   traffic >= 50:   halve the rate of those who crowd
//!   else: traffic <= 45: raise rates; each culprit that is let go gets a way every 30 s
//!   by default, unless somebody was just confined: while somebody free waits 5 %, each culprit
//!                that sweeps loses a way, down to the fewest
//!
//! somebody suffers, who takes, who is let go, who crowds:
//!   literally:  BC <= 0.95;  all above their quota;  all, at BC >= 0.98;
//!               traffic >= traffic of the socket * CPUs / CPUs of the socket
//!   by default: under way = misses/s * 100 ns / CPUs;  sweeps = under way >= 3
//!               waits = min(1, under way), 0 if it sweeps
//!               suffers: free, waits * (1 - occupancy / quota) >= 5 % in most of the window
//!               takes:   above its quota, traffic >= its share of it, sweeps
//!               let go:  quiet (under way < 5 %), or nobody free waits 5 %, or BC >= 0.98
//!               crowds:  traffic / CPUs >= 1.1 * the mean of those with 5 % under way
//! ```
//!
//! # Degradation
//! A tenant whose occupancy is not known takes no part. Without a way to limit rates the second
//! rule has no effect, and the traffic stays as it is.
//!
//! Misses are told by traffic: a tenant that uses little of its CPUs is not seen to suffer, and a
//! sweep whose array would fit in what it lost counts as one that has no use for it. Shares of
//! tenants that use nothing are not lent: among many idle groups all shares are small, and few are
//! seen to suffer. On full channels nobody reads far ahead; there whoever moves its share of the
//! traffic and holds more than its share takes.
//!
//! Source: A-19 to A-25; A-37 (4) to (7), (10) are not repeated, relaxing at 0.98 by (7).

mod history;
mod params;
mod reading;
mod want;

pub use params::LlcBiasParams;
pub use reading::{SocketReading, TenantShare};

use history::{History, Window};
use quell_types::{Tenant, Time};
use reading::{fairness, quota, ways_of};
use std::collections::BTreeMap;

/// Times the mean traffic of a CPU from which its tenant crowds the others rather than being one of
/// several that want the same.
const CROWDS: f64 = 1.1;

/// How one tenant is limited. Who is not named is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bias {
    /// The ways that it may fill.
    pub ways: u64,
    /// Its memory rate in percent.
    pub percent: u32,
}

/// An end of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// A culprit in its slot.
#[derive(Clone, Debug)]
struct Slot {
    side: Side,
    ways: u32,
    since: Time,
    relaxed: Time,
}

/// The controller of one socket.
#[derive(Clone, Debug)]
pub struct LlcBias {
    params: LlcBiasParams,
    fairness: Window,
    traffic: Window,
    lately: BTreeMap<Tenant, History>,
    slots: BTreeMap<Tenant, Slot>,
    rates: BTreeMap<Tenant, u32>,
}

impl LlcBias {
    /// Nobody is limited.
    #[must_use]
    pub fn new(params: LlcBiasParams) -> Self {
        Self {
            params,
            fairness: Window::of(1.0),
            traffic: Window::of(0.0),
            lately: BTreeMap::new(),
            slots: BTreeMap::new(),
            rates: BTreeMap::new(),
        }
    }

    /// One interval. Answers with those who are limited, and how.
    pub fn step(&mut self, seen: &SocketReading) -> BTreeMap<Tenant, Bias> {
        self.look(seen);
        if seen.tenants.len() >= 2 {
            self.act(seen);
        }
        self.limits(seen)
    }

    /// Keeps what is known to who is there.
    fn look(&mut self, seen: &SocketReading) {
        let here = |tenant: &Tenant| seen.tenants.contains_key(tenant);
        self.lately.retain(|tenant, _| here(tenant));
        self.slots.retain(|tenant, _| here(tenant));
        self.rates.retain(|tenant, _| here(tenant));
        for (tenant, share) in &seen.tenants {
            let percent = self.rates.get(tenant).copied().unwrap_or(100);
            let lately = self.lately.entry(tenant.clone());
            let history = lately.or_insert_with(|| History::new(share));
            history.push(seen, share, percent, self.params.starved_cpu_frac);
        }
        self.fairness.push(fairness(seen));
        self.traffic.push(seen.gb_per_s);
    }

    fn act(&mut self, seen: &SocketReading) {
        let params = self.params;
        // As printed nothing else is done, found or not (A-23).
        if self.somebody_suffers(seen) && (self.confine(seen) || params.literal_fairness) {
            return;
        }
        if seen.gb_per_s >= params.full_gb_per_s {
            self.halve(seen);
        } else {
            if seen.gb_per_s <= params.full_gb_per_s - params.full_guard_gb_per_s {
                self.raise();
            }
            self.relax(seen);
        }
        if !params.literal_fairness {
            self.squeeze(seen);
        }
    }

    /// Takes a way from confined sweeps, which have no use for it, while somebody who is free waits
    /// for more than there is.
    fn squeeze(&mut self, seen: &SocketReading) {
        if self.is_fair() || !self.somebody_waits(seen) {
            return;
        }
        for (tenant, slot) in &mut self.slots {
            if slot.ways > seen.least_ways && self.lately[tenant].sweeps() {
                slot.ways -= 1;
            }
        }
    }

    /// Whether somebody is to be confined.
    fn somebody_suffers(&self, seen: &SocketReading) -> bool {
        let held: f64 = seen.tenants.values().map(|share| share.occupied_bytes).sum();
        let filled = held >= self.params.least_filled_frac * seen.llc_bytes;
        let moved = self.traffic.mean() >= self.params.least_traffic_gb_per_s;
        let unfair = match self.params.literal_fairness {
            true => self.fairness.mean() <= self.params.unfair_ratio,
            false => self.free(seen).any(|(tenant, _)| self.lately[tenant].loses()),
        };
        filled && moved && unfair
    }

    /// Those who are not confined.
    fn free<'a>(
        &'a self,
        seen: &'a SocketReading,
    ) -> impl Iterator<Item = (&'a Tenant, &'a TenantShare)> {
        seen.tenants.iter().filter(|(tenant, _)| !self.slots.contains_key(*tenant))
    }

    /// The tenant furthest above its quota, if any is, of those who may be named.
    fn culprit(&self, seen: &SocketReading) -> Option<Tenant> {
        let above = |(tenant, share): (&Tenant, &TenantShare)| {
            let over = self.lately.get(tenant)?.occupied_bytes() - quota(seen, share);
            let takes = || {
                !self.is_held_to_the_least(seen, tenant, share) && self.presses(seen, tenant, share)
            };
            let named = over > 0.0 && (self.params.literal_fairness || takes());
            named.then(|| (tenant.clone(), over))
        };
        let most = seen.tenants.iter().filter_map(above).max_by(|a, b| a.1.total_cmp(&b.1));
        most.map(|(tenant, _)| tenant)
    }

    /// Whether a tenant is in a slot of the least size.
    fn is_held_to_the_least(
        &self,
        seen: &SocketReading,
        tenant: &Tenant,
        share: &TenantShare,
    ) -> bool {
        self.slots.get(tenant).is_some_and(|slot| slot.ways <= ways_of(seen, share))
    }

    /// Whether a tenant moves at least its share of what those move who can be held to less, and
    /// more than it waits for; where the channels are full nobody can, and the share is enough.
    fn presses(&self, seen: &SocketReading, tenant: &Tenant, share: &TenantShare) -> bool {
        let (mut cpus, mut gb_per_s) = (0u32, 0.0f64);
        for (other, its) in &seen.tenants {
            if !self.is_held_to_the_least(seen, other, its) {
                cpus += its.cpus;
                gb_per_s += its.gb_per_s;
            }
        }
        let fair = gb_per_s / f64::from(cpus.max(1)) * f64::from(share.cpus);
        let rate = self.rates.get(tenant).copied().unwrap_or(100);
        let full = seen.gb_per_s >= self.params.full_gb_per_s;
        share.gb_per_s >= fair && (full || want::sweeps(share, rate))
    }

    /// Moves the culprit into a slot; answers whether there are both.
    fn confine(&mut self, seen: &SocketReading) -> bool {
        let Some(culprit) = self.culprit(seen) else { return false };
        let Some(side) = self.side_for(&culprit, seen.time) else { return false };
        let ways = ways_of(seen, &seen.tenants[&culprit]);
        let slot = Slot { side, ways, since: seen.time, relaxed: seen.time };
        self.slots.insert(culprit, slot);
        true
    }

    /// Its own slot, a free one, or that of whoever was confined for longest and long enough.
    fn side_for(&mut self, culprit: &Tenant, now: Time) -> Option<Side> {
        if let Some(slot) = self.slots.get(culprit) {
            return Some(slot.side);
        }
        let taken = |side: Side| self.slots.values().any(|slot| slot.side == side);
        if let Some(side) = [Side::Left, Side::Right].into_iter().find(|side| !taken(*side)) {
            return Some(side);
        }
        let (oldest, slot) = self.slots.iter().min_by_key(|(_, slot)| slot.since)?;
        let tenure = now.since(slot.since).as_secs_f64();
        let (oldest, side) = (oldest.clone(), slot.side);
        (tenure >= self.params.tenure_s).then(|| {
            self.slots.remove(&oldest);
            side
        })
    }

    fn halve(&mut self, seen: &SocketReading) {
        let least = self.least_crowding(seen);
        let floor = self.params.floor_percent;
        for (tenant, share) in &seen.tenants {
            let rate = self.rates.get(tenant).copied().unwrap_or(100);
            if share.gb_per_s >= least * f64::from(share.cpus) && rate > floor {
                self.rates.insert(tenant.clone(), (rate / 2).max(floor));
            }
        }
    }

    /// Traffic of each of its CPUs from which a tenant crowds full channels, in gigabytes per
    /// second. As printed that is an even part for each CPU of the socket, idle or not; by default
    /// well over what those who use the channels move.
    fn least_crowding(&self, seen: &SocketReading) -> f64 {
        if self.params.literal_fairness {
            return seen.gb_per_s / f64::from(seen.cpus.max(1));
        }
        let uses = |share: &&TenantShare| want::under_way(share) >= self.params.starved_cpu_frac;
        let (mut cpus, mut gb_per_s) = (0u32, 0.0f64);
        for share in seen.tenants.values().filter(uses) {
            cpus += share.cpus;
            gb_per_s += share.gb_per_s;
        }
        CROWDS * gb_per_s / f64::from(cpus.max(1))
    }

    fn raise(&mut self) {
        let step = self.params.step_percent;
        for rate in self.rates.values_mut() {
            *rate = match step {
                Some(step) => (*rate + step).min(100),
                None => (100 + *rate).div_ceil(2),
            };
        }
        self.rates.retain(|_, rate| *rate < 100);
    }

    /// Whether somebody who is free waits for more than it holds.
    fn somebody_waits(&self, seen: &SocketReading) -> bool {
        self.free(seen).any(|(tenant, _)| self.lately[tenant].wants())
    }

    /// Whether the cache is divided so nearly as all are entitled to that nobody is held back.
    fn is_fair(&self) -> bool {
        self.fairness.mean() >= self.params.unfair_ratio + self.params.relax_guard_ratio
    }

    /// Gives a way back to those whose time has come.
    fn relax(&mut self, seen: &SocketReading) {
        let period = self.params.relax_period_s;
        let fair = self.is_fair();
        let unheeded = !self.params.literal_fairness && !self.somebody_waits(seen);
        for (tenant, slot) in &mut self.slots {
            let quiet = !self.params.literal_fairness && self.lately[tenant].is_quiet();
            let due = seen.time.since(slot.relaxed).as_secs_f64() >= period;
            if due && (fair || unheeded || quiet) {
                slot.ways += 1;
                slot.relaxed = seen.time;
            }
        }
        self.slots.retain(|_, slot| slot.ways < seen.ways);
    }

    fn limits(&self, seen: &SocketReading) -> BTreeMap<Tenant, Bias> {
        let limited = self.slots.keys().chain(self.rates.keys());
        let bias = |tenant: &Tenant| Bias {
            ways: self.slots.get(tenant).map_or(mask(seen.ways), |slot| slot.mask(seen.ways)),
            percent: self.rates.get(tenant).copied().unwrap_or(100),
        };
        limited.map(|tenant| (tenant.clone(), bias(tenant))).collect()
    }
}

impl Slot {
    /// Its ways of so many, at its end of the cache.
    fn mask(&self, ways: u32) -> u64 {
        let own = self.ways.min(ways);
        match self.side {
            Side::Left => mask(own) << (ways - own),
            Side::Right => mask(own),
        }
    }
}

/// The lowest so many bits.
fn mask(ways: u32) -> u64 {
    if ways >= 64 { u64::MAX } else { (1 << ways) - 1 }
}

#[cfg(test)]
mod tests;
