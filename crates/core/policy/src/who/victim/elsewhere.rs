//! Who keeps other CPUs busy while a service stands.

use quell_types::{Knob, Observation, Setting, Tenant, Waits};
use std::borrow::Cow;

/// The waits, where a CPU that somebody of the idle class has counts as idle: whoever stands gets it at
/// once, so that nobody waits for that one.
pub(super) fn without_idle<'a>(waits: &'a Waits, seen: &Observation) -> Cow<'a, Waits> {
    let is_idle = |tenant: &&Tenant| {
        let knob = Knob::CpuIdle { tenant: (*tenant).clone() };
        matches!(seen.knobs.get(&knob), Some(Ok(Setting::Flag(true))))
    };
    let idle: Vec<&Tenant> = waits.elsewhere.tenants.keys().filter(is_idle).collect();
    if idle.is_empty() {
        return Cow::Borrowed(waits);
    }
    let mut rest = waits.clone();
    let elsewhere = &mut rest.elsewhere;
    elsewhere.nobody += idle.iter().filter_map(|t| elsewhere.tenants.remove(*t)).sum::<f64>();
    Cow::Owned(rest)
}
