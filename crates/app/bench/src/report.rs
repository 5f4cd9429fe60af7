//! What a comparison found, as JSON: `quell.demo/1`. Units are in the field names.

use crate::{Contender, Mix};
use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The schema's name and version, first field of the report.
pub const DEMO_SCHEMA: &str = "quell.demo/1";

/// Ratios of one comparison that differ by more than this factor are marked.
const UNLIKE: f64 = 2.0;

/// Result of `quell demo` and `quell bench guard`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemoReport {
    /// [`DEMO_SCHEMA`].
    pub schema: String,
    /// Where it ran.
    pub machine: Machine,
    /// The service, in words.
    pub service: String,
    /// The objective: the larger of three times the percentile at 20 % of the peak and its value
    /// at 85 %.
    pub slo_ms: f64,
    /// Which percentile of the sojourn.
    pub slo_percentile: f64,
    /// The highest rate that all CPUs sustain, at least 99 % answered and no growing backlog.
    pub peak_qps: f64,
    /// Why rounds have no `neighbour_slowdown_ratio`; null if it was measured.
    #[serde(default)]
    pub neighbour_unmeasured: Option<String>,
    /// One entry for each load, law and polluter.
    pub runs: Vec<Run>,
    /// Batch alone on the machine: what work is a share of.
    pub batch_alone: Vec<BatchAlone>,
    /// Candidates of `static`, in the order tried.
    pub sweep: Vec<Candidate>,
    /// The part on the network; empty if it was left out.
    pub network: Vec<NetworkRun>,
    /// Under law `quell`, from a jump of 30 to 90 % of the peak until the SLO holds again; null if
    /// it was left out, or did not hold again before the crowd went.
    pub flash_crowd_s: Option<f64>,
    /// The tail around the flash crowd, time counted from the jump.
    pub flash_crowd_trace: Vec<TracePoint>,
    /// What the agent cost under law `quell`; null before it was measured.
    pub agent: Option<AgentCost>,
    /// Whether every knob file of the groups was, after each agent's end, byte for byte as before.
    pub knobs_restored: bool,
    /// Knob files that were not, with both texts.
    pub knobs_changed: Vec<String>,
    /// False while cells are still to come, or if the run was ended early.
    pub complete: bool,
    /// How long it took.
    pub seconds: f64,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The processor's name.
    pub model: String,
    /// CPUs that are online.
    pub cpus: usize,
    /// Memory.
    pub memory_bytes: u64,
    /// Last-level caches, each one's size.
    pub llc_bytes: Vec<u64>,
    /// Under which hypervisor; null on bare metal.
    pub hypervisor: Option<String>,
    /// The kernel's release.
    pub kernel: String,
}

/// One cell: a load, a law, and a batch. Figures are means over the rounds, each weighted by its
/// windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Offered load as a share of the peak.
    pub load_frac: f64,
    /// Who was in charge.
    pub law: Contender,
    /// The batch; of no meaning for `alone`.
    pub polluter: Mix,
    /// Windows measured, all rounds together.
    pub windows: usize,
    /// Mean sojourn from the scheduled arrival.
    pub mean_ms: f64,
    /// Median sojourn.
    pub p50_ms: f64,
    /// 95 % of sojourns.
    pub p95_ms: f64,
    /// 99 % of sojourns.
    pub p99_ms: f64,
    /// Answered requests per second.
    pub qps: f64,
    /// Share of windows whose percentile lies within the SLO.
    pub slo_met_frac: f64,
    /// Batch work as a share of the same batch alone on the machine, mean over its polluters.
    pub batch_work_frac: f64,
    /// CPU time of service and batch as a share of all CPUs; the generator counts as neither.
    pub cpu_utilisation_frac: f64,
    /// Share of the peak served in windows within the SLO, plus `batch_work_frac`.
    pub emu_frac: f64,
    /// The generator's CPU time as a share of all CPUs.
    pub generator_cpu_frac: f64,
    /// Each round by itself.
    pub rounds: Vec<Round>,
    /// The last round over time.
    pub trace: Vec<TracePoint>,
}

/// One round of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// Its number, from 0.
    pub round: u32,
    /// How long it was measured, in seconds; 0 in reports that are older than this figure.
    #[serde(default)]
    pub measured_s: f64,
    /// Windows in it.
    pub windows: usize,
    /// Mean sojourn.
    pub mean_ms: f64,
    /// Median sojourn.
    pub p50_ms: f64,
    /// 95 % of sojourns.
    pub p95_ms: f64,
    /// 99 % of sojourns.
    pub p99_ms: f64,
    /// Answered requests per second.
    pub qps: f64,
    /// Share of windows within the SLO.
    pub slo_met_frac: f64,
    /// Requests per second answered in windows within the SLO.
    pub good_qps: f64,
    /// Batch work as a share of the same batch alone.
    pub batch_work_frac: f64,
    /// The same of each polluter.
    pub work_fracs: Vec<f64>,
    /// CPU time of the service as a share of all CPUs.
    pub service_cpu_frac: f64,
    /// CPU time of batch as a share of all CPUs.
    pub batch_cpu_frac: f64,
    /// CPU time of the generator as a share of all CPUs.
    pub generator_cpu_frac: f64,
    /// Just before it: the access time of a cache reporter on one CPU beside a stream on another,
    /// as a multiple of that alone. Near 1: the CPUs shared no cache. Null if it was not measured.
    #[serde(default)]
    pub neighbour_slowdown_ratio: Option<f64>,
}

/// A moment of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TracePoint {
    /// Seconds since the measured phase began.
    pub t_s: f64,
    /// The judged percentile of the window that ended then; null between windows.
    pub tail_ms: Option<f64>,
    /// CPUs that batch used since the last moment.
    pub batch_cpus: f64,
    /// CPUs that the service used since then.
    pub service_cpus: f64,
    /// CPUs that batch may use.
    pub budget_cpus: f64,
}

/// A batch alone on the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchAlone {
    /// Which.
    pub polluter: Mix,
    /// When, from 0: it is measured again in each round.
    pub round: u32,
    /// Work per second of each polluter in it.
    pub work_per_s: Vec<f64>,
}

/// One candidate of `static`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Its settings, in words.
    pub settings: String,
    /// At which load.
    pub load_frac: f64,
    /// Share of windows within the SLO.
    pub slo_met_frac: f64,
    /// The tail.
    pub tail_ms: f64,
    /// Batch work as a share of the same batch alone.
    pub batch_work_frac: f64,
    /// Whether it is the one that stands for `static`.
    pub chosen: bool,
}

/// The network part under one law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkRun {
    /// Who was in charge.
    pub law: Contender,
    /// 95 % of the service's sojourns.
    pub p95_ms: f64,
    /// Median sojourn.
    pub p50_ms: f64,
    /// Answered requests per second.
    pub qps: f64,
    /// Bytes that left the link at the receiver, as a share of what it carries.
    pub link_use_frac: f64,
}

/// What the agent cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentCost {
    /// CPU time of its process (system calls included) as a share of one CPU.
    pub user_cpu_frac: f64,
    /// CPU time of its eBPF programs, on whatever CPU and in whose time they ran, as a share of
    /// one CPU; measured during the flash crowd. Null if that was left out.
    pub bpf_cpu_frac: Option<f64>,
    /// Resident memory, the most that was seen.
    pub rss_bytes: u64,
}

/// The schemas of what this crate prints, by file name without ending.
#[must_use]
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("quell.beside-1", schema_for!(crate::BesideReport).to_value()),
        ("quell.bus-1", schema_for!(crate::BusTrialReport).to_value()),
        ("quell.demo-1", schema_for!(DemoReport).to_value()),
        ("quell.signal-1", schema_for!(crate::SignalReport).to_value()),
        ("quell.trial-1", schema_for!(crate::TrialReport).to_value()),
    ]
}

impl Run {
    /// An empty cell.
    pub(crate) fn new(load_frac: f64, law: Contender, polluter: Mix) -> Self {
        Self {
            load_frac,
            law,
            polluter,
            windows: 0,
            mean_ms: 0.0,
            p50_ms: 0.0,
            p95_ms: 0.0,
            p99_ms: 0.0,
            qps: 0.0,
            slo_met_frac: 0.0,
            batch_work_frac: 0.0,
            cpu_utilisation_frac: 0.0,
            emu_frac: 0.0,
            generator_cpu_frac: 0.0,
            rounds: Vec::new(),
            trace: Vec::new(),
        }
    }

    /// Adds a round and draws the means anew.
    pub(crate) fn add(&mut self, round: Round, trace: Vec<TracePoint>, peak_qps: f64) {
        self.rounds.push(round);
        self.trace = trace;
        let weight = |round: &Round| round.windows.max(1) as f64;
        let total: f64 = self.rounds.iter().map(weight).sum();
        let mean = |value: fn(&Round) -> f64| {
            self.rounds.iter().map(|r| value(r) * weight(r)).sum::<f64>() / total
        };
        let windows = self.rounds.iter().map(|r| r.windows).sum();
        let (mean_ms, p50_ms) = (mean(|r| r.mean_ms), mean(|r| r.p50_ms));
        let (p95_ms, p99_ms) = (mean(|r| r.p95_ms), mean(|r| r.p99_ms));
        let (qps, slo_met_frac) = (mean(|r| r.qps), mean(|r| r.slo_met_frac));
        let batch_work_frac = mean(|r| r.batch_work_frac);
        let cpu_utilisation_frac = mean(|r| r.service_cpu_frac + r.batch_cpu_frac);
        let emu_frac = mean(|r| r.good_qps) / peak_qps + batch_work_frac;
        let generator_cpu_frac = mean(|r| r.generator_cpu_frac);
        *self = Self {
            windows,
            mean_ms,
            p50_ms,
            p95_ms,
            p99_ms,
            qps,
            slo_met_frac,
            batch_work_frac,
            cpu_utilisation_frac,
            emu_frac,
            generator_cpu_frac,
            ..std::mem::replace(self, Self::new(self.load_frac, self.law, self.polluter))
        };
    }
}

impl Run {
    /// Least and most `neighbour_slowdown_ratio` of its rounds; none if none was measured.
    pub(crate) fn neighbour_ratios(&self) -> Option<(f64, f64)> {
        let measured = self.rounds.iter().filter_map(|round| round.neighbour_slowdown_ratio);
        measured.fold(None, |range, ratio| match range {
            None => Some((ratio, ratio)),
            Some((least, most)) => Some((ratio.min(least), ratio.max(most))),
        })
    }
}

impl DemoReport {
    /// The cells that are compared with this one: of the same load and batch, and the service alone.
    fn beside<'a>(&'a self, cell: &'a Run) -> impl Iterator<Item = &'a Run> {
        let alike = |a: &Run, b: &Run| {
            a.polluter == b.polluter || a.law == Contender::Alone || b.law == Contender::Alone
        };
        self.runs
            .iter()
            .filter(move |run| (run.load_frac - cell.load_frac).abs() < 1e-9 && alike(run, cell))
    }

    /// Least and most ratio in a cell's comparison, if the caches were so unlike in it that its
    /// cells can hardly be compared.
    pub(crate) fn unlike_neighbours(&self, cell: &Run) -> Option<(f64, f64)> {
        let ranges: Vec<_> = self.beside(cell).filter_map(Run::neighbour_ratios).collect();
        let least = ranges.iter().map(|range| range.0).min_by(f64::total_cmp)?;
        let most = ranges.iter().map(|range| range.1).max_by(f64::total_cmp)?;
        (most > UNLIKE * least).then_some((least, most))
    }

    /// The cell of this load, law and polluter, made if it is new.
    pub(crate) fn cell(&mut self, load_frac: f64, law: Contender, polluter: Mix) -> &mut Run {
        let same = |run: &Run| {
            (run.load_frac - load_frac).abs() < 1e-9 && run.law == law && run.polluter == polluter
        };
        let place = self.runs.iter().position(same).unwrap_or_else(|| {
            self.runs.push(Run::new(load_frac, law, polluter));
            self.runs.len() - 1
        });
        &mut self.runs[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(windows: usize, p95_ms: f64, good_qps: f64) -> Round {
        Round {
            round: 0,
            measured_s: 10.0,
            windows,
            mean_ms: 1.0,
            p50_ms: 1.0,
            p95_ms,
            p99_ms: 2.0,
            qps: 500.0,
            slo_met_frac: 1.0,
            good_qps,
            batch_work_frac: 0.5,
            work_fracs: vec![0.5],
            service_cpu_frac: 0.4,
            batch_cpu_frac: 0.3,
            generator_cpu_frac: 0.1,
            neighbour_slowdown_ratio: None,
        }
    }

    #[test]
    fn rounds_count_by_their_windows() {
        let mut run = Run::new(0.5, Contender::Quell, Mix::Mix);
        run.add(round(10, 1.0, 500.0), Vec::new(), 1000.0);
        run.add(round(30, 2.0, 300.0), Vec::new(), 1000.0);
        assert_eq!((run.windows, run.rounds.len()), (40, 2));
        assert!((run.p95_ms - 1.75).abs() < 1e-9);
        assert!((run.emu_frac - (0.35 + 0.5)).abs() < 1e-9);
        assert!((run.cpu_utilisation_frac - 0.7).abs() < 1e-9);
    }

    #[test]
    fn caches_that_were_unlike_within_a_comparison_are_found() {
        let mut report: DemoReport = serde_json::from_value(serde_json::json!({
            "schema": DEMO_SCHEMA, "machine": Machine::default(), "service": "search",
            "slo_ms": 1.0, "slo_percentile": 95.0, "peak_qps": 1000.0, "runs": [],
            "batch_alone": [], "sweep": [], "network": [], "flash_crowd_s": null,
            "flash_crowd_trace": [], "agent": null, "knobs_restored": true, "knobs_changed": [],
            "complete": true, "seconds": 1.0
        }))
        .unwrap();
        let cells = [
            (0.3, Contender::Alone, Mix::Mix, Some(1.1)),
            (0.3, Contender::None, Mix::Mix, Some(2.1)),
            (0.3, Contender::Quell, Mix::Mix, Some(1.0)),
            (0.3, Contender::Quell, Mix::Cpu, Some(1.9)),
            (0.5, Contender::Quell, Mix::Mix, Some(9.0)),
            (0.5, Contender::None, Mix::Mix, None),
        ];
        for (load_frac, law, mix, neighbour_slowdown_ratio) in cells {
            let round = Round { neighbour_slowdown_ratio, ..round(1, 1.0, 1.0) };
            report.cell(load_frac, law, mix).add(round, Vec::new(), 1000.0);
        }
        let found = |i: usize| report.unlike_neighbours(&report.runs[i]);
        // Alone it stands beside both mixes.
        assert_eq!([0, 1, 2].map(found), [Some((1.0, 2.1)); 3]);
        assert_eq!([3, 4, 5].map(found), [None; 3]);
    }
}
