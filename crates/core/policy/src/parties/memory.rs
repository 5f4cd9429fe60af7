//! What did harm, and until when it is not tried again.

use super::params::PartiesParams;
use super::shares::Resource;

/// A level of one resource that a service could not do with.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Failed {
    /// Cores, ways or kHz that were too few.
    level: u64,
    /// Requests per second at that time, the least of all such times.
    rate_per_s: Option<f64>,
    /// How often it has failed.
    times: u32,
    /// Ticks until it may be tried again.
    ticks: u32,
    /// Ticks since it failed last.
    ago: u32,
}

#[derive(Clone, Debug, Default)]
struct OfService {
    /// Ticks in which the service is asked for nothing.
    barred: u32,
    failed: [Option<Failed>; 3],
}

/// Memory of all services, by their number.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    services: Vec<OfService>,
}

impl Memory {
    pub(super) fn of(services: usize) -> Self {
        Self { services: vec![OfService::default(); services] }
    }

    /// A tick passes.
    pub(super) fn tick(&mut self) {
        for service in &mut self.services {
            service.barred = service.barred.saturating_sub(1);
            for failed in service.failed.iter_mut().flatten() {
                failed.ticks = failed.ticks.saturating_sub(1);
                failed.ago = failed.ago.saturating_add(1);
            }
        }
    }

    /// Asks the service for nothing for a while.
    pub(super) fn bar(&mut self, service: usize, ticks: u32) {
        self.services[service].barred = ticks;
    }

    pub(super) fn is_barred(&self, service: usize) -> bool {
        self.services[service].barred > 0
    }

    /// So little was too little at this request rate: it is tried again after a while that doubles.
    pub(super) fn failed(
        &mut self,
        service: usize,
        (what, level): (Resource, u64),
        rate_per_s: Option<f64>,
        params: &PartiesParams,
    ) {
        let slot = &mut self.services[service].failed[what as usize];
        let none = Failed { level, rate_per_s, times: 0, ticks: 0, ago: u32::MAX };
        let before = slot.unwrap_or(none);
        // Steps that follow each other out of one shortage are one failure.
        let again = u32::from(before.ago >= params.bar_ticks_count);
        let times = before.times.saturating_add(again);
        let doubled = 1u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX);
        let most = params.bar_ticks_max_count.max(params.bar_ticks_count);
        let ticks = params.bar_ticks_count.saturating_mul(doubled).min(most);
        let both = before.rate_per_s.zip(rate_per_s);
        let rate_per_s = both.map(|(a, b)| a.min(b)).or(rate_per_s);
        *slot = Some(Failed { level: level.max(before.level), rate_per_s, times, ticks, ago: 0 });
    }

    /// Whether it is known that a service cannot do with so little.
    pub(super) fn refuses(&self, service: usize, what: Resource, level: u64) -> bool {
        let failed = self.services[service].failed[what as usize];
        failed.is_some_and(|f| f.ticks > 0 && level <= f.level)
    }

    /// What failed under much more load than this may hold now: this rate lies below that share
    /// of the rate at which it failed.
    pub(super) fn forget_above(&mut self, service: usize, rate_per_s: f64, share: f64) {
        for slot in &mut self.services[service].failed {
            *slot = slot.filter(|f| f.rate_per_s.is_none_or(|at| rate_per_s >= at * share));
        }
    }

    /// The service is another one.
    pub(super) fn forget(&mut self, service: usize) {
        self.services[service] = OfService::default();
    }
}
