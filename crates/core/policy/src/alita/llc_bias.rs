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
//! entitled. When it is low while there is traffic, the tenant furthest above its quota is the
//! culprit and is moved into one of two slots at the ends of the cache. Where the channels are
//! full, those above their share of traffic have their rate halved. Both are taken back in steps.
//!
//! # Units
//! Occupancy in bytes; traffic in gigabytes per second for a socket (A-37 (4)); rates in percent.
//! The coefficient has none.
//!
//! # Pseudo-code (A-23)
//! ```text
//! each 5 s and socket with two tenants or more, first that fits:
//!   BC <= 0.95, traffic >= 3, cache filled to 10 %:  culprit = argmax(occupancy - quota) into a slot
//!   traffic >= 50:                                   halve the rate of those above their share
//!   else: traffic <= 45: raise rates; BC >= 0.98: give each culprit a way every 30 s
//! ```
//!
//! # Degradation
//! A tenant whose occupancy is not known takes no part. Without a way to limit rates the second
//! rule has no effect, and the traffic stays as it is.
//!
//! Source: A-19 to A-25; A-37 (4) to (7), (10) are not repeated, relaxing at 0.98 by (7).

use crate::parts::check;
use quell_types::{Tenant, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Parameters of `llc-bias`: the table `[law.llc-bias]`. The defaults are those of A-19.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LlcBiasParams {
    /// Length of an interval, in seconds.
    pub period_s: f64,
    /// Coefficient at which the cache counts as unfairly divided.
    pub unfair_ratio: f64,
    /// Traffic of the socket below which that hurts nobody, in gigabytes per second.
    pub least_traffic_gb_per_s: f64,
    /// Share of the cache that must be filled.
    pub least_filled_frac: f64,
    /// How long a slot is kept at least, in seconds.
    pub tenure_s: f64,
    /// How far above `unfair_ratio` culprits are relaxed.
    pub relax_guard_ratio: f64,
    /// Between two steps of relaxing, in seconds.
    pub relax_period_s: f64,
    /// Traffic at which rates are halved, in gigabytes per second.
    pub full_gb_per_s: f64,
    /// How far below it rates are raised.
    pub full_guard_gb_per_s: f64,
    /// Lowest rate in percent.
    pub floor_percent: u32,
    /// Step by which rates are raised, in percent; none where the throttle is not linear.
    pub step_percent: Option<u32>,
}

impl Default for LlcBiasParams {
    fn default() -> Self {
        Self {
            period_s: 5.0,
            unfair_ratio: 0.95,
            least_traffic_gb_per_s: 3.0,
            least_filled_frac: 0.1,
            tenure_s: 60.0,
            relax_guard_ratio: 0.03,
            relax_period_s: 30.0,
            full_gb_per_s: 50.0,
            full_guard_gb_per_s: 5.0,
            floor_percent: 20,
            step_percent: Some(10),
        }
    }
}

impl LlcBiasParams {
    /// Checks them.
    ///
    /// # Errors
    /// If one lies out of range.
    pub fn validate(&self) -> Result<(), String> {
        check(0.01..=3600.0, &[("period_s", self.period_s)])?;
        check(0.0..=1.0, &[("unfair_ratio", self.unfair_ratio)])?;
        check(0.0..=1.0, &[("relax_guard_ratio", self.relax_guard_ratio)])?;
        check(0.0..=1.0, &[("least_filled_frac", self.least_filled_frac)])?;
        check(0.0..=1e6, &[("least_traffic_gb_per_s", self.least_traffic_gb_per_s)])?;
        check(0.0..=1e6, &[("full_gb_per_s", self.full_gb_per_s)])?;
        check(0.0..=self.full_gb_per_s, &[("full_guard_gb_per_s", self.full_guard_gb_per_s)])?;
        check(0.0..=86_400.0, &[("tenure_s", self.tenure_s)])?;
        check(0.0..=86_400.0, &[("relax_period_s", self.relax_period_s)])?;
        check(1.0..=100.0, &[("floor_percent", f64::from(self.floor_percent))])?;
        check(1.0..=100.0, &[("step_percent", f64::from(self.step_percent.unwrap_or(1)))])
    }
}

/// Weights of the window, the newest last.
const WEIGHTS: [f64; 6] = [0.1, 0.1, 0.1, 0.2, 0.2, 0.3];

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
    /// Its CPUs.
    pub cpus: u32,
    /// Its memory traffic in gigabytes per second, of all.
    pub gb_per_s: f64,
    /// The tenants; the host is none.
    pub tenants: BTreeMap<Tenant, TenantShare>,
}

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

/// What was seen lately, the newest last; begins as if all had always been fair and quiet.
#[derive(Clone, Debug)]
struct Window(VecDeque<f64>);

impl Window {
    fn of(value: f64) -> Self {
        Self(std::iter::repeat_n(value, WEIGHTS.len()).collect())
    }

    fn push(&mut self, value: f64) {
        self.0.pop_front();
        self.0.push_back(value);
    }

    fn mean(&self) -> f64 {
        self.0.iter().zip(WEIGHTS).map(|(value, weight)| value * weight).sum()
    }
}

/// The controller of one socket.
#[derive(Clone, Debug)]
pub struct LlcBias {
    params: LlcBiasParams,
    fairness: Window,
    traffic: Window,
    occupied: BTreeMap<Tenant, Window>,
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
            occupied: BTreeMap::new(),
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
        self.occupied.retain(|tenant, _| here(tenant));
        self.slots.retain(|tenant, _| here(tenant));
        self.rates.retain(|tenant, _| here(tenant));
        for (tenant, share) in &seen.tenants {
            let window = self.occupied.entry(tenant.clone()).or_insert_with(|| Window::of(0.0));
            window.push(share.occupied_bytes);
        }
        self.fairness.push(fairness(seen));
        self.traffic.push(seen.gb_per_s);
    }

    fn act(&mut self, seen: &SocketReading) {
        let params = self.params;
        let (fairness, traffic) = (self.fairness.mean(), self.traffic.mean());
        let held: f64 = seen.tenants.values().map(|share| share.occupied_bytes).sum();
        let filled = held >= params.least_filled_frac * seen.llc_bytes;
        if fairness <= params.unfair_ratio && traffic >= params.least_traffic_gb_per_s && filled {
            self.confine(seen);
        } else if seen.gb_per_s >= params.full_gb_per_s {
            self.halve(seen);
        } else {
            if seen.gb_per_s <= params.full_gb_per_s - params.full_guard_gb_per_s {
                self.raise();
            }
            if fairness >= params.unfair_ratio + params.relax_guard_ratio {
                self.relax(seen);
            }
        }
    }

    /// The tenant furthest above its quota, if any is.
    fn culprit(&self, seen: &SocketReading) -> Option<Tenant> {
        let above = |(tenant, share): (&Tenant, &TenantShare)| {
            let over = self.occupied.get(tenant)?.mean() - quota(seen, share);
            (over > 0.0).then(|| (tenant.clone(), over))
        };
        let most = seen.tenants.iter().filter_map(above).max_by(|a, b| a.1.total_cmp(&b.1));
        most.map(|(tenant, _)| tenant)
    }

    fn confine(&mut self, seen: &SocketReading) {
        let Some(culprit) = self.culprit(seen) else { return };
        let Some(side) = self.side_for(&culprit, seen.time) else { return };
        let ways = ways_of(seen, &seen.tenants[&culprit]);
        let slot = Slot { side, ways, since: seen.time, relaxed: seen.time };
        self.slots.insert(culprit, slot);
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
        let share_of_one = seen.gb_per_s / f64::from(seen.cpus.max(1));
        let floor = self.params.floor_percent;
        for (tenant, share) in &seen.tenants {
            let rate = self.rates.get(tenant).copied().unwrap_or(100);
            if share.gb_per_s >= share_of_one * f64::from(share.cpus) && rate > floor {
                self.rates.insert(tenant.clone(), (rate / 2).max(floor));
            }
        }
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

    fn relax(&mut self, seen: &SocketReading) {
        let period = self.params.relax_period_s;
        for slot in self.slots.values_mut() {
            if seen.time.since(slot.relaxed).as_secs_f64() >= period {
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

/// What a tenant is entitled to, in bytes (A-20).
fn quota(seen: &SocketReading, share: &TenantShare) -> f64 {
    let all: u32 = seen.tenants.values().map(|share| share.cpus).sum();
    seen.llc_bytes * f64::from(share.cpus) / f64::from(all.max(1))
}

/// The Bhattacharyya coefficient of entitled and real occupancy (A-21); 1 where nothing is held.
fn fairness(seen: &SocketReading) -> f64 {
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

/// Ways that a culprit keeps (A-23, A-25).
fn ways_of(seen: &SocketReading, share: &TenantShare) -> u32 {
    (seen.ways * share.cpus).div_ceil(seen.cpus.max(1)) + 1
}

#[cfg(test)]
mod tests;
