//! Who has which cores, how many ways and which frequency.

use crate::ledger::{Ledger, Reason};
use crate::parts::{Cores, must_keep_a_core};
use quell_types::{CpuSet, Kilohertz, Knob, KnobRange, Setting, Setup, Tenant};

/// What a service may get or give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Core,
    Cache,
    Frequency,
}

impl Resource {
    /// How many there are.
    pub(super) const COUNT: usize = 3;

    /// The next one of the wheel.
    pub(super) fn next(self) -> Self {
        match self {
            Resource::Core => Resource::Cache,
            Resource::Cache => Resource::Frequency,
            Resource::Frequency => Resource::Core,
        }
    }
}

/// Where a step came from or went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// What no service has: batch uses it.
    Pool,
    Service(usize),
}

/// Everything that is divided. Services by their number in the setup.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shares {
    services: usize,
    /// The owner of each core; empty if cores cannot be divided.
    cores: Vec<Side>,
    /// CPUs of a core, on average.
    threads: f64,
    /// Cores that batch must keep.
    kept: usize,
    /// Ways of each service; empty if no cache can be divided.
    ways: Vec<u32>,
    ways_pool: u32,
    ways_min: u32,
    /// Top frequency of each service in kHz; empty if it cannot be set.
    khz: Vec<u64>,
    khz_range: (u64, u64),
    khz_step: u64,
}

impl Shares {
    /// Equal shares of everything that can be divided; frequency in steps of so many kHz.
    pub(super) fn equal(setup: &Setup, khz_step: u64) -> Self {
        let services = setup.services.len();
        let (full, min) = ways_of(setup);
        let khz_range = frequency_of(setup);
        let cores = Cores::of(setup, 0);
        let count = cores.count() as usize;
        let cpus: usize = (0..count).map(|rank| cores.core(rank).len()).sum();
        let mut shares = Self {
            services,
            cores: Vec::new(),
            threads: cpus as f64 / count.max(1) as f64,
            kept: usize::from(!setup.batch.is_empty() && must_keep_a_core(setup)),
            ways: Vec::new(),
            ways_pool: 0,
            ways_min: min,
            khz: khz_range.map_or(Vec::new(), |(_, max)| vec![max; services]),
            khz_range: khz_range.unwrap_or_default(),
            khz_step,
        };
        let free = count.saturating_sub(shares.kept);
        if services > 0 && free >= services {
            let owner = |core: usize| Side::Service(core * services / free);
            shares.cores = (0..free).map(owner).collect();
            shares.cores.resize(count, Side::Pool);
        }
        let ways = full.count_ones();
        // Batch needs the least mask too, in name at any rate.
        if services > 0 && ways >= min * (services as u32 + 1) {
            let each = ways / services as u32;
            shares.ways = vec![each; services];
            shares.ways_pool = ways - each * services as u32;
        }
        shares
    }

    /// Whether anything can be divided at all.
    pub(super) fn divides_cores(&self) -> bool {
        !self.cores.is_empty()
    }

    /// What cannot be divided here, in words.
    pub(super) fn missing(&self) -> Vec<String> {
        let fixed = |what| (0..self.services).all(|n| self.after_shrink(n, what).is_none());
        [
            (
                !self.divides_cores(),
                "fewer cores than services: cores are not divided, batch stays off",
            ),
            (fixed(Resource::Cache), "no cache that can be divided: no service gets or gives ways"),
            (fixed(Resource::Frequency), "no frequency can be set: no service gets or gives clock"),
        ]
        .into_iter()
        .filter(|(missing, _)| *missing)
        .map(|(_, note)| note.to_owned())
        .collect()
    }

    /// Cores of nobody.
    pub(super) fn free_cores(&self) -> usize {
        self.cores.iter().filter(|owner| **owner == Side::Pool).count()
    }

    pub(super) fn cores_of(&self, service: usize) -> usize {
        self.cores.iter().filter(|owner| **owner == Side::Service(service)).count()
    }

    /// Gives a service one step, from the pool or else from the first donor that can spare it.
    /// Answers where it came from; none if there is nothing to give.
    pub(super) fn grow(
        &mut self,
        service: usize,
        what: Resource,
        donors: &[usize],
    ) -> Option<Side> {
        match what {
            Resource::Core => self.grow_cores(service, donors),
            Resource::Cache => self.grow_ways(service, donors),
            Resource::Frequency => {
                let khz = self.khz.get_mut(service)?;
                let more = (*khz + self.khz_step).min(self.khz_range.1);
                (std::mem::replace(khz, more) != more).then_some(Side::Pool)
            }
        }
    }

    fn grow_cores(&mut self, service: usize, donors: &[usize]) -> Option<Side> {
        let spare = |side: Side| match side {
            Side::Pool => self.free_cores() > self.kept,
            Side::Service(donor) => self.cores_of(donor) > 1,
        };
        let sides = std::iter::once(Side::Pool).chain(donors.iter().map(|d| Side::Service(*d)));
        let from = sides.into_iter().find(|side| spare(*side))?;
        let core = self.cores.iter().rposition(|owner| *owner == from)?;
        self.cores[core] = Side::Service(service);
        Some(from)
    }

    fn grow_ways(&mut self, service: usize, donors: &[usize]) -> Option<Side> {
        if self.ways.is_empty() {
            return None;
        }
        let from = match self.ways_pool > 0 {
            true => Side::Pool,
            false => Side::Service(*donors.iter().find(|d| self.ways[**d] > self.ways_min)?),
        };
        match from {
            Side::Pool => self.ways_pool -= 1,
            Side::Service(donor) => self.ways[donor] -= 1,
        }
        self.ways[service] += 1;
        Some(from)
    }

    /// What a service has of a resource: cores, ways or kHz.
    pub(super) fn level(&self, service: usize, what: Resource) -> u64 {
        match what {
            Resource::Core => self.cores_of(service) as u64,
            Resource::Cache => self.ways.get(service).copied().unwrap_or(0).into(),
            Resource::Frequency => self.khz.get(service).copied().unwrap_or(0),
        }
    }

    /// Whether a service's clock lies below the top.
    pub(super) fn is_slowed(&self, service: usize) -> bool {
        self.khz.get(service).is_some_and(|khz| *khz < self.khz_range.1)
    }

    /// What a service would have with one step less, and how many CPUs of today's clock its cores
    /// would then be worth; none if it has no more than it must keep.
    pub(super) fn after_shrink(&self, service: usize, what: Resource) -> Option<(u64, f64)> {
        let level = self.level(service, what);
        let (least, step) = match what {
            Resource::Core => (1, 1),
            Resource::Cache => (u64::from(self.ways_min), 1),
            Resource::Frequency => (self.khz_range.0, self.khz_step),
        };
        let less = level.saturating_sub(step).max(least);
        let cpus = match self.divides_cores() {
            true => self.cores_of(service) as f64 * self.threads,
            false => f64::INFINITY,
        };
        let kept = if what == Resource::Cache { 1.0 } else { less as f64 / level.max(1) as f64 };
        (less < level).then_some((less, cpus * kept))
    }

    /// Takes one step from a service into the pool. False if it has no more than it must keep.
    pub(super) fn shrink(&mut self, service: usize, what: Resource) -> bool {
        let Some((level, _)) = self.after_shrink(service, what) else { return false };
        match what {
            Resource::Core => {
                let mine = self.cores.iter().rposition(|o| *o == Side::Service(service));
                if let Some(core) = mine {
                    self.cores[core] = Side::Pool;
                }
            }
            Resource::Cache => {
                self.ways[service] -= 1;
                self.ways_pool += 1;
            }
            Resource::Frequency => self.khz[service] = level,
        }
        true
    }

    /// Wishes for everything as it is divided now.
    pub(super) fn give(&self, ledger: &mut Ledger, setup: &Setup, why: &Reason) {
        let cores = Cores::of(setup, 0);
        let cpus = |side: Side| -> CpuSet {
            let mine = self.cores.iter().enumerate().filter(|(_, owner)| **owner == side);
            mine.flat_map(|(core, _)| cores.core(core).iter().collect::<Vec<_>>()).collect()
        };
        if self.divides_cores() {
            for (number, spec) in setup.services.iter().enumerate() {
                set_cpus(ledger, setup, &spec.name, &cpus(Side::Service(number)), why);
            }
            let free = cpus(Side::Pool);
            for spec in setup.batch.iter().filter(|_| !free.is_empty()) {
                set_cpus(ledger, setup, &spec.name, &free, why);
            }
        }
        self.give_ways(ledger, setup, why);
        self.give_frequency(ledger, setup, &cpus, why);
    }

    /// From the lowest way upward: services in order, then what is free, for batch.
    fn give_ways(&self, ledger: &mut Ledger, setup: &Setup, why: &Reason) {
        if self.ways.is_empty() {
            return;
        }
        let (full, min) = ways_of(setup);
        let mut low = full.trailing_zeros();
        let top = low + full.count_ones();
        let mut set = |tenant: &Tenant, mask: u64| {
            for domain in domains_of(setup, tenant) {
                let knob = Knob::LlcWays { tenant: tenant.clone(), domain };
                ledger.set(setup, knob, Setting::Ways(mask), why);
            }
        };
        for (spec, ways) in setup.services.iter().zip(&self.ways) {
            set(&spec.name, mask(low, *ways));
            low += ways;
        }
        // A pool below the least mask reaches into the last service's ways.
        let pool = (top - low).max(min);
        for spec in &setup.batch {
            set(&spec.name, mask(top - pool, pool));
        }
    }

    fn give_frequency(
        &self,
        ledger: &mut Ledger,
        setup: &Setup,
        cpus: &dyn Fn(Side) -> CpuSet,
        why: &Reason,
    ) {
        let max = self.khz_range.1;
        let mut set = |cpu: u32, khz: u64| {
            let knob = Knob::FrequencyMax { cpu };
            let to = Setting::Frequency(Kilohertz(khz));
            // What was never lowered stays untouched.
            if khz != max || ledger.standing(&knob).is_some() {
                ledger.set(setup, knob, to, why);
            }
        };
        for (service, khz) in self.khz.iter().enumerate() {
            cpus(Side::Service(service)).iter().for_each(|cpu| set(cpu, *khz));
        }
        if !self.khz.is_empty() {
            cpus(Side::Pool).iter().for_each(|cpu| set(cpu, max));
        }
    }

    /// How many there are, for the invariants' tests.
    #[cfg(test)]
    pub(super) fn services(&self) -> usize {
        self.services
    }
}

fn set_cpus(ledger: &mut Ledger, setup: &Setup, tenant: &Tenant, cpus: &CpuSet, why: &Reason) {
    let knob = Knob::Cpus { tenant: tenant.clone() };
    ledger.set(setup, knob, Setting::Cpus(cpus.clone()), why);
}

fn mask(low: u32, ways: u32) -> u64 {
    ((1u64 << ways.min(63)) - 1) << low
}

/// The caches in which a tenant's ways can be set.
fn domains_of(setup: &Setup, tenant: &Tenant) -> Vec<u32> {
    let of = |knob: &Knob| match knob {
        Knob::LlcWays { tenant: whose, domain } if whose == tenant => Some(*domain),
        _ => None,
    };
    setup.knobs.keys().filter_map(of).collect()
}

/// Ways that every cache has, and the fewest of a mask; none where some cache has holes.
fn ways_of(setup: &Setup) -> (u64, u32) {
    let ranges = setup.knobs.values().filter_map(|range| match range {
        KnobRange::Ways { full, min_bits, .. } => Some((*full, (*min_bits).max(1))),
        _ => None,
    });
    let common = ranges.reduce(|(a, x), (b, y)| (a & b, x.max(y)));
    let whole = |full: u64| {
        let low = full >> full.trailing_zeros().min(63);
        full != 0 && low & low.wrapping_add(1) == 0
    };
    common.filter(|(full, _)| whole(*full)).unwrap_or((0, 1))
}

/// Frequencies that every CPU takes.
fn frequency_of(setup: &Setup) -> Option<(u64, u64)> {
    let ranges = setup.knobs.values().filter_map(|range| match range {
        KnobRange::Frequency { min, max } => Some((min.0, max.0)),
        _ => None,
    });
    ranges.reduce(|(a, b), (x, y)| (a.max(x), b.min(y))).filter(|(min, max)| min < max)
}
