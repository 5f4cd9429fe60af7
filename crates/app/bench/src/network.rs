//! The network part (T-E3): a service and a bulk sender behind one slow link.
//!
//! ```text
//!   near: service, bulk sender, guard's link   --100 Mbit/s TBF-->   far: generator, sink
//! ```
//! The link's use is counted where it leaves the wire, at the receiver.

use crate::Contender;
use crate::batch::{self, Polluter};
use crate::cell::Stage;
use crate::guard::{Guard, GuardPlan};
use crate::report::NetworkRun;
use crate::sampler::{Reading, rates};
use crate::service;
use anyhow::Context as _;
use quell_egress::Netns;
use quell_egress::lab::{FAR, LINK, Lab, NEAR, Sink, WireSpec};
use quell_service::{
    Bench, Extent, LoadPlan, Profile, RunReport, ServeOptions, ServiceSpec, StoreParams, Target,
    now_ns,
};
use quell_types::{TaskSpec, Tenant};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Small requests, seldom enough that they do not queue behind each other.
const QPS: f64 = 300.0;
/// TCP connections of the bulk sender.
const FLOWS: usize = 4;
/// The bulk sender's queues are full by then.
const FILLED: Duration = Duration::from_millis(1500);
/// Between two looks at the wire's counter.
const LOOK: Duration = Duration::from_millis(50);
/// The service's tail may grow by this factor.
const OBJECTIVE_FACTOR: f64 = 1.5;

/// The lab with the service and the receiver in it.
pub(crate) struct Network {
    lab: Lab,
    sink: Sink,
    bench: Bench,
    wire: WireSpec,
    /// The tail alone, once it was measured.
    alone_ms: Option<f64>,
}

impl Network {
    /// Builds the lab and starts the service in it.
    pub(crate) fn build(stage: &Stage<'_>) -> anyhow::Result<Self> {
        let wire = WireSpec::fast_ethernet();
        let lab = Lab::build(&wire).context("cannot build the network for the network part")?;
        let sink = Sink::start(lab.far(), (FAR, 0))?;
        let launch = service::launch(stage.program, stage.groups);
        let spec = ServiceSpec::Store(StoreParams::default());
        let netns = Some(path_of(lab.near())?);
        let serve = ServeOptions { spec, listen: (NEAR, 0).into(), threads: 0, netns };
        let client = path_of(lab.far())?;
        let bench = Bench::open(&Target::Spawned { launch, serve }, Some(&client))?;
        Ok(Self { lab, sink, bench, wire, alone_ms: None })
    }

    /// Measures under one law; `alone` must come first.
    pub(crate) fn run(
        &mut self,
        stage: &Stage<'_>,
        law: Contender,
        settle_s: f64,
        seconds: f64,
    ) -> anyhow::Result<NetworkRun> {
        let guard = self.guard(stage, law, settle_s + seconds)?;
        if guard.is_some() {
            stage.interrupt.sleep(FILLED)?;
        }
        let plan = LoadPlan {
            profile: Profile::Constant { qps: QPS },
            warmup: Extent::Seconds(settle_s),
            measured: Extent::Seconds(seconds),
            connections: 16,
            ..LoadPlan::default()
        };
        let (run, readings) = self.watched(stage, &plan)?;
        if let Some(guard) = guard {
            guard.stop()?;
        }
        stage.interrupt.check()?;
        if law == Contender::Alone {
            self.alone_ms = Some(run.sojourn.p95_ms);
        }
        Ok(NetworkRun {
            law,
            p95_ms: run.sojourn.p95_ms,
            p50_ms: run.sojourn.p50_ms,
            qps: run.answered_qps,
            link_use_frac: link_use(&run, &readings, self.wire.rate.0)?,
        })
    }

    /// Runs the load while a thread counts what leaves the wire.
    fn watched(
        &self,
        stage: &Stage<'_>,
        plan: &LoadPlan,
    ) -> anyhow::Result<(RunReport, Vec<Reading>)> {
        let (stop, stopped) = channel();
        std::thread::scope(|scope| {
            let watcher = scope.spawn(move || self.watch(&stopped));
            let run = self.bench.run(plan, &stage.ui.controls(), &mut |_| ());
            drop(stop);
            let readings = watcher.join().map_err(|_| anyhow::anyhow!("the watcher panicked"))?;
            Ok((run?, readings?))
        })
    }

    fn watch(&self, stopped: &Receiver<()>) -> anyhow::Result<Vec<Reading>> {
        let mut readings = Vec::new();
        loop {
            let ended = stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout);
            let bytes = self.lab.wire_bytes()?;
            readings.push(Reading { at_ns: now_ns(), work: vec![bytes], ..Reading::default() });
            if ended {
                return Ok(readings);
            }
        }
    }

    fn guard(
        &self,
        stage: &Stage<'_>,
        law: Contender,
        seconds: f64,
    ) -> anyhow::Result<Option<Guard>> {
        if law == Contender::Alone {
            return Ok(None);
        }
        let folder = stage.new_folder()?;
        let config = self.config(stage, law, &folder)?;
        let task = self.task(stage, seconds + 60.0)?;
        let (program, tasks) = (stage.program, vec![task]);
        let (bpf_stats, status_json) = (false, None);
        let plan = GuardPlan { program, config, tasks, folder, bpf_stats, status_json };
        Guard::start(plan).map(Some)
    }

    fn task(&self, stage: &Stage<'_>, bound_s: f64) -> anyhow::Result<TaskSpec> {
        let mut task = batch::task(stage.program, Polluter::Network, 1, bound_s, stage.folder);
        task.tenant = Some(Tenant::new(Polluter::Network.name()));
        let (near, peer) = (path_of(self.lab.near())?, self.sink.address().to_string());
        let flows = FLOWS.to_string();
        let more = ["--peer", &peer, "--flows", &flows, "--congestion", "cubic", "--netns", &near];
        task.command.extend(more.map(str::to_owned));
        Ok(task)
    }

    fn config(
        &self,
        stage: &Stage<'_>,
        law: Contender,
        folder: &std::path::Path,
    ) -> anyhow::Result<String> {
        let port = self.bench.address().context("the service has no address")?.port();
        let alone_ms = self.alone_ms.context("the service was not measured alone")?;
        Ok(format!(
            "[agent]\nstate_dir = \"{state}\"\nmetrics = \"off\"\nlaw = \"{law}\"\n\n\
             [[service]]\nname = \"service\"\ncgroup = \"{service}\"\np95 = \"{slo_us:.0}us\"\n\
             latency = \"ebpf\"\nports = [{port}]\nlinks = [\"{LINK}\"]\n\n\
             [[batch]]\nname = \"{name}\"\ncgroup = \"{batch}\"\ntasks = true\nmax_tasks = 1\n\
             links = [\"{LINK}\"]\n\n\
             [[link]]\nname = \"{LINK}\"\ncapacity = \"{mbit:.0}Mbit\"\nnetns = \"{near}\"\n\n\
             {parameters}\n",
            state = folder.join("state").display(),
            service = stage.groups.service_path(),
            slo_us = alone_ms * OBJECTIVE_FACTOR * 1e3,
            name = Polluter::Network.name(),
            batch = stage.groups.batch_path(Polluter::Network),
            mbit = self.wire.rate.0 * 8.0 / 1e6,
            near = path_of(self.lab.near())?,
            parameters = stage.law_parameters,
        ))
    }
}

fn path_of(netns: &Netns) -> anyhow::Result<String> {
    let path = netns.path().context("a namespace of the lab has no path")?;
    Ok(path.display().to_string())
}

/// Bytes that left the wire in the measured phase, as a share of what it carries.
fn link_use(run: &RunReport, readings: &[Reading], bytes_per_s: f64) -> anyhow::Result<f64> {
    let start_ns = run.windows.first().context("nothing was measured")?.start_monotonic_ns;
    let end_ns = start_ns + (run.measured_s * 1e9) as u64;
    let found = rates(readings, start_ns, end_ns).context("the wire was not read")?;
    Ok(found.work_per_s.first().copied().unwrap_or(0.0) / bytes_per_s)
}
