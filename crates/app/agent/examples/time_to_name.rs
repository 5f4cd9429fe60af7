//! How long it takes until who takes the CPU from a service is named, and whether anybody else ever
//! is: many drawn worlds on the simulated 2-vCPU machine, without counters, engine and law as in
//! `quell who`. Samples come late by chance, as on a machine whose CPUs are taken.
//!
//! `cargo run -p quell-agent --example time_to_name -- [WORLDS [LATE_MS [LAW]]]`: so many worlds of each
//! kind (60), samples late by so much on average (2), under this law (law `who`). Times are simulated: the machine's load does
//! not matter. The exit status tells whether anybody innocent was named.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{group, sleepers};
use quell_control::{Engine, EngineParams};
use quell_model::blame::Standing;
use quell_platform::{Platform, Scope};
use quell_policy::{Law, LawParams, Policy, Who, WhoParams, build};
use quell_sim::{Scene, SimServer, program};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(250);
/// As long as a trial on a real machine looks.
const LOOK_S: f64 = 15.0;
/// No sample comes later than this.
const LATEST_S: f64 = 0.2;

type Failed = Box<dyn Error>;

/// Who runs beside the service.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Two to four threads that never sleep in one group, and four groups that sleep.
    Threads,
    /// One thread that never sleeps, and five groups that sleep.
    Loop,
    /// Five groups that sleep.
    Nobody,
    /// Five groups of two threads that sleep.
    Pairs,
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// From an exponential distribution, cut off.
    fn late_s(&mut self, mean_s: f64) -> f64 {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (-mean_s * (1.0 - share).ln()).min(LATEST_S)
    }
}

/// A world, and the name of the group that is to blame.
fn world(kind: Kind, seed: u64) -> Result<(Scene, Option<&'static str>), Failed> {
    const GROUPS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let mut dice = Dice(seed);
    let (groups, threads) = match kind {
        Kind::Threads => (5, 2 + dice.below(3) as usize),
        Kind::Loop => (6, 1),
        Kind::Nobody | Kind::Pairs => (5, 0),
    };
    let culprit = (threads > 0).then(|| dice.below(groups) as usize);
    let mut scene = common::scene("vm2", seed, 1_000.0);
    for (index, name) in GROUPS.iter().enumerate().take(groups as usize) {
        let of_it = if Some(index) == culprit {
            let work = program("integer").ok_or("no such program")?;
            group(name, vec![], vec![work; threads])
        } else {
            // Five of these beside a loop want more than there is, as four do beside two loops.
            let (most, threads) = match kind {
                Kind::Loop => (7, 1),
                Kind::Threads | Kind::Nobody => (11, 1),
                Kind::Pairs => (11, 2),
            };
            let cpus = 0.1 + 0.05 * dice.below(most) as f64;
            sleepers(&mut scene, name, cpus, threads)
        };
        scene.batch.push(of_it);
    }
    Ok((scene, culprit.map(|index| GROUPS[index])))
}

/// What was said of one world.
struct Said {
    /// When the culprit was named first.
    named_s: Option<f64>,
    /// Who else was named, and when first.
    wrong: Vec<String>,
    /// Innocents that were suspected when the look was over.
    suspected: usize,
}

/// This law, or `who`, which is none.
fn policies(law: Law) -> Result<Vec<Box<dyn Policy>>, Failed> {
    match law {
        Law::None => Ok(vec![Box::new(Who::new(WhoParams::default()))]),
        law => Ok(build(law, &LawParams::default())?),
    }
}

/// Looks at one world.
fn play(
    scene: &Scene,
    policies: Vec<Box<dyn Policy>>,
    culprit: Option<&str>,
    mean_late_s: f64,
    dice: &mut Dice,
) -> Result<Said, Failed> {
    let mut server = SimServer::new(scene)?;
    let first = server.sample(STEP, Scope::Full)?;
    let mut engine = Engine::new(server.setup().clone(), policies, EngineParams::default());
    let (mut named_s, mut wrong, mut late_s) = (None, Vec::new(), 0.0);
    loop {
        let later_s = dice.late_s(mean_late_s);
        let step = Duration::from_secs_f64(STEP.as_secs_f64() + later_s - late_s);
        late_s = later_s;
        let sample = server.sample(step, Scope::Full)?;
        let seconds = sample.time.since(first.time).as_secs_f64();
        if seconds > LOOK_S {
            let findings = engine.findings();
            let all = findings.values().flat_map(|finding| &finding.culprits);
            let suspects = all.filter(|c| c.status == Standing::Suspected);
            let suspected = suspects.filter(|c| Some(c.workload.as_str()) != culprit).count();
            return Ok(Said { named_s, wrong, suspected });
        }
        for action in &engine.step(&sample).actions {
            server.apply(action)?;
        }
        let findings = engine.findings();
        let culprits = findings.values().flat_map(|finding| &finding.culprits);
        for named in culprits.filter(|c| c.status == Standing::Named) {
            let name = named.workload.as_str();
            if Some(name) == culprit {
                named_s = named_s.or(Some(seconds));
            } else if !wrong.iter().any(|other: &String| other.starts_with(name)) {
                wrong.push(format!("{name} after {seconds:.1} s"));
            }
        }
    }
}

/// Plays all worlds of a kind and says how it went; how many of them blamed somebody innocent.
fn try_out(kind: Kind, law: Law, worlds: u64, mean_late_s: f64) -> Result<usize, Failed> {
    let (mut times, mut blamed) = (Vec::new(), Vec::new());
    let (mut suspected, mut innocents) = (0, 0);
    for seed in 1..=worlds {
        let (scene, culprit) = world(kind, seed)?;
        let said = play(&scene, policies(law)?, culprit, mean_late_s, &mut Dice(!seed))?;
        if culprit.is_some() {
            times.push(said.named_s.unwrap_or(f64::INFINITY));
        }
        if !said.wrong.is_empty() {
            blamed.push(format!("{seed} ({})", said.wrong.join(", ")));
        }
        suspected += said.suspected;
        innocents += scene.batch.len() - usize::from(culprit.is_some());
    }
    println!(
        "{kind:?}: {}; {suspected} of {innocents} innocents suspected in the end; innocents named \
         in {} of {worlds}: {}",
        in_words(times),
        blamed.len(),
        blamed.join(", ")
    );
    Ok(blamed.len())
}

/// How many were named and when; those who were not count as for ever.
fn in_words(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let named = times.iter().filter(|seconds| seconds.is_finite()).count();
    let at = |share: f64| times.get((share * times.len() as f64) as usize);
    let told = |share: f64| at(share).map_or("-".to_owned(), |seconds| format!("{seconds:.2} s"));
    let (least, median, most) = (told(0.0), told(0.5), told(0.9));
    let all = times.len();
    format!("named {named} of {all}, at least {least}, median {median}, nine of ten {most}")
}

fn run() -> Result<bool, Failed> {
    let mut arguments = std::env::args().skip(1);
    let worlds: u64 = arguments.next().map_or(Ok(60), |text| text.parse())?;
    let late_ms: f64 = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let law: Law = arguments.next().map_or(Ok(Law::None), |text| text.parse())?;
    let mut blamed = 0;
    for kind in [Kind::Threads, Kind::Loop, Kind::Nobody, Kind::Pairs] {
        blamed += try_out(kind, law, worlds, late_ms / 1e3)?;
    }
    Ok(blamed == 0)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
