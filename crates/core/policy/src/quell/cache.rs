//! Cache ways and memory bandwidth throttling, where the machine has them: they follow trust.
//!
//! Layout from high to low bits: batch | services (T-15). Batch gets from one way up to
//! `cache_share_frac` of the cache as trust goes from its least to 1; services keep the rest.
//! MBA likewise from its least percentage to 100 %.

use super::params::QuellParams;
use crate::ledger::{Ledger, Reason};
use quell_types::{Input, Knob, KnobRange, Setting, Setup};

/// Proposes masks and percentages for this trust.
pub(super) fn follow(setup: &Setup, params: &QuellParams, trust: f64, ledger: &mut Ledger) {
    let why = Reason::partition("ways-follow-trust", vec![Input::new("trust_frac", trust)]);
    let share = trust.clamp(0.0, 1.0);
    for (knob, range) in &setup.knobs {
        let to = match (knob, range) {
            (Knob::LlcWays { tenant, .. }, KnobRange::Ways { full, min_bits, .. }) => {
                let is_batch = setup.batch.iter().any(|b| &b.name == tenant);
                Setting::Ways(mask(*full, *min_bits, share * params.cache_share_frac, is_batch))
            }
            (Knob::MemoryBandwidth { tenant, .. }, KnobRange::Percent { min, step }) => {
                if !setup.batch.iter().any(|b| &b.name == tenant) {
                    continue;
                }
                let percent = (f64::from(*min) + share * f64::from(100 - min)).round() as u32;
                Setting::Percent(percent - percent % (*step).max(1))
            }
            _ => continue,
        };
        ledger.set(setup, knob.clone(), to, &why);
    }
}

/// The upper ways for batch, the lower for services.
fn mask(full: u64, min_bits: u32, batch_share: f64, is_batch: bool) -> u64 {
    let ways = full.count_ones();
    let least = min_bits.max(1);
    let most = ways.saturating_sub(least).max(least);
    let batch = ((f64::from(ways) * batch_share).round() as u32).clamp(least, most);
    let low = (1u64 << (ways - batch)) - 1;
    if is_batch { full & !low } else { full & low }
}
