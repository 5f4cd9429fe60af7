//! Rates of the machine and of its links.

use crate::{Counter, CounterByCpu};
use quell_types::{
    BytesPerSecond, CpuTimes, Fraction, Gap, HostObservation, HostReading, LinkObservation,
    LinkReading, Reading, Tenant, Time,
};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct HostCounters {
    cpu: Option<CpuTimes>,
    memory: Counter,
    cpu_pressure: Counter,
    bus_locks: CounterByCpu,
    cpu_busy: CounterByCpu,
}

#[derive(Debug, Default)]
pub(crate) struct LinkCounters {
    sent: Counter,
    drops: Counter,
    by_tenant: BTreeMap<Tenant, Counter>,
}

impl HostCounters {
    pub(crate) fn observe(&mut self, time: Time, reading: &HostReading) -> HostObservation {
        let shares = self.cpu_shares(&reading.cpu);
        let memory = reading.memory.clone().map(|m| m.bytes);
        let stalled = reading.pressure.clone().map(|p| p.cpu_some_ns);
        HostObservation {
            utilisation: shares.clone().map(|(busy, _)| Fraction(busy)),
            steal: shares.map(|(_, steal)| Fraction(steal)),
            memory: self.memory.rate(time, &memory).map(BytesPerSecond),
            cpu_pressure: self
                .cpu_pressure
                .rate(time, &stalled)
                .map(|ns| Fraction((ns / 1e9).min(1.0))),
            power: reading.power.clone(),
            frequency_khz: reading.frequency_khz.clone(),
            bus_locks_per_s: self.bus_locks(time, reading),
            temperature: reading.temperature.clone(),
            cpu_busy: self.cpu_busy(time, reading),
            lock_traps: reading.lock_traps.clone(),
            gauge: reading.gauge.clone(),
        }
    }

    /// Bus locks per second by CPU; the one reading of the machine that fast samples bring too.
    pub(crate) fn bus_locks(
        &mut self,
        time: Time,
        reading: &HostReading,
    ) -> Reading<Arc<BTreeMap<u32, f64>>> {
        self.bus_locks.rates(time, &reading.bus_locks)
    }

    fn cpu_busy(&mut self, time: Time, reading: &HostReading) -> Reading<BTreeMap<u32, Fraction>> {
        // Time goes on, so nobody shares these counters.
        let busy_ns = reading.cpu_busy_ns.clone().map(Arc::new);
        let rates = self.cpu_busy.rates(time, &busy_ns)?;
        Ok(rates.iter().map(|(cpu, ns)| (*cpu, Fraction((ns / 1e9).min(1.0)))).collect())
    }

    /// (busy over busy + idle, steal over all).
    fn cpu_shares(&mut self, reading: &Reading<CpuTimes>) -> Reading<(f64, f64)> {
        let now = reading.clone()?;
        let Some(old) = self.cpu.replace(now) else {
            return Err(Gap::not_yet("one sample so far"));
        };
        let busy = now.busy_ns.saturating_sub(old.busy_ns) as f64;
        let idle = now.idle_ns.saturating_sub(old.idle_ns) as f64;
        let steal = now.steal_ns.saturating_sub(old.steal_ns) as f64;
        if busy + idle <= 0.0 {
            return Err(Gap::not_yet("no time has passed"));
        }
        Ok((busy / (busy + idle), steal / (busy + idle + steal)))
    }
}

impl LinkCounters {
    pub(crate) fn observe(
        &mut self,
        time: Time,
        capacity: BytesPerSecond,
        reading: &LinkReading,
    ) -> LinkObservation {
        let mut by_tenant = BTreeMap::new();
        for (tenant, bytes) in &reading.by_tenant_bytes {
            let counter = self.by_tenant.entry(tenant.clone()).or_default();
            by_tenant.insert(tenant.clone(), counter.rate(time, bytes).map(BytesPerSecond));
        }
        LinkObservation {
            capacity,
            sent: self.sent.rate(time, &reading.sent_bytes).map(BytesPerSecond),
            by_tenant,
            backlog_bytes: reading.backlog_bytes.clone(),
            drops_per_s: self.drops.rate(time, &reading.drops),
        }
    }
}
