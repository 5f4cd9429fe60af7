//! A target that stands ready for runs.

use crate::controls::Controls;
use crate::driver::{Framed, Http, Memcached, Redis, Url, fill};
use crate::embedded::{Service, ServiceSpec};
use crate::generator::{Backend, LoadPlan, TcpTarget, Workers, drive};
use crate::peak::{PeakPlan, PeakReport, find_peak};
use crate::probe::{Probe, ProbeSpec};
use crate::profile::Profile;
use crate::report::RunReport;
use crate::server::ServerProcess;
use crate::slo::{SloPlan, SloReport, find_slo};
use crate::target::Target;
use crate::window::Window;
use crate::{Extent, LoadError};
use std::net::SocketAddr;
use std::sync::Arc;

/// A backlog of so many seconds' requests is not worked off near the peak: the probe has failed.
const HOPELESS_S: f64 = 0.5;
/// But so few requests of a slow service may all be on their way.
const HOPELESS_REQUESTS: f64 = 10.0;
/// What an overloaded target has left over is of no interest to a probe.
const PROBE_DRAIN_S: f64 = 0.1;

/// A target that stands ready: built, connected to, filled. Runs follow each other on it.
pub struct Bench {
    kind: Kind,
}

enum Kind {
    Integrated(Workers),
    Tcp { target: TcpTarget, server: Option<ServerProcess> },
}

impl Bench {
    /// Makes a target ready. `client_netns` is the namespace of the client's sockets, a name below
    /// `/run/netns` or a path; none means the caller's own.
    pub fn open(target: &Target, client_netns: Option<&str>) -> Result<Self, LoadError> {
        let tcp = |address, driver, server| {
            let target = TcpTarget { address, netns: client_netns.map(Into::into), driver };
            Ok(Self { kind: Kind::Tcp { target, server } })
        };
        match target.clone() {
            Target::Integrated { spec, threads } => {
                let service = spec.build()?;
                Ok(Self { kind: Kind::Integrated(Workers { service, spec, threads }) })
            }
            Target::Spawned { launch, serve } => {
                let server = ServerProcess::start(&launch, &serve)?;
                tcp(server.address(), framed(serve.spec), Some(server))
            }
            Target::Served { address, spec } => tcp(address, framed(spec), None),
            Target::Redis { address, mix } => {
                mix.check()?;
                fill(address, client_netns, &Redis::new(mix.clone()))?;
                tcp(address, Box::new(move || Ok(Box::new(Redis::new(mix.clone())))), None)
            }
            Target::Memcached { address, mix } => {
                mix.check()?;
                fill(address, client_netns, &Memcached::new(mix.clone()))?;
                tcp(address, Box::new(move || Ok(Box::new(Memcached::new(mix.clone())))), None)
            }
            Target::Http { url } => {
                let url = Url::parse(&url)?;
                let address = url.address()?;
                tcp(address, Box::new(move || Ok(Box::new(Http(url.clone())))), None)
            }
        }
    }

    /// A service of the caller's in this process, driven with the requests of an embedded one.
    #[must_use]
    pub fn integrated(service: Arc<dyn Service>, requests: ServiceSpec, threads: u32) -> Self {
        Self { kind: Kind::Integrated(Workers { service, spec: requests, threads }) }
    }

    /// The process of the server that was started for this bench, to put it into a cgroup.
    #[must_use]
    pub fn server_pid(&self) -> Option<u32> {
        match &self.kind {
            Kind::Tcp { server, .. } => server.as_ref().map(ServerProcess::pid),
            Kind::Integrated(_) => None,
        }
    }

    /// Where the server listens; none in integrated mode.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.kind {
            Kind::Tcp { target, .. } => Some(target.address),
            Kind::Integrated(_) => None,
        }
    }

    /// One run. `on_window` is called on this thread as each window closes; `controls` changes
    /// the rate or ends the run from any other.
    pub fn run(
        &self,
        plan: &LoadPlan,
        controls: &Controls,
        on_window: &mut dyn FnMut(&Window),
    ) -> Result<RunReport, LoadError> {
        let backend = match &self.kind {
            Kind::Integrated(workers) => Backend::Integrated(workers),
            Kind::Tcp { target, .. } => Backend::Tcp(target),
        };
        drive(plan, &backend, controls, on_window)
    }

    /// The highest rate that the target sustains. `base` gives threads, connections and priority.
    pub fn find_peak(
        &self,
        base: &LoadPlan,
        plan: &PeakPlan,
        controls: &mut dyn FnMut() -> Controls,
        on_probe: &mut dyn FnMut(&Probe),
    ) -> Result<PeakReport, LoadError> {
        let measure = &mut |spec: ProbeSpec| {
            let (controls, mut given_up) = (controls(), false);
            let limit = (HOPELESS_S * spec.qps).max(HOPELESS_REQUESTS);
            let hopeless = |window: &Window| window.backlog as f64 > limit;
            let run = self.run(&probe_plan(base, spec), &controls, &mut |window| {
                if hopeless(window) {
                    given_up = true;
                    controls.stop();
                }
            });
            // Too slow for even one answer, or given up before its measured phase: it does not hold.
            if let Err(LoadError::NothingAnswered { offered, .. }) = run
                && (given_up || !controls.is_stopped())
            {
                return Ok(Probe::unanswered(spec, offered));
            }
            let run = run?;
            if controls.is_stopped() && !given_up {
                return Err(LoadError::Stopped);
            }
            Ok(Probe::of(&run, spec))
        };
        find_peak(plan, measure, on_probe)
    }

    /// The SLO that follows from a peak: what the service does at low and at high load.
    pub fn find_slo(
        &self,
        base: &LoadPlan,
        plan: &SloPlan,
        peak_qps: f64,
        controls: &mut dyn FnMut() -> Controls,
    ) -> Result<SloReport, LoadError> {
        let measure = &mut |qps: f64| {
            let profile = Profile::Constant { qps };
            let measured = Extent::Seconds(plan.seconds);
            let plan = LoadPlan { profile, measured, ..base.clone() };
            let controls = controls();
            let run = self.run(&plan, &controls, &mut |_| ())?;
            if controls.is_stopped() { Err(LoadError::Stopped) } else { Ok(run) }
        };
        find_slo(plan, peak_qps, measure)
    }
}

fn probe_plan(base: &LoadPlan, spec: ProbeSpec) -> LoadPlan {
    LoadPlan {
        profile: Profile::Constant { qps: spec.qps },
        warmup: Extent::Seconds(spec.warmup_s),
        measured: Extent::Seconds(spec.seconds),
        seed: base.seed.wrapping_add(spec.number),
        drain_s: PROBE_DRAIN_S,
        requests_file: None,
        ..base.clone()
    }
}

fn framed(spec: ServiceSpec) -> Box<crate::generator::DriverMaker> {
    Box::new(move || Ok(Box::new(Framed(spec.requests()?))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyValueMix;
    use std::net::TcpListener;

    /// A port that nothing listened on a moment ago.
    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn nobody_at_home_is_an_error_with_the_address() {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let target = Target::Redis { address, mix: KeyValueMix::default() };
        let error = Bench::open(&target, None).err().unwrap().to_string();
        assert!(error.contains(&address.to_string()), "{error}");
        let target = Target::Http { url: format!("http://{address}/") };
        let bench = Bench::open(&target, None).unwrap();
        let outcome = bench.run(&LoadPlan::default(), &Controls::default(), &mut |_| ());
        assert!(matches!(outcome, Err(LoadError::Connect { .. })));
    }

    #[test]
    fn a_target_that_never_answers_sustains_no_rate() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", silent.local_addr().unwrap());
        // Connections are taken and kept, and nothing is said.
        std::thread::spawn(move || silent.incoming().collect::<Vec<_>>());
        let bench = Bench::open(&Target::Http { url }, None).unwrap();
        let plan = PeakPlan { probe_s: 0.2, confirm_s: 0.5, ..PeakPlan::default() };
        let mut rates = Vec::new();
        let outcome =
            bench.find_peak(&LoadPlan::default(), &plan, &mut Controls::default, &mut |probe| {
                rates.push(probe.qps);
            });
        assert!(matches!(outcome, Err(LoadError::NoSustainedRate { .. })), "{outcome:?}");
        assert_eq!(rates, [200.0, 50.0, 12.5, 3.125]);
    }
}
