//! The preset as a guarded machine: the service, a mix of batch from the queue, the load generator,
//! under the same law with the same configuration as on the machine.

use super::report::{GuardLoad, GuardTold};
use super::shown::{Counts, GENERATOR, play};
use crate::agent_config::{AgentConfig, SERVICE};
use crate::cell::Objective;
use crate::machine::quartiles;
use crate::{Contender, Mix, Polluter};
use anyhow::{Context as _, anyhow};
use quell_agent::known_laws;
use quell_calibrate::{Twin, pair_rate};
use quell_config::{Checked, Raw};
use quell_platform::{Platform, Scope};
use quell_service::WindowRule;
use quell_sim::{Load, Machine, Program, Scene, SimBatch, SimServer, SimService, program};
use quell_types::{
    BatchSpec, CpuBandwidth, Knob, LogHistogram, ServiceSpec, Setting, Slo, TaskSpec, Tenant,
};
use std::path::Path;
use std::time::Duration;

/// Each case is played with so many seeds; the median counts, as it does of rounds.
const PLAYS: u64 = 9;
const SEED: u64 = 7;
/// Rounds in which a request's own work is found.
const CORRECTIONS: u32 = 3;
/// At least this share of what was told is a request's own work, and at most this share of it is
/// what a cold CPU costs.
const LEAST_WORK: f64 = 0.1;
const MOST_COLD: f64 = 0.5;
/// Batch alone, or the service alone, in seconds.
const ALONE_S: f64 = 20.0;
/// The kernel takes no smaller quota, in seconds; nor a longer period.
const LEAST_QUOTA_S: f64 = 1e-3;
const LONGEST_PERIOD_S: f64 = 1.0;
/// The generator works in bursts of a few requests.
const PERIOD_S: f64 = 0.01;
/// It is a thread of real-time priority on the machine: it comes before everybody.
const FIRST: u32 = 10_000;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    /// Share of the peak served in windows within the SLO, plus `batch_work_frac`.
    pub(super) emu_frac: f64,
    /// Batch work as a share of the same batch alone, mean over its polluters.
    pub(super) batch_work_frac: f64,
    /// Share of windows within the SLO.
    pub(super) slo_met_frac: f64,
}

impl Figures {
    /// What each is, its unit, its value.
    pub(super) fn each(self) -> [(&'static str, &'static str, f64); 3] {
        [
            ("EMU", "of the machine", self.emu_frac),
            ("batch work", "of the same alone", self.batch_work_frac),
            ("in the SLO", "of windows", self.slo_met_frac),
        ]
    }
}

/// The preset with what it was told.
pub(super) struct Guarded<'a> {
    twin: &'a Twin,
    told: &'a GuardTold,
    mix: Mix,
    /// Its CPUs wake as cold as those of the day on which was measured.
    machine: Machine,
    /// Instructions/s of the service alone on a CPU.
    speed: f64,
    /// Instructions/s of each polluter when the mix is alone.
    alone: Vec<f64>,
}

impl<'a> Guarded<'a> {
    /// Plays batch alone, the measure of its work.
    pub(super) fn new(twin: &'a Twin, told: &'a GuardTold, mix: Mix) -> anyhow::Result<Self> {
        let speed = pair_rate(twin.machine(), &twin.search(), None);
        let speed = speed.context("the service cannot be played")?;
        let machine = twin.machine().clone();
        let mut guarded = Self { twin, told, mix, machine, speed, alone: Vec::new() };
        guarded.find_cold()?;
        let counts = guarded.play((None, Contender::None), (told.settle_s, ALONE_S), SEED)?;
        guarded.alone = guarded.work_per_s(&counts);
        Ok(guarded)
    }

    /// How cold CPUs wake: a request is the same work at every load, but wakes a CPU the more often
    /// the lower the load is. What it takes more there, alone, is what cold CPUs cost. Where it takes
    /// no more, they cost nothing.
    fn find_cold(&mut self) -> anyhow::Result<()> {
        let ends = self.told.loads.first().zip(self.told.loads.last());
        let Some((low, high)) = ends.filter(|(low, high)| low.load_frac < high.load_frac) else {
            return Ok(());
        };
        for _ in 0..CORRECTIONS {
            let extra_s = |of: &Self, load: &GuardLoad| -> anyhow::Result<f64> {
                Ok(load.work_s - of.without_waking(load)?.work_s)
            };
            let cold_s = self.cold_s();
            let (at_low, at_high) = (extra_s(self, low)?, extra_s(self, high)?);
            let per_cold = (at_low - at_high) / cold_s.max(f64::MIN_POSITIVE);
            if per_cold <= 0.0 {
                break;
            }
            let most_s = MOST_COLD * high.work_s;
            self.set_cold(((low.work_s - high.work_s) / per_cold).clamp(0.0, most_s));
        }
        Ok(())
    }

    fn cold_s(&self) -> f64 {
        self.machine.idle.last().map_or(0.0, |state| state.cold_s)
    }

    fn set_cold(&mut self, cold_s: f64) {
        let colds = self.machine.idle.iter_mut().filter(|state| state.cold_s > 0.0);
        colds.for_each(|state| state.cold_s = cold_s);
    }

    /// Medians over seeds.
    pub(super) fn median(&self, load: &GuardLoad, law: Contender) -> anyhow::Result<Figures> {
        let load = self.without_waking(load)?;
        let plays = (SEED..SEED + PLAYS).map(|seed| self.one(&load, law, seed));
        let plays = plays.collect::<anyhow::Result<Vec<Figures>>>()?;
        let middle = |of: fn(&Figures) -> f64| {
            let [_, median, _] = quartiles(plays.iter().map(of).collect())?;
            Some(median)
        };
        let figures = || {
            Some(Figures {
                emu_frac: middle(|f| f.emu_frac)?,
                batch_work_frac: middle(|f| f.batch_work_frac)?,
                slo_met_frac: middle(|f| f.slo_met_frac)?,
            })
        };
        figures().context("batch did no work alone")
    }

    /// The work of a request for which its CPU time alone is what was told: a part of that is what
    /// CPUs cost that had halted.
    fn without_waking(&self, told: &GuardLoad) -> anyhow::Result<GuardLoad> {
        let mut load = *told;
        for _ in 0..CORRECTIONS {
            let beyond_s = self.cpu_alone_s(&load)? - told.work_s;
            load.work_s = (load.work_s - beyond_s).max(LEAST_WORK * told.work_s);
        }
        Ok(load)
    }

    /// CPU time of a request with nobody but the generator beside.
    fn cpu_alone_s(&self, load: &GuardLoad) -> anyhow::Result<f64> {
        let mut server = SimServer::new(&self.scene(Some(load), SEED)?)?;
        if let Some(cpus) = generator_cpus(Some(load)) {
            hold_generator(&mut server, cpus)?;
        }
        let mut count = |seconds: f64| -> anyhow::Result<(u64, u64)> {
            let sample = server.sample(Duration::from_secs_f64(seconds), Scope::Full)?;
            let reading = sample.tenants.get(&SERVICE.into()).context("the service is gone")?;
            let answered = reading.requests.as_ref().ok().and_then(|r| r.latency_ns.as_ref().ok());
            let cpu_ns = server.truth().cpu_ns.get(&SERVICE.into()).copied();
            let both = cpu_ns.zip(answered.map(LogHistogram::count));
            both.context("the service tells nothing")
        };
        let (before, after) = (count(self.told.settle_s)?, count(ALONE_S)?);
        let answered = after.1.saturating_sub(before.1);
        anyhow::ensure!(answered > 0, "nothing was served alone");
        Ok((after.0 - before.0) as f64 / 1e9 / answered as f64)
    }

    fn one(&self, load: &GuardLoad, law: Contender, seed: u64) -> anyhow::Result<Figures> {
        let settle_s = if law.adapts() { self.told.adapt_s } else { self.told.settle_s };
        let span = (settle_s, self.told.measured_s);
        let counts = self.play((Some(load), law), span, seed)?;
        let work = self.work_per_s(&counts);
        let shares = work.iter().zip(&self.alone).map(|(beside, alone)| beside / alone);
        let batch_work_frac = shares.sum::<f64>() / self.alone.len().max(1) as f64;
        let (slo_met_frac, good_qps) = self.service(&windows(&counts));
        let emu_frac = good_qps / self.told.peak_qps + batch_work_frac;
        Ok(Figures { emu_frac, batch_work_frac, slo_met_frac })
    }

    /// Counters once a second, after the law has settled.
    fn play(
        &self,
        (load, law): (Option<&GuardLoad>, Contender),
        (settle_s, seconds): (f64, f64),
        seed: u64,
    ) -> anyhow::Result<Vec<Counts>> {
        let mut server = SimServer::new(&self.scene(load, seed)?)?;
        if let Some(cpus) = generator_cpus(load) {
            hold_generator(&mut server, cpus)?;
        }
        for polluter in self.mix.parts() {
            server.submit(TaskSpec {
                command: vec![pressing(self.twin, *polluter)?.name],
                tenant: Some(Tenant::new(polluter.name())),
                directory: None,
                retries: 0,
            });
        }
        play(server, &self.config(law)?, settle_s, seconds)
    }

    fn scene(&self, load: Option<&GuardLoad>, seed: u64) -> anyhow::Result<Scene> {
        let mut scene = Scene::new(self.machine.clone(), seed);
        let threads = self.mix.threads(self.told.workers as usize) as u32;
        for polluter in self.mix.parts() {
            let program = pressing(self.twin, *polluter)?;
            scene.programs.push(Program { threads, ..program });
            scene.batch.push(group(polluter.name(), 1, None));
        }
        if let Some(cpus) = generator_cpus(load) {
            let generator = Program { threads: cpus.ceil() as u32, ..integer()? };
            scene.batch.push(group(GENERATOR, 0, Some(generator)));
        }
        scene.services = vec![self.sim_service(load)?];
        Ok(scene)
    }

    fn sim_service(&self, load: Option<&GuardLoad>) -> anyhow::Result<SimService> {
        let told = self.told;
        let any = load.or(told.loads.first()).context("no load was told")?;
        let rate = load.map_or(0.0, |load| load.load_frac * told.peak_qps);
        let slo = Slo { percentile_frac: told.slo_percentile / 100.0, target_s: told.slo_ms / 1e3 };
        Ok(SimService {
            spec: ServiceSpec {
                name: SERVICE.into(),
                slo,
                peak_qps: Some(told.peak_qps),
                links: vec![],
            },
            program: self.twin.search(),
            workers: told.workers,
            instructions: any.work_s * self.speed,
            variation: told.variation,
            request_bytes: 100,
            response_bytes: 1_000,
            load: Load::Constant(rate),
        })
    }

    /// The configuration of the agent: the text of the machine's, with groups that are not looked
    /// up.
    fn config(&self, law: Contender) -> anyhow::Result<Checked> {
        let batch = self.mix.parts().iter().map(|p| (*p, format!("/{}", p.name())));
        let text = AgentConfig {
            state: Path::new("/run/quell"),
            law,
            service: "/service",
            port: 1,
            percentile: self.told.slo_percentile,
            objective: Objective { slo_ms: self.told.slo_ms, peak_qps: self.told.peak_qps },
            batch: &batch.collect::<Vec<_>>(),
            parameters: "",
        }
        .text();
        Raw::from_toml("guard.toml", &text).check(&known_laws()).map_err(|error| anyhow!("{error}"))
    }

    /// Instructions/s of each polluter between the first and the last count.
    fn work_per_s(&self, counts: &[Counts]) -> Vec<f64> {
        let (Some(first), Some(last)) = (counts.first(), counts.last()) else { return vec![] };
        let seconds = last.at_s - first.at_s;
        let done = |of: &Counts, name: &str| {
            of.instructions.get(&Tenant::new(name)).copied().unwrap_or(f64::NAN)
        };
        let parts = self.mix.parts().iter().map(|polluter| polluter.name());
        parts.map(|name| (done(last, name) - done(first, name)) / seconds).collect()
    }

    /// Share of windows within the SLO, and requests/s answered in them.
    fn service(&self, windows: &[Window]) -> (f64, f64) {
        let percentile = self.told.slo_percentile / 100.0;
        let kept = |window: &&Window| {
            let tail_ns = window.answered.quantile(percentile);
            tail_ns.is_some_and(|ns| ns <= self.told.slo_ms * 1e6)
        };
        let good = windows.iter().filter(kept);
        let seconds: f64 = windows.iter().map(|window| window.length_s).sum();
        let answered: u64 = good.clone().map(|window| window.answered.count()).sum();
        let share = good.count() as f64 / windows.len().max(1) as f64;
        (share, answered as f64 / seconds.max(1e-9))
    }
}

/// A window as the generator on the machine makes them.
struct Window {
    length_s: f64,
    answered: LogHistogram,
}

/// Seconds with few answers are joined to the next; the rest counts only where there is nothing
/// else.
fn windows(counts: &[Counts]) -> Vec<Window> {
    let least = WindowRule::default().min_requests;
    let mut windows = Vec::new();
    let Some((mut begin, rest)) = counts.split_first() else { return windows };
    for (rank, count) in rest.iter().enumerate() {
        let answered = count.latency.since(&begin.latency);
        let last = rank + 1 == rest.len();
        if answered.count() >= least || (last && windows.is_empty()) {
            windows.push(Window { length_s: count.at_s - begin.at_s, answered });
            begin = count;
        }
    }
    windows
}

fn group(name: &str, max_tasks: u32, program: Option<Program>) -> SimBatch {
    let takes_tasks = max_tasks > 0;
    let spec = BatchSpec { name: name.into(), links: vec![], takes_tasks, max_tasks };
    SimBatch { spec, programs: program.into_iter().collect() }
}

fn integer() -> anyhow::Result<Program> {
    program("integer").context("the simulator has no program integer")
}

/// A polluter at full pressure, as the preset knows it.
fn pressing(twin: &Twin, polluter: Polluter) -> anyhow::Result<Program> {
    match polluter {
        Polluter::Llc => Ok(twin.scatter(1.0)),
        Polluter::Membw => Ok(twin.stream(1.0)),
        Polluter::Cpu => integer(),
        Polluter::Network => Err(anyhow!("this part sends nothing")),
    }
}

/// CPU time of the generator, in CPUs; none where it is too little to be set as a quota.
fn generator_cpus(load: Option<&GuardLoad>) -> Option<f64> {
    let cpus = load?.generator_cpus;
    (cpus >= LEAST_QUOTA_S / LONGEST_PERIOD_S).then_some(cpus)
}

/// The generator computes for as much CPU time as it took on the machine, before everybody else.
fn hold_generator(server: &mut SimServer, cpus: f64) -> anyhow::Result<()> {
    let period_s = (LEAST_QUOTA_S / cpus).clamp(PERIOD_S, LONGEST_PERIOD_S);
    let limit = CpuBandwidth::limited(cpus, Duration::from_secs_f64(period_s));
    let tenant = || Tenant::new(GENERATOR);
    let settings = [
        (Knob::CpuBandwidth { tenant: tenant() }, Setting::Bandwidth(limit)),
        (Knob::CpuWeight { tenant: tenant() }, Setting::Weight(FIRST)),
    ];
    let mut set = |(knob, to): &(Knob, Setting)| server.change_behind(knob, to);
    settings.iter().try_for_each(&mut set).map_err(|why| anyhow!(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_sim::calibrated::VM2_XEON;
    use std::collections::BTreeMap;

    const MIB: f64 = 1_048_576.0;

    fn twin() -> Twin {
        Twin::new(VM2_XEON, 2.0 * MIB, 480.0 * MIB)
    }

    fn told() -> GuardTold {
        let load =
            |load_frac, generator_cpus| GuardLoad { load_frac, work_s: 7e-4, generator_cpus };
        GuardTold {
            peak_qps: 2_500.0,
            slo_ms: 20.0,
            slo_percentile: 95.0,
            workers: 2,
            variation: 0.5,
            settle_s: 1.0,
            adapt_s: 4.0,
            measured_s: 3.0,
            loads: vec![load(0.3, 0.08), load(0.6, 0.15)],
        }
    }

    #[test]
    fn under_guard_the_service_keeps_its_slo_and_batch_gives_way_as_load_rises() {
        let (twin, told) = (twin(), told());
        let guarded = Guarded::new(&twin, &told, Mix::Mix).unwrap();
        let quell = [0, 1].map(|i| guarded.median(&told.loads[i], Contender::Quell).unwrap());
        for figures in quell {
            assert!(figures.emu_frac > 0.0 && figures.emu_frac <= 1.3, "{figures:?}");
            assert!(figures.slo_met_frac > 0.9, "{figures:?}");
            assert!(figures.batch_work_frac > 0.0, "{figures:?}");
        }
        assert!(quell[1].batch_work_frac < quell[0].batch_work_frac, "{quell:?}");
        // Three groups of batch beside one of the service: it gets less than it needs.
        let none = guarded.median(&told.loads[1], Contender::None).unwrap();
        assert!(none.slo_met_frac < 0.5 && none.batch_work_frac > quell[1].batch_work_frac);
        assert!((none.emu_frac - none.batch_work_frac).abs() < 0.3, "{none:?}");
    }

    #[test]
    fn the_generator_takes_what_it_took_on_the_machine_whatever_the_law() {
        let (twin, told) = (twin(), told());
        let guarded = Guarded::new(&twin, &told, Mix::Mix).unwrap();
        let generator = pair_rate(twin.machine(), &integer().unwrap(), None).unwrap();
        for law in [Contender::None, Contender::Quell] {
            let load = &told.loads[1];
            let counts = guarded.play((Some(load), law), (4.0, 10.0), 3).unwrap();
            let (first, last) = (&counts[0], counts.last().unwrap());
            let done = |of: &Counts| of.instructions[&Tenant::new(GENERATOR)];
            let cpus = (done(last) - done(first)) / (last.at_s - first.at_s) / generator;
            assert!((cpus / load.generator_cpus - 1.0).abs() < 0.15, "{cpus} CPUs under {law}");
        }
    }

    #[test]
    fn own_work_and_cold_cpus_follow_from_cpu_time_alone_at_two_loads() {
        let twin = twin();
        let dear = |work_s: [f64; 2]| {
            let mut told = told();
            told.loads.iter_mut().zip(work_s).for_each(|(load, work_s)| load.work_s = work_s);
            told
        };
        let told = dear([7.4e-4, 7.1e-4]);
        let guarded = Guarded::new(&twin, &told, Mix::Mix).unwrap();
        assert!(guarded.cold_s() > 2e-5, "{}", guarded.cold_s());
        let own = [0, 1].map(|i| guarded.without_waking(&told.loads[i]).unwrap());
        assert!((own[0].work_s / own[1].work_s - 1.0).abs() < 0.02, "{own:?}");
        assert!(own[0].work_s < 7.1e-4, "{own:?}");
        let alone = guarded.cpu_alone_s(&own[0]).unwrap();
        assert!((alone / 7.4e-4 - 1.0).abs() < 0.02, "{alone}");
        // Where low load costs no more than high load, CPUs wake warm.
        let told = dear([7e-4, 7.1e-4]);
        assert_eq!(Guarded::new(&twin, &told, Mix::Mix).unwrap().cold_s(), 0.0);
    }

    #[test]
    fn thin_seconds_are_joined_as_on_the_machine() {
        let counts = |answered: &[u64]| -> Vec<Counts> {
            let mut latency = LogHistogram::new();
            let mut all = vec![];
            for (second, answered) in answered.iter().enumerate() {
                latency.record_many(1_000_000, *answered);
                let (at_s, latency) = (second as f64, latency.clone());
                all.push(Counts { at_s, latency, instructions: BTreeMap::new() });
            }
            all
        };
        let shape = |answered: &[u64]| -> Vec<(f64, u64)> {
            let windows = windows(&counts(answered));
            windows.iter().map(|w| (w.length_s, w.answered.count())).collect()
        };
        assert_eq!(shape(&[0, 300, 200, 200, 10]), [(1.0, 300), (2.0, 400)]);
        assert_eq!(shape(&[0, 10, 20]), [(2.0, 30)]);
        assert_eq!(shape(&[5]), []);
    }
}
