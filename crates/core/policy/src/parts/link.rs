//! What services leave of a link.

use crate::ledger::{Ledger, Reason};
use quell_types::{BytesPerSecond, Knob, KnobRange, Link, Observation, Setting, Setup};

/// What all services send on a link, in bytes per second; none if one that sends on it does not
/// tell. Read from the shaper's classes, else from the service's own meter where it has but one
/// link.
pub(crate) fn service_rate(setup: &Setup, seen: &Observation, link: &Link) -> Option<f64> {
    let classes = seen.links.get(link).map(|l| &l.by_tenant);
    let mut rate = 0.0;
    for spec in setup.services.iter().filter(|s| s.links.contains(link)) {
        let Some(service) = seen.services.get(&spec.name) else { continue };
        if service.present.is_err() {
            continue;
        }
        let class = classes.and_then(|c| c.get(&spec.name)).and_then(|r| r.as_ref().ok());
        let own = service.egress.as_ref().ok().filter(|_| spec.links.len() == 1);
        rate += class.or(own)?.0;
    }
    Some(rate)
}

/// Gives batch `bytes_per_s` of a link, in equal parts to the groups that send on it; no group
/// gets less than its shaper's smallest rate.
pub(crate) fn share_out(
    ledger: &mut Ledger,
    setup: &Setup,
    link: &Link,
    bytes_per_s: f64,
    why: &Reason,
) {
    let senders: Vec<_> = setup.batch.iter().filter(|b| b.links.contains(link)).collect();
    let part = bytes_per_s / senders.len().max(1) as f64;
    for batch in senders {
        let knob = Knob::EgressCeiling { tenant: batch.name.clone(), link: link.clone() };
        if let Some(KnobRange::Rate { min }) = setup.knobs.get(&knob) {
            let rate = BytesPerSecond(part.max(min.0));
            ledger.set(setup, knob, Setting::Rate(Some(rate)), why);
        }
    }
}

/// What the control of links does without on a setup.
pub(crate) fn link_degradations(setup: &Setup) -> Vec<String> {
    let mut notes = Vec::new();
    for batch in &setup.batch {
        for link in &batch.links {
            let knob = Knob::EgressCeiling { tenant: batch.name.clone(), link: link.clone() };
            if !setup.controls(&knob) {
                notes.push(format!("{} cannot be limited on {link}", batch.name));
            }
        }
    }
    notes
}
