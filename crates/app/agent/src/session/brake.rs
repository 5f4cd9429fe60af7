//! Brakes: how batch is held when nothing can be written down any more.

use quell_platform::{Platform, PlatformError, Scope};
use quell_types::{Action, CpuBandwidth, Knob, KnobRange, Setting, Tenant};
use std::collections::BTreeMap;
use std::time::Duration;

/// How brakes stand, and when that was seen, in milliseconds since 1970.
pub(super) type Reserved = (Vec<(Knob, Setting)>, u64);

/// Journals each batch group's brake by a write that changes nothing. Answers how they stand.
pub(super) fn reserve<P: Platform>(platform: &mut P) -> Result<Reserved, PlatformError> {
    let sample = platform.sample(Duration::ZERO, Scope::Full)?;
    let setup = platform.setup().clone();
    let mut brakes = Vec::new();
    for batch in &setup.batch {
        let Some((knob, _)) = brake(&setup.knobs, &batch.name) else { continue };
        if let Some(Ok(to)) = sample.knobs.get(&knob) {
            platform.apply(&Action::Set { knob: knob.clone(), to: to.clone() })?;
            brakes.push((knob, to.clone()));
        }
    }
    Ok((brakes, sample.wall_unix_ms))
}

/// How a group is held: frozen, or else with the smallest budget.
pub(super) fn brake(knobs: &BTreeMap<Knob, KnobRange>, tenant: &Tenant) -> Option<(Knob, Setting)> {
    let frozen = Knob::Frozen { tenant: tenant.clone() };
    if knobs.contains_key(&frozen) {
        return Some((frozen, Setting::Flag(true)));
    }
    let bandwidth = Knob::CpuBandwidth { tenant: tenant.clone() };
    match knobs.get(&bandwidth)? {
        KnobRange::Bandwidth { min_quota_us, max_period_us, .. } => {
            let least = *min_quota_us as f64 / *max_period_us as f64;
            let period = Duration::from_micros(*max_period_us);
            Some((bandwidth, Setting::Bandwidth(CpuBandwidth::limited(least, period))))
        }
        _ => None,
    }
}
