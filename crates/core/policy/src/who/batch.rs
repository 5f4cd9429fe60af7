//! What batch groups use and ask for, by what was seen of them.

use quell_model::blame::Demand;
use quell_types::{BatchObservation, Observation, Tenant};
use std::collections::{BTreeMap, BTreeSet};

/// Whether it was out of its own quota.
pub(super) fn is_held_back(batch: &BatchObservation) -> bool {
    batch.throttled.as_ref().is_ok_and(|frac| frac.0 > 0.0)
}

/// Those who were.
pub(super) fn held_back(seen: &Observation) -> BTreeSet<Tenant> {
    let held = seen.batch.iter().filter(|(_, batch)| is_held_back(batch));
    held.map(|(tenant, _)| tenant.clone()).collect()
}

/// What each batch group uses and asks for: its threads that stand ask as well. Those of a group
/// that is out of its quota stand for that: it has what it may ask for.
pub(super) fn demands(seen: &Observation, held: &BTreeSet<Tenant>) -> BTreeMap<Tenant, Demand> {
    let one = |(tenant, batch): (&Tenant, &BatchObservation)| {
        let used_cpus = batch.cpu.as_ref().ok()?.0;
        let standing = batch.standing.as_ref().copied().unwrap_or(0.0);
        let asked_cpus = if is_held_back(batch) { used_cpus } else { used_cpus + standing };
        Some((tenant.clone(), Demand { used_cpus, asked_cpus }))
    };
    seen.batch.iter().filter(|(tenant, _)| !held.contains(*tenant)).filter_map(one).collect()
}

/// CPUs of each batch group that is there.
pub(super) fn cpus(seen: &Observation) -> BTreeMap<Tenant, f64> {
    let one = |(tenant, batch): (&Tenant, &BatchObservation)| {
        batch.present.as_ref().ok()?;
        Some((tenant.clone(), batch.cpu.as_ref().map_or(0.0, |cpu| cpu.0)))
    };
    seen.batch.iter().filter_map(one).collect()
}
