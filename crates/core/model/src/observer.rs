//! Samples in, observations out.

mod params;

pub use params::ObserverParams;

use crate::host::{HostCounters, LinkCounters};
use crate::waits::{CompanyCounters, Standing, WaitCounters};
use crate::{Counter, Inflation, InflationParams, RequestDelta, RequestWindow};
use quell_types::{
    BatchObservation, BytesPerSecond, Cpus, Fraction, Gap, HostObservation, Link, LinkObservation,
    LogHistogram, Observation, Reading, RequestReading, Sample, ServiceObservation, ServiceSpec,
    Setup, TaskState, Tenant, TenantReading, Throttling, Time,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Remembers what rates need.
#[derive(Debug)]
pub struct Observer {
    setup: Setup,
    params: ObserverParams,
    last: Option<Time>,
    services: BTreeMap<Tenant, ServiceState>,
    batch: BTreeMap<Tenant, TenantCounters>,
    batch_seen: BTreeMap<Tenant, BatchObservation>,
    host: HostCounters,
    host_seen: Option<Arc<HostObservation>>,
    links: BTreeMap<Link, LinkCounters>,
    links_seen: BTreeMap<Link, LinkObservation>,
}

#[derive(Debug, Default)]
struct TenantCounters {
    identity: Option<u64>,
    cpu: Counter,
    egress: Counter,
    memory: Counter,
    faults: Counter,
    bus_locks: Counter,
    cpu_pressure: Counter,
    periods: Counter,
    throttled: Counter,
    standing: Standing,
}

#[derive(Debug, Default)]
struct ServiceState {
    counters: TenantCounters,
    requests: Option<(Time, RequestReading, Reading<u64>)>,
    run_queue: Option<LogHistogram>,
    run_queue_p99_s: Option<f64>,
    waits: WaitCounters,
    company: CompanyCounters,
    window: RequestWindow,
    inflation: Inflation,
    inflated: Option<(Reading<f64>, Time)>,
    slow: Option<SlowReadings>,
}

/// What only full samples tell of a service.
#[derive(Clone, Debug)]
struct SlowReadings {
    cpu_pressure: Reading<Fraction>,
    egress: Reading<BytesPerSecond>,
    memory: Reading<BytesPerSecond>,
    llc_bytes: Reading<u64>,
}

impl Observer {
    /// An observer that has seen nothing yet.
    #[must_use]
    pub fn new(setup: Setup, params: ObserverParams) -> Self {
        Self {
            setup,
            params,
            last: None,
            services: BTreeMap::new(),
            batch: BTreeMap::new(),
            batch_seen: BTreeMap::new(),
            host: HostCounters::default(),
            host_seen: None,
            links: BTreeMap::new(),
            links_seen: BTreeMap::new(),
        }
    }

    /// Derives what policies see. Samples must come in rising time. What a fast sample left out
    /// (a [`Gap::NotYet`]) keeps its last observation.
    pub fn observe(&mut self, sample: &Sample) -> Observation {
        let interval_s = self.last.map_or(0.0, |then| sample.time.since(then).as_secs_f64());
        self.last = Some(sample.time);
        Observation {
            time: sample.time,
            interval_s,
            services: self.observe_services(sample),
            batch: self.observe_batch(sample),
            host: self.observe_host(sample),
            links: self.observe_links(sample),
            knobs: sample.knobs.clone(),
            tasks: sample.tasks.clone(),
            experiments: sample.experiments.clone(),
            probes: sample.probes.clone(),
            bursts: sample.bursts.clone(),
        }
    }

    fn observe_services(&mut self, sample: &Sample) -> BTreeMap<Tenant, ServiceObservation> {
        let mut seen = BTreeMap::new();
        for spec in &self.setup.services {
            let state = self.services.entry(spec.name.clone()).or_default();
            let gone;
            let reading = match sample.tenants.get(&spec.name) {
                Some(reading) => reading,
                None => {
                    let gap = Gap::Gone(format!("{} is not there", spec.name));
                    gone = TenantReading::missing(&gap);
                    &gone
                }
            };
            let managed = self.setup.managed_cpus.len().max(1) as f64;
            let observation = state.observe(spec, sample, reading, &self.params, managed);
            seen.insert(spec.name.clone(), observation);
        }
        seen
    }

    fn observe_batch(&mut self, sample: &Sample) -> BTreeMap<Tenant, BatchObservation> {
        for spec in &self.setup.batch {
            let Some(reading) = sample.tenants.get(&spec.name) else { continue };
            if left_out(&reading.identity) {
                continue;
            }
            let counters = self.batch.entry(spec.name.clone()).or_default();
            let tasks = |state| {
                let mine = |t: &&quell_types::TaskRecord| {
                    t.state == state && t.spec.tenant.as_ref().is_none_or(|n| n == &spec.name)
                };
                sample.tasks.iter().filter(mine).count() as u32
            };
            let observation = BatchObservation {
                running_tasks: tasks(TaskState::Running),
                ready_tasks: tasks(TaskState::Ready),
                ..counters.batch(sample.time, reading)
            };
            self.batch_seen.insert(spec.name.clone(), observation);
        }
        self.batch_seen.clone()
    }

    fn observe_host(&mut self, sample: &Sample) -> Arc<HostObservation> {
        if left_out(&sample.host.cpu)
            && let Some(seen) = &mut self.host_seen
        {
            if !left_out(&sample.host.bus_locks) {
                let rates = self.host.bus_locks(sample.time, &sample.host);
                Arc::make_mut(seen).bus_locks_per_s = rates;
            }
            if !left_out(&sample.host.gauge) {
                Arc::make_mut(seen).gauge = sample.host.gauge.clone();
            }
            return seen.clone();
        }
        let seen = Arc::new(self.host.observe(sample.time, &sample.host));
        self.host_seen = Some(seen.clone());
        seen
    }

    fn observe_links(&mut self, sample: &Sample) -> BTreeMap<Link, LinkObservation> {
        for (name, reading) in &sample.links {
            if left_out(&reading.sent_bytes) {
                continue;
            }
            let spec = self.setup.links.iter().find(|l| &l.name == name);
            let Some(spec) = spec else { continue };
            let counters = self.links.entry(name.clone()).or_default();
            let observation = counters.observe(sample.time, spec.capacity, reading);
            self.links_seen.insert(name.clone(), observation);
        }
        self.links_seen.clone()
    }
}

/// Whether a fast sample left this reading out.
fn left_out<T>(reading: &Reading<T>) -> bool {
    matches!(reading, Err(Gap::NotYet(_)))
}

impl TenantCounters {
    /// True if this is another workload than before; then all counters begin anew.
    fn identify(&mut self, identity: &Reading<u64>) -> bool {
        let Ok(identity) = identity else { return false };
        let before = self.identity.replace(*identity);
        let other = before.is_some_and(|old| old != *identity);
        if other {
            *self = Self { identity: Some(*identity), ..Self::default() };
        }
        other
    }

    fn batch(&mut self, time: Time, reading: &TenantReading) -> BatchObservation {
        self.identify(&reading.identity);
        BatchObservation {
            present: reading.identity.clone().map(|_| ()),
            cpu: self.cpu.rate(time, &reading.cpu_ns).map(|ns| Cpus(ns / 1e9)),
            standing: self.standing.observe(time, &reading.run_queue_ns),
            throttled: self.throttled_frac(time, &reading.throttling),
            egress: self.egress.rate(time, &reading.egress_bytes).map(BytesPerSecond),
            memory: self.memory_rate(time, reading),
            llc_bytes: reading.llc_bytes.clone(),
            page_faults_per_s: self.faults.rate(time, &reading.page_faults),
            bus_locks_per_s: self.bus_locks.rate(time, &reading.bus_locks),
            running_tasks: 0,
            ready_tasks: 0,
        }
    }

    fn memory_rate(&mut self, time: Time, reading: &TenantReading) -> Reading<BytesPerSecond> {
        let bytes = reading.memory.clone().map(|m| m.bytes);
        self.memory.rate(time, &bytes).map(BytesPerSecond)
    }

    fn throttled_frac(&mut self, time: Time, reading: &Reading<Throttling>) -> Reading<Fraction> {
        let seen = reading.as_ref().map_err(Clone::clone)?;
        let periods = self.periods.growth(time, &Ok(seen.periods));
        let throttled = self.throttled.growth(time, &Ok(seen.throttled_periods));
        let ((periods, _), (throttled, _)) = (periods?, throttled?);
        Ok(Fraction(if periods == 0 { 0.0 } else { throttled as f64 / periods as f64 }))
    }
}

impl ServiceState {
    fn observe(
        &mut self,
        spec: &ServiceSpec,
        sample: &Sample,
        reading: &TenantReading,
        params: &ObserverParams,
        managed_cpus: f64,
    ) -> ServiceObservation {
        let restarted = self.counters.identify(&reading.identity);
        if restarted {
            self.begin_anew();
        }
        let time = sample.time;
        let qps = self.take_requests(time, reading, params.full.max_s);
        self.take_run_queue(reading);
        self.take_experiments(spec, sample, &params.inflation);
        let cpu = self.counters.cpu.rate(time, &reading.cpu_ns).map(|ns| Cpus(ns / 1e9));
        let full = self.window.recent(params.full);
        let fast = self.window.recent(params.fast);
        let p = spec.slo.percentile_frac;
        let tails = of(&full, |w| w.tails(p));
        let fast_tails = of(&fast, |w| w.tails(p));
        let slack = |t: &Reading<quell_types::Tails>| t.clone().map(|t| spec.slo.slack(t.slo_s));
        let slow = self.take_slow(time, reading);
        ServiceObservation {
            present: reading.identity.clone().map(|_| ()),
            slack: slack(&tails),
            fast_slack: slack(&fast_tails),
            load: load_of(spec, &full, &cpu, managed_cpus),
            cpu_per_request_s: of(&full, RequestDelta::cpu_per_request_s),
            bytes_per_request: of(&full, RequestDelta::bytes_per_request),
            tails,
            fast_tails,
            qps,
            cpu,
            inflation: self.inflated.clone().map_or_else(no_experiment, |(ratio, _)| ratio),
            inflation_time: self.inflated.as_ref().map(|(_, time)| *time),
            run_queue_p99_s: self.run_queue_p99_s.ok_or_else(|| no_run_queue(reading)),
            waits: self.waits.observe(time, reading),
            company: self.company.observe(&reading.company),
            throttled: self.counters.throttled_frac(time, &reading.throttling),
            cpu_pressure: slow.cpu_pressure,
            egress: slow.egress,
            memory: slow.memory,
            llc_bytes: slow.llc_bytes,
            restarted,
        }
    }

    fn begin_anew(&mut self) {
        let identity = self.counters.identity;
        *self = Self::default();
        self.counters.identity = identity;
    }

    fn cpu_pressure(&mut self, time: Time, reading: &TenantReading) -> Reading<Fraction> {
        let total = reading.pressure.clone().map(|p| p.cpu_some_ns);
        self.counters.cpu_pressure.rate(time, &total).map(|ns| Fraction((ns / 1e9).min(1.0)))
    }

    /// Rates of what only full samples read; in a fast one those of the last full one.
    fn take_slow(&mut self, time: Time, reading: &TenantReading) -> SlowReadings {
        let fast = left_out(&reading.egress_bytes)
            && left_out(&reading.pressure)
            && left_out(&reading.memory);
        if fast && let Some(slow) = &self.slow {
            return slow.clone();
        }
        let slow = SlowReadings {
            cpu_pressure: self.cpu_pressure(time, reading),
            egress: self.counters.egress.rate(time, &reading.egress_bytes).map(BytesPerSecond),
            memory: self.counters.memory_rate(time, reading),
            llc_bytes: reading.llc_bytes.clone(),
        };
        self.slow = Some(slow.clone());
        slow
    }

    /// Adds the requests since the last reading to the window; answers with their rate.
    fn take_requests(&mut self, time: Time, reading: &TenantReading, keep_s: f64) -> Reading<f64> {
        let now = reading.requests.as_ref().map_err(Clone::clone)?;
        let before = self.requests.replace((time, now.clone(), reading.cpu_ns.clone()));
        let Some((then, old, old_cpu)) = before else {
            return Err(Gap::not_yet("one sample so far"));
        };
        let seconds = time.since(then).as_secs_f64();
        if seconds <= 0.0 || now.requests < old.requests {
            return Err(Gap::not_yet("the counter began anew"));
        }
        let cpu_ns = reading.cpu_ns.as_ref().ok().copied().zip(old_cpu.ok());
        let latencies = now.latency_ns.as_ref().ok().zip(old.latency_ns.ok());
        let delta = RequestDelta {
            seconds,
            requests: now.requests - old.requests,
            cpu_s: cpu_ns.and_then(|(a, b)| a.checked_sub(b)).map(|ns| ns as f64 / 1e9),
            bytes_in: now.bytes_in.saturating_sub(old.bytes_in),
            bytes_out: now.bytes_out.saturating_sub(old.bytes_out),
            latency_ns: latencies.map(|(now, old)| now.since(&old)),
        };
        let qps = delta.requests as f64 / seconds;
        self.window.push(delta, keep_s);
        Ok(qps)
    }

    fn take_run_queue(&mut self, reading: &TenantReading) {
        let Ok(now) = &reading.run_queue_ns else { return };
        let before = self.run_queue.replace(now.clone());
        let Some(before) = before else { return };
        self.run_queue_p99_s = now.since(&before).quantile(0.99).map(|ns| ns / 1e9);
    }

    fn take_experiments(&mut self, spec: &ServiceSpec, sample: &Sample, params: &InflationParams) {
        for trace in &sample.experiments {
            let concerns_me = trace.chips.iter().any(|c| c.victim_cpu_ns.contains_key(&spec.name));
            if concerns_me {
                let ratio = self.inflation.add(&spec.name, trace, params);
                self.inflated = Some((ratio, sample.time));
            }
        }
    }
}

/// What a window tells, or the window's own gap.
fn of<T>(
    window: &Reading<RequestDelta>,
    tells: impl FnOnce(&RequestDelta) -> Reading<T>,
) -> Reading<T> {
    window.as_ref().map_err(Clone::clone).and_then(tells)
}

fn no_experiment() -> Reading<f64> {
    Err(Gap::not_yet("no experiment so far"))
}

fn no_run_queue(reading: &TenantReading) -> Gap {
    match &reading.run_queue_ns {
        Err(gap) => gap.clone(),
        Ok(_) => Gap::not_yet("no switches in this interval"),
    }
}

/// Rate over peak rate; without a peak rate, CPU use over the managed CPUs.
fn load_of(
    spec: &ServiceSpec,
    window: &Reading<RequestDelta>,
    cpu: &Reading<Cpus>,
    managed_cpus: f64,
) -> Reading<Fraction> {
    match (spec.peak_qps, window) {
        (Some(peak), Ok(w)) if w.seconds > 0.0 => {
            Ok(Fraction(w.requests as f64 / w.seconds / peak))
        }
        (Some(_), Err(gap)) => Err(gap.clone()),
        _ => cpu.clone().map(|c| Fraction(c.0 / managed_cpus)),
    }
}
