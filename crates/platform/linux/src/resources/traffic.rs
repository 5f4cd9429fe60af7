//! Memory traffic where resctrl does not count it: misses of the last-level cache × line size, by
//! perf in cgroup mode.
//!
//! # Cost
//! One descriptor for each tenant and CPU, and one for each CPU for the machine as a whole, up to
//! [`MOST_DESCRIPTORS`]; tenants beyond that are gaps. A full sample reads each once: one system
//! call, and an interrupt to its CPU while the tenant runs there. A CPU that changes over between
//! tenants loads one counter anew. Of the PMU two counters are used: the machine's and that of the
//! tenant that runs (a tenant within another would take one more).
//!
//! # One measure for all
//! Laws compare tenants with each other and with the machine, so that either resctrl counts all of
//! them or perf does: what is used is settled once, when the platform is opened.

use quell_cgroup::{Group, Layout, Place};
use quell_counters::{CounterCheck, Event, MemoryTraffic, Target};
use quell_types::{BandwidthReading, CpuSet, Gap, Reading, Tenant, Topology};
use std::collections::BTreeMap;
use std::path::Path;

/// Most open counters: 31 tenants on 128 CPUs. Reading as many takes some milliseconds.
const MOST_DESCRIPTORS: usize = 4096;
/// The kernel's name of the v1 controller; in v2 every group has it.
const CONTROLLER: &str = "perf_event";
/// Counters of the PMU that count at once: the machine's, and the running tenant's.
const AT_ONCE: usize = 2;
/// Of all x86 and most others.
const USUAL_LINE_BYTES: u32 = 64;

/// Whether perf can stand in for resctrl on the machine below the layout's root.
///
/// # Errors
/// Why not: no PMU, no event, no hierarchy that perf knows.
pub(crate) fn stands_in(layout: &Layout) -> Reading<CounterCheck> {
    if layout.root() != Path::new("/") {
        let root = layout.root().display();
        return Err(Gap::absent(format!("{root} is not the running machine: nothing is counted")));
    }
    perf_knows_groups(layout)?;
    MemoryTraffic::usable()
}

/// Whether there is a hierarchy of groups that perf knows.
pub(super) fn perf_knows_groups(layout: &Layout) -> Reading<()> {
    if layout.v1(CONTROLLER).is_none() && layout.v2().is_none() {
        let why = "neither cgroup v2 nor a v1 hierarchy with perf_event, so no group is counted";
        return Err(Gap::absent(why));
    }
    Ok(())
}

/// What is counted, and what it stands for.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    pub(super) event: Event,
    pub(super) bytes_each: u32,
}

/// A tenant's counters.
struct Counted {
    counters: Reading<MemoryTraffic>,
    last: Reading<BandwidthReading>,
    /// Where it is counted, and the whole group.
    place: Reading<Place>,
    group: Group,
}

/// Traffic of all tenants and of the machine.
pub(crate) struct Traffic {
    usable: Reading<Measure>,
    /// Whether perf knows groups by v1's perf_event.
    in_v1: bool,
    cpus: CpuSet,
    host: Reading<MemoryTraffic>,
    host_last: Reading<BandwidthReading>,
    tenants: BTreeMap<Tenant, Counted>,
    most: usize,
}

impl Traffic {
    /// Nothing is counted where resctrl counts (`resctrl`), or nothing can be.
    pub(crate) fn open(layout: &Layout, topology: &Topology, resctrl: &Reading<()>) -> Self {
        let check = match resctrl {
            Ok(()) => Err(Gap::absent("resctrl counts instead")),
            Err(gap) => stands_in(layout).map_err(|other| neither(gap, &other)),
        };
        let line = topology.caches.iter().max_by_key(|cache| cache.level).map(|c| c.line_bytes);
        let line = line.filter(|bytes| *bytes > 0).unwrap_or(USUAL_LINE_BYTES);
        let measure = Measure { event: Event::CacheMisses, bytes_each: line };
        let with_host = check.as_ref().is_ok_and(|check| check.agreeing >= AT_ONCE);
        Self::by(check.map(|_| measure), layout, topology.online(), with_host)
    }

    pub(super) fn by(
        usable: Reading<Measure>,
        layout: &Layout,
        cpus: CpuSet,
        with_host: bool,
    ) -> Self {
        let host = usable.clone().and_then(|measure| {
            if !with_host {
                let why = "the PMU has one counter that counts, and the tenants need it";
                return Err(Gap::absent(why));
            }
            measure.open(&Target::Cpus(cpus.clone()))
        });
        Self {
            usable,
            in_v1: layout.v1(CONTROLLER).is_some(),
            cpus,
            host,
            host_last: Err(Gap::not_yet("nothing was read yet")),
            tenants: BTreeMap::new(),
            most: MOST_DESCRIPTORS,
        }
    }

    /// Whether it counts anything.
    pub(crate) fn is_used(&self) -> bool {
        self.usable.is_ok()
    }

    /// Begins to count a tenant, anew if its group was made anew.
    pub(crate) fn track(&mut self, tenant: &Tenant, group: &Group) {
        // Those of the old group are closed first.
        self.tenants.remove(tenant);
        let place = self.place(group);
        let counters = self.usable.clone().and_then(|measure| {
            let dir = place.clone()?.dir;
            self.room()?;
            measure.open(&Target::Cgroup { dir, cpus: self.cpus.clone() })
        });
        let last = Err(Gap::not_yet("nothing was read yet"));
        let counted = Counted { counters, last, place, group: group.clone() };
        self.tenants.insert(tenant.clone(), counted);
    }

    /// Closes the counters of a tenant whose group is gone.
    pub(crate) fn forget(&mut self, tenant: &Tenant) {
        self.tenants.remove(tenant);
    }

    /// The group's folder that perf knows.
    fn place(&self, group: &Group) -> Reading<Place> {
        let (found, tree) = match self.in_v1 {
            true => (group.v1(CONTROLLER), "v1's perf_event"),
            false => (group.v2(), "cgroup v2"),
        };
        let missing = || format!("{} has no group in {tree}, by which perf counts", group.name());
        found.cloned().ok_or_else(|| Gap::absent(missing()))
    }

    /// Whether there is room for one more tenant.
    fn room(&self) -> Reading<()> {
        let counters = self.tenants.values().map(|tenant| &tenant.counters).chain([&self.host]);
        let held: usize = counters.flatten().map(MemoryTraffic::descriptors).sum();
        if held + self.cpus.len() <= self.most {
            return Ok(());
        }
        Err(Gap::absent(format!(
            "{held} counters are open, one for each tenant and CPU, and {} are the most: \
             this tenant's cache misses are not counted",
            self.most
        )))
    }

    /// Reads all counters, in a full sample.
    pub(crate) fn count(&mut self) {
        self.host_last = read(&mut self.host);
        for counted in self.tenants.values_mut() {
            counted.last = read(&mut counted.counters).and_then(|read| counted.checked(read));
        }
    }

    /// What a tenant moved, at the last full sample.
    pub(crate) fn counted(&self, tenant: &Tenant) -> Reading<BandwidthReading> {
        self.usable.as_ref().map_err(Gap::clone)?;
        let missing = || Err(Gap::not_yet("the tenant is not counted yet"));
        self.tenants.get(tenant).map_or_else(missing, |counted| counted.last.clone())
    }

    /// What the machine moved, at the last full sample.
    pub(crate) fn host(&self) -> Reading<BandwidthReading> {
        self.usable.as_ref().map_err(Gap::clone)?;
        self.host_last.clone()
    }
}

impl Measure {
    fn open(self, target: &Target) -> Reading<MemoryTraffic> {
        MemoryTraffic::by(self.event, self.bytes_each, target).map_err(|error| Gap::from(&error))
    }
}

impl Counted {
    /// Nothing counted may mean that the processes are elsewhere: in a v1 group of the same path,
    /// of which perf knows nothing. That is a gap, not 0.
    fn checked(&self, read: BandwidthReading) -> Reading<BandwidthReading> {
        let Ok(place) = &self.place else { return Ok(read) };
        if read.bytes > 0 || place.is_populated() || !self.group.is_populated() {
            return Ok(read);
        }
        Err(Gap::absent(format!(
            "the processes of {} are not in {}, where perf would count them",
            self.group.name(),
            place.dir.display()
        )))
    }
}

fn read(counters: &mut Reading<MemoryTraffic>) -> Reading<BandwidthReading> {
    counters.as_mut().map_err(|gap| gap.clone())?.read()
}

/// Both reasons, since either would do.
fn neither(resctrl: &Gap, perf: &Gap) -> Gap {
    Gap::absent(format!("resctrl: {}; perf: {}", why(resctrl), why(perf)))
}

/// A gap's reason, without the word before it where it goes without saying.
pub(crate) fn why(gap: &Gap) -> String {
    match gap {
        Gap::Absent(why) => why.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
