//! Bus locks by CPU and by tenant, where a law asks for them and the PMU counts them.
//!
//! Two more of the PMU's counters are used, beside those of memory traffic: one for each CPU, one
//! for the tenant that runs on it. Where only one is left, tenants go without: a law then knows the
//! cores' counts alone.

use super::traffic::{Measure, Traffic, perf_knows_groups};
use quell_cgroup::{Group, Layout};
use quell_counters::BusLocks;
use quell_types::{BandwidthReading, CpuSet, Gap, Reading, Tenant};
use std::collections::BTreeMap;
use std::path::Path;

/// Counters that memory traffic takes, where perf stands in for resctrl.
const OF_TRAFFIC: usize = 2;

/// Counters of bus locks.
pub(crate) struct Locks {
    cpus: Reading<BusLocks>,
    tenants: Traffic,
}

impl Locks {
    /// Nothing is counted unless a law asks for it: counters are few.
    pub(crate) fn open(
        layout: &Layout,
        online: &CpuSet,
        asked: bool,
        traffic_is_used: bool,
    ) -> Self {
        let found = match asked {
            true => usable(layout),
            false => Err(Gap::absent("no law of this configuration looks at bus locks")),
        };
        let taken = if traffic_is_used { OF_TRAFFIC } else { 0 };
        let room = |wanted: usize| {
            let (event, left) = found.clone()?;
            match left >= taken + wanted {
                true => Ok(event),
                false => Err(Gap::absent(format!(
                    "the PMU has {left} counters that count, and {} are needed",
                    taken + wanted
                ))),
            }
        };
        let cpus = room(1).and_then(|event| BusLocks::open(event, online));
        let of_groups = room(2).and_then(|event| {
            perf_knows_groups(layout)?;
            Ok(Measure { event, bytes_each: 1 })
        });
        Self { cpus, tenants: Traffic::by(of_groups, layout, online.clone(), false) }
    }

    pub(crate) fn track(&mut self, tenant: &Tenant, group: &Group) {
        self.tenants.track(tenant, group);
    }

    pub(crate) fn forget(&mut self, tenant: &Tenant) {
        self.tenants.forget(tenant);
    }

    /// Whether it holds any counter.
    pub(crate) fn is_used(&self) -> bool {
        self.cpus.is_ok()
    }

    /// Reads the tenants' counters, in a full sample.
    pub(crate) fn count(&mut self) {
        self.tenants.count();
    }

    /// Of each CPU, in every sample.
    pub(crate) fn of_cpus(&mut self) -> Reading<BTreeMap<u32, u64>> {
        self.cpus.as_mut().map_err(|gap| gap.clone())?.read()
    }

    /// Of a tenant, at the last full sample.
    pub(crate) fn of(&self, tenant: &Tenant) -> Reading<u64> {
        self.tenants.counted(tenant).map(|BandwidthReading { bytes }| bytes)
    }
}

/// The event, and how many counters of the PMU count.
fn usable(layout: &Layout) -> Reading<(quell_counters::Event, usize)> {
    if layout.root() != Path::new("/") {
        let root = layout.root().display();
        return Err(Gap::absent(format!("{root} is not the running machine: nothing is counted")));
    }
    BusLocks::usable(layout.root()).map(|(event, check)| (event, check.agreeing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asks_for_is_not_counted() {
        let layout = Layout::discover("/");
        let online = CpuSet::of(0);
        let mut locks = Locks::open(&layout, &online, false, false);
        let Err(Gap::Absent(why)) = locks.of_cpus() else { panic!("it counts") };
        assert!(why.contains("no law"), "{why}");
        assert!(!locks.is_used() && locks.of(&"jobs".into()).is_err());
    }

    #[test]
    fn this_machine_counts_or_says_why_not() {
        let layout = Layout::discover("/");
        let online = quell_topology::Machine::new("/").topology().online();
        let mut locks = Locks::open(&layout, &online, true, false);
        match locks.of_cpus() {
            Ok(counts) => assert_eq!(counts.len(), online.len()),
            Err(gap) => assert!(!gap.to_string().is_empty()),
        }
    }
}
