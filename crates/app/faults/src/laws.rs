//! What each law's essay promises (section *Invariants* in `quell-policy`).

pub(crate) mod polluters;

use crate::KnobKind;
use crate::audit::View;
use quell_policy::Law;
use quell_types::{CpuSet, Knob, Setting, Tenant};
use std::collections::BTreeSet;

/// Whether a law ever writes such a knob.
pub(crate) fn may_write(law: Law, kind: KnobKind) -> bool {
    use KnobKind::{Bandwidth, Cpus, Duty, Egress, Freezer, Frequency, Idle, Memory, Ways, Weight};
    match law {
        Law::None => false,
        Law::OsOnly => matches!(kind, Weight | Idle),
        Law::Static => matches!(kind, Cpus | Bandwidth | Egress),
        Law::Thesis => !matches!(kind, Weight | Idle | Frequency | Duty),
        Law::Heracles => !matches!(kind, Weight | Idle | Memory | Duty),
        Law::StaticWays => matches!(kind, Ways),
        Law::LlcBias => matches!(kind, Ways | Memory),
        Law::Parties => matches!(kind, Cpus | Ways | Frequency | Freezer | Bandwidth),
        Law::BusLock => matches!(kind, Duty | Bandwidth | Freezer),
        Law::Power => matches!(kind, Duty | Frequency | Bandwidth),
        Law::Alita => {
            matches!(kind, Ways | Memory | Bandwidth | Freezer | Frequency | Duty)
        }
        Law::Culprit => matches!(kind, Bandwidth | Freezer | Weight | Idle),
        Law::Quell => !matches!(kind, Frequency | Duty),
    }
}

/// What does not hold of what a law wants.
pub(crate) fn check(
    law: Law,
    view: &View<'_>,
    left_to_others: &dyn Fn(&Knob) -> bool,
) -> Option<String> {
    if view.held {
        return None;
    }
    let off = |tenant: &Tenant| is_off(view, tenant, left_to_others);
    let found = match law {
        Law::Thesis | Law::Heracles => apart(view, &off).or_else(|| ways_apart(view, &off)),
        Law::Static => cpus_apart(view, &|_| false),
        Law::Parties => cpus_apart(view, &off).or_else(|| services_share_nothing(view)),
        Law::StaticWays => nobody_shares_ways(view),
        Law::LlcBias | Law::Alita => few_are_confined(view),
        Law::Culprit => bearable(view).or_else(|| held_without_limit(view, left_to_others)),
        Law::Quell => ways_apart(view, &off).or_else(|| lent(view)),
        _ => None,
    };
    found.map(|what| format!("law: {law}: {what}"))
}

fn wanted<'a>(view: &'a View<'_>, knob: &Knob) -> Option<&'a Setting> {
    view.engine.standing().get(knob).map(|standing| &standing.setting)
}

/// Whether a group is wanted held, by freezer or by the least CPU time; or the knob that would hold
/// it was left to others, who may let it run.
fn is_off(view: &View<'_>, tenant: &Tenant, left_to_others: &dyn Fn(&Knob) -> bool) -> bool {
    let freezer = Knob::Frozen { tenant: tenant.clone() };
    let bandwidth = Knob::CpuBandwidth { tenant: tenant.clone() };
    if left_to_others(&freezer) || left_to_others(&bandwidth) {
        return true;
    }
    let (frozen, limit) = (wanted(view, &freezer), wanted(view, &bandwidth));
    let starved = match limit {
        Some(Setting::Bandwidth(limit)) => limit.limit_cpus.is_some_and(|cpus| cpus.0 <= 0.001),
        _ => false,
    };
    frozen == Some(&Setting::Flag(true)) || starved
}

fn set_of(view: &View<'_>, tenant: &Tenant) -> Option<CpuSet> {
    match wanted(view, &Knob::Cpus { tenant: tenant.clone() })? {
        Setting::Cpus(set) => Some(set.clone()),
        _ => None,
    }
}

/// Services keep a core, and share none with batch that runs.
fn apart(view: &View<'_>, off: &dyn Fn(&Tenant) -> bool) -> Option<String> {
    let core = |set: &CpuSet| {
        let whole = |cpu: u32| view.setup.topology.siblings(cpu).is_subset(set);
        let one_core = view.setup.managed_cpus.len() < 3 * siblings(view);
        one_core || set.iter().any(whole)
    };
    for service in &view.setup.services {
        if let Some(set) = set_of(view, &service.name)
            && !core(&set)
        {
            return Some(format!("{} keeps no whole core: {set}", service.name));
        }
    }
    cpus_apart(view, off)
}

fn siblings(view: &View<'_>) -> usize {
    let first = view.setup.managed_cpus.iter().next();
    first.map_or(1, |cpu| view.setup.topology.siblings(cpu).len().max(1))
}

fn cpus_apart(view: &View<'_>, off: &dyn Fn(&Tenant) -> bool) -> Option<String> {
    for service in &view.setup.services {
        for batch in view.setup.batch.iter().filter(|b| !off(&b.name)) {
            let (Some(a), Some(b)) = (set_of(view, &service.name), set_of(view, &batch.name))
            else {
                continue;
            };
            if !a.is_disjoint(&b) {
                return Some(format!("{} on {a} overlaps {} on {b}", service.name, batch.name));
            }
        }
    }
    None
}

/// Services have CPUs and ways of their own.
fn services_share_nothing(view: &View<'_>) -> Option<String> {
    let services = &view.setup.services;
    for (number, one) in services.iter().enumerate() {
        for other in &services[..number] {
            let sets = (set_of(view, &one.name), set_of(view, &other.name));
            if let (Some(a), Some(b)) = sets
                && !a.is_disjoint(&b)
            {
                return Some(format!("{} on {a} overlaps {} on {b}", one.name, other.name));
            }
        }
    }
    let names: Vec<&Tenant> = services.iter().map(|service| &service.name).collect();
    shared_ways(view, &names)
}

fn nobody_shares_ways(view: &View<'_>) -> Option<String> {
    shared_ways(view, &tenants(view))
}

fn tenants<'a>(view: &'a View<'_>) -> Vec<&'a Tenant> {
    let batch = view.setup.batch.iter().map(|batch| &batch.name);
    view.setup.services.iter().map(|service| &service.name).chain(batch).collect()
}

fn shared_ways(view: &View<'_>, names: &[&Tenant]) -> Option<String> {
    for domain in domains(view) {
        let mut taken = 0;
        for name in names {
            let mask = mask(view, name, domain).unwrap_or(0);
            if taken & mask != 0 {
                return Some(format!("ways of {name} in domain {domain} are another's too"));
            }
            taken |= mask;
        }
    }
    None
}

/// A cache has two ends.
fn few_are_confined(view: &View<'_>) -> Option<String> {
    let confined = |domain: u32| {
        tenants(view).iter().filter(|name| mask(view, name, domain).is_some()).count()
    };
    let crowded = domains(view).into_iter().find(|domain| confined(*domain) > 2)?;
    Some(format!("{} are confined in domain {crowded}", confined(crowded)))
}

/// Nobody is limited to less than the least.
fn bearable(view: &View<'_>) -> Option<String> {
    let is_service = |tenant: &Tenant| view.setup.services.iter().any(|s| s.name == *tenant);
    let wrong = |knob: &&Knob| match knob {
        Knob::CpuBandwidth { tenant } | Knob::CpuIdle { tenant } => is_service(tenant),
        _ => false,
    };
    if let Some(knob) = view.engine.standing().keys().find(wrong) {
        return Some(format!("{knob} is not its to write"));
    }
    let too_small = |(knob, s): &(&Knob, &quell_control::Standing)| match (knob, &s.setting) {
        (Knob::CpuBandwidth { .. }, Setting::Bandwidth(b)) => {
            b.limit_cpus.is_some_and(|cpus| cpus.0 < 0.0499)
        }
        // Nobody gets less than the usual.
        (Knob::CpuWeight { .. }, Setting::Weight(weight)) => *weight < 100,
        _ => false,
    };
    let (knob, stands) = view.engine.standing().iter().find(too_small)?;
    Some(format!("{knob} at {}", stands.setting))
}

/// Law `culprit` holds by the freezer only whom a limit does not hold.
fn held_without_limit(view: &View<'_>, left_to_others: &dyn Fn(&Knob) -> bool) -> Option<String> {
    let free = |(knob, to): &(&Knob, &Setting)| {
        let Knob::Frozen { tenant } = knob else { return false };
        let limit = Knob::CpuBandwidth { tenant: tenant.clone() };
        let limited = view.engine.standing().contains_key(&limit) || left_to_others(&limit);
        **to == Setting::Flag(true) && !limited
    };
    let (knob, _) = polluters::wanted_by(view, &[Law::Culprit]).find(free)?;
    Some(format!("{knob} is held, and no limit stands"))
}

fn mask(view: &View<'_>, tenant: &Tenant, domain: u32) -> Option<u64> {
    match wanted(view, &Knob::LlcWays { tenant: tenant.clone(), domain }) {
        Some(Setting::Ways(mask)) => Some(*mask),
        _ => None,
    }
}

fn domains(view: &View<'_>) -> BTreeSet<u32> {
    let of = |knob: &Knob| match knob {
        Knob::LlcWays { domain, .. } => Some(*domain),
        _ => None,
    };
    view.setup.knobs.keys().filter_map(of).collect()
}

fn ways_apart(view: &View<'_>, off: &dyn Fn(&Tenant) -> bool) -> Option<String> {
    for domain in domains(view) {
        for service in &view.setup.services {
            for batch in view.setup.batch.iter().filter(|b| !off(&b.name)) {
                let masks = (mask(view, &service.name, domain), mask(view, &batch.name, domain));
                if let (Some(a), Some(b)) = masks
                    && a & b != 0
                {
                    return Some(format!("ways of {} and {} overlap", service.name, batch.name));
                }
            }
        }
    }
    None
}

/// Batch is in the idle class from the first step on, unless that was left to others; services keep all CPUs.
fn lent(view: &View<'_>) -> Option<String> {
    let standing = view.engine.standing();
    let serves = |tenant: &Tenant| view.setup.services.iter().any(|s| s.name == *tenant);
    let wrong = |(knob, s): &(&Knob, &quell_control::Standing)| match (knob, &s.setting) {
        (Knob::Cpus { tenant }, _) => s.policy == Law::Quell.name() && serves(tenant),
        (Knob::CpuIdle { .. }, Setting::Flag(idle)) => !idle,
        (Knob::CpuBandwidth { .. }, Setting::Bandwidth(b)) => {
            // A law beside it may want less.
            s.policy == Law::Quell.name() && b.limit_cpus.is_some_and(|cpus| cpus.0 < 0.02)
        }
        _ => false,
    };
    let (knob, stands) = standing.iter().find(wrong)?;
    Some(format!("{knob} at {}", stands.setting))
}
