//! One cell: the service under a load, batch beside it, an agent in charge.

use crate::agent_config::AgentConfig;
use crate::batch;
use crate::cost::ProcessCost;
use crate::groups::Groups;
use crate::guard::{Guard, GuardPlan};
use crate::memory::KeptMemory;
use crate::report::{Round, TracePoint};
use crate::sampler::{Rates, Reading, Sampler, rates, trace};
use crate::service::Load;
use crate::ui::{Interrupt, Ui};
use crate::{Contender, Mix, Polluter};
use anyhow::Context as _;
use quell_pressure::FeedReader;
use quell_service::{Bench, RunReport, Window};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Batch tasks outlive a cell by so much at most, whatever happens to everybody else.
const TASK_MARGIN_S: f64 = 60.0;
/// Batch that is let do so has begun to work by then, on a machine that is not overloaded.
const ARMED: Duration = Duration::from_secs(6);
/// How often, and how much longer each time, batch alone is looked at again if it did no work.
const ALONE_TRIES: u32 = 5;
/// As `ARMED` where nothing else runs, but the machine may be slow.
const BUSY: Duration = Duration::from_secs(30);
/// From its first work to a steady rate.
const SETTLED: Duration = Duration::from_millis(700);

/// What all cells of a run share.
pub(crate) struct Stage<'a> {
    pub(crate) program: &'a Path,
    pub(crate) groups: &'a Groups,
    pub(crate) memory: &'a KeptMemory,
    pub(crate) bench: &'a Bench,
    pub(crate) folder: &'a Path,
    pub(crate) ui: &'a Ui,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) cpus: usize,
    pub(crate) percentile: f64,
    pub(crate) law_parameters: &'a str,
    pub(crate) before_cell: Option<&'a str>,
    pub(crate) objective: Objective,
}

/// What the guard is told of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Objective {
    pub(crate) slo_ms: f64,
    pub(crate) peak_qps: f64,
}

/// Who is in charge of what.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) law: Contender,
    pub(crate) mix: Mix,
    /// TOML tables `[law.NAME]` beyond those of the stage.
    pub(crate) parameters: String,
    /// Whether the time of the agent's eBPF programs is counted: only where nothing is compared.
    pub(crate) bpf_stats: bool,
}

impl Charge {
    /// Without parameters.
    pub(crate) fn new(law: Contender, mix: Mix) -> Self {
        Self { law, mix, parameters: String::new(), bpf_stats: false }
    }
}

/// What was seen.
pub(crate) struct Seen {
    pub(crate) run: RunReport,
    pub(crate) readings: Vec<Reading>,
    /// The agent's cost over `cost_s` seconds, warm-up included.
    pub(crate) cost: Option<(ProcessCost, f64)>,
}

impl Stage<'_> {
    /// Starts the agent that is in charge, with its batch in the queue; none for `alone`.
    pub(crate) fn guard(&self, charge: &Charge, seconds: f64) -> anyhow::Result<Option<Guard>> {
        if charge.law == Contender::Alone {
            return Ok(None);
        }
        let folder = self.new_folder()?;
        let threads = charge.mix.threads(self.cpus);
        let bound_s = seconds + TASK_MARGIN_S;
        let task = |&polluter: &Polluter| {
            let mut task = batch::task(self.program, polluter, threads, bound_s, self.folder);
            if let Some(file) = self.memory.file(polluter) {
                task.command.extend(["--memory-file".to_owned(), file.display().to_string()]);
            }
            task
        };
        let tasks = charge.mix.parts().iter().map(task).collect();
        let config = self.config(charge, &folder)?;
        let bpf_stats = charge.bpf_stats;
        let (program, status_json) = (self.program, None);
        let plan = GuardPlan { program, config, tasks, folder, bpf_stats, status_json };
        Guard::start(plan).map(Some)
    }

    /// A place for the next agent, and no feeds of the one before.
    pub(crate) fn new_folder(&self) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join("guard");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        for polluter in Polluter::ALL {
            // A feed of the cell before would be taken for this one's.
            let _ = std::fs::remove_file(batch::feed(self.folder, polluter));
        }
        Ok(folder)
    }

    fn config(&self, charge: &Charge, folder: &Path) -> anyhow::Result<String> {
        let port = self.bench.address().context("the service has no address")?.port();
        let group = |&polluter: &Polluter| (polluter, self.groups.batch_path(polluter));
        let batch: Vec<_> = charge.mix.parts().iter().map(group).collect();
        let config = AgentConfig {
            state: &folder.join("state"),
            law: charge.law,
            service: &self.groups.service_path(),
            port,
            percentile: self.percentile,
            objective: self.objective,
            batch: &batch,
            parameters: &format!("{}\n{}", self.law_parameters, charge.parameters),
        };
        Ok(config.text())
    }

    /// Runs a cell from the agent's start to its end.
    pub(crate) fn cell(
        &self,
        charge: &Charge,
        load: &Load,
        on_window: &mut dyn FnMut(&Window),
    ) -> anyhow::Result<Seen> {
        self.prepare()?;
        let mut guard = self.guard(charge, load.warmup_s + load.seconds)?;
        if guard.is_some() {
            // A law may hold batch back from the start: then there is nothing to wait for.
            self.wait_for_work(charge.mix, ARMED)?;
        }
        let parts: &[_] = if guard.is_some() { charge.mix.parts() } else { &[] };
        let sampler = Sampler::start(self.groups, parts, self.folder)?;
        let before = guard.as_ref().map(Guard::cost);
        let begun = Instant::now();
        let run = load.run(self.bench, &self.ui.controls(), on_window)?;
        let cost = before.zip(guard.as_ref().map(Guard::cost)).map(|(before, after)| {
            let used = ProcessCost {
                cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
                bpf_ns: after.bpf_ns.saturating_sub(before.bpf_ns),
                rss_bytes: after.rss_bytes,
            };
            (used, begun.elapsed().as_secs_f64())
        });
        let readings = sampler.finish()?;
        if let Some(guard) = guard.take() {
            guard.stop()?;
        }
        self.interrupt.check()?;
        Ok(Seen { run, readings, cost })
    }

    /// A batch alone on the machine: work per second of each polluter.
    pub(crate) fn batch_alone(&self, mix: Mix, seconds: f64) -> anyhow::Result<Vec<f64>> {
        let charge = Charge::new(Contender::None, mix);
        self.memory.fill(self.program, mix, mix.threads(self.cpus))?;
        let guard = self.guard(&charge, seconds)?;
        self.wait_for_work(mix, BUSY)?;
        let mut found = self.rates_alone(mix, seconds)?;
        // A crowded machine may not let every polluter run within a short span: look longer.
        for trial in 1..=ALONE_TRIES {
            if found.iter().all(|&rate| rate > 0.0) {
                break;
            }
            found = self.rates_alone(mix, seconds.max(1.0) * f64::from(trial))?;
        }
        if let Some(guard) = guard {
            guard.stop()?;
        }
        anyhow::ensure!(
            found.iter().all(|&rate| rate > 0.0),
            "batch did no work ({found:?} per second): see whether `quell pressure {}` works here",
            mix.parts().first().map_or("", |polluter| polluter.name())
        );
        Ok(found)
    }

    /// Work per second of each polluter over the next `seconds`.
    fn rates_alone(&self, mix: Mix, seconds: f64) -> anyhow::Result<Vec<f64>> {
        let sampler = Sampler::start(self.groups, mix.parts(), self.folder)?;
        self.interrupt.sleep(SETTLED + Duration::from_secs_f64(seconds))?;
        let readings = sampler.finish()?;
        let end_ns = readings.last().map_or(0, |reading| reading.at_ns);
        let from_ns = end_ns.saturating_sub((seconds * 1e9) as u64);
        Ok(rates(&readings, from_ns, end_ns).context("batch was not read")?.work_per_s)
    }
}

impl Stage<'_> {
    /// Runs what was asked for before a cell.
    fn prepare(&self) -> anyhow::Result<()> {
        if let Some(command) = self.before_cell {
            let status = Command::new("/bin/sh")
                .args(["-c", command])
                .stdin(Stdio::null())
                .status()
                .context("cannot run /bin/sh")?;
            self.interrupt.check()?;
            anyhow::ensure!(status.success(), "--before-cell: `{command}` failed ({status})");
        }
        self.interrupt.check()
    }

    /// Waits until every polluter of a mix has mapped its memory and begun to work, at most so
    /// long.
    fn wait_for_work(&self, mix: Mix, most: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + most;
        let works = |&p: &Polluter| {
            FeedReader::new(batch::feed(self.folder, p)).read().is_ok_and(|feed| feed.work > 0)
        };
        while Instant::now() < end && !mix.parts().iter().all(works) {
            self.interrupt.sleep(Duration::from_millis(20))?;
        }
        Ok(())
    }
}

impl Seen {
    /// The figures of one round; `alone` is the work per second of each polluter alone.
    pub(crate) fn round(
        &self,
        number: u32,
        objective: Objective,
        percentile: f64,
        alone: &[f64],
        cpus: usize,
    ) -> anyhow::Result<Round> {
        let run = &self.run;
        let (from_ns, to_ns) = self.span()?;
        let rates = rates(&self.readings, from_ns, to_ns).context("counters were not read")?;
        let work_fracs = work_fracs(&rates, alone);
        // Not `sum`, which makes -0.0 of nothing.
        let share = work_fracs.iter().fold(0.0, |sum, f| sum + f) / work_fracs.len().max(1) as f64;
        Ok(Round {
            round: number,
            measured_s: run.measured_s,
            windows: judged(run).count(),
            mean_ms: run.sojourn.mean_ms,
            p50_ms: run.sojourn.p50_ms,
            p95_ms: run.sojourn.p95_ms,
            p99_ms: run.sojourn.p99_ms,
            qps: run.answered_qps,
            slo_met_frac: slo_met(run, percentile, objective.slo_ms),
            good_qps: good_qps(run, percentile, objective.slo_ms),
            batch_work_frac: share,
            work_fracs,
            service_cpu_frac: rates.service_cpus / cpus as f64,
            batch_cpu_frac: rates.batch_cpus / cpus as f64,
            generator_cpu_frac: run.generator.cpu_frac / cpus as f64,
            neighbour_slowdown_ratio: None,
        })
    }

    /// The measured phase on the monotonic clock.
    fn span(&self) -> anyhow::Result<(u64, u64)> {
        let first = self.run.windows.first().context("nothing was measured")?;
        let start = first.start_monotonic_ns;
        Ok((start, start + (self.run.measured_s * 1e9) as u64))
    }

    /// Tail and budget over time.
    pub(crate) fn trace(&self, percentile: f64, cpus: usize) -> Vec<TracePoint> {
        let Ok((start_ns, _)) = self.span() else { return Vec::new() };
        let mut points = trace(&self.readings, cpus, start_ns);
        for window in &self.run.windows {
            let end_s = window.start_s + window.length_s;
            let nearest = points
                .iter_mut()
                .min_by(|a, b| (a.t_s - end_s).abs().total_cmp(&(b.t_s - end_s).abs()));
            if let Some(point) = nearest {
                point.tail_ms = window.percentile_ms(percentile);
            }
        }
        points.retain(|point| point.t_s > -0.3);
        points
    }
}

fn work_fracs(rates: &Rates, alone: &[f64]) -> Vec<f64> {
    rates.work_per_s.iter().zip(alone).map(|(rate, alone)| rate / alone).collect()
}

/// The windows that are judged: short ones only where there is no other.
fn judged(run: &RunReport) -> impl Iterator<Item = &Window> {
    let all_short = run.windows.iter().all(|window| window.short);
    run.windows.iter().filter(move |window| all_short || !window.short)
}

/// A window in which nothing was answered kept no objective.
fn kept(window: &Window, percentile: f64, slo_ms: f64) -> bool {
    window.percentile_ms(percentile).is_some_and(|tail| tail <= slo_ms)
}

fn slo_met(run: &RunReport, percentile: f64, slo_ms: f64) -> f64 {
    let met = judged(run).filter(|window| kept(window, percentile, slo_ms)).count();
    met as f64 / judged(run).count().max(1) as f64
}

/// Requests per second that were answered in windows within the SLO.
fn good_qps(run: &RunReport, percentile: f64, slo_ms: f64) -> f64 {
    let good = judged(run).filter(|window| kept(window, percentile, slo_ms));
    let counted: f64 = judged(run).map(|window| window.length_s).sum();
    good.map(|window| window.answered as f64).sum::<f64>() / counted.max(1e-9)
}
