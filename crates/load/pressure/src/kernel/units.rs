//! Execution units of a core: a register-only loop that never waits for memory (B-2: 12, 15).

use super::{Kernel, Probe};
use std::time::Instant;

/// Loop rounds a burst: some microseconds.
const ROUNDS: u64 = 2048;
/// Loop rounds of a latency sample.
const SHORT: u64 = 128;

/// A loop over registers. Gives one of its chains, so that nothing can be left out.
#[derive(Clone, Copy)]
pub(crate) struct Loop {
    /// For the report.
    pub(crate) name: &'static str,
    /// Computing instructions in one round.
    pub(crate) per_round: u64,
    /// Runs so many rounds, at least one, from a starting value; the result is that value and one
    /// for each step of its chain.
    pub(crate) run: fn(start: f64, rounds: u64) -> f64,
    /// Steps of the result's chain in one round.
    #[cfg_attr(not(test), expect(dead_code, reason = "what the tests hold the loop to"))]
    pub(crate) steps: u64,
}

/// The kernel: any such loop.
pub(crate) struct Units {
    form: Loop,
}

impl Units {
    pub(crate) fn new(form: Loop) -> Self {
        Units { form }
    }

    fn rounds(&self, rounds: u64) -> u64 {
        std::hint::black_box((self.form.run)(std::hint::black_box(0.0), rounds));
        rounds * self.form.per_round
    }
}

impl Kernel for Units {
    fn burst(&mut self) -> Result<u64, String> {
        Ok(self.rounds(ROUNDS))
    }

    /// Mean time of an operation over a short run: it grows when an SMT sibling takes its units.
    fn probe(&mut self) -> Option<Probe> {
        let start = Instant::now();
        let accesses = self.rounds(SHORT);
        Some(Probe { took: start.elapsed(), accesses })
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("instructions: {}", self.form.name)]
    }
}

/// Holds a loop to its word: each round counts, and no rounds are one.
#[cfg(test)]
pub(crate) fn keeps_its_word(form: Loop) {
    for rounds in [1, 2, 1000] {
        let wanted = 5.0 + (rounds * form.steps) as f64;
        assert_eq!((form.run)(5.0, rounds), wanted, "{} x {rounds}", form.name);
    }
    assert_eq!((form.run)(5.0, 0), (form.run)(5.0, 1), "no rounds are one, not 2^64");
    let mut kernel = Units::new(form);
    assert_eq!(kernel.burst().unwrap(), ROUNDS * form.per_round);
    assert!(kernel.probe().is_some_and(|probe| probe.accesses == SHORT * form.per_round));
}
