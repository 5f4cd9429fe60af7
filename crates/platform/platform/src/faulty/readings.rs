//! What faults do to readings.

use super::{Fault, TenantReading, hardware};
use quell_types::{Gap, Reading, Sample, Tenant, Time};
use std::collections::BTreeMap;

/// What has become of counters and clocks for good.
#[derive(Debug, Default)]
pub(super) struct Spoiled {
    /// Added to a tenant's counters, modulo 2^64.
    offsets: BTreeMap<Tenant, u64>,
    /// Tenants whose counters shall wrap at their next reading.
    wrapping: Vec<Tenant>,
    /// Added to identities.
    identities: BTreeMap<Tenant, u64>,
    slept_ns: u64,
    clock_ms: i64,
}

impl Spoiled {
    /// Faults whose effect stays although they befall once.
    pub(super) fn is_for_good(fault: &Fault) -> bool {
        use Fault::{Jump, Rename, SetClock, Sleep, Wrap};
        matches!(fault, Jump(..) | Wrap(_) | Rename(_) | Sleep(_) | SetClock(_))
    }

    /// A fault befalls this sample.
    pub(super) fn befall(&mut self, fault: &Fault, sample: &mut Sample) {
        let missing = |gap: Gap| TenantReading::missing(&gap);
        match fault {
            Fault::Blind(tenant) => {
                let gap = Gap::Failed("the sensor gave nothing".into());
                sample.tenants.insert(tenant.clone(), missing(gap));
            }
            Fault::Gone(tenant) => {
                let gap = Gap::Gone(tenant.to_string());
                sample.tenants.insert(tenant.clone(), missing(gap));
            }
            Fault::Vanish(tenant) => drop(sample.tenants.remove(tenant)),
            Fault::Lie(tenant, times) => {
                if let Some(reading) = sample.tenants.get_mut(tenant) {
                    counters(reading, |value| *value = value.saturating_mul(u64::from(*times)));
                }
            }
            Fault::Jump(tenant, by) => {
                let offset = self.offsets.entry(tenant.clone()).or_default();
                *offset = offset.wrapping_add(*by);
            }
            Fault::Wrap(tenant) => self.wrapping.push(tenant.clone()),
            Fault::Rename(tenant) => *self.identities.entry(tenant.clone()).or_default() += 1_000,
            Fault::Sleep(span) => {
                self.slept_ns = self.slept_ns.saturating_add(span.as_nanos() as u64);
            }
            Fault::SetClock(ms) => self.clock_ms = self.clock_ms.saturating_add(*ms),
            Fault::HardwareLie(times) => hardware::lie(sample, *times),
            Fault::HardwareVanish(cpus) => hardware::vanish(sample, cpus),
            // Of writes, or of the whole sample.
            _ => {}
        }
    }

    /// What stays befalls every sample.
    pub(super) fn apply(&mut self, sample: &mut Sample) {
        self.begin_to_wrap(sample);
        for (tenant, offset) in &self.offsets {
            if let Some(reading) = sample.tenants.get_mut(tenant) {
                counters(reading, |value| *value = value.wrapping_add(*offset));
            }
        }
        for (tenant, other) in &self.identities {
            if let Some(TenantReading { identity: Ok(identity), .. }) =
                sample.tenants.get_mut(tenant)
            {
                *identity = identity.wrapping_add(*other);
            }
        }
        sample.time = Time(sample.time.0.saturating_add(self.slept_ns));
        sample.wall_unix_ms = sample.wall_unix_ms.saturating_add_signed(self.clock_ms);
        for outcome in &mut sample.outcomes {
            outcome.time = Time(outcome.time.0.saturating_add(self.slept_ns));
        }
    }

    /// A wrapping counter is led to the end of its range, so that it begins anew a little later.
    fn begin_to_wrap(&mut self, sample: &Sample) {
        const BEFORE_THE_END: u64 = 1_000;
        self.wrapping.retain(|tenant| {
            let cpu = sample.tenants.get(tenant).and_then(|r| r.cpu_ns.as_ref().ok());
            let Some(cpu) = cpu else { return true };
            self.offsets.insert(tenant.clone(), u64::MAX - cpu.saturating_add(BEFORE_THE_END));
            false
        });
    }
}

/// Every plain counter of a reading.
fn counters(reading: &mut TenantReading, mut change: impl FnMut(&mut u64)) {
    let mut one = |value: &mut Reading<u64>| {
        if let Ok(value) = value {
            change(value);
        }
    };
    one(&mut reading.cpu_ns);
    one(&mut reading.page_faults);
    one(&mut reading.egress_bytes);
    if let Ok(memory) = &mut reading.memory {
        change(&mut memory.bytes);
    }
    if let Ok(throttling) = &mut reading.throttling {
        change(&mut throttling.periods);
        change(&mut throttling.throttled_periods);
        change(&mut throttling.throttled_ns);
    }
    if let Ok(pressure) = &mut reading.pressure {
        change(&mut pressure.cpu_some_ns);
    }
    if let Ok(waits) = &mut reading.waits {
        waits.behind_ns.values_mut().for_each(&mut change);
        change(&mut waits.own_ns);
        change(&mut waits.others_ns);
        change(&mut waits.nobody_ns);
        waits.elsewhere.tenants_ns.values_mut().for_each(&mut change);
        change(&mut waits.elsewhere.others_ns);
        change(&mut waits.elsewhere.nobody_ns);
    }
    if let Ok(company) = &mut reading.company {
        let ends = [&mut company.others, &mut company.nobody];
        for beside in company.tenants.values_mut().chain(ends) {
            change(&mut beside.cpu_ns);
            change(&mut beside.sends);
        }
    }
    if let Ok(requests) = &mut reading.requests {
        change(&mut requests.requests);
        change(&mut requests.bytes_in);
        change(&mut requests.bytes_out);
    }
}
