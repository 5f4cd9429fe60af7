//! One workload beside one kind of pressure: pairs of windows, one quiet and one under pressure,
//! interleaved, so that what other tenants of the host do hits both alike.
//!
//! ```text
//! the workload's:  quiet · press · quiet · press · quiet …   ratio = press / mean of both quiet ones
//! the reporter's:  alone · beside · alone · beside · alone … ratio = beside / mean of both alone
//! ```
//!
//! Quiet means that the pressure's threads spin on PAUSE: its CPU is awake in both windows, so waking and
//! clock speed are not taken for interference. Now and then, workload and pressure at rest, it is looked
//! whether the host runs both CPUs on one core (`canary`); windows before such a look are put aside and
//! measured again, as far as the time allows.

use crate::beside::{Window, ratios};
use crate::canary::{Placement, Sieve, Watch};
use crate::curve::Level;
use crate::desk::{pause, percent};
use crate::search::{MOST, Search, Verdict, verdict};
use crate::stats::median;
use crate::{ProfileError, Speed, Subject};
use quell_pressure::{Resource, Running, Stop};
use std::time::{Duration, Instant};

/// How long and how well.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The length of a window.
    pub window: Duration,
    /// After the dial was turned: caches fill.
    pub settle: Duration,
    /// Levels that are always measured besides 100, for the curve.
    pub grid: &'static [f64],
    /// Pairs at each of those.
    pub pairs: usize,
    /// The search ends at this resolution.
    pub resolution: f64,
    /// Time for one resource.
    pub budget: Duration,
}

impl Effort {
    /// A full profile: about five seconds a resource.
    pub const FULL: Effort = Effort {
        window: Duration::from_millis(60),
        settle: Duration::from_millis(15),
        grid: &[25.0, 50.0, 75.0],
        pairs: 4,
        resolution: 7.0,
        budget: Duration::from_millis(4500),
    };

    /// A quick one: about a second a resource.
    pub const QUICK: Effort = Effort {
        window: Duration::from_millis(30),
        settle: Duration::from_millis(8),
        grid: &[],
        pairs: 4,
        resolution: 15.0,
        budget: Duration::from_millis(800),
    };
}

/// What was found of one resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The workload's speed, level by level.
    pub levels: Vec<Level>,
    /// The reporter's rate beside the workload over its rate beside nothing; empty where the
    /// workload must not be stopped.
    pub reporter: Vec<f64>,
    /// Whether the search ended before its end.
    pub cut_short: bool,
    /// Why there is no reporter, if it was tried.
    pub no_reporter: Option<String>,
}

/// The two sides of a trial.
pub(crate) struct Trial<'a> {
    pub(crate) subject: &'a mut dyn Subject,
    pub(crate) pressure: &'a Running,
    pub(crate) resource: Resource,
    pub(crate) effort: Effort,
    pub(crate) threshold: f64,
    pub(crate) stop: &'a Stop,
}

/// Network and disk make a workload wait, which its CPU time does not show; all else makes its CPU
/// time dearer, which does not depend on how often it is asked.
fn of_interest(resource: Resource, speed: Speed) -> f64 {
    match resource {
        Resource::NetworkBandwidth | Resource::StorageBandwidth | Resource::StorageCapacity => {
            speed.by_wall
        }
        _ => speed.of_cpu(),
    }
}

impl Trial<'_> {
    /// Searches what is tolerated, fills in the curve, and sees what is caused.
    pub(crate) fn run(&mut self, watch: &mut Watch) -> Result<Found, ProfileError> {
        let end = Instant::now() + self.effort.budget;
        let mut found = Found::default();
        let mut search = Search::new(self.effort.resolution);
        while let Some(level) = search.next() {
            let said = self.level(&mut found, level, end, watch)?;
            search.tell(said);
            if Instant::now() >= end {
                found.cut_short = search.next().is_some();
                break;
            }
        }
        self.fill(&mut found, end, watch)?;
        if self.subject.can_rest() {
            found.reporter = self.reporter(end, watch)?;
        } else {
            match self.reporter_beside()? {
                Ok(ratios) => found.reporter = ratios,
                Err(why) => found.no_reporter = Some(why),
            }
        }
        self.pressure.mute();
        Ok(found)
    }

    /// Pairs at one level until it is decided.
    fn level(
        &mut self,
        found: &mut Found,
        level: f64,
        end: Instant,
        watch: &mut Watch,
    ) -> Result<Verdict, ProfileError> {
        let mut sieve = Sieve::default();
        let mut before = self.quiet()?;
        loop {
            before = self.one_pair(level, before, &mut sieve)?;
            let decided = verdict(&sieve.values(), self.threshold).is_some();
            let measured = sieve.measured();
            let over = measured > 1 && Instant::now() >= end || measured >= MOST + AGAIN;
            if decided || over || watch.is_due() {
                self.settle_by_look(&mut sieve, watch)?;
            }
            if over || verdict(&sieve.values(), self.threshold).is_some() {
                break;
            }
        }
        let ratios = counted(sieve, watch);
        let middle = median(&ratios).unwrap_or(0.0);
        let fallback = if middle >= self.threshold { Verdict::Kept } else { Verdict::Lost };
        let said = verdict(&ratios, self.threshold).unwrap_or(fallback);
        found.levels.push(Level { percent: level, ratios });
        Ok(said)
    }

    /// The levels of the grid that the search did not come to.
    fn fill(
        &mut self,
        found: &mut Found,
        end: Instant,
        watch: &mut Watch,
    ) -> Result<(), ProfileError> {
        for &level in self.effort.grid {
            let done = found.levels.iter().any(|l| (l.percent - level).abs() < 1.0);
            if !done && Instant::now() < end {
                found.levels.push(self.pairs(level, end, watch)?);
            }
        }
        Ok(())
    }

    /// The workload's speed at each of these levels, without a search; then silence.
    pub(crate) fn levels(&mut self, levels: &[f64]) -> Result<Vec<Level>, ProfileError> {
        self.levels_watched(levels, Duration::ZERO, &mut Watch::off())
    }

    /// The same with looks at the host: what was put aside at a level is measured again, for so long.
    pub(crate) fn levels_watched(
        &mut self,
        levels: &[f64],
        patience: Duration,
        watch: &mut Watch,
    ) -> Result<Vec<Level>, ProfileError> {
        let mut one = |&level: &f64| self.pairs(level, Instant::now() + patience, watch);
        let found = levels.iter().map(&mut one).collect();
        self.pressure.mute();
        found
    }

    /// As many pairs at one level as the effort says; more only until `end`, for those put aside.
    fn pairs(
        &mut self,
        level: f64,
        end: Instant,
        watch: &mut Watch,
    ) -> Result<Level, ProfileError> {
        let (mut sieve, mut before) = (Sieve::default(), self.quiet()?);
        let wanted = self.effort.pairs;
        loop {
            before = self.one_pair(level, before, &mut sieve)?;
            let measured = sieve.measured();
            let up = Instant::now() >= end || measured >= wanted + AGAIN;
            let over = sieve.values().len() >= wanted || measured >= wanted && up;
            if over || watch.is_due() {
                self.settle_by_look(&mut sieve, watch)?;
            }
            if measured >= wanted && up || sieve.values().len() >= wanted {
                break;
            }
        }
        Ok(Level { percent: level, ratios: counted(sieve, watch) })
    }

    /// A window under pressure and a quiet one after it; gives the speed of the latter.
    fn one_pair(
        &mut self,
        level: f64,
        before: f64,
        sieve: &mut Sieve,
    ) -> Result<f64, ProfileError> {
        let pressed = self.pressed(level)?;
        let after = self.quiet()?;
        sieve.push(pressed / f64::midpoint(before, after));
        Ok(after)
    }

    /// Looks at the host with workload and pressure out of the way.
    fn settle_by_look(
        &mut self,
        sieve: &mut Sieve,
        watch: &mut Watch,
    ) -> Result<Placement, ProfileError> {
        if !watch.is_on() {
            return Ok(Placement::Unknown);
        }
        self.pressure.mute();
        self.subject.rest()?;
        let said = watch.since();
        watch.note(sieve.settle(said), 0);
        self.pressure.turn_to(percent(0.0));
        self.subject.wake()?;
        Ok(said)
    }

    fn quiet(&mut self) -> Result<f64, ProfileError> {
        self.pressure.turn_to(percent(0.0));
        self.subject.wake()?;
        self.settle()?;
        self.speed()
    }

    fn speed(&mut self) -> Result<f64, ProfileError> {
        Ok(of_interest(self.resource, self.subject.speed(self.effort.window)?))
    }

    /// Lets the workload go on while caches fill.
    fn settle(&mut self) -> Result<(), ProfileError> {
        pause(self.effort.settle, self.stop)
    }

    /// The workload's speed under pressure.
    fn pressed(&mut self, level: f64) -> Result<f64, ProfileError> {
        self.pressure.turn_to(percent(level));
        self.settle()?;
        self.speed()
    }

    /// The reporter's rate beside the workload over its rate beside nothing. What a look puts aside is
    /// measured once more while there is time.
    fn reporter(&mut self, end: Instant, watch: &mut Watch) -> Result<Vec<f64>, ProfileError> {
        let mut sieve = Sieve::default();
        for _ in 0..2 {
            self.reporter_by_turns()?.into_iter().for_each(|ratio| sieve.push(ratio));
            let said = self.settle_by_look(&mut sieve, watch)?;
            if !said.disturbs() || Instant::now() >= end {
                break;
            }
        }
        Ok(counted(sieve, watch))
    }

    /// By turns. The pressure stays on all the while: a kernel that was just turned up has a cold
    /// cache to fill first.
    fn reporter_by_turns(&mut self) -> Result<Vec<f64>, ProfileError> {
        self.pressure.turn_to(percent(100.0));
        self.subject.rest()?;
        pause(self.effort.settle * WARM_UP, self.stop)?;
        let (mut before, mut ratios) = (self.alone()?, Vec::new());
        for _ in 0..self.effort.pairs {
            self.subject.wake()?;
            self.settle()?;
            let mark = Mark::of(self.pressure);
            self.speed()?;
            let beside = mark.rate(self.pressure);
            self.subject.rest()?;
            let after = self.alone()?;
            if before + after > 0.0 {
                ratios.push(beside / f64::midpoint(before, after));
            }
            before = after;
        }
        self.subject.wake()?;
        Ok(ratios)
    }

    /// The same beside a workload that must not be stopped (`beside.rs`).
    fn reporter_beside(&mut self) -> Result<Result<Vec<f64>, String>, ProfileError> {
        let cpu_time = |subject: &dyn Subject| subject.cpu_time();
        if cpu_time(self.subject).is_none() {
            return Ok(Err("what it causes is not known: its CPU time cannot be read".to_owned()));
        }
        self.pressure.turn_to(percent(100.0));
        pause(self.effort.settle * WARM_UP, self.stop)?;
        let mut windows = Vec::new();
        let affordable = self.effort.budget.as_micros() / (4 * BESIDE_WINDOW.as_micros());
        for _ in 0..affordable.clamp(BESIDE_WINDOWS.0, BESIDE_WINDOWS.1) {
            let (mark, from) = (Mark::of(self.pressure), cpu_time(self.subject));
            pause(BESIDE_WINDOW, self.stop)?;
            let (rate, wall) = (mark.rate(self.pressure), mark.age().as_secs_f64());
            let used = cpu_time(self.subject).zip(from).and_then(|(to, from)| to.checked_sub(from));
            windows.extend(used.map(|used| Window { used: used.as_secs_f64() / wall, rate }));
        }
        Ok(ratios(&windows))
    }

    /// The reporter's rate while the workload rests.
    fn alone(&mut self) -> Result<f64, ProfileError> {
        self.settle()?;
        let mark = Mark::of(self.pressure);
        pause(self.effort.window, self.stop)?;
        Ok(mark.rate(self.pressure))
    }
}

/// What counts of these ratios.
fn counted(sieve: Sieve, watch: &mut Watch) -> Vec<f64> {
    let (ratios, disturbed) = sieve.end();
    watch.note(0, disturbed);
    ratios
}

/// Pairs that may be measured at one level besides, for those that were put aside.
const AGAIN: usize = 6;
/// Before the first look at a reporter: so many times as long as after each turn of the dial.
const WARM_UP: u32 = 8;
/// Windows beside a workload that is not stopped, short enough to fall between its bursts.
const BESIDE_WINDOW: Duration = Duration::from_millis(3);
/// So many, by the time that there is: enough for some ratios, and no more than tells something.
const BESIDE_WINDOWS: (u128, u128) = (64, 320);

/// A kernel's counters at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    work: u64,
    cpu: Duration,
    at: Instant,
}

impl Mark {
    /// Now.
    pub(crate) fn of(kernel: &Running) -> Mark {
        Mark { work: kernel.work(), cpu: kernel.cpu_time(), at: Instant::now() }
    }

    /// Time since then.
    pub(crate) fn age(self) -> Duration {
        self.at.elapsed()
    }

    /// Work by time since then. A kernel that never waits is judged by its CPU time: what the
    /// measurement itself takes of the CPU is not the workload's doing.
    pub(crate) fn rate(self, kernel: &Running) -> f64 {
        let now = Mark::of(kernel);
        let (wall, cpu) = ((now.at - self.at).as_secs_f64(), now.cpu.saturating_sub(self.cpu));
        let ran = cpu.as_secs_f64();
        let spent = if ran > 0.3 * wall { ran } else { wall };
        now.work.wrapping_sub(self.work) as f64 / spent.max(1e-9)
    }
}

#[cfg(test)]
mod tests;
