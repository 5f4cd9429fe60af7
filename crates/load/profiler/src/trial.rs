//! One workload beside one kind of pressure: pairs of windows, one quiet and one under pressure,
//! interleaved, so that what other tenants of the host do hits both alike.
//!
//! ```text
//! the workload's:  quiet · press · quiet · press · quiet …   ratio = press / mean of both quiet ones
//! the reporter's:  alone · beside · alone · beside · alone … ratio = beside / mean of both alone
//! ```
//!
//! A command that is run over and over rests between two runs by itself, and a run may be long. So the reporter, which is
//! the pressure itself, is heard while the command is pressed on in full, and just before and after: alone · press · alone.
//! Links and disks, which go faster for a while when they are turned up, are listened to all the same.
//!
//! Quiet means that the pressure's threads spin on PAUSE: its CPU is awake in both windows, so waking and
//! clock speed are not taken for interference. Now and then, workload and pressure at rest, it is looked
//! whether the host runs both CPUs on one core (`canary`); windows before such a look are put aside and
//! measured again, as far as the time allows.
//!
//! ```text
//! budget = search · levels of the grid · more pairs next to the answer (search.rs) · kept for the reporter
//! kept   = what listening takes, by how long the workload's last quiet window took, and none where the reporter is
//!          heard meanwhile; what the others leave of the budget is the reporter's too
//! ```

mod effort;
mod found;
mod reporter;

pub use effort::Effort;
use effort::LEAST_WINDOW;
pub use found::Found;
pub(crate) use reporter::Mark;

use crate::canary::{Placement, Sieve, Watch};
use crate::curve::Level;
use crate::desk::{pause, percent};
use crate::search::{MOST, Search, Verdict, nearest, verdict};
use crate::stats::median;
use crate::{ProfileError, Speed, Subject};
use quell_pressure::{Resource, Running, Stop};
use std::time::{Duration, Instant};

/// The two sides of a trial.
pub(crate) struct Trial<'a> {
    subject: &'a mut dyn Subject,
    pressure: &'a Running,
    effort: Effort,
    threshold: f64,
    stop: &'a Stop,
    /// Of its time, what is kept for the reporter.
    kept: Duration,
    /// How long the last quiet window took.
    window: Duration,
    /// The reporter's ratios, where it is heard while the workload is pressed on.
    heard: Option<Sieve>,
}

impl<'a> Trial<'a> {
    /// Of this workload beside this pressure.
    pub(crate) fn new(
        subject: &'a mut dyn Subject,
        pressure: &'a Running,
        effort: Effort,
        threshold: f64,
        stop: &'a Stop,
    ) -> Trial<'a> {
        let (kept, window, heard) = (Duration::ZERO, effort.window, None);
        Trial { subject, pressure, effort, threshold, stop, kept, window, heard }
    }
}

/// Network and disk make a workload wait, which its CPU time does not show; all else makes its CPU
/// time dearer, which does not depend on how often it is asked.
fn of_interest(resource: Resource, speed: Speed) -> f64 {
    if resource.makes_wait() { speed.by_wall } else { speed.of_cpu() }
}

impl Trial<'_> {
    /// Searches what is tolerated, fills in the curve, and sees what is caused.
    pub(crate) fn run(&mut self, watch: &mut Watch) -> Result<Found, ProfileError> {
        let end = Instant::now() + self.effort.budget;
        let can_rest = self.subject.can_rest();
        let hears = self.subject.rests_between() && !self.pressure.resource().makes_wait();
        self.heard = hears.then(Sieve::default);
        let listens = can_rest && self.heard.is_none();
        self.kept = if listens { self.listening_takes(self.window) } else { Duration::ZERO };
        let disturbed = watch.kept_windows();
        let mut found = self.searched(end, watch)?;
        self.fill(&mut found, end, watch)?;
        self.refine(&mut found, end, watch)?;
        if can_rest {
            found.reporter = self.caused(end, watch)?;
        } else {
            match self.reporter_beside()? {
                Ok(ratios) => found.reporter = ratios,
                Err(why) => found.no_reporter = Some(why),
            }
        }
        found.disturbed = watch.kept_windows() > disturbed;
        self.pressure.mute();
        Ok(found)
    }

    /// More of what is known already: pairs next to the answer, and turns of the reporter if the loss is not known well;
    /// what is found so is to be put to it. Gives nothing if enough is known of both.
    pub(crate) fn more(&mut self, known: &Found, watch: &mut Watch) -> Result<Found, ProfileError> {
        let end = Instant::now() + self.effort.budget;
        let listens = self.subject.can_rest() && !known.is_cause_clear();
        self.kept = if listens { self.listening_takes(self.window) } else { Duration::ZERO };
        let disturbed = watch.kept_windows();
        let mut both = known.clone();
        self.refine(&mut both, end, watch)?;
        if listens {
            both.reporter.extend(self.reporter(end, watch)?);
        }
        self.pressure.mute();
        both.disturbed = watch.kept_windows() > disturbed;
        Ok(both.beyond(known))
    }

    fn searched(&mut self, end: Instant, watch: &mut Watch) -> Result<Found, ProfileError> {
        let mut found = Found::default();
        let mut search = Search::new(self.effort.resolution);
        while let Some(level) = search.next() {
            let said = self.level(&mut found, level, end, watch)?;
            search.tell(said);
            if self.is_up(end) || !self.has_time_for_a_pair(end) {
                found.cut_short = search.next().is_some();
                break;
            }
        }
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
            let over = measured >= MOST + AGAIN || self.must_end(measured, end);
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
            if !done && !self.is_up(end) {
                found.levels.push(self.pairs(level, end, watch)?);
            }
        }
        Ok(())
    }

    /// More pairs where they tell most, while there is time and the answer is not known well enough.
    fn refine(
        &mut self,
        found: &mut Found,
        end: Instant,
        watch: &mut Watch,
    ) -> Result<(), ProfileError> {
        while !self.is_up(end) {
            let answer = found.tolerated(self.threshold);
            let next = nearest(&found.levels, answer.value);
            let Some(at) = next.filter(|_| answer.width() > self.effort.resolution) else { break };
            let pairs = self.pairs_until(end).min(REFINED);
            if pairs == 0 {
                break;
            }
            found.take(self.pairs_of(pairs, at, end, watch)?);
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
        self.pairs_of(self.effort.pairs, level, end, watch)
    }

    fn pairs_of(
        &mut self,
        wanted: usize,
        level: f64,
        end: Instant,
        watch: &mut Watch,
    ) -> Result<Level, ProfileError> {
        let (mut sieve, mut before) = (Sieve::default(), self.quiet()?);
        loop {
            before = self.one_pair(level, before, &mut sieve)?;
            let measured = sieve.measured();
            let up = self.is_up(end) || measured >= wanted + AGAIN;
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
        self.heard.iter_mut().for_each(|heard| _ = heard.settle(said));
        self.pressure.turn_to(percent(0.0));
        self.subject.wake()?;
        Ok(said)
    }

    fn quiet(&mut self) -> Result<f64, ProfileError> {
        self.pressure.turn_to(percent(0.0));
        self.subject.wake()?;
        self.settle()?;
        let begun = Instant::now();
        let speed = self.speed()?;
        self.window = begun.elapsed();
        if !self.kept.is_zero() {
            self.kept = self.listening_takes(self.window);
        }
        Ok(speed)
    }

    /// Whether only the time that is kept is left.
    fn is_up(&self, end: Instant) -> bool {
        Instant::now() + self.kept >= end
    }

    /// Whether so many pairs at a level have to do: two at least, but for runs of a command so long that no second one is
    /// over in time.
    fn must_end(&self, measured: usize, end: Instant) -> bool {
        measured > 1 && self.is_up(end) || measured > 0 && !self.has_time_for_a_pair(end)
    }

    /// Whether a level can be begun: runs of a command may be long, and so may pieces of its work.
    fn has_time_for_a_pair(&self, end: Instant) -> bool {
        self.pairs_until(end) > 0
    }

    /// How many pairs at a level there is time for, the quiet window before them included; as many as may be wanted of
    /// windows that take no longer than they should.
    fn pairs_until(&self, end: Instant) -> usize {
        let usual = self.effort.window.max(LEAST_WINDOW);
        if !self.subject.rests_between() && self.window <= usual * LONG {
            return usize::MAX;
        }
        let left = end.saturating_duration_since(Instant::now() + self.kept);
        let windows = left.as_secs_f64() / self.window.as_secs_f64().max(1e-9);
        ((windows - 1.0) / 2.0).max(0.0) as usize
    }

    fn speed(&mut self) -> Result<f64, ProfileError> {
        Ok(of_interest(self.pressure.resource(), self.subject.speed(self.effort.window)?))
    }

    /// Lets the workload go on while caches fill.
    fn settle(&mut self) -> Result<(), ProfileError> {
        pause(self.effort.settle, self.stop)
    }

    /// The workload's speed under pressure.
    fn pressed(&mut self, level: f64) -> Result<f64, ProfileError> {
        self.pressure.turn_to(percent(level));
        if self.heard.is_some() && level >= 100.0 {
            return self.pressed_and_heard();
        }
        self.settle()?;
        self.speed()
    }
}

/// What counts of these ratios.
pub(crate) fn counted(sieve: Sieve, watch: &mut Watch) -> Vec<f64> {
    let (ratios, disturbed) = sieve.end();
    watch.note(0, disturbed);
    ratios
}

/// Whose windows take so many times as long as they should counts its progress in large pieces.
const LONG: u32 = 4;
/// Pairs that may be measured at one level besides, for those that were put aside.
const AGAIN: usize = 6;
/// Pairs that are measured at a time where the answer is not known well enough: each time begins with a quiet window.
const REFINED: usize = 3;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
