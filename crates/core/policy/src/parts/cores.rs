//! Cores to divide between services and batch.

use quell_types::{CpuSet, Knob, KnobRange, Setup, Tenant};

/// The physical cores that services and batch share, in the order in which batch takes them
/// (T-16: batch from the lowest upward, then services; the system's are left out at the end).
/// Hardware threads of a core move together, since sharing one is what hurts most (T-5, T-7).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cores {
    units: Vec<CpuSet>,
    split_siblings: bool,
}

impl Cores {
    /// The cores of a setup but for the last `system` ones. Where that would leave fewer than two
    /// to divide, the system gets fewer; where there is only one physical core, its threads are
    /// divided.
    pub(crate) fn of(setup: &Setup, system: u32) -> Self {
        let free = shared_cpus(setup);
        let mut units = physical(setup, &free);
        let split_siblings = units.len() < 2 && free.len() > units.len();
        if split_siblings {
            units = free.iter().map(CpuSet::of).collect();
        }
        let system = (system as usize).min(units.len().saturating_sub(2));
        units.truncate(units.len() - system);
        Self { units, split_siblings }
    }

    /// How many cores there are to divide.
    pub(crate) fn count(&self) -> u32 {
        self.units.len() as u32
    }

    /// The most that batch may have: services keep one.
    pub(crate) fn batch_max(&self) -> u32 {
        self.count().saturating_sub(1)
    }

    /// CPUs of the first `n` cores.
    pub(crate) fn batch(&self, n: u32) -> CpuSet {
        self.units.iter().take(n as usize).flat_map(CpuSet::iter).collect()
    }

    /// CPUs of all but the first `n` cores.
    pub(crate) fn service(&self, n: u32) -> CpuSet {
        self.units.iter().skip(n as usize).flat_map(CpuSet::iter).collect()
    }

    /// CPUs of one core, by its rank.
    pub(crate) fn core(&self, rank: usize) -> CpuSet {
        self.units.get(rank).cloned().unwrap_or_default()
    }

    /// Whether threads of one core are divided for want of cores.
    pub(crate) fn splits_siblings(&self) -> bool {
        self.split_siblings
    }
}

fn physical(setup: &Setup, free: &CpuSet) -> Vec<CpuSet> {
    let mut seen = CpuSet::new();
    let mut units = Vec::new();
    for cpu in free.iter() {
        if seen.contains(cpu) {
            continue;
        }
        let siblings = setup.topology.siblings(cpu).intersection(free).union(&CpuSet::of(cpu));
        seen = seen.union(&siblings);
        units.push(siblings);
    }
    units
}

fn shared_cpus(setup: &Setup) -> CpuSet {
    let tenants = setup.services.iter().map(|s| &s.name).chain(setup.batch.iter().map(|b| &b.name));
    tenants.fold(setup.managed_cpus.clone(), |cpus, tenant| match range(setup, tenant) {
        Some((within, _)) => cpus.intersection(within),
        None => cpus,
    })
}

fn range<'a>(setup: &'a Setup, tenant: &Tenant) -> Option<(&'a CpuSet, bool)> {
    match setup.knobs.get(&Knob::Cpus { tenant: tenant.clone() }) {
        Some(KnobRange::Cpus { within, exclusive }) => Some((within, *exclusive)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::setup;

    fn texts(cores: &Cores, n: u32) -> (String, String) {
        (cores.batch(n).to_string(), cores.service(n).to_string())
    }

    #[test]
    fn batch_takes_from_core_0_upward_then_services_then_the_system() {
        let cores = Cores::of(&setup(9).build(), 1);
        assert_eq!((cores.count(), cores.batch_max()), (8, 7));
        assert_eq!(texts(&cores, 0), (String::new(), "0-7".into()));
        assert_eq!(texts(&cores, 3), ("0-2".into(), "3-7".into()));
    }

    #[test]
    fn two_cpus_leave_none_to_the_system_and_one_to_batch() {
        let cores = Cores::of(&setup(2).build(), 1);
        assert_eq!((cores.count(), cores.batch_max()), (2, 1));
        assert_eq!(texts(&cores, 1), ("0".into(), "1".into()));
    }

    #[test]
    fn one_cpu_cannot_be_divided() {
        assert_eq!(Cores::of(&setup(1).build(), 1).batch_max(), 0);
    }

    #[test]
    fn siblings_move_together_unless_there_is_only_one_core() {
        let cores = Cores::of(&setup(8).smt().build(), 0);
        assert_eq!(cores.count(), 4);
        assert_eq!(texts(&cores, 1), ("0-1".into(), "2-7".into()));
        let cores = Cores::of(&setup(2).smt().build(), 0);
        assert!(cores.splits_siblings());
        assert_eq!(texts(&cores, 1), ("0".into(), "1".into()));
    }
}
