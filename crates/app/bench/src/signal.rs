//! `quell bench signal`: does CPU time per request tell a neighbour's harm from a service's own
//! load, on the machine at hand?
//!
//! A service under an open-loop load is watched while one cause at a time is turned on and off, in
//! the order ABBA, so that what drifts steadily cancels out. Compared are adjacent turns: the
//! service's CPU time per answered request, how long its threads were ready and had no CPU, and the
//! sojourn that its clients see. A cause that only makes requests wait (integer loops at the
//! service's weight, more requests) should move the second and third alone; one that makes the work
//! itself dearer (bus locks, a shared cache that is taken away) should move the first.
//!
//! Idle-class integer loops keep all CPUs awake in both turns unless this is declined: a CPU that
//! halts wakes up at a cost that the hypervisor charges to whoever runs next, and any neighbour
//! would seem to make requests cheaper by keeping the CPU awake.

mod cause;
mod report;
mod source;
mod turns;

pub use cause::Cause;
pub use report::{Quartiles, SIGNAL_SCHEMA, SignalReport, SignalRow};

use crate::folder::RunFolder;
use crate::machine::cpus;
use crate::neighbour::Neighbours;
use crate::run_groups::RunGroups;
use crate::service::{self, Load};
use crate::ui::Interrupt;
use anyhow::Context as _;
use quell_cgroup::{CpuUsage, GroupKnob as _, IdleKnob};
use quell_service::{Bench, Controls, Profile, RunReport, ServiceSpec, WindowRule};
use quell_topology::Machine;
use quell_types::Setting;
use source::Source;
pub(crate) use source::Worker;
use std::path::PathBuf;
use std::time::Duration;

/// Load of the service, as a share of all CPUs, and what it is while the cause is its own load.
const LOAD_FRAC: f64 = 0.25;
const HIGH_LOAD_FRAC: f64 = 0.5;
/// Requests per second at which the cost of a request is measured.
const FEELER_QPS: f64 = 300.0;
/// Slices of the generator's count; turns are laid over them.
const SLICE_S: f64 = 0.05;
/// From the load's start to the first turn.
const SETTLED: Duration = Duration::from_secs(1);

const SERVICE: &str = "service";
const CAUSE: &str = "cause";
const AWAKE: &str = "awake";

/// What is measured.
#[derive(Clone, Debug)]
pub struct SignalOptions {
    /// Which causes, in this order.
    pub causes: Vec<Cause>,
    /// Pairs of turns for each; of bus locks at most ten.
    pub pairs: u32,
    /// Idle-class loops keep the CPUs awake.
    pub awake: bool,
    /// The service.
    pub service: ServiceSpec,
    /// Seed of arrivals.
    pub seed: u64,
    /// Where the JSON is written, anew after each cause.
    pub json: Option<PathBuf>,
    /// The program that becomes server and polluter: `quell` itself.
    pub program: PathBuf,
}

/// Measures all causes; `say` is told of each. The report holds what was done even if it is ended
/// early.
pub fn signal(
    options: &SignalOptions,
    interrupt: &Interrupt,
    say: &dyn Fn(&str),
) -> anyhow::Result<SignalReport> {
    anyhow::ensure!(options.pairs > 0, "--pairs: give at least one");
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "this makes control groups: run it as root"
    );
    crate::run::after_the_dead();
    let folder = RunFolder::make()?;
    let groups = RunGroups::make(folder.name(), &[SERVICE, CAUSE, AWAKE])?;
    let bench = service::start_in(&options.program, &groups.doors(SERVICE)?, &options.service)?;
    let ground = Ground { options, interrupt, groups: &groups, bench: &bench };
    let _awake = if options.awake { Some(ground.keep_awake()?) } else { None };
    let cost_s = ground.request_cost_s()?;
    let mut report = ground.report(cost_s);
    for &cause in &options.causes {
        if interrupt.requested() {
            break;
        }
        let row = ground.row(cause, cost_s)?;
        say(&row.in_words());
        report.rows.push(row);
        if let Some(path) = &options.json {
            report.write(path)?;
        }
    }
    Ok(report)
}

/// What all causes share.
struct Ground<'a> {
    options: &'a SignalOptions,
    interrupt: &'a Interrupt,
    groups: &'a RunGroups,
    bench: &'a Bench,
}

impl Ground<'_> {
    /// One integer loop on each CPU that runs only where nobody else wants to.
    fn keep_awake(&self) -> anyhow::Result<Worker> {
        let idle = IdleKnob::new(self.groups.get(AWAKE)?)?;
        idle.write(&Setting::Flag(true))
            .context("cannot put the loops that keep CPUs awake into the idle class")?;
        let doors = self.groups.doors(AWAKE)?;
        Worker::start(&self.options.program, &doors, &["cpu", "--threads", &cpus()?.to_string()])
    }

    fn report(&self, cost_s: f64) -> SignalReport {
        let topology = Machine::new("/").topology();
        let ratio = Neighbours::choose(&topology)
            .map_err(anyhow::Error::msg)
            .and_then(|neighbours| neighbours.slowdown_ratio());
        SignalReport {
            schema: SIGNAL_SCHEMA.into(),
            service: self.options.service.name().to_owned(),
            cpus_kept_awake: self.options.awake,
            cpu_per_request_us: cost_s * 1e6,
            neighbour_slowdown_ratio: ratio.ok(),
            rows: Vec::new(),
        }
    }

    /// CPU time of a request at a low rate, in seconds.
    fn request_cost_s(&self) -> anyhow::Result<f64> {
        let mut cpu = CpuUsage::new(self.groups.get(SERVICE)?);
        let before = cpu.read()?;
        let run = self.load(FEELER_QPS, 2.0, &Controls::default())?;
        let used_s = (cpu.read()?.saturating_sub(before)) as f64 / 1e9;
        let answered = (run.answered + run.warmup_requests) as f64;
        anyhow::ensure!(used_s > 0.0 && answered > 0.0, "the service answered nothing");
        Ok(used_s / answered)
    }

    fn load(&self, qps: f64, seconds: f64, controls: &Controls) -> anyhow::Result<RunReport> {
        let load = Load {
            profile: Profile::Constant { qps },
            warmup_s: 0.5,
            seconds,
            window: WindowRule { length_s: SLICE_S, min_requests: 1 },
            seed: self.options.seed,
        };
        Ok(load.run(self.bench, controls, &mut |_| ())?)
    }

    fn row(&self, cause: Cause, cost_s: f64) -> anyhow::Result<SignalRow> {
        let rate = |share: f64| Ok::<_, anyhow::Error>(share * f64::from(cpus()?) / cost_s);
        let (low, high) = (rate(LOAD_FRAC)?, rate(HIGH_LOAD_FRAC)?);
        let pairs = cause.pairs(self.options.pairs);
        let controls = Controls::default();
        let most_s =
            cause.seconds(pairs) + 2.0 * SETTLED.as_secs_f64() + source::ARMED.as_secs_f64();
        std::thread::scope(|scope| {
            let load = scope.spawn(|| self.load(low, most_s, &controls));
            let turns = self.turns(cause, pairs, (low, high), &controls);
            controls.stop();
            let run = load.join().map_err(|_| anyhow::anyhow!("the generator failed"))?;
            let (run, turns) = run.and_then(|run| Ok((run, turns?)))?;
            Ok(SignalRow::of(cause, &turns::pairs(&turns, &run.windows)))
        })
    }

    fn meter(&self) -> anyhow::Result<turns::Meter> {
        let procs = self.groups.doors(SERVICE)?.into_iter().next().context("it is in no group")?;
        Ok(turns::Meter::new(CpuUsage::new(self.groups.get(SERVICE)?), procs))
    }

    fn turns(
        &self,
        cause: Cause,
        pairs: u32,
        rates: (f64, f64),
        controls: &Controls,
    ) -> anyhow::Result<Vec<turns::Turn>> {
        self.interrupt.sleep(SETTLED)?;
        let doors = self.groups.doors(CAUSE)?;
        let program = &self.options.program;
        let mut source = Source::arm(cause, program, &doors, cpus()?, (controls, rates))?;
        let mut meter = self.meter()?;
        for turn in 0..2 * pairs {
            let on = matches!(turn % 4, 0 | 3);
            source.turn(on)?;
            self.interrupt.sleep(turns::EDGE)?;
            meter.turn(on, || self.interrupt.sleep(cause.turn()))?;
            if on {
                source.turn(false)?;
                self.interrupt.sleep(cause.pause())?;
            }
        }
        Ok(meter.finish())
    }
}
