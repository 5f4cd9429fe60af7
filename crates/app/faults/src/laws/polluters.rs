//! What the laws promise that slow whoever locks the bus or heats a socket (`bus-lock`, `power`,
//! both in `alita`, alone or beside others): only the culprit is slowed, and never stopped. The last
//! holds of law `culprit` too.

use crate::audit::View;
use quell_policy::Law;
use quell_types::{CpuSet, Knob, Setting, Tenant};
use std::collections::BTreeMap;

/// So long after the last fault has ended, and after a CPU set changed, such a law has looked again
/// who runs where: a second, and some samples.
const LOOKED_AFTER_S: f64 = 4.0;
/// A group that is held by its freezer runs in one of so many periods, at least.
const PERIODS: u32 = 16;

/// What is remembered from step to step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// For how many steps running such a law held each group by its freezer.
    held: BTreeMap<Tenant, u32>,
    /// CPU sets as they really stand.
    sets: BTreeMap<Knob, Setting>,
    /// Since when they stand so and nothing goes wrong.
    since_s: f64,
}

impl Watch {
    fn follow(&mut self, view: &View<'_>) {
        let is_set = |knob: &Knob| matches!(knob, Knob::Cpus { .. });
        let sets = view.server.standing().iter().filter(|(knob, _)| is_set(knob));
        let same = sets.clone().eq(self.sets.iter());
        if !same {
            self.sets = sets.map(|(knob, to)| (knob.clone(), to.clone())).collect();
        }
        // A sensor may say for some samples that a tenant is gone.
        if !same || view.calm_s <= 0.0 {
            self.since_s = view.now_s;
        }
    }
}

/// What does not hold of what they want.
pub(crate) fn check(
    view: &View<'_>,
    watch: &mut Watch,
    limitable: &[Tenant],
    left_to_others: &dyn Fn(&Knob) -> bool,
) -> Option<String> {
    watch.follow(view);
    if view.held {
        return None;
    }
    let looked = view.now_s - watch.since_s >= LOOKED_AFTER_S;
    let found = spared(view, limitable)
        .or_else(|| if looked { of_one_owner(view, limitable) } else { None })
        .or_else(|| cores_are_even(view, left_to_others))
        .or_else(|| starved(view, &mut watch.held));
    found.map(|what| format!("law: polluters: {what}"))
}

/// Counts the steps in which groups are held by their freezers; answers who never runs.
fn starved(view: &View<'_>, steps: &mut BTreeMap<Tenant, u32>) -> Option<String> {
    if view.trouble {
        steps.clear();
        return None;
    }
    let laws = [Law::BusLock, Law::Power, Law::Culprit];
    let held = |knob: &Knob, to: &Setting| match (knob, to) {
        (Knob::Frozen { tenant }, Setting::Flag(true)) => Some(tenant.clone()),
        _ => None,
    };
    let now: Vec<Tenant> = wanted_by(view, &laws).filter_map(|(knob, to)| held(knob, to)).collect();
    steps.retain(|tenant, _| now.contains(tenant));
    now.into_iter().for_each(|tenant| *steps.entry(tenant).or_default() += 1);
    let (tenant, count) = steps.iter().find(|(_, count)| **count > PERIODS)?;
    Some(format!("{tenant} is held for {count} periods running"))
}

/// What stands by their wish.
fn theirs<'a>(view: &'a View<'_>) -> impl Iterator<Item = (&'a Knob, &'a Setting)> {
    wanted_by(view, &[Law::BusLock, Law::Power])
}

/// What stands by the wish of such a law.
pub(super) fn wanted_by<'a>(
    view: &'a View<'_>,
    laws: &[Law],
) -> impl Iterator<Item = (&'a Knob, &'a Setting)> {
    let standing = view.engine.standing().iter();
    let theirs = |policy: &str| laws.iter().any(|law| law.name() == policy);
    standing.filter(move |(_, s)| theirs(&s.policy)).map(|(k, s)| (k, &s.setting))
}

/// Nobody is limited who is spared, or was not named.
fn spared(view: &View<'_>, limitable: &[Tenant]) -> Option<String> {
    let wrong = |knob: &Knob| knob.tenant().is_some_and(|tenant| !limitable.contains(tenant));
    let (knob, to) = theirs(view).find(|(knob, _)| wrong(knob))?;
    Some(format!("{knob} at {to}, though it may not be limited"))
}

/// Clocks and frequencies are those of cores that one tenant has for itself, and that one may be
/// limited.
fn of_one_owner(view: &View<'_>, limitable: &[Tenant]) -> Option<String> {
    for (knob, to) in theirs(view) {
        let (Knob::DutyCycle { cpu } | Knob::FrequencyMax { cpu }) = knob else { continue };
        let core = view.setup.topology.siblings(*cpu);
        let on_it = on(view, &core);
        if !matches!(on_it.as_slice(), [one] if limitable.contains(one)) {
            return Some(format!("{knob} at {to}, where {on_it:?} may run"));
        }
    }
    None
}

/// Tenants that may run on one of these CPUs.
fn on(view: &View<'_>, cpus: &CpuSet) -> Vec<Tenant> {
    let services = view.setup.services.iter().map(|s| &s.name);
    let all = services.chain(view.setup.batch.iter().map(|b| &b.name));
    let runs = |tenant: &&Tenant| {
        let knob = Knob::Cpus { tenant: (*tenant).clone() };
        let set = view.server.standing().get(&knob);
        let there = !view.server.is_gone(tenant);
        there && matches!(set, Some(Setting::Cpus(set)) if !set.is_disjoint(cpus))
    };
    all.filter(runs).cloned().collect()
}

/// The threads of a core are set alike: the core runs at the highest of them.
fn cores_are_even(view: &View<'_>, left_to_others: &dyn Fn(&Knob) -> bool) -> Option<String> {
    let clocks: BTreeMap<&Knob, &Setting> = theirs(view).collect();
    for (knob, to) in &clocks {
        let Knob::DutyCycle { cpu } = knob else { continue };
        for sibling in view.setup.topology.siblings(*cpu).iter() {
            let other = Knob::DutyCycle { cpu: sibling };
            if clocks.get(&other) != Some(to) && !left_to_others(&other) {
                let stands = clocks.get(&other);
                return Some(format!("{knob} at {to}, and {other} of its core at {stands:?}"));
            }
        }
    }
    None
}
