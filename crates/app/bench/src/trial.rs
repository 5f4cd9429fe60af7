//! `quell trial polluter`: is the right one named?
//!
//! A service under load runs beside some batch groups, five if nothing else is said, of which at most
//! one hurts it. How much it does is measured with Quell off, by stopping and continuing it in turn
//! (`harm.rs`). Then `quell guard` begins with law `culprit`, as a user would run it, and whom it names is compared
//! with what was put there. What runs in which group is drawn from a seed beforehand. A trial in which the
//! harm is not in the wanted class is discarded, told and replaced.
//!
//! Where much harm is wanted, the service's tail and everybody's work are measured, once
//! somebody is limited or was named five seconds ago, in turns under the law, alone and without the culprit.
//!
//! Where little harm is wanted, it is harder to know how much there was than to judge it: once the
//! law has ended, more turns are played with Quell off, for as long whatever the law said; those
//! before and after count together. The culprit's duty is found beside the groups that were drawn, with
//! Quell off, before the trial begins (`search.rs`).
//!
//! Polluters that hurt this service too little, on this machine, are left out before anything is drawn, and told
//! (`screen.rs`).
//!
//! Where the service has CPUs of its own (`--apart`), nobody can hurt it by taking one: what harm there
//! is comes by caches and memory. Who takes memory and is to do little harm is always tried so: on the
//! service's own CPUs it would do more harm by being there, as everybody does, than by memory.
//!
//! Before each trial of who takes memory it is waited, as long as there is patience, until the host has the CPUs on
//! cores with a common cache (`patience.rs`).
//!
//! Innocents and the culprit may be anybody's programs (`--innocent`, `--polluter`). What these have done
//! nobody tells but by their CPU time; and how hard they work is theirs, so no duty is searched for. So may
//! the service be anybody's server (`--server`, `served.rs`).
//!
//! A control (`--control`) plays the turns with Quell off and stops nobody: the harm that it finds is
//! chance.

mod ahead;
mod bus;
mod confusion;
mod control;
mod crowd;
mod draw;
mod guarded;
mod harm;
mod off;
mod options;
mod outcome;
mod patience;
mod places;
mod play;
mod scores;
mod screen;
mod search;
mod served;
mod steer;
mod strangers;
mod timeline;
mod turns;
mod watch;
mod worker;

pub use bus::{BUS_TRIAL_SCHEMA, BurstHarm, BusTrialOptions, BusTrialReport, Medians, bus_trial};
pub use confusion::{Confusion, Judged};
pub use control::HarmControl;
pub use draw::{Harm, Program, Taken, USUAL_GROUPS};
pub use options::TrialOptions;
pub use outcome::Trial;
pub use scores::{TRIAL_SCHEMA, TrialReport};
pub use screen::LeftOut;
pub use search::SearchPair;
pub use served::TrialService;
pub use turns::{Ratios, Throttling, Turn, TurnKind};

use crate::folder::RunFolder;
use crate::service::Load;
use crate::ui::Interrupt;
use ahead::{Ahead, followed};
use crowd::{Crowd, TrialGroups};
use draw::Composition;
use guarded::{Guarding, Verdict};
use harm::{Latencies, Measured, WINDOW_S};
use off::{Arrivals, OffTurns};
use options::LOAD_FRAC;
use places::{Distant, Places};
use play::TurnLoad;
use quell_cgroup::CpuUsage;
use quell_profiler::Ways;
use quell_service::{Bench, Controls, Profile, RunReport, WindowRule, now_ns};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use steer::Usuals;
use strangers::Strangers;
use timeline::{Course, Spans};
use watch::watch;

/// Requests per second at which the cost of a request is measured.
const FEELER_QPS: f64 = 300.0;
/// How long one trial takes at most, from its load's start; with little harm [`AFTER`] more.
const TRIAL: Duration = Duration::from_secs(25);
/// Pairs once the law has ended, whatever it said: how well the harm is known, and with it whether
/// the trial counts, is not to hang on who was named.
const AFTER: Duration = Duration::from_secs(6);
/// Turns with Quell off before the law begins take so long at most.
const BEFORE: Duration = Duration::from_secs(8);
/// The service's load runs for so long before the law begins.
const SETTLED: Duration = Duration::from_millis(500);
/// Arrivals of a search are other ones than those of its trial.
const SEARCH_SEED: u64 = 1 << 40;
/// Where the host takes so much of the machine, whoever uses CPUs slows everybody, whatever he does with them.
const STOLEN_FRAC: f64 = 0.05;
const STOLEN: &str = "the host took CPUs away";
const STRANGERS: &str = "others were at work on this machine";
const MOVED: &str = "the host moved the CPUs: to cores with a common cache, or without one";
const APART: &str = "the host had the CPUs on cores without a common cache: what was left of the harm was of another \
                     class";
/// Discarded trials may be this share of all.
const DISCARDED_FRAC: f64 = 0.4;

/// Runs the trials; `say` is told of each. The report holds what was done even if it is ended
/// early.
pub fn trial(
    options: &TrialOptions,
    interrupt: &Interrupt,
    say: &dyn Fn(&str),
) -> anyhow::Result<TrialReport> {
    options.check()?;
    crate::run::after_the_dead();
    let folder = RunFolder::make()?;
    let groups = TrialGroups::make(folder.name(), options.groups)?;
    if options.apart {
        groups.part()?;
    }
    let served = options.service.start(&options.program, &groups, &folder, interrupt)?;
    let ways = Mutex::new(Ways::here());
    let (folder, groups, bench) = (&folder, &groups, &served.bench);
    let ground = Ground { options, interrupt, folder, groups, bench, ways };
    let _ahead = Ahead::go();
    ground.all(say).map_err(|error| served.explain(error))
}

/// What all trials share.
struct Ground<'a> {
    options: &'a TrialOptions,
    interrupt: &'a Interrupt,
    folder: &'a RunFolder,
    groups: &'a TrialGroups,
    bench: &'a Bench,
    /// What lines took from one CPU to another in all trials.
    ways: Mutex<Ways>,
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
        Ok(LOAD_FRAC * f64::from(self.options.service_cpus()?) * answered / used_s)
    }

    /// All trials, at the rate that is found first.
    fn all(&self, say: &dyn Fn(&str)) -> anyhow::Result<TrialReport> {
        let rate = self.rate()?;
        let of = if self.options.apart { "the service's CPUs" } else { "the machine" };
        say(&format!("{rate:.0} requests/s are {:.0} % of {of}", 100.0 * LOAD_FRAC));
        self.trials(rate, say)
    }

    /// All trials, until enough of them count or the end is asked for.
    fn trials(&self, rate: f64, say: &dyn Fn(&str)) -> anyhow::Result<TrialReport> {
        let options = self.options;
        let mut report = TrialReport::new(options);
        let (mut courses, mut usual) = (Vec::new(), Usuals::default());
        let (cast, left_out) = self.screen(options.cast()?, rate, say)?;
        left_out.iter().for_each(|left_out| say(&left_out.in_words()));
        report.left_out = left_out;
        for number in 0..u32::MAX {
            if report.is_done(options, DISCARDED_FRAC) || self.interrupt.requested() {
                break;
            }
            let drawn = Composition::draw(options.seed, number, &cast, options.room_cpus()?);
            match self.await_common_cache() {
                Err(_) if self.interrupt.requested() => break,
                waited_s => report.waited_s += waited_s?,
            }
            let (trial, course) = match self.trial(number, drawn, rate, &mut usual) {
                // Ctrl-C in its midst: those before it are to be told.
                Err(_) if self.interrupt.requested() => break,
                done => done?,
            };
            say(&trial.in_words());
            report.add(trial);
            if options.control {
                report.reckon_control();
            }
            courses.extend(course);
            options.write(&report, &courses)?;
        }
        Ok(report)
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
        mut drawn: Composition,
        rate: f64,
        usual: &mut Usuals,
    ) -> anyhow::Result<(Trial, Option<Course>)> {
        let mut search = self.search(&drawn, usual);
        if let Some(search) = &search {
            drawn.turn_to(search.best());
        }
        let seed = self.options.seed.wrapping_add((1 + u64::from(number)) << 16);
        let arrivals = Arrivals { rate, seed };
        let folder = self.folder.path();
        let mut crowd = Crowd::start(&self.options.program, self.groups, &drawn, folder)?;
        if let Some(search) = &mut search
            && !self.options.control
            && crowd.works(self.interrupt)?
        {
            let arrivals = Arrivals { seed: seed.wrapping_add(SEARCH_SEED), ..arrivals };
            self.steer(&mut crowd, &mut drawn, search, arrivals)?;
        }
        if !crowd.works(self.interrupt)? {
            let trial = Trial::discarded(number, &drawn, None, "the culprit did not begin to work");
            return Ok((trial.after(search.as_ref()), None));
        }
        let mut off = OffTurns::default();
        let (trial, course) = self.on_stage(number, &crowd, &drawn, arrivals, &mut off)?;
        let trial = trial.after(search.as_ref());
        // What a control finds is chance.
        if let Some(search) = search
            && !self.options.control
        {
            usual.learn(self.options.taken, &drawn, search, &off);
        }
        Ok((trial, course))
    }

    /// A trial whose crowd is at work.
    fn on_stage(
        &self,
        number: u32,
        crowd: &Crowd,
        drawn: &Composition,
        arrivals: Arrivals,
        off: &mut OffTurns,
    ) -> anyhow::Result<(Trial, Option<Course>)> {
        let (begun, start_ns) = (Instant::now(), now_ns());
        let until = begun + TRIAL;
        let (watch, strangers) = (watch(self.groups)?, Strangers::watch(self.groups)?);
        let places = Places::watch()?;
        let latencies = Latencies::default();
        self.off_turns(crowd, arrivals, (off, begun + BEFORE), &latencies)?;
        if let Some(why) = self.ends_early(off.harm()) {
            let distant = places.finish(&[start_ns..u64::MAX, 0..0], &(0..0), &self.ways)?;
            return Ok((Trial::discarded(number, drawn, off.harm(), why).at(distant), None));
        }
        let law_ns = now_ns();
        let mut guarding = self.under_load(drawn, arrivals.rate, &latencies)?;
        let judged_ns = now_ns();
        let seed = self.options.seed.wrapping_add(1 + u64::from(number));
        let load = TurnLoad { rate: arrivals.rate, seed };
        let mut turns = match self.pools() {
            true => Vec::new(),
            false => guarding.turns(crowd, load, until, &latencies)?,
        };
        let said = guarding.finish()?;
        self.afterwards(crowd, (&mut turns, load), until, &latencies)?;
        let moments = watch.finish()?;
        let end_ns = now_ns();
        let spans = Spans { start_ns, judged_ns, end_ns, played: !turns.is_empty() };
        if self.pools() {
            let until = Instant::now() + AFTER;
            self.off_turns(crowd, arrivals, (off, until), &Latencies::default())?;
        }
        let harm_spans = [start_ns..law_ns, if self.pools() { end_ns..u64::MAX } else { 0..0 }];
        let distant = places.finish(&harm_spans, &(law_ns..judged_ns), &self.ways)?;
        let strangers_frac = strangers.used_frac(said.agent_s);
        let spoilt = self.spoilt(said.stolen_frac, strangers_frac, distant);
        let limited = watch::limited(&moments);
        let verdict = Verdict { said, turns, limited, strangers_frac, distant };
        let left = self.left_of(off.harm(), distant);
        let refused = spoilt.or_else(|| self.refuses(off.harm(), left));
        let trial = Trial::judged(number, drawn, off.harm(), verdict).with_left(left);
        let trial = trial.unless(refused);
        let course = Course::new(number, drawn, &spans, &latencies, &moments);
        Ok((trial, refused.is_none().then_some(course)))
    }

    /// Whether turns with Quell off are played before and after the law, and count together.
    fn pools(&self) -> bool {
        self.options.harm == Harm::Little
    }

    /// Why a trial is not gone on with, by the turns before the law begins.
    fn ends_early(&self, harm: Option<Measured>) -> Option<&'static str> {
        let class = self.options.harm;
        let may_count = |harm: Measured| self.pools() && !class.excludes(harm.interval);
        if self.options.control {
            return Some("a control: nobody was stopped");
        }
        if harm.is_some_and(may_count) {
            return None;
        }
        class
            .refuses(harm.map(Measured::ratio))
            .or_else(|| harm.and_then(|harm| class.is_unknown(harm.interval)))
    }

    /// Why what was measured may be others' doing, if it may: of what the host took, what strangers used, and
    /// where the CPUs were.
    fn spoilt(
        &self,
        stolen_frac: f64,
        strangers_frac: Option<f64>,
        distant: Distant,
    ) -> Option<&'static str> {
        let strangers = !self.options.with_others && strangers::spoil(strangers_frac);
        let stolen = (stolen_frac >= STOLEN_FRAC).then_some(STOLEN);
        // Who takes CPUs hurts as much wherever they are, and who takes memory too where the service shares its CPUs.
        let moved = || (self.options.apart && distant.moved()).then_some(MOVED);
        stolen.or_else(|| strangers.then_some(STRANGERS)).or_else(moved)
    }

    /// What was left of the harm while the law looked, where that can be told: of a service that has CPUs of its own,
    /// whose harm is all by memory.
    fn left_of(&self, harm: Option<Measured>, distant: Distant) -> Option<f64> {
        let ratio = harm.map(Measured::ratio).filter(|_| self.options.apart);
        ratio.and_then(|ratio| distant.left_of(ratio))
    }

    /// Why a trial that is over does not count.
    fn refuses(&self, harm: Option<Measured>, left: Option<f64>) -> Option<&'static str> {
        let class = self.options.harm;
        if let Some(why) = harm.and_then(|harm| class.is_unknown(harm.interval)) {
            return Some(why);
        }
        let apart = left.and_then(|left| class.refuses(Some(left))).and(Some(APART));
        class.refuses(harm.map(Measured::ratio)).or(apart)
    }

    /// Lets the law look until somebody is named, or the look is over.
    fn under_load(
        &self,
        drawn: &Composition,
        rate: f64,
        latencies: &Latencies,
    ) -> anyhow::Result<Guarding<'_>> {
        let controls = Controls::default();
        let plan = (rate, 0.5, TRIAL.as_secs_f64(), self.options.seed);
        std::thread::scope(|scope| {
            let load = followed(|| scope.spawn(|| self.load(plan, &controls, latencies)));
            let looked = self.look(drawn);
            controls.stop();
            let run = load.join().map_err(|_| anyhow::anyhow!("the generator failed"))?;
            run.and(looked)
        })
    }

    fn look(&self, drawn: &Composition) -> anyhow::Result<Guarding<'_>> {
        self.interrupt.sleep(SETTLED)?;
        let mut guarding = Guarding::start(self, drawn)?;
        guarding.look(self.pools())?;
        Ok(guarding)
    }
}
