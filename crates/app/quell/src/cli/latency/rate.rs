//! How much is asked of a service where nobody says it.
//!
//! # Problem
//! A window of some tens of milliseconds tells by its requests, and a few hundred a second are too few of them. But a
//! service that is all but overloaded tells of its queue, and the load's own work takes the pressure's CPU away.
//!
//! # Idea
//! Under some load it is read what a request takes of CPU time, of the service and of the load. From that:
//!
//! ```text
//! rate = min(BUSY_FRAC * the service's CPUs / what the service takes, CLIENT_FRAC / what the load takes)
//! ```
//!
//! in requests per second; where there is time twice, since a request takes more where few of them come: the CPU
//! sleeps in between, and caches are cold. The nearest of a few rates is taken, so that a second profile has the same
//! load as a rule.
//!
//! The load's share is a compromise. While it is at work the kernel that presses is not, so that full pressure is a
//! fifth less than that; with half of it, intervals are several times as wide (`docs/experiments/profiles.md`).
//!
//! # Degradation
//! Where the service's CPU time cannot be read the rate is as it was.

use super::{Loaded, USUAL_QPS, process_cpu_time};
use quell_profiler::{ProfileError, Subject as _};
use std::time::Duration;

/// For this part of the time the service is busy.
const BUSY_FRAC: f64 = 0.3;
/// This part of one CPU is enough for the load.
const CLIENT_FRAC: f64 = 0.2;
/// Less says nothing of a service.
const LEAST_QPS: f64 = 1.0;
/// Who answers less of what is asked does not keep up.
const KEEPS_UP_FRAC: f64 = 0.7;
/// Rates, and ten times, a hundred times, ... as much.
const STEPS: [f64; 7] = [1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0];
/// Connections are made, and what is asked first is read, in this.
const WARM: Duration = Duration::from_millis(30);
const LENGTH: Duration = Duration::from_millis(120);

/// What a request takes, in seconds of CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    service_s: f64,
    client_s: f64,
}

impl Loaded {
    /// Asks as much of the service as its CPUs do in about a third of the time; read so often.
    pub(super) fn find_usual_rate(
        &mut self,
        cpus: usize,
        rounds: usize,
    ) -> Result<(), ProfileError> {
        self.set_rate(USUAL_QPS);
        for _ in 0..rounds {
            let Some(cost) = self.cost()? else { break };
            self.set_rate(usual_qps(cost, cpus));
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

    fn cost(&mut self) -> Result<Option<Cost>, ProfileError> {
        let client = || process_cpu_time(std::process::id());
        self.wake()?;
        self.pause(WARM)?;
        let before = client();
        let (done, service) = self.answers(LENGTH)?;
        let client = client().zip(before).and_then(|(now, then)| now.checked_sub(then));
        self.work_off()?;
        let each = |all: Duration| all.as_secs_f64() / done.answered as f64;
        Ok(service
            .zip(client)
            .map(|(service, client)| Cost { service_s: each(service), client_s: each(client) }))
    }
}

fn usual_qps(cost: Cost, cpus: usize) -> f64 {
    let by_service = BUSY_FRAC * cpus as f64 / cost.service_s.max(1e-9);
    let by_client = CLIENT_FRAC / cost.client_s.max(1e-9);
    step_near(by_service.min(by_client).max(LEAST_QPS))
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
    fn a_service_is_busy_for_a_third_of_the_time_and_the_load_costs_little() {
        let table = [
            // A third of one CPU; of four.
            (1000.0, 10.0, 1, 300.0),
            (1000.0, 10.0, 4, 1000.0),
            // The load takes more than the service.
            (40.0, 95.0, 1, 2000.0),
            // Who takes a second is asked once in one.
            (1e6, 10.0, 1, 1.0),
        ];
        for (service_us, client_us, cpus, qps) in table {
            let cost = Cost { service_s: service_us * 1e-6, client_s: client_us * 1e-6 };
            assert_eq!(usual_qps(cost, cpus), qps, "{service_us} {client_us} {cpus}");
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
