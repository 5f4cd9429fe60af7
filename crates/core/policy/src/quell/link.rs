//! The network: batch gets what the services leave of 90 % of each link (T-19, T-21).
//!
//! Each batch tenant that sends on the link gets an equal share of it; what one does not use is
//! not given to the others in the same period, since a burst would then exceed the link. The
//! service's rate is what its class sent over the last interval.

use super::params::QuellParams;
use crate::ledger::{Ledger, Reason};
use quell_types::{
    BytesPerSecond, Input, Knob, LinkObservation, LinkSpec, Observation, Setting, Setup, Tenant,
};

/// A ceiling is written anew when it changes by more than this share.
const WORTH_WRITING: f64 = 0.02;

/// Proposes ceilings on all links.
pub(super) fn share(
    setup: &Setup,
    params: &QuellParams,
    observation: &Observation,
    ledger: &mut Ledger,
) {
    for link in &setup.links {
        let Some(seen) = observation.links.get(&link.name) else { continue };
        let senders: Vec<&Tenant> =
            setup.batch.iter().filter(|b| b.links.contains(&link.name)).map(|b| &b.name).collect();
        if senders.is_empty() {
            continue;
        }
        let capacity = link.capacity.0;
        let service = service_rate(setup, link, seen, observation);
        let room = params.net_share_frac * capacity - service.unwrap_or(0.0);
        let each = room.max(params.net_least_frac * capacity) / senders.len() as f64;
        let inputs = vec![
            Input::new("service_bytes_per_s", service.unwrap_or(f64::NAN)),
            Input::new("capacity_bytes_per_s", capacity),
        ];
        let why = Reason::partition("link-share", inputs);
        for tenant in senders {
            set_ceiling(setup, ledger, tenant, link, each, &why);
        }
    }
}

fn set_ceiling(
    setup: &Setup,
    ledger: &mut Ledger,
    tenant: &Tenant,
    link: &LinkSpec,
    rate: f64,
    why: &Reason,
) {
    let knob = Knob::EgressCeiling { tenant: tenant.clone(), link: link.name.clone() };
    if let Some(Setting::Rate(Some(now))) = ledger.standing(&knob)
        && (now.0 - rate).abs() <= WORTH_WRITING * now.0
    {
        return;
    }
    ledger.set(setup, knob, Setting::Rate(Some(BytesPerSecond(rate))), why);
}

/// What services send on the link: by their classes, else what all sent less what batch sent,
/// else the services' own egress. None if nothing tells.
fn service_rate(
    setup: &Setup,
    link: &LinkSpec,
    seen: &LinkObservation,
    observation: &Observation,
) -> Option<f64> {
    let rate_of = |t: &Tenant| seen.by_tenant.get(t).and_then(|r| r.clone().ok()).map(|r| r.0);
    let on_link = || setup.services.iter().filter(|s| s.links.contains(&link.name));
    let by_class: Vec<f64> = on_link().filter_map(|s| rate_of(&s.name)).collect();
    if !by_class.is_empty() {
        return Some(by_class.iter().sum());
    }
    if let Ok(all) = &seen.sent {
        let batch: f64 = setup.batch.iter().filter_map(|b| rate_of(&b.name)).sum();
        return Some((all.0 - batch).max(0.0));
    }
    let egress = on_link().filter_map(|s| observation.services.get(&s.name)?.egress.clone().ok());
    egress.map(|r| r.0).reduce(|a, b| a + b)
}
