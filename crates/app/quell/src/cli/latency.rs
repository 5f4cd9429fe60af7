//! A service of Quell's own under open-loop load, as a workload: its speed is the inverse of its tail.

use anyhow::Context as _;
use quell_pressure::{Stop, bind_all};
use quell_profiler::{Metric, ProfileError, Seats, Speed, Subject};
use quell_service::{
    Bench, Controls, Extent, LoadPlan, Profile, SearchParams, ServeOptions, ServerLaunch,
    ServiceSpec, StoreParams, Target,
};
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::time::Duration;

/// Which service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Search,
    Store,
}

impl FromStr for Service {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Service> {
        match text {
            "search" => Ok(Service::Search),
            "store" => Ok(Service::Store),
            other => anyhow::bail!("no service is called {other:?}: give search or store"),
        }
    }
}

/// How a service is loaded and judged.
#[derive(Debug, clap::Args)]
pub(crate) struct ServiceArgs {
    /// A service's load, in requests per second.
    #[arg(long, value_name = "QPS", default_value_t = 300.0)]
    pub(crate) rate: f64,
    /// A service's objective for the 95th percentile: below it, it counts as undisturbed.
    #[arg(long, value_name = "MS")]
    slo_ms: Option<f64>,
}

/// A service that stands ready.
pub(crate) struct Loaded {
    bench: Bench,
    name: &'static str,
    qps: f64,
    slo_ms: Option<f64>,
    seed: u64,
    stop: Stop,
}

impl ServiceArgs {
    /// Starts the service on the workload's CPUs, and loads it from those of the pressure.
    pub(crate) fn open(
        &self,
        service: Service,
        seats: &Seats,
        rate: Option<f64>,
        stop: &Stop,
    ) -> anyhow::Result<Loaded> {
        let (name, spec) = match service {
            Service::Search => ("search", ServiceSpec::Search(SearchParams::default())),
            Service::Store => ("store", ServiceSpec::Store(StoreParams::default())),
        };
        let threads = u32::try_from(seats.workload.len()).unwrap_or(1);
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let serve = ServeOptions { spec, listen, threads, netns: None };
        let launch = ServerLaunch::this_program(&["load", "serve"])?;
        bind_all(&seats.workload)?;
        let bench = Bench::open(&Target::Spawned { launch, serve }, None);
        bind_all(&seats.pressure)?;
        let bench = bench.with_context(|| format!("cannot start {name}"))?;
        let qps = rate.unwrap_or(self.rate);
        Ok(Loaded { bench, name, qps, slo_ms: self.slo_ms, seed: 1, stop: stop.clone() })
    }
}

impl Loaded {
    /// Changes the load.
    pub(crate) fn set_rate(&mut self, qps: f64) {
        self.qps = qps;
    }

    /// The 95th percentile over a window, in ms.
    pub(crate) fn p95_ms(&mut self, length: Duration) -> Result<f64, ProfileError> {
        if self.stop.requested() {
            return Err(ProfileError::Stopped);
        }
        let plan = LoadPlan {
            profile: Profile::Constant { qps: self.qps },
            warmup: Extent::Seconds(0.05),
            measured: Extent::Seconds(length.as_secs_f64()),
            drain_s: 1.0,
            seed: self.seed,
            ..LoadPlan::default()
        };
        self.seed += 1;
        let failed = |e| ProfileError::Subject {
            what: self.name.to_owned(),
            source: std::io::Error::other(e),
        };
        let run = self.bench.run(&plan, &Controls::default(), &mut |_| ()).map_err(failed)?;
        if run.answered == 0 {
            return Err(ProfileError::Stalled(self.name.to_owned()));
        }
        Ok(run.sojourn.p95_ms)
    }
}

impl Subject for Loaded {
    fn name(&self) -> &str {
        self.name
    }

    fn metric(&self) -> Metric {
        Metric::InverseLatency
    }

    fn speed(&mut self, length: Duration) -> Result<Speed, ProfileError> {
        let p95 = self.p95_ms(length)?.max(self.slo_ms.unwrap_or(0.0));
        Ok(Speed { by_wall: 1.0 / p95.max(1e-6), by_cpu: None })
    }

    fn can_rest(&self) -> bool {
        true
    }

    /// Without requests it does nothing.
    fn rest(&mut self) -> Result<(), ProfileError> {
        Ok(())
    }

    fn wake(&mut self) -> Result<(), ProfileError> {
        Ok(())
    }
}
