//! What is said about suspects without a service, and what one suffers while accesses are held back.

use super::Victim;
use quell_model::blame::Window;
use quell_types::{ServiceObservation, Tenant};
use std::collections::BTreeMap;

impl Victim {
    /// Hears others' word about suspects, and what was measured of them: ln of how many times as likely that
    /// makes their guilt.
    pub(in crate::who) fn hear(
        &mut self,
        hearsay_ln: &BTreeMap<Tenant, f64>,
        measured_ln: &BTreeMap<Tenant, f64>,
    ) {
        self.work.guilt.hear(hearsay_ln);
        self.work.guilt.heed(measured_ln);
        self.pulses.hear(hearsay_ln);
    }

    /// Learns what it is like while accesses are held back, or not.
    pub(in crate::who) fn pay(&mut self, window: Window, service: &ServiceObservation) {
        let used = service.cpu.as_ref().ok().map(|cpu| cpu.0);
        let cost_s = self.requests_per_s.zip(used).map(|(qps, used)| used / qps);
        let latency_s = service.fast_tails.as_ref().ok().map(|tails| tails.p95_s);
        self.toll.see(window, cost_s, latency_s);
    }
}
