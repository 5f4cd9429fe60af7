//! How much is asked of a service where nobody says it.
//!
//! # Problem
//! A window of some tens of milliseconds tells by its requests, and a few hundred a second are too few of them. But a
//! service that is all but overloaded tells of its queue, and the load's own work takes the pressure's CPU away.
//!
//! # Idea
//! Under some load it is read what a request takes of the service's CPU time. From that:
//!
//! ```text
//! rate = min(BUSY_FRAC * the service's CPUs / what a request takes, MOST_QPS)
//! ```
//!
//! in requests per second; where there is time twice, since a request takes more where few of them come: the CPU
//! sleeps in between, and caches are cold. The nearest of a few rates is taken, so that a second profile has the same
//! load as a rule.
//!
//! `MOST_QPS` is a compromise. While the load is at work the kernel that presses is not: at that rate it takes about a
//! fifth of a CPU here, so that full pressure is a fifth less than that. With half of it intervals are several times as
//! wide (`docs/experiments/profiles.md`). What the load takes itself is not asked for: at a few hundred requests a
//! second each takes several times what it takes at a few thousand, and never twice the same.
//!
//! # Degradation
//! Where the service's CPU time cannot be read the rate is as it was.

use super::{Loaded, USUAL_QPS};
use quell_profiler::{ProfileError, Subject as _};
use std::time::Duration;

/// For this part of the time the service is busy.
const BUSY_FRAC: f64 = 0.3;
/// More tell hardly more.
const MOST_QPS: f64 = 2000.0;
/// Less says nothing of a service.
const LEAST_QPS: f64 = 1.0;
/// Who answers less of what is asked does not keep up.
const KEEPS_UP_FRAC: f64 = 0.7;
/// Rates, and ten times, a hundred times, ... as much.
const STEPS: [f64; 7] = [1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0];
/// Connections are made, and what is asked first is read, in this.
const WARM: Duration = Duration::from_millis(30);
const LENGTH: Duration = Duration::from_millis(120);

impl Loaded {
    /// Asks as much of the service as its CPUs do in about a third of the time; read so often.
    pub(super) fn find_usual_rate(
        &mut self,
        cpus: usize,
        rounds: usize,
    ) -> Result<(), ProfileError> {
        self.set_rate(USUAL_QPS);
        for _ in 0..rounds {
            let Some(request_s) = self.request_s()? else { break };
            self.set_rate(usual_qps(request_s, cpus));
        }
        Ok(())
    }

    /// An error if it does not keep up with its rate, nothing pressing: then its tail is the length of the queue, of
    /// which any window says that it is long.
    pub(super) fn check_bears(&mut self) -> Result<(), ProfileError> {
        self.wake()?;
        self.pause(WARM)?;
        let before = self.tally();
        self.answers(LENGTH)?;
        let done = self.tally().since(before);
        let keeps_up = done.answered as f64 >= KEEPS_UP_FRAC * done.asked as f64;
        // What is left may take long to work off, and nobody waits for it.
        self.live = self.live.take().filter(|_| keeps_up);
        if keeps_up { Ok(()) } else { Err(self.overloaded()) }
    }

    /// CPU time of the service for a request, in seconds; none where that cannot be read.
    fn request_s(&mut self) -> Result<Option<f64>, ProfileError> {
        self.wake()?;
        self.pause(WARM)?;
        let (done, used) = self.answers(LENGTH)?;
        self.work_off()?;
        Ok(used.map(|used| used.as_secs_f64() / done.answered as f64))
    }
}

fn usual_qps(request_s: f64, cpus: usize) -> f64 {
    let bears = BUSY_FRAC * cpus as f64 / request_s.max(1e-9);
    step_near(bears.clamp(LEAST_QPS, MOST_QPS))
}

/// The nearest step, by its ratio, to a number of 1 and more.
fn step_near(number: f64) -> f64 {
    let unit = 10_f64.powi(number.log10().floor() as i32);
    let distance = |step: f64| (step * unit / number).ln().abs();
    let near = STEPS.into_iter().min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    near.unwrap_or(1.0) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_busy_for_a_third_of_the_time_and_asked_so_much_at_most() {
        let table = [
            // A third of one CPU; of four.
            (1000.0, 1, 300.0),
            (1000.0, 4, 1000.0),
            // Who takes next to nothing is asked enough.
            (40.0, 1, 2000.0),
            // Who takes a second is asked once in one.
            (1e6, 1, 1.0),
        ];
        for (request_us, cpus, qps) in table {
            assert_eq!(usual_qps(request_us * 1e-6, cpus), qps, "{request_us} {cpus}");
        }
    }

    #[test]
    fn the_nearest_of_a_few_rates_is_taken() {
        for (number, near) in [(1.0, 1.0), (1.26, 1.5), (84.0, 100.0), (83.0, 70.0), (2149.0, 2e3)]
        {
            assert_eq!(step_near(number), near, "{number}");
        }
    }
}
