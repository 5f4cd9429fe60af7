//! Whether the counters that a PMU offers really count.

use super::attr::{self, Scope};
use super::event::Event;
use super::probe::open_error;
use quell_types::{Gap, Reading};
use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;

/// No PMU in use has more counters for general events.
const MOST_COUNTERS: usize = 16;
/// About a millisecond of work, several million instructions.
const ROUNDS: u64 = 1 << 20;
/// Between opening the first counter and the last nothing is counted, so they agree closely.
const TOLERANCE: f64 = 0.05;

/// How many counters a PMU offers, and how many of them agree when all count the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterCheck {
    /// Counters that the kernel fills at once.
    pub offered: usize,
    /// Counters that agree with the first.
    pub agreeing: usize,
}

impl CounterCheck {
    /// Counts the instructions of a short loop by as many counters as there are.
    ///
    /// # Errors
    /// Absent without a PMU; failed if even the first counter does not count.
    pub fn run() -> Reading<Self> {
        let failed = |error: &io::Error| open_error(Event::Instructions, error);
        let group = largest_group().map_err(|e| failed(&e))?;
        attr::enable(&group[0]).map_err(|e| failed(&e))?;
        let mut sum = 0u64;
        for round in 0..ROUNDS {
            sum = black_box(sum.wrapping_mul(3).wrapping_add(round));
        }
        let (_, running, counts) = attr::read(&group[0], group.len()).map_err(|e| failed(&e))?;
        // Each round is at least one instruction.
        if running == 0 || counts[0] < ROUNDS {
            return Err(Gap::failed(format!(
                "a loop of {ROUNDS} rounds counted {} instructions: the PMU shown here does not count",
                counts[0]
            )));
        }
        let first = counts[0] as f64;
        let agrees = |count: &&u64| (**count as f64 - first).abs() <= TOLERANCE * first;
        let agreeing = counts.iter().filter(agrees).count();
        Ok(Self { offered: group.len(), agreeing })
    }
}

fn largest_group() -> io::Result<Vec<OwnedFd>> {
    let mut group = vec![attr::open(Event::Instructions, Scope::Task(0), None)?];
    while group.len() < MOST_COUNTERS {
        match attr::open(Event::Instructions, Scope::Task(0), group.first()) {
            Ok(counter) => group.push(counter),
            // One more does not fit.
            Err(_) => break,
        }
    }
    Ok(group)
}
