//! Observations.

use super::{Standing, at};
use quell_types::{
    BatchObservation, BytesPerSecond, Celsius, Cpus, Fraction, Gap, HostObservation, Knob,
    LinkObservation, LinkSpec, Observation, Reading, ServiceObservation, Setting, Setup, Tails,
    Tenant, Watts,
};
use std::collections::BTreeMap;
use std::sync::Arc;

fn unset<T>() -> Reading<T> {
    Err(Gap::not_yet("the test does not say"))
}

/// A machine that tells nothing.
fn silent_host() -> HostObservation {
    HostObservation {
        utilisation: unset(),
        steal: unset(),
        memory: unset(),
        cpu_pressure: unset(),
        power: unset(),
        frequency_khz: unset(),
        bus_locks_per_s: unset(),
        temperature: unset(),
        cpu_busy: unset(),
        lock_traps: unset(),
        gauge: unset(),
    }
}

/// Starts an observation at a second of the test: every tenant and link of the setup is present,
/// every reading a gap.
pub(crate) fn observe(setup: &Setup, second: f64) -> Seen {
    let service = || ServiceObservation {
        tails: unset(),
        fast_tails: unset(),
        slack: unset(),
        fast_slack: unset(),
        qps: unset(),
        load: unset(),
        cpu: unset(),
        cpu_per_request_s: unset(),
        inflation: unset(),
        inflation_time: None,
        bytes_per_request: unset(),
        run_queue_p99_s: unset(),
        waits: unset(),
        company: unset(),
        throttled: unset(),
        cpu_pressure: unset(),
        egress: unset(),
        memory: unset(),
        llc_bytes: unset(),
        restarted: false,
        present: Ok(()),
    };
    let batch = || BatchObservation {
        present: Ok(()),
        cpu: unset(),
        standing: unset(),
        throttled: unset(),
        egress: unset(),
        memory: unset(),
        llc_bytes: unset(),
        page_faults_per_s: unset(),
        bus_locks_per_s: unset(),
        running_tasks: 0,
        ready_tasks: 1,
    };
    let link = |l: &LinkSpec| LinkObservation {
        capacity: l.capacity,
        sent: unset(),
        by_tenant: BTreeMap::new(),
        backlog_bytes: unset(),
        drops_per_s: unset(),
    };
    Seen(Observation {
        time: at(second),
        interval_s: 0.1,
        services: setup.services.iter().map(|s| (s.name.clone(), service())).collect(),
        batch: setup.batch.iter().map(|b| (b.name.clone(), batch())).collect(),
        host: Arc::new(silent_host()),
        links: setup.links.iter().map(|l| (l.name.clone(), link(l))).collect(),
        knobs: Arc::default(),
        tasks: Vec::new(),
        experiments: Vec::new(),
        probes: Vec::new(),
        bursts: Vec::new(),
    })
}

/// See [`observe`]. What has no setter of its own is reached by [`Seen::with`].
#[derive(Clone)]
pub(crate) struct Seen(Observation);

#[allow(dead_code)] // each law's tests use their own part
impl Seen {
    /// The observation.
    pub(crate) fn done(self) -> Observation {
        self.0
    }

    /// Anything else.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Observation)) -> Self {
        change(&mut self.0);
        self
    }

    /// Anything of one service.
    pub(crate) fn of(self, name: &str, change: impl FnOnce(&mut ServiceObservation)) -> Self {
        self.with(|o| change(o.services.get_mut(&Tenant::from(name)).expect("a service")))
    }

    /// Anything of one batch group.
    pub(crate) fn of_batch(self, name: &str, change: impl FnOnce(&mut BatchObservation)) -> Self {
        self.with(|o| change(o.batch.get_mut(&Tenant::from(name)).expect("a batch group")))
    }

    /// Slack of the full and of the fast window.
    pub(crate) fn slack(self, name: &str, frac: f64) -> Self {
        self.of(name, |s| (s.slack, s.fast_slack) = (Ok(frac), Ok(frac)))
    }

    /// Slack of the fast window only.
    pub(crate) fn fast_slack(self, name: &str, frac: f64) -> Self {
        self.of(name, |s| s.fast_slack = Ok(frac))
    }

    /// Latency of both windows, all percentiles equal, 1000 requests in 1 s and 500 in 0.5 s.
    pub(crate) fn tails(self, name: &str, latency_s: f64) -> Self {
        let tails = |requests, window_s| Tails {
            requests,
            window_s,
            p50_s: latency_s,
            p95_s: latency_s,
            p99_s: latency_s,
            p999_s: latency_s,
            slo_s: latency_s,
        };
        self.of(name, |s| (s.tails, s.fast_tails) = (Ok(tails(1000, 1.0)), Ok(tails(500, 0.5))))
    }

    /// Load as a share of the peak rate.
    pub(crate) fn load(self, name: &str, frac: f64) -> Self {
        self.of(name, |s| s.load = Ok(Fraction(frac)))
    }

    /// Requests per second.
    pub(crate) fn qps(self, name: &str, qps: f64) -> Self {
        self.of(name, |s| s.qps = Ok(qps))
    }

    /// CPU time per request, in seconds.
    pub(crate) fn cpu_per_request(self, name: &str, seconds: f64) -> Self {
        self.of(name, |s| s.cpu_per_request_s = Ok(seconds))
    }

    /// Result of an experiment that ended at a second of the test.
    pub(crate) fn inflation(self, name: &str, ratio: f64, second: f64) -> Self {
        self.of(name, |s| (s.inflation, s.inflation_time) = (Ok(ratio), Some(at(second))))
    }

    /// CPU use of a service or batch group.
    pub(crate) fn cpu(self, name: &str, cpus: f64) -> Self {
        self.any(name, |s| s.cpu = Ok(Cpus(cpus)), |b| b.cpu = Ok(Cpus(cpus)))
    }

    /// Memory traffic of a service or batch group, in bytes per second.
    pub(crate) fn memory(self, name: &str, bytes_per_s: f64) -> Self {
        let reading = Ok(BytesPerSecond(bytes_per_s));
        let copy = reading.clone();
        self.any(name, |s| s.memory = reading, |b| b.memory = copy)
    }

    /// Memory traffic of the machine, in bytes per second.
    pub(crate) fn host_memory(self, bytes_per_s: f64) -> Self {
        self.with(|o| Arc::make_mut(&mut o.host).memory = Ok(BytesPerSecond(bytes_per_s)))
    }

    /// What a service or batch group sends, on every link, in bytes per second.
    pub(crate) fn egress(self, name: &str, bytes_per_s: f64) -> Self {
        let rate = BytesPerSecond(bytes_per_s);
        let tenant = Tenant::from(name);
        self.any(name, |s| s.egress = Ok(rate), |b| b.egress = Ok(rate)).with(|o| {
            o.links.values_mut().for_each(|l| {
                l.by_tenant.insert(tenant.clone(), Ok(rate));
            });
        })
    }

    /// The tenant is not there: all its readings are gone.
    pub(crate) fn gone(self, name: &str) -> Self {
        let gone = || Gap::Gone("removed".into());
        self.any(
            name,
            |s| (s.present, s.slack, s.load) = (Err(gone()), Err(gone()), Err(gone())),
            |b| b.present = Err(gone()),
        )
    }

    /// Ready and running tasks of a batch group.
    pub(crate) fn tasks(self, name: &str, ready: u32, running: u32) -> Self {
        self.of_batch(name, |b| (b.ready_tasks, b.running_tasks) = (ready, running))
    }

    /// Power of all sockets in watts, socket 0 first.
    pub(crate) fn power(self, watts: &[f64]) -> Self {
        let by_socket = (0u32..).zip(watts.iter().map(|&w| Watts(w))).collect();
        self.with(|o| Arc::make_mut(&mut o.host).power = Ok(by_socket))
    }

    /// Frequency of all CPUs in kHz, CPU 0 first.
    pub(crate) fn frequencies(self, khz: &[u64]) -> Self {
        let by_cpu = (0u32..).zip(khz.iter().copied()).collect();
        self.with(|o| Arc::make_mut(&mut o.host).frequency_khz = Ok(by_cpu))
    }

    /// Bus locks per second of all CPUs, CPU 0 first.
    pub(crate) fn bus_locks(self, per_s: &[f64]) -> Self {
        let by_cpu = Arc::new((0u32..).zip(per_s.iter().copied()).collect());
        self.with(|o| Arc::make_mut(&mut o.host).bus_locks_per_s = Ok(by_cpu))
    }

    /// Temperature in °C and use of all CPUs, CPU 0 first.
    pub(crate) fn heat(self, of: &[(f64, f64)]) -> Self {
        let celsius = (0u32..).zip(of.iter().map(|(c, _)| Celsius(*c))).collect();
        let busy = (0u32..).zip(of.iter().map(|(_, b)| Fraction(*b))).collect();
        self.with(|o| {
            let host = Arc::make_mut(&mut o.host);
            (host.temperature, host.cpu_busy) = (Ok(celsius), Ok(busy));
        })
    }

    /// The CPUs on which a tenant may run.
    pub(crate) fn on(self, name: &str, cpus: &str) -> Self {
        let set = cpus.parse().expect("a list of CPUs");
        self.knob(Knob::Cpus { tenant: name.into() }, Setting::Cpus(set))
    }

    /// How a knob really stands.
    pub(crate) fn knob(self, knob: Knob, setting: Setting) -> Self {
        self.with(|o| {
            Arc::make_mut(&mut o.knobs).insert(knob, Ok(setting));
        })
    }

    /// Every knob stands as wished.
    pub(crate) fn obedient(self, standing: &Standing) -> Self {
        let knobs = standing.settings.iter().map(|(k, s)| (k.clone(), Ok(s.clone()))).collect();
        self.with(|o| o.knobs = Arc::new(knobs))
    }

    fn any(
        self,
        name: &str,
        service: impl FnOnce(&mut ServiceObservation),
        batch: impl FnOnce(&mut BatchObservation),
    ) -> Self {
        if self.0.services.contains_key(&Tenant::from(name)) {
            self.of(name, service)
        } else {
            self.of_batch(name, batch)
        }
    }
}
