//! What one service suffers while accesses are held back.

use super::Victim;
use quell_model::blame::Window;
use quell_types::ServiceObservation;

impl Victim {
    /// Learns what it is like while accesses are held back, or not.
    pub(in crate::who) fn pay(&mut self, window: Window, service: &ServiceObservation) {
        let used = service.cpu.as_ref().ok().map(|cpu| cpu.0);
        let cost_s = self.requests_per_s.zip(used).map(|(qps, used)| used / qps);
        let latency_s = service.fast_tails.as_ref().ok().map(|tails| tails.p95_s);
        self.toll.see(window, cost_s, latency_s);
    }
}
