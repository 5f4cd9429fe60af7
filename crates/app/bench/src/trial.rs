//! `quell trial polluter`: is the right one named?
//!
//! A service under load runs beside five batch groups, of which at most one hurts it. How much it
//! does is measured with Quell off, by stopping and continuing it in turn. Then `quell who` looks,
//! as a user would run it, and what it says is compared with what was put there. What runs in which
//! group is drawn from a seed beforehand; a trial in which the harm is not in the wanted class is
//! discarded, told and replaced.

mod crowd;
mod draw;
mod harm;
mod scores;

pub use draw::{Harm, Taken};
pub use scores::{TRIAL_SCHEMA, Trial, TrialReport};

use crate::folder::RunFolder;
use crate::service::{self, Load};
use crate::ui::Interrupt;
use anyhow::Context as _;
use crowd::{Crowd, TrialGroups};
use draw::Composition;
use harm::{Latencies, TURN, WINDOW_S};
use quell_cgroup::CpuUsage;
use quell_service::{Bench, Controls, Profile, RunReport, ServiceSpec, WindowRule};
use scores::Measured;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Load of the service before it is slowed, as a share of all CPUs.
const LOAD_FRAC: f64 = 0.3;
/// Requests per second at which the cost of a request is measured.
const FEELER_QPS: f64 = 300.0;
/// How long one trial takes at most, from its load's start.
const TRIAL_S: f64 = 28.0;
/// How long `quell who` may look.
const LOOK_S: f64 = 15.0;
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
    /// The program that becomes server, polluter and judge: `quell` itself.
    pub program: PathBuf,
}

/// What `quell who` says, as far as it is looked at.
#[derive(Clone, Debug, Deserialize)]
struct Said {
    seconds: f64,
    victims: Vec<SaidOfVictim>,
}

#[derive(Clone, Debug, Deserialize)]
struct SaidOfVictim {
    culprits: Vec<SaidOfCulprit>,
}

#[derive(Clone, Debug, Deserialize)]
struct SaidOfCulprit {
    workload: String,
    status: String,
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
    for number in 0..u32::MAX {
        if report.trials >= options.trials || report.gives_up(DISCARDED_FRAC) {
            break;
        }
        if interrupt.requested() {
            break;
        }
        let composition = Composition::draw(options.seed, number, options.harm, options.taken);
        let trial = ground.trial(number, &composition, rate)?;
        say(&trial.in_words());
        report.add(trial);
        if let Some(path) = &options.json {
            report.write(path)?;
        }
    }
    Ok(report)
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
        let latencies = Latencies::default();
        let run = self.load(FEELER_QPS, 2.0, &Controls::default(), &latencies)?;
        let used_s = (cpu.read()?.saturating_sub(before)) as f64 / 1e9;
        let answered = (run.answered + run.warmup_requests) as f64;
        anyhow::ensure!(used_s > 0.0 && answered > 0.0, "the service answered nothing");
        let cpus = std::thread::available_parallelism()?.get() as f64;
        Ok(LOAD_FRAC * cpus * answered / used_s)
    }

    fn load(
        &self,
        qps: f64,
        seconds: f64,
        controls: &Controls,
        latencies: &Latencies,
    ) -> anyhow::Result<RunReport> {
        let load = Load {
            profile: Profile::Constant { qps },
            warmup_s: 0.5,
            seconds,
            window: WindowRule { length_s: WINDOW_S, min_requests: 1 },
            seed: self.options.seed,
        };
        Ok(load.run(self.bench, controls, &mut |window| latencies.add(window))?)
    }

    fn trial(&self, number: u32, drawn: &Composition, rate: f64) -> anyhow::Result<Trial> {
        let crowd = Crowd::start(&self.options.program, self.groups, drawn, self.folder.path())?;
        if !crowd.works(self.interrupt)? {
            return Ok(Trial::discarded(number, drawn, None, "the culprit did not begin to work"));
        }
        let (controls, latencies) = (Controls::default(), Latencies::default());
        std::thread::scope(|scope| {
            let load = scope.spawn(|| self.load(rate, TRIAL_S, &controls, &latencies));
            let trial = self.judged(number, drawn, &crowd, &latencies);
            controls.stop();
            let run = load.join().map_err(|_| anyhow::anyhow!("the generator failed"))?;
            run.and(trial)
        })
    }

    /// Measures the harm with Quell off, then asks who it is.
    fn judged(
        &self,
        number: u32,
        drawn: &Composition,
        crowd: &Crowd,
        latencies: &Latencies,
    ) -> anyhow::Result<Trial> {
        self.interrupt.sleep(SETTLED)?;
        let harm = self.harm(crowd, latencies)?;
        if let Some(why) = self.options.harm.refuses(harm.map(Measured::ratio)) {
            return Ok(Trial::discarded(number, drawn, harm, why));
        }
        let said = self.ask(drawn)?;
        let culprits = || said.victims.iter().flat_map(|victim| &victim.culprits);
        let of = |status: &str| {
            let which = culprits().filter(|culprit| culprit.status == status);
            which.map(|culprit| culprit.workload.clone()).collect()
        };
        Ok(Trial::judged(number, drawn, harm, (of("named"), of("suspected")), said.seconds))
    }

    /// CPU time of the service per answer while the culprit runs over that while it is stopped, and
    /// the same of what its client sees; none if there is no culprit.
    fn harm(&self, crowd: &Crowd, latencies: &Latencies) -> anyhow::Result<Option<Measured>> {
        let mut cpu = CpuUsage::new(self.groups.service());
        let mut used_s = [0.0, 0.0];
        let mut turns = Vec::new();
        for turn in 0..2 * TURNS {
            // ABBA: what drifts steadily cancels out.
            let stopped = (turn % 4 == 1) || (turn % 4 == 2);
            if !crowd.stop_culprit(stopped)? {
                return Ok(None);
            }
            let (before, begun, from_ns) = (cpu.read()?, Instant::now(), harm::now_ns());
            self.interrupt.sleep(TURN)?;
            let used = cpu.read()?.saturating_sub(before) as f64 / 1e9;
            used_s[usize::from(stopped)] += used / begun.elapsed().as_secs_f64();
            turns.push((from_ns, harm::now_ns(), stopped));
        }
        crowd.stop_culprit(false)?;
        anyhow::ensure!(used_s[1] > 0.0, "the service did nothing");
        let slowed = latencies.slowed(&turns).context("the service answered nothing in a turn")?;
        let cost_ratio = used_s[0] / used_s[1] * slowed.answered_ratio;
        Ok(Some(Measured { cost_ratio, slowed }))
    }

    /// Runs `quell who` as a user would.
    fn ask(&self, drawn: &Composition) -> anyhow::Result<Said> {
        let port = self.bench.address().context("the service has no address")?.port();
        let service =
            format!("name=service,cgroup={},ports={port},p99=1s", self.groups.service_path());
        let mut command = Command::new(&self.options.program);
        command.args(["who", "--json", "--until-named", "--seconds", &LOOK_S.to_string()]);
        command.args(["--service", &service, "--set", "agent.metrics=off", "--state-dir"]);
        command.arg(self.folder.path().join("who"));
        for member in &drawn.members {
            let path = self.groups.batch_path(&member.group);
            command.args(["--batch", &format!("name={},cgroup={path}", member.group)]);
        }
        let output = command.stdin(Stdio::null()).output().context("cannot start quell who")?;
        self.interrupt.check()?;
        anyhow::ensure!(
            output.status.success(),
            "quell who ended ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        serde_json::from_slice(&output.stdout).context("what quell who said")
    }
}
