//! `quell trial polluter`: is the right one named?
//!
//! A service under load runs beside five batch groups, of which at most one hurts it. How much it
//! does is measured with Quell off, by stopping and continuing it in turn. Then `quell guard` begins
//! with law `culprit`, as a user would run it, and whom it names is compared with what was put there.
//! As soon as somebody is named, the service's tail and everybody's work are measured in turns under
//! the law, alone and without the culprit. What runs in which group is drawn from a seed beforehand,
//! but for the duty of one who takes the CPU and is to do little harm: that is found beside the groups
//! that were drawn, with Quell off, before the trial begins. A trial in which the harm, measured
//! anew, is not in the wanted class is discarded, told and replaced.

mod confusion;
mod crowd;
mod draw;
mod guarded;
mod harm;
mod scores;
mod steer;
mod timeline;
mod turns;
mod watch;

pub use confusion::{Confusion, Judged};
pub use draw::{Harm, Taken};
pub use scores::{TRIAL_SCHEMA, Trial, TrialReport};
pub use turns::{Ratios, Throttling, Turn, TurnKind};

use crate::folder::RunFolder;
use crate::service::{self, Load};
use crate::ui::Interrupt;
use crowd::{Crowd, TrialGroups};
use draw::{Composition, LittleDuty};
use guarded::{Guarding, Verdict};
use harm::{Latencies, TURN, WINDOW_S};
use quell_cgroup::CpuUsage;
use quell_service::{Bench, Controls, Profile, RunReport, ServiceSpec, WindowRule, now_ns};
use scores::Measured;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use timeline::{Course, Spans};
use watch::watch;

/// Load of the service before it is slowed, as a share of all CPUs.
const LOAD_FRAC: f64 = 0.3;
/// Requests per second at which the cost of a request is measured.
const FEELER_QPS: f64 = 300.0;
/// How long one trial takes at most, from its load's start.
const TRIAL: Duration = Duration::from_secs(25);
/// The service's load runs for so long before anything is measured.
const SETTLED: Duration = Duration::from_secs(1);
/// Turns of the culprit running and stopped.
const TURNS: u32 = 4;
/// Discarded trials may be this share of all.
const DISCARDED_FRAC: f64 = 0.4;

/// What is tried.
#[derive(Clone, Debug)]
pub struct TrialOptions {
    /// How many trials count.
    pub trials: u32,
    /// How much the culprit hurts.
    pub harm: Harm,
    /// What it takes.
    pub taken: Taken,
    /// What is drawn.
    pub seed: u64,
    /// The service.
    pub service: ServiceSpec,
    /// Where the JSON is written, anew after each trial.
    pub json: Option<PathBuf>,
    /// Where a report with the course of each trial is written, anew after each.
    pub report: Option<PathBuf>,
    /// The program that becomes server, polluter and judge: `quell` itself.
    pub program: PathBuf,
}

/// Runs the trials; `say` is told of each. The report holds what was done even if it is ended
/// early.
pub fn trial(
    options: &TrialOptions,
    interrupt: &Interrupt,
    say: &dyn Fn(&str),
) -> anyhow::Result<TrialReport> {
    anyhow::ensure!(options.trials > 0, "--trials: give at least one");
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "this makes control groups and loads eBPF programs: run it as root"
    );
    crate::run::after_the_dead();
    let folder = RunFolder::make()?;
    let groups = TrialGroups::make(folder.name())?;
    let bench = service::start_in(&options.program, &groups.service_doors(), &options.service)?;
    let ground = Ground { options, interrupt, folder: &folder, groups: &groups, bench: &bench };
    let rate = ground.rate()?;
    say(&format!("{rate:.0} requests/s are {:.0} % of the machine", 100.0 * LOAD_FRAC));
    let mut report = TrialReport::new(options);
    let (mut courses, mut little) = (Vec::new(), LittleDuty::default());
    for number in 0..u32::MAX {
        if report.trials >= options.trials || report.gives_up(DISCARDED_FRAC) {
            break;
        }
        if interrupt.requested() {
            break;
        }
        let kind = (options.harm, options.taken);
        let mut composition = Composition::draw(options.seed, number, kind, little);
        let (trial, course) = ground.trial(number, &mut composition, rate, &mut little)?;
        say(&trial.in_words());
        little.learn(trial.harm_ratio);
        report.add(trial);
        courses.extend(course);
        if let Some(path) = &options.json {
            report.write(path)?;
        }
        if let Some(folder) = &options.report {
            timeline::report(&report, &courses).write(folder)?;
        }
    }
    Ok(report)
}

/// What was seen under load.
enum Looked<'a> {
    /// The trial does not count, and why.
    Discarded(Option<Measured>, &'static str),
    /// Somebody is named, or the look is over.
    Guarding(Option<Measured>, Guarding<'a>),
}

/// What all trials share.
struct Ground<'a> {
    options: &'a TrialOptions,
    interrupt: &'a Interrupt,
    folder: &'a RunFolder,
    groups: &'a TrialGroups,
    bench: &'a Bench,
}

impl Ground<'_> {
    /// The rate at which the service uses its share of the CPUs when alone.
    fn rate(&self) -> anyhow::Result<f64> {
        let mut cpu = CpuUsage::new(self.groups.service());
        let before = cpu.read()?;
        let load = (FEELER_QPS, 0.5, 2.0, self.options.seed);
        let run = self.load(load, &Controls::default(), &Latencies::default())?;
        let used_s = (cpu.read()?.saturating_sub(before)) as f64 / 1e9;
        let answered = (run.answered + run.warmup_requests) as f64;
        anyhow::ensure!(used_s > 0.0 && answered > 0.0, "the service answered nothing");
        let cpus = std::thread::available_parallelism()?.get() as f64;
        Ok(LOAD_FRAC * cpus * answered / used_s)
    }

    /// A load of (requests a second, warm-up, length, seed).
    fn load(
        &self,
        (qps, warmup_s, seconds, seed): (f64, f64, f64, u64),
        controls: &Controls,
        latencies: &Latencies,
    ) -> anyhow::Result<RunReport> {
        let load = Load {
            profile: Profile::Constant { qps },
            warmup_s,
            seconds,
            window: WindowRule { length_s: WINDOW_S, min_requests: 1 },
            seed,
        };
        Ok(load.run(self.bench, controls, &mut |window| latencies.add(window))?)
    }

    /// One trial, and its course if it counts.
    fn trial(
        &self,
        number: u32,
        drawn: &mut Composition,
        rate: f64,
        little: &mut LittleDuty,
    ) -> anyhow::Result<(Trial, Option<Course>)> {
        let folder = self.folder.path();
        let mut crowd = Crowd::start(&self.options.program, self.groups, drawn, folder)?;
        if crowd.works(self.interrupt)? {
            self.steer(&mut crowd, drawn, rate, little)?;
        }
        if !crowd.works(self.interrupt)? {
            let trial = Trial::discarded(number, drawn, None, "the culprit did not begin to work");
            return Ok((trial, None));
        }
        let (begun, start_ns) = (Instant::now(), now_ns());
        let watch = watch(self.groups)?;
        let latencies = Latencies::default();
        let (harm, mut guarding) = match self.under_load(&crowd, drawn, rate, &latencies)? {
            Looked::Discarded(harm, why) => {
                return Ok((Trial::discarded(number, drawn, harm, why), None));
            }
            Looked::Guarding(harm, guarding) => (harm, guarding),
        };
        let judged_ns = now_ns();
        let until = begun + TRIAL;
        let turns = guarding.turns(&crowd, (number, rate), until, &latencies)?;
        let said = guarding.finish()?;
        let moments = watch.finish()?;
        let spans = Spans { start_ns, judged_ns, end_ns: now_ns() };
        let limited = watch::limited(&moments);
        let course = Course::new(number, drawn, &spans, &latencies, &moments);
        let verdict = Verdict { said, turns, limited };
        Ok((Trial::judged(number, drawn, harm, verdict), Some(course)))
    }

    /// Measures the harm with Quell off, then lets the law look until somebody is named.
    fn under_load(
        &self,
        crowd: &Crowd,
        drawn: &Composition,
        rate: f64,
        latencies: &Latencies,
    ) -> anyhow::Result<Looked<'_>> {
        let controls = Controls::default();
        let plan = (rate, 0.5, TRIAL.as_secs_f64(), self.options.seed);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| self.load(plan, &controls, latencies));
            let looked = self.look(crowd, drawn, latencies);
            controls.stop();
            let run = load.join().map_err(|_| anyhow::anyhow!("the generator failed"))?;
            run.and(looked)
        })
    }

    fn look(
        &self,
        crowd: &Crowd,
        drawn: &Composition,
        latencies: &Latencies,
    ) -> anyhow::Result<Looked<'_>> {
        self.interrupt.sleep(SETTLED)?;
        let harm = self.harm(crowd, latencies, TURNS)?;
        if let Some(why) = self.options.harm.refuses(harm.map(Measured::ratio)) {
            return Ok(Looked::Discarded(harm, why));
        }
        let mut guarding = Guarding::start(self, drawn)?;
        guarding.look()?;
        Ok(Looked::Guarding(harm, guarding))
    }

    /// CPU time of the service per answer while the culprit runs over that while it is stopped, and
    /// the same of what its client sees, over so many turns of each kind; none if there is no
    /// culprit.
    fn harm(
        &self,
        crowd: &Crowd,
        latencies: &Latencies,
        turns_of_each: u32,
    ) -> anyhow::Result<Option<Measured>> {
        let mut cpu = CpuUsage::new(self.groups.service());
        let mut used_s = [0.0, 0.0];
        let mut turns = Vec::new();
        for turn in 0..2 * turns_of_each {
            // ABBA: what drifts steadily cancels out.
            let stopped = (turn % 4 == 1) || (turn % 4 == 2);
            if !crowd.stop_culprit(stopped)? {
                return Ok(None);
            }
            let (before, begun, from_ns) = (cpu.read()?, Instant::now(), now_ns());
            self.interrupt.sleep(TURN)?;
            let used = cpu.read()?.saturating_sub(before) as f64 / 1e9;
            used_s[usize::from(stopped)] += used / begun.elapsed().as_secs_f64();
            turns.push((from_ns, now_ns(), stopped));
        }
        crowd.stop_culprit(false)?;
        anyhow::ensure!(used_s[1] > 0.0, "the service did nothing");
        // Where nothing was answered in the turns of one kind there is no harm to be told.
        let Some(slowed) = latencies.slowed(&turns) else { return Ok(None) };
        let cost_ratio = used_s[0] / used_s[1] * slowed.answered_ratio;
        Ok(Some(Measured { cost_ratio, slowed }))
    }
}
