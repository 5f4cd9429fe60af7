//! What a workload causes: the rate of a kernel as a reporter, beside it and beside nothing.

use super::found::is_clear;
use super::{Effort, Trial, counted};
use crate::beside::{Window, ratios};
use crate::canary::{Sieve, Watch};
use crate::desk::{pause, percent};
use crate::{ProfileError, Subject};
use quell_pressure::Running;
use std::time::{Duration, Instant};

/// Before the first look at a reporter: so many times as long as after each turn of the dial.
const WARM_UP: u32 = 8;
/// Windows beside a workload that is not stopped, short enough to fall between its bursts.
const BESIDE_WINDOW: Duration = Duration::from_millis(3);
/// So many, by the time that there is: enough for some ratios, and no more than tells something.
const BESIDE_WINDOWS: (u128, u128) = (64, 320);

/// A kernel's rate beside nothing is known in this: unlike a workload's it has no requests that differ.
const ALONE_WINDOW: Duration = Duration::from_millis(40);
/// Turns that are listened to although the time is up; of a command whose runs are long, one.
const LEAST_TURNS: usize = 2;
/// A reporter is listened to so often at most.
const MOST_ROUNDS: usize = 5;
/// For people, where a workload that must not be stopped does not tell its CPU time.
const NO_CPU_TIME: &str = "what it causes is not known: its CPU time cannot be read";

impl Trial<'_> {
    /// The same by what was heard while the workload was pressed on; if that is nothing, or says little and there is time,
    /// it is listened to besides.
    pub(super) fn caused(
        &mut self,
        end: Instant,
        watch: &mut Watch,
    ) -> Result<Vec<f64>, ProfileError> {
        let mut ratios = self.heard.take().map_or(Vec::new(), |heard| counted(heard, watch));
        let time_left = Instant::now() + self.listening_takes(self.window) < end;
        if ratios.is_empty() || time_left && !is_clear(&ratios) {
            ratios.extend(self.reporter(end, watch)?);
        }
        Ok(ratios)
    }

    /// The workload's speed under full pressure, which is heard too: just before, meanwhile and just after.
    pub(super) fn pressed_and_heard(&mut self) -> Result<f64, ProfileError> {
        let before = self.alone()?;
        let mark = Mark::of(self.pressure);
        let speed = self.speed()?;
        let beside = mark.rate(self.pressure);
        let after = self.alone()?;
        if before + after > 0.0 {
            let ratio = beside / f64::midpoint(before, after);
            self.heard.iter_mut().for_each(|heard| heard.push(ratio));
        }
        Ok(speed)
    }

    /// The reporter's rate beside the workload over its rate beside nothing. While there is time it is listened to once
    /// more, if a look puts something aside or the loss is not known well.
    pub(super) fn reporter(
        &mut self,
        end: Instant,
        watch: &mut Watch,
    ) -> Result<Vec<f64>, ProfileError> {
        let mut sieve = Sieve::default();
        for _ in 0..MOST_ROUNDS {
            let begun = Instant::now();
            self.reporter_by_turns(end)?.into_iter().for_each(|ratio| sieve.push(ratio));
            let disturbed = self.settle_by_look(&mut sieve, watch)?.disturbs();
            let time_left = Instant::now() + begun.elapsed() < end;
            if !time_left || !disturbed && is_clear(&sieve.values()) {
                break;
            }
        }
        Ok(counted(sieve, watch))
    }

    /// About how long that takes, of a workload whose window takes so long.
    pub(super) fn listening_takes(&self, window: Duration) -> Duration {
        let Effort { settle, listens, .. } = self.effort;
        let turns = u32::try_from(listens).unwrap_or(u32::MAX);
        let alone = settle + self.alone_window();
        settle * WARM_UP + alone + (settle + window + alone) * turns
    }

    /// By turns. The pressure stays on all the while: a kernel that was just turned up has a cold
    /// cache to fill first.
    fn reporter_by_turns(&mut self, end: Instant) -> Result<Vec<f64>, ProfileError> {
        self.pressure.turn_to(percent(100.0));
        self.subject.rest()?;
        pause(self.effort.settle * WARM_UP, self.stop)?;
        let (mut before, mut ratios) = (self.alone()?, Vec::new());
        for turn in 0..self.effort.listens {
            let least = if self.has_time_for_a_pair(end) { LEAST_TURNS } else { 1 };
            if turn >= least && Instant::now() >= end {
                break;
            }
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
    pub(super) fn reporter_beside(&mut self) -> Result<Result<Vec<f64>, String>, ProfileError> {
        let cpu_time = |subject: &dyn Subject| subject.cpu_time();
        if cpu_time(self.subject).is_none() {
            return Ok(Err(NO_CPU_TIME.to_owned()));
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
        pause(self.alone_window(), self.stop)?;
        Ok(mark.rate(self.pressure))
    }

    /// Links and disks come and go in pieces.
    fn alone_window(&self) -> Duration {
        let comes_in_pieces = self.pressure.resource().makes_wait();
        if comes_in_pieces { self.effort.window } else { self.effort.window.min(ALONE_WINDOW) }
    }
}

/// A kernel's counters at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    work: u64,
    cpu: Duration,
    /// Without what others took of its CPUs.
    present: Option<Duration>,
    at: Instant,
}

impl Mark {
    /// Now.
    pub(crate) fn of(kernel: &Running) -> Mark {
        let present = kernel.resource().makes_wait().then(|| kernel.present_time()).flatten();
        Mark { work: kernel.work(), cpu: kernel.cpu_time(), present, at: Instant::now() }
    }

    /// Time since then.
    pub(crate) fn age(self) -> Duration {
        self.at.elapsed()
    }

    /// Work by time since then: of a kernel that waits for a link or a disk, the time that others left it; of all
    /// others, which never wait, their CPU time. What the measurement itself takes of the CPU is not the workload's
    /// doing.
    pub(crate) fn rate(self, kernel: &Running) -> f64 {
        let now = Mark::of(kernel);
        now.work.wrapping_sub(self.work) as f64 / self.spent(now).as_secs_f64().max(1e-9)
    }

    fn spent(self, now: Mark) -> Duration {
        let (wall, cpu) = (now.at - self.at, now.cpu.saturating_sub(self.cpu));
        let by_cpu = if cpu > wall.mul_f64(BARELY) { cpu } else { wall };
        let present = now.present.zip(self.present).map(|(now, then)| now.saturating_sub(then));
        present.unwrap_or(by_cpu)
    }
}

/// Who uses less of a CPU than this share was not there.
const BARELY: f64 = 0.3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reporter_is_judged_by_the_time_that_it_had() {
        let ms = Duration::from_millis;
        let then = Mark { work: 0, cpu: ms(0), present: None, at: Instant::now() };
        let after =
            |cpu_ms, present| Mark { cpu: ms(cpu_ms), present, at: then.at + ms(100), ..then };
        let waits = Mark { present: Some(ms(5)), ..then };
        for (what, then, now, spent) in [
            ("it never waits: its CPU time", then, after(80, None), 80),
            ("it was hardly there", then, after(20, None), 100),
            ("it waits: what others left it", waits, after(20, Some(ms(65))), 60),
            ("the kernel does not tell", then, after(50, Some(ms(65))), 50),
        ] {
            assert_eq!(then.spent(now), ms(spent), "{what}");
        }
    }
}
