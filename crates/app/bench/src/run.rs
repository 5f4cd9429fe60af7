//! The whole of a comparison, from the groups to the report.

mod schedule;

use crate::cell::{Charge, Objective, Stage};
use crate::cost::ProcessCost;
use crate::folder::RunFolder;
use crate::groups::Groups;
use crate::memory::KeptMemory;
use crate::neighbour::Neighbours;
use crate::network::Network;
use crate::report::{AgentCost, BatchAlone, DEMO_SCHEMA, DemoReport, Machine, Round};
use crate::service::{self, Load};
use crate::ui::{Interrupt, Ui};
use crate::{Contender, GuardOptions, Mix, crowd, leftovers, show, sweep};
use anyhow::Context as _;
use quell_service::{Extent, LoadPlan, Profile, SloReport, WindowRule};
use quell_types::{CpuSet, Topology};
use schedule::Schedule;
use std::collections::BTreeMap;
use std::path::Path;

/// A tail near the peak that is so many times that at low load is more than queueing.
const DOUBTFUL: f64 = 30.0;

/// Runs it. The report holds what was measured even if the run is ended early; an error is given
/// for what could not be started at all.
pub fn guard(options: &GuardOptions, interrupt: &Interrupt) -> anyhow::Result<DemoReport> {
    options.check()?;
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "this makes control groups and loads eBPF programs: run it as root"
    );
    let machine = quell_topology::Machine::new("/");
    let topology = machine.topology();
    let schedule = Schedule::plan(options);
    after_the_dead();
    let folder = RunFolder::make()?;
    let ui = Ui::start(schedule.total(), interrupt)?;
    let mut report = empty_report(options, &topology);
    let groups = Groups::make(folder.name())?;
    ui.now(format!("starting {}", options.service.name()));
    let bench = service::start(&options.program, &groups, &options.service)?;
    let memory = KeptMemory::make_or_none();
    let stage = Stage {
        program: &options.program,
        groups: &groups,
        memory: &memory,
        bench: &bench,
        folder: folder.path(),
        ui: &ui,
        interrupt,
        cpus: topology.online().len().max(1),
        percentile: options.percentile,
        law_parameters: &options.law_parameters,
        before_cell: options.before_cell.as_deref(),
        objective: Objective::default(),
    };
    let neighbours = Neighbours::choose(&topology);
    let parts = Parts::default();
    let mut whole = Whole { options, stage, schedule, neighbours, report: &mut report, parts };
    let outcome = whole.all(&topology.online());
    drop(bench);
    report.seconds = ui.elapsed().as_secs_f64();
    report.complete = outcome.is_ok();
    checkpoint(options, &report)?;
    if let Some(folder) = &options.report {
        show::html_report(&report).write(folder)?;
    }
    match outcome {
        Err(error) if report.runs.is_empty() || !interrupt.requested() => Err(error),
        _ => Ok(report),
    }
}

/// How long a law of this comparison gets before it is measured, in seconds: one that does not
/// adapt, and one that does.
pub(crate) fn settling(options: &GuardOptions) -> (f64, f64) {
    let schedule = Schedule::plan(options);
    (schedule.settle(Contender::None), schedule.settle(Contender::Quell))
}

/// Cleans up after runs that were killed; what remains of them does not keep this one from running.
pub(crate) fn after_the_dead() {
    for run in leftovers::clean_up() {
        eprintln!("quell: removed what {} left when it was killed", run.name);
        run.failed.iter().for_each(|why| eprintln!("quell: but {why}"));
    }
}

fn empty_report(options: &GuardOptions, topology: &Topology) -> DemoReport {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    DemoReport {
        schema: DEMO_SCHEMA.to_owned(),
        machine: Machine {
            model: topology.model.clone(),
            cpus: topology.online().len(),
            memory_bytes: topology.memory_bytes,
            llc_bytes: topology.llc.iter().map(|llc| llc.size_bytes).collect(),
            hypervisor: topology.hypervisor.clone(),
            kernel,
        },
        service: options.service.name().to_owned(),
        slo_ms: 0.0,
        slo_percentile: options.percentile,
        peak_qps: 0.0,
        neighbour_unmeasured: None,
        runs: Vec::new(),
        batch_alone: Vec::new(),
        sweep: Vec::new(),
        network: Vec::new(),
        flash_crowd_s: None,
        flash_crowd_trace: Vec::new(),
        agent: None,
        knobs_restored: true,
        knobs_changed: Vec::new(),
        complete: false,
        seconds: 0.0,
    }
}

/// Writes the JSON as it stands, in one step: whoever reads it never sees half of it.
fn checkpoint(options: &GuardOptions, report: &DemoReport) -> anyhow::Result<()> {
    let Some(path) = &options.json else { return Ok(()) };
    let part = part_of(path);
    let text = serde_json::to_string_pretty(report)? + "\n";
    std::fs::write(&part, text)
        .and_then(|()| std::fs::rename(&part, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn part_of(path: &Path) -> std::path::PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

/// A run under way.
struct Whole<'a> {
    options: &'a GuardOptions,
    stage: Stage<'a>,
    schedule: Schedule,
    /// Two CPUs to look at the caches with, or why there are none.
    neighbours: Result<Neighbours, String>,
    report: &'a mut DemoReport,
    parts: Parts,
}

/// What is found on the way.
#[derive(Default)]
struct Parts {
    /// Work per second of each batch alone, newest measurement.
    alone: BTreeMap<Mix, Vec<f64>>,
    /// `[law.static]` of the chosen candidate.
    static_table: String,
    /// The agent's cost under `quell`: CPU time, seconds, most memory.
    cost: (ProcessCost, f64),
    seed: u64,
}

impl Whole<'_> {
    fn all(&mut self, cpus: &CpuSet) -> anyhow::Result<()> {
        self.parts.seed = self.options.seed;
        self.calibrate()?;
        self.alone_batches(0)?;
        self.find_static(cpus)?;
        for round in 0..self.schedule.rounds {
            if round > 0 {
                self.alone_batches(round)?;
            }
            self.cells(round)?;
        }
        if self.options.crowd {
            self.flash_crowd()?;
        }
        if self.options.network {
            self.network()?;
        }
        Ok(())
    }

    fn base(&self) -> LoadPlan {
        LoadPlan { warmup: Extent::Seconds(self.schedule.settle_s), ..LoadPlan::default() }
    }

    /// The peak rate in requests per second, searched if nobody knows it.
    fn find_peak(&self) -> anyhow::Result<f64> {
        if let Some(known) = self.options.peak_qps {
            return Ok(known);
        }
        let (ui, bench) = (self.stage.ui, self.stage.bench);
        ui.now("finding the peak rate");
        let plan = self.schedule.peak.clone();
        let peak = bench.find_peak(&self.base(), &plan, &mut || ui.controls(), &mut |probe| {
            ui.now(format!("finding the peak rate: {:.0} requests/s", probe.qps));
        });
        self.stage.interrupt.check()?;
        Ok(peak?.peak_qps)
    }

    /// Peak and SLO.
    fn calibrate(&mut self) -> anyhow::Result<()> {
        let peak_qps = self.find_peak()?;
        let (ui, bench) = (self.stage.ui, self.stage.bench);
        ui.now(format!("peak {peak_qps:.0} requests/s; finding the SLO"));
        let (base, plan) = (self.base(), &self.schedule.slo);
        let slo = bench.find_slo(&base, plan, peak_qps, &mut || ui.controls());
        self.stage.interrupt.check()?;
        let slo: SloReport = slo?;
        if slo.high_ms > DOUBTFUL * slo.low_ms {
            ui.say(format!(
                "near its peak the service's tail is {:.0} times that at low load, so the objective \
                 is a loose one: the host may have taken CPUs away meanwhile",
                slo.high_ms / slo.low_ms
            ));
        }
        self.stage.objective = Objective { slo_ms: slo.slo_ms, peak_qps };
        (self.report.slo_ms, self.report.peak_qps) = (slo.slo_ms, peak_qps);
        ui.say(format!(
            "peak {peak_qps:.0} requests/s; SLO: p{} within {:.2} ms",
            self.options.percentile, slo.slo_ms
        ));
        checkpoint(self.options, self.report)
    }

    fn alone_batches(&mut self, round: u32) -> anyhow::Result<()> {
        for &mix in &self.options.polluters {
            self.stage.ui.now(format!("batch alone: {mix}"));
            let work_per_s = self.stage.batch_alone(mix, self.schedule.alone_s)?;
            self.restored();
            self.parts.alone.insert(mix, work_per_s.clone());
            self.report.batch_alone.push(BatchAlone { polluter: mix, round, work_per_s });
        }
        checkpoint(self.options, self.report)
    }

    /// The middle one of the loads: where a split matters most.
    fn middle_load(&self) -> f64 {
        let mut loads = self.options.loads.clone();
        loads.sort_by(f64::total_cmp);
        loads[loads.len() / 2]
    }

    fn find_static(&mut self, cpus: &CpuSet) -> anyhow::Result<()> {
        if !self.options.laws.contains(&Contender::Static) {
            return Ok(());
        }
        let candidates = sweep::candidates(cpus, self.schedule.candidates);
        let load_frac = self.middle_load();
        let load = self.load(load_frac, self.schedule.sweep_settle_s, self.schedule.sweep_s);
        let mix = self.options.polluters[0];
        let alone = self.parts.alone.get(&mix).cloned().unwrap_or_default();
        let (tried, best) =
            sweep::sweep(&self.stage, &candidates, mix, (load_frac, &load), &alone)?;
        self.restored();
        self.parts.static_table = sweep::law_table(&best)?;
        self.report.sweep = tried;
        self.stage.ui.say(show::sweep_table(&self.report.sweep).to_text());
        checkpoint(self.options, self.report)
    }

    fn load(&mut self, load_frac: f64, warmup_s: f64, seconds: f64) -> Load {
        self.parts.seed = self.parts.seed.wrapping_add(1);
        Load {
            profile: Profile::Constant { qps: load_frac * self.stage.objective.peak_qps },
            warmup_s,
            seconds,
            window: WindowRule::default(),
            seed: self.parts.seed,
        }
    }

    /// One round over all loads, polluters and laws.
    fn cells(&mut self, round: u32) -> anyhow::Result<()> {
        let cells = schedule::cells(self.options);
        let total = cells.len() * self.schedule.rounds as usize;
        for (rank, (load_frac, law, mix)) in cells.iter().copied().enumerate() {
            let number = round as usize * cells.len() + rank;
            let left = total - number;
            let elapsed = self.stage.ui.elapsed();
            let qps = load_frac * self.report.peak_qps;
            let measured_s = self.schedule.measured_s(elapsed, (law, qps), left);
            self.stage.ui.plan(self.schedule.expected(elapsed, left));
            let beside = if law == Contender::Alone { String::new() } else { format!(", {mix}") };
            self.stage
                .ui
                .now(format!("cell {} of {total}: load {load_frac:.2}, {law}{beside}", number + 1));
            self.one_cell(round, (load_frac, law, mix), measured_s)?;
        }
        Ok(())
    }

    fn one_cell(
        &mut self,
        round: u32,
        (load_frac, law, mix): (f64, Contender, Mix),
        measured_s: f64,
    ) -> anyhow::Result<()> {
        let load = self.load(load_frac, self.schedule.settle(law), measured_s);
        let parameters = match law {
            Contender::Static => self.parts.static_table.clone(),
            _ => String::new(),
        };
        let charge = Charge { parameters, ..Charge::new(law, mix) };
        let neighbour_slowdown_ratio = self.neighbour_slowdown();
        let seen = self.stage.cell(&charge, &load, &mut |_| ())?;
        self.restored();
        let alone: &[f64] = match law {
            Contender::Alone => &[],
            _ => self.parts.alone.get(&mix).map_or(&[], Vec::as_slice),
        };
        let stage = &self.stage;
        let figures = seen.round(round, stage.objective, stage.percentile, alone, stage.cpus)?;
        let figures = Round { neighbour_slowdown_ratio, ..figures };
        let trace = seen.trace(stage.percentile, stage.cpus);
        let peak_qps = stage.objective.peak_qps;
        let cell = self.report.cell(load_frac, law, mix);
        cell.add(figures, trace, peak_qps);
        stage.ui.say(show::line(cell));
        if law == Contender::Quell {
            self.count_cost(seen.cost);
        }
        checkpoint(self.options, self.report)
    }

    /// The state of the shared caches now; none where it cannot be measured.
    fn neighbour_slowdown(&mut self) -> Option<f64> {
        let measured = match &self.neighbours {
            Ok(neighbours) => neighbours.slowdown_ratio().map_err(|error| format!("{error:#}")),
            Err(why) => Err(why.clone()),
        };
        if let Err(why) = &measured {
            self.report.neighbour_unmeasured = Some(why.clone());
        }
        measured.ok()
    }

    fn count_cost(&mut self, cost: Option<(ProcessCost, f64)>) {
        let Some((cost, seconds)) = cost else { return };
        let (sum, time) = &mut self.parts.cost;
        sum.cpu_ns += cost.cpu_ns;
        sum.rss_bytes = sum.rss_bytes.max(cost.rss_bytes);
        *time += seconds;
        let bpf_cpu_frac = self.report.agent.and_then(|agent| agent.bpf_cpu_frac);
        self.report.agent = Some(AgentCost {
            user_cpu_frac: sum.cpu_ns as f64 / 1e9 / *time,
            bpf_cpu_frac,
            rss_bytes: sum.rss_bytes,
        });
    }

    /// Looks whether the agent that has just ended left every knob as it was.
    fn restored(&mut self) {
        let changed = self.stage.groups.changed_knobs();
        self.report.knobs_restored &= changed.is_empty();
        for line in changed {
            if !self.report.knobs_changed.contains(&line) {
                self.report.knobs_changed.push(line);
            }
        }
    }

    fn flash_crowd(&mut self) -> anyhow::Result<()> {
        self.stage.ui.now("flash crowd: 30 to 90 % of the peak, law quell");
        self.parts.seed = self.parts.seed.wrapping_add(1);
        let (settle_s, hold_s) = (self.schedule.settle(Contender::Quell), self.schedule.crowd_s);
        let crowd = crowd::run(&self.stage, settle_s, 1.0, hold_s, self.parts.seed)?;
        self.restored();
        self.report.flash_crowd_s = crowd.recovery_s;
        self.report.flash_crowd_trace = crowd.trace;
        if let Some(agent) = &mut self.report.agent {
            agent.bpf_cpu_frac = crowd.bpf_cpu_frac;
        }
        checkpoint(self.options, self.report)
    }

    fn network(&mut self) -> anyhow::Result<()> {
        self.stage.ui.now("network: building the link");
        let mut network = Network::build(&self.stage)?;
        for law in [Contender::Alone, Contender::None, Contender::Quell] {
            self.stage.ui.now(format!("network: {law}"));
            let (settle_s, seconds) = (self.schedule.settle(law), self.schedule.network_s);
            let run = network.run(&self.stage, law, settle_s, seconds)?;
            self.restored();
            self.report.network.push(run);
            checkpoint(self.options, self.report)?;
        }
        Ok(())
    }
}
