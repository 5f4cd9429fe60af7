//! `quell trial bus-lock`: is one named who locks the bus in bursts, and do later bursts hurt less?
//!
//! A service under load runs beside five batch groups. Four compute for a tenth to a third of a CPU
//! and sleep in between; in the fifth a process pauses and locks the bus in turn. `quell guard` runs
//! with law `culprit` from before the first burst, and with `bus-lock` beside it where the processor
//! counts bus locks. Told is in which burst the culprit was named, and limited (by the kernel's
//! files), and what each burst did to the service against the quiet before it.
//!
//! Bus locks hurt strangers on the same socket. So they are opt-in, their bounds are checked before
//! anything begins and once more by the process that makes them ([`BusBursts`]), and it ends with
//! this one, however that ends.

mod locker;
mod pace;
mod report;
mod seen;

pub use report::{BUS_TRIAL_SCHEMA, BurstHarm, BusTrialReport, Medians};

use super::crowd::TrialGroups;
use super::draw::{Composition, Dice, Harm, Kernel, Member, Taken, USUAL_GROUPS, Work, names};
use super::guarded::{Said, config, said_in};
use super::served::TrialService;
use super::watch::{Moment, watch};
use super::worker::Worker;
use super::{Ground, LOAD_FRAC, SETTLED, TrialOptions};
use crate::folder::RunFolder;
use crate::guard::{Guard, GuardPlan};
use crate::readings::Readings;
use crate::service;
use crate::ui::Interrupt;
use locker::Locker;
use pace::Pace;
use quell_cgroup::CpuUsage;
use quell_pressure::{BusBurst, BusBursts};
use quell_profiler::Ways;
use quell_service::{Controls, Profile, ServiceSpec, Window, WindowRule, now_ns};
use seen::{Names, Seen};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at what the agent says.
const POLL: Duration = Duration::from_millis(50);
/// The agent looks on for so long after the last burst.
const AFTERWARDS: Duration = Duration::from_secs(1);
/// Length of a window of latencies: several lie within a burst.
const WINDOW_S: f64 = 0.1;
/// Of a shorter burst hardly a window lies within: what it did cannot be told.
const SHORTEST: Duration = Duration::from_millis(200);
/// Between two readings of the service's CPU time.
const CPU_PERIOD: Duration = Duration::from_millis(20);
/// Innocents end by themselves after 90 s, and all has to fit into that.
const LONGEST: Duration = Duration::from_secs(70);

/// What is tried.
#[derive(Clone, Debug)]
pub struct BusTrialOptions {
    /// The bursts.
    pub bursts: BusBursts,
    /// Whoever asks knows that bus locks hurt all tenants of the socket.
    pub hurts_everyone: bool,
    /// What is drawn: who it is, and what the others do.
    pub seed: u64,
    /// The service.
    pub service: ServiceSpec,
    /// Where the JSON is written.
    pub json: Option<PathBuf>,
    /// Where a report with the course of it is written.
    pub report: Option<PathBuf>,
    /// The program that becomes server, innocents, locker and agent: `quell` itself.
    pub program: PathBuf,
}

impl BusTrialOptions {
    /// Refuses without consent, what is out of bounds, and what could not be seen.
    ///
    /// # Errors
    /// Why, and what would do.
    pub fn check(&self) -> anyhow::Result<()> {
        self.bursts.check(self.hurts_everyone)?;
        anyhow::ensure!(
            self.bursts.length >= SHORTEST,
            "bursts of less than {} ms cannot be told from windows of {:.0} ms: give longer ones",
            SHORTEST.as_millis(),
            1e3 * WINDOW_S
        );
        let lasts = self.bursts.lasts();
        anyhow::ensure!(
            lasts <= LONGEST,
            "bursts and pauses take {:.0} s in all: give fewer or shorter ones, {} s at most",
            lasts.as_secs_f64(),
            LONGEST.as_secs()
        );
        Ok(())
    }

    fn of_trial(&self) -> TrialOptions {
        TrialOptions {
            trials: 1,
            harm: Harm::Much,
            taken: Taken::Memory,
            apart: false,
            seed: self.seed,
            control: false,
            service: TrialService::Own(self.service.clone()),
            groups: USUAL_GROUPS,
            polluters: Vec::new(),
            innocents: Vec::new(),
            with_others: true,
            patience: Duration::ZERO,
            json: None,
            report: None,
            program: self.program.clone(),
        }
    }
}

/// Runs the trial; `say` is told how it goes. The report holds what was seen even if it is ended
/// early.
///
/// # Errors
/// Without consent, out of bounds, not as root; what cannot be started.
pub fn bus_trial(
    options: &BusTrialOptions,
    interrupt: &Interrupt,
    say: &dyn Fn(&str),
) -> anyhow::Result<BusTrialReport> {
    options.check()?;
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "this makes control groups and loads eBPF programs: run it as root"
    );
    crate::run::after_the_dead();
    let folder = RunFolder::make()?;
    let groups = TrialGroups::make(folder.name(), USUAL_GROUPS)?;
    let bench = service::start_in(&options.program, &groups.service_doors(), &options.service)?;
    let trial = options.of_trial();
    let ground = Ground {
        options: &trial,
        interrupt,
        folder: &folder,
        groups: &groups,
        bench: &bench,
        ways: Mutex::new(Ways::here()),
    };
    let rate = ground.rate()?;
    say(&format!("{rate:.0} requests/s are {:.0} % of the machine", 100.0 * LOAD_FRAC));
    let stage = Stage { options, ground: &ground, drawn: draw(options.seed), rate };
    let seen = stage.play(say)?;
    let report = BusTrialReport::new(options, &stage.drawn, rate, &seen);
    if let Some(path) = &options.json {
        report.write(path)?;
    }
    if let Some(folder) = &options.report {
        report::page(&report, &seen).write(folder)?;
    }
    Ok(report)
}

/// Four who compute for 10 to 30 % of a CPU, and one place for him who locks the bus.
fn draw(seed: u64) -> Composition {
    let mut dice = Dice(seed);
    let culprit = dice.below(USUAL_GROUPS as u64) as usize;
    let member = |(index, group): (usize, String)| {
        let innocent = Kernel::innocent(&mut dice);
        let kernel = if index == culprit {
            Kernel { resource: "bus-lock", intensity: 100.0, idle: "sleep", ..innocent }
        } else {
            Kernel { intensity: 10.0 + 5.0 * dice.below(5) as f64, ..innocent }
        };
        Member { group, work: Work::Kernel(kernel) }
    };
    let members = names(USUAL_GROUPS).into_iter().enumerate().map(member).collect();
    Composition { members, culprit: Some(culprit) }
}

/// Everything that a run needs.
struct Stage<'a> {
    options: &'a BusTrialOptions,
    ground: &'a Ground<'a>,
    drawn: Composition,
    rate: f64,
}

impl Stage<'_> {
    /// Plays all bursts under load and under the law.
    fn play(&self, say: &dyn Fn(&str)) -> anyhow::Result<Seen> {
        let _innocents = self.innocents()?;
        let start_ns = now_ns();
        let moments = watch(self.ground.groups)?;
        let mut cpu = CpuUsage::new(self.ground.groups.service());
        let used =
            Readings::start("quell-cpu", CPU_PERIOD, move || (now_ns(), cpu.read().unwrap_or(0)))?;
        let (controls, windows) = (Controls::default(), Mutex::new(Vec::new()));
        let (names, bursts) = std::thread::scope(|scope| {
            let load = scope.spawn(|| self.load(&controls, &windows));
            let guarded = self.guarded(say);
            controls.stop();
            let run = load.join().map_err(|_| anyhow::anyhow!("the generator failed"))?;
            run.and(guarded)
        })?;
        let moments: Vec<Moment> = moments.finish()?;
        let windows = windows.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Seen { start_ns, bursts, names, windows, used: used.finish()?, moments })
    }

    /// The innocents at work. Dropping them ends them.
    fn innocents(&self) -> anyhow::Result<Vec<Worker>> {
        let folder = self.ground.folder.path();
        let all = self.ground.groups.batch().iter().zip(&self.drawn.members).enumerate();
        let innocents = all.filter(|(index, _)| Some(*index) != self.drawn.culprit);
        let start =
            |(_, (group, member))| Worker::start(&self.options.program, member, group, folder);
        innocents.map(start).collect()
    }

    fn load(&self, controls: &Controls, windows: &Mutex<Vec<Window>>) -> anyhow::Result<()> {
        let load = service::Load {
            profile: Profile::Constant { qps: self.rate },
            warmup_s: 0.5,
            seconds: (self.options.bursts.lasts() + LONGEST).as_secs_f64(),
            window: WindowRule { length_s: WINDOW_S, min_requests: 1 },
            seed: self.options.seed,
        };
        load.run(self.ground.bench, controls, &mut |window| {
            windows.lock().unwrap_or_else(PoisonError::into_inner).push(window.clone());
        })?;
        Ok(())
    }

    /// The agent from before the first burst until after the last; whom it named when, and the
    /// bursts.
    fn guarded(&self, say: &dyn Fn(&str)) -> anyhow::Result<(Names, Vec<BusBurst>)> {
        self.ground.interrupt.sleep(SETTLED)?;
        let folder = self.ground.folder.path().join("guard");
        let status = folder.join("status.json");
        let mut guard = Guard::start(GuardPlan {
            program: &self.options.program,
            config: self.config(&folder)?,
            tasks: vec![],
            folder,
            bpf_stats: false,
            status_json: Some(status.clone()),
        })?;
        let mut names = Names::default();
        let bursts = self.lock(&mut guard, &status, &mut names, say)?;
        guard.stop()?;
        Ok((names, bursts))
    }

    fn lock(
        &self,
        guard: &mut Guard,
        status: &Path,
        names: &mut Names,
        say: &dyn Fn(&str),
    ) -> anyhow::Result<Vec<BusBurst>> {
        let culprit = self.drawn.culprit.unwrap_or_default();
        let group = &self.ground.groups.batch()[culprit];
        // It pauses before its first burst: the law sees the service in quiet.
        let mut locker = Locker::start(&self.options.program, group, &self.options.bursts)?;
        let mut pace = Pace::new(AFTERWARDS);
        while pace.goes_on(Instant::now(), locker.ended()?) {
            if self.ground.interrupt.requested() {
                break;
            }
            std::thread::sleep(POLL);
            guard.check_alive()?;
            let said: Option<Said> = said_in(status)?;
            names.hear(now_ns(), &said.unwrap_or_default());
            locker.news().iter().for_each(|burst| say(&told(burst)));
        }
        locker.finish()
    }

    /// Law `bus-lock` runs beside where it has something to look at.
    fn config(&self, folder: &Path) -> anyhow::Result<String> {
        let text = config(self.ground, &self.drawn, folder)?;
        let counted = quell_counters::BusLocks::usable(Path::new("/")).is_ok();
        let beside = "law = \"culprit\"\nbeside = [\"bus-lock\"]\n";
        Ok(if counted { text.replacen("law = \"culprit\"\n", beside, 1) } else { text })
    }
}

fn told(burst: &BusBurst) -> String {
    let seconds = (burst.to_ns - burst.from_ns) as f64 / 1e9;
    format!("burst {}: {} bus locks in {seconds:.2} s", burst.number, burst.locks)
}

#[cfg(test)]
mod tests;
