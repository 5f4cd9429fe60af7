//! From counters to windows: what a run is judged on.

use crate::drive::Step;
use quell_sim::Truth;
use quell_types::{LogHistogram, ServiceSpec, Tenant};
use std::collections::BTreeMap;

/// All counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) time_s: f64,
    /// By service.
    pub(crate) latency: Vec<LogHistogram>,
    pub(crate) requests: Vec<u64>,
    pub(crate) cpu_s: BTreeMap<Tenant, f64>,
    pub(crate) instructions: BTreeMap<Tenant, f64>,
    pub(crate) traffic_bytes: BTreeMap<Tenant, f64>,
    pub(crate) egress_bytes: BTreeMap<Tenant, f64>,
    pub(crate) llc_bytes: BTreeMap<Tenant, f64>,
    pub(crate) watts: f64,
}

/// One window.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Window {
    /// Its end in seconds since the start, warm-up included.
    pub(crate) end_s: f64,
    /// The judged percentile in seconds by service; none without requests.
    pub(crate) latency_s: Vec<Option<f64>>,
    /// The mean in seconds by service; none without requests.
    pub(crate) mean_s: Vec<Option<f64>>,
    /// Requests per second by service.
    pub(crate) qps: Vec<f64>,
    pub(crate) service_cpus: f64,
    pub(crate) batch_cpus: f64,
    /// Instructions of each tenant per second.
    pub(crate) instructions_per_s: BTreeMap<Tenant, f64>,
    pub(crate) memory_bytes_per_s: f64,
    pub(crate) egress_bytes_per_s: f64,
    pub(crate) watts: f64,
}

impl Snapshot {
    pub(crate) fn take(step: &Step, services: &[ServiceSpec], truth: Truth) -> Self {
        let requests = |s: &ServiceSpec| {
            let reading = step.sample.tenants.get(&s.name).and_then(|t| t.requests.as_ref().ok());
            reading.map_or((LogHistogram::new(), 0), |r| {
                (r.latency_ns.clone().unwrap_or_default(), r.requests)
            })
        };
        let (latency, requests) = services.iter().map(requests).unzip();
        let egress = |(name, t): (&Tenant, &quell_types::TenantReading)| {
            Some((name.clone(), *t.egress_bytes.as_ref().ok()? as f64))
        };
        let seconds = |(name, ns): (&Tenant, &u64)| (name.clone(), *ns as f64 / 1e9);
        Self {
            time_s: step.sample.time.as_secs_f64(),
            latency,
            requests,
            cpu_s: truth.cpu_ns.iter().map(seconds).collect(),
            egress_bytes: step.sample.tenants.iter().filter_map(egress).collect(),
            watts: truth.watts.iter().sum(),
            instructions: truth.instructions,
            traffic_bytes: truth.traffic_bytes,
            llc_bytes: truth.llc_bytes,
        }
    }

    /// Growth per second since an earlier moment.
    pub(crate) fn rate(
        &self,
        then: &Snapshot,
        of: fn(&Snapshot) -> &BTreeMap<Tenant, f64>,
    ) -> BTreeMap<Tenant, f64> {
        let seconds = (self.time_s - then.time_s).max(1e-9);
        let grown = |(name, now): (&Tenant, &f64)| {
            let before = of(then).get(name).copied().unwrap_or(0.0);
            (name.clone(), (now - before).max(0.0) / seconds)
        };
        of(self).iter().map(grown).collect()
    }

    /// Requests per second of each service.
    pub(crate) fn qps(&self, then: &Snapshot) -> Vec<f64> {
        let seconds = (self.time_s - then.time_s).max(1e-9);
        let pairs = self.requests.iter().zip(&then.requests);
        pairs.map(|(now, before)| now.saturating_sub(*before) as f64 / seconds).collect()
    }

    /// Latencies of a service since an earlier moment.
    pub(crate) fn latency_since(&self, then: &Snapshot, service: usize) -> LogHistogram {
        self.latency[service].since(&then.latency[service])
    }
}

/// The mean of a histogram, each value taken for the middle of its slot.
pub(crate) fn mean_ns(latency: &LogHistogram) -> Option<f64> {
    let middle = |slot: usize| {
        (LogHistogram::lower_bound(slot) + LogHistogram::lower_bound(slot + 1)) as f64 / 2.0
    };
    let slots = latency.counts().iter().enumerate();
    let sum: f64 = slots.map(|(slot, count)| middle(slot) * *count as f64).sum();
    (latency.count() > 0).then(|| sum / latency.count() as f64)
}

impl Window {
    /// What lies between two moments.
    pub(crate) fn between(then: &Snapshot, now: &Snapshot, services: &[ServiceSpec]) -> Self {
        let cpus = now.rate(then, |s| &s.cpu_s);
        let is_service = |name: &Tenant| services.iter().any(|s| &s.name == name);
        let sum = |wanted: bool| {
            cpus.iter().filter(|(n, _)| is_service(n) == wanted).map(|(_, c)| c).sum::<f64>()
        };
        let tail = |(number, spec): (usize, &ServiceSpec)| {
            let latency = now.latency_since(then, number);
            latency.quantile(spec.slo.percentile_frac).map(|ns| ns / 1e9)
        };
        Self {
            end_s: now.time_s,
            latency_s: services.iter().enumerate().map(tail).collect(),
            mean_s: (0..services.len())
                .map(|number| mean_ns(&now.latency_since(then, number)).map(|ns| ns / 1e9))
                .collect(),
            qps: now.qps(then),
            service_cpus: sum(true),
            batch_cpus: sum(false),
            instructions_per_s: now.rate(then, |s| &s.instructions),
            memory_bytes_per_s: now.rate(then, |s| &s.traffic_bytes).values().sum(),
            egress_bytes_per_s: now.rate(then, |s| &s.egress_bytes).values().sum(),
            watts: now.watts,
        }
    }

    /// Whether every service keeps its objective; one without requests does.
    pub(crate) fn kept(&self, services: &[ServiceSpec]) -> bool {
        self.missed(services).next().is_none()
    }

    /// Numbers of the services that miss theirs.
    pub(crate) fn missed<'a>(
        &'a self,
        services: &'a [ServiceSpec],
    ) -> impl Iterator<Item = usize> + 'a {
        let miss = |(spec, latency): (&ServiceSpec, &Option<f64>)| {
            latency.is_some_and(|s| s > spec.slo.target_s)
        };
        let pairs = services.iter().zip(&self.latency_s).enumerate();
        pairs.filter(move |(_, pair)| miss(*pair)).map(|(number, _)| number)
    }
}
