//! Who keeps other CPUs busy while a service stands.

use quell_types::{Knob, Observation, Reading, Setting, Waits};
use std::borrow::Cow;

/// The waits, where a CPU that somebody of the idle class has counts as idle: whoever stands gets it at
/// once, so that nobody waits for that one.
pub(super) fn without_idle<'a>(waits: &'a Waits, seen: &Observation) -> Cow<'a, Waits> {
    let is_idle = |(knob, setting): (&Knob, &Reading<Setting>)| match knob {
        Knob::CpuIdle { tenant } if *setting == Ok(Setting::Flag(true)) => Some(tenant.clone()),
        _ => None,
    };
    let idle: Vec<_> = seen.knobs.iter().filter_map(is_idle).collect();
    if !idle.iter().any(|tenant| waits.elsewhere.tenants.contains_key(tenant)) {
        return Cow::Borrowed(waits);
    }
    let mut waits = waits.clone();
    let elsewhere = &mut waits.elsewhere;
    elsewhere.nobody += idle.iter().filter_map(|t| elsewhere.tenants.remove(t)).sum::<f64>();
    Cow::Owned(waits)
}
