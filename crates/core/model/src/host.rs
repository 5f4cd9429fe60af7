//! Rates of the machine and of its links.

use crate::{Counter, CounterByCpu};
use quell_types::{
    BytesPerSecond, CpuTimes, Fraction, Gap, GaugeReading, HostObservation, HostReading,
    LinkObservation, LinkReading, PauseCounts, Reading, Tenant, Time,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Less time between ticks tells nothing of the rest.
const LEAST_TIMED_NS: u64 = 100_000_000;

#[derive(Debug, Default)]
pub(crate) struct HostCounters {
    cpu: Option<CpuTimes>,
    pauses: Option<PauseCounts>,
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
        let lost = self.lost_frac(&reading.gauge);
        let memory = reading.memory.clone().map(|m| m.bytes);
        let stalled = reading.pressure.clone().map(|p| p.cpu_some_ns);
        HostObservation {
            utilisation: shares.clone().map(|(busy, _)| Fraction(busy)),
            // A hypervisor may take more than it says; to the kernel that was busy time.
            steal: shares.map(|(busy, steal)| Fraction(steal.max(busy * lost))),
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

    /// Of the time of busy CPUs, the share in which they were not there, as far as timers tell: at least so much.
    fn lost_frac(&mut self, gauge: &Reading<Arc<GaugeReading>>) -> f64 {
        let Ok(now) = gauge.as_ref().map(|gauge| gauge.pauses) else { return 0.0 };
        let Some(old) = self.pauses.replace(now) else { return 0.0 };
        let timed_ns = now.timed_ns.saturating_sub(old.timed_ns);
        let lost_ns = now.lost_ns.saturating_sub(old.lost_ns);
        if timed_ns < LEAST_TIMED_NS { 0.0 } else { (lost_ns as f64 / timed_ns as f64).min(1.0) }
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

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Two CPUs of which one was busy until now; the hypervisor says that it took so much, timers that they were
    /// late by so much.
    fn at(seconds: u64, said_ns: u64, timed_ns: u64, lost_ns: u64) -> HostReading {
        let cpu = CpuTimes { busy_ns: seconds * S, idle_ns: seconds * S, steal_ns: said_ns };
        let pauses = PauseCounts { timed_ns, lost_ns };
        let gauge = Ok(Arc::new(GaugeReading { pauses, ..GaugeReading::default() }));
        HostReading { cpu: Ok(cpu), gauge, ..HostReading::missing(&Gap::absent("not here")) }
    }

    fn steal(readings: [HostReading; 2]) -> f64 {
        let mut host = HostCounters::default();
        let [first, second] = readings;
        host.observe(Time(S), &first);
        host.observe(Time(2 * S), &second).steal.unwrap().0
    }

    #[test]
    fn what_a_hypervisor_takes_and_does_not_say_is_told_by_late_timers() {
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}");
        near(steal([at(1, 0, 0, 0), at(2, 0, S, 0)]), 0.0);
        near(steal([at(1, 0, 0, 0), at(2, S / 2, S, 0)]), 0.2);
        // A third of the busy half.
        near(steal([at(1, 0, 0, 0), at(2, 0, 900_000_000, 300_000_000)]), 1.0 / 6.0);
        near(steal([at(1, 0, 5, 5), at(2, S / 2, S, S / 100)]), 0.2);
        near(steal([at(1, 0, 0, 0), at(2, 0, S / 20, S / 20)]), 0.0);
        let blind = |reading| HostReading { gauge: Err(Gap::absent("no eBPF")), ..reading };
        near(steal([blind(at(1, 0, 0, 0)), blind(at(2, 0, S, S))]), 0.0);
    }
}
