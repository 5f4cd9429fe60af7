//! SMT sibling: all that two hardware threads of a core share, in turns of a few microseconds: integer
//! and vector units, ports to the first-level data cache, the slots in which instructions begin.

use super::integer::{PER_ROUND, crunch};
use super::units::Loop;
use super::{Kernel, Probe, vector};
use crate::region::{LINE, Line, Region};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Loop rounds of each kind in a burst.
const ROUNDS: u64 = 256;
/// Loop rounds of a latency sample.
const SHORT: u64 = 32;
/// Memory that is read: stays in any first-level cache.
const LINES: usize = (16 << 10) / LINE;

/// The kernel. Intensity is its share of the time.
pub(crate) struct SmtSibling {
    vector: Loop,
    region: Region,
    seed: u64,
}

impl SmtSibling {
    pub(crate) fn new(region: Region) -> Self {
        SmtSibling { vector: vector::form(), region, seed: 1 }
    }

    fn rounds(&mut self, rounds: u64) -> u64 {
        self.seed = std::hint::black_box(crunch(self.seed, rounds));
        std::hint::black_box((self.vector.run)(std::hint::black_box(0.0), rounds));
        let lines = &self.region.lines()[..LINES];
        let read = |lines: &[Line]| lines.iter().fold(0, |sum, l| sum ^ l.word.load(Relaxed));
        std::hint::black_box(read(lines));
        rounds * (PER_ROUND + self.vector.per_round) + LINES as u64
    }
}

impl Kernel for SmtSibling {
    fn prepare(&mut self) {
        self.region.lines()[..LINES].iter().for_each(|line| line.word.store(1, Relaxed));
    }

    fn burst(&mut self) -> Result<u64, String> {
        Ok(self.rounds(ROUNDS))
    }

    /// The mean time of an operation: it grows with what the other thread of the core takes.
    fn probe(&mut self) -> Option<Probe> {
        let start = Instant::now();
        let accesses = self.rounds(SHORT);
        Some(Probe { took: start.elapsed(), accesses })
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("integer, {} and loads in turns, on the siblings", self.vector.name)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_all_kinds() {
        let mut kernel = SmtSibling::new(Region::map(1).unwrap());
        kernel.prepare();
        let round = PER_ROUND + kernel.vector.per_round;
        assert_eq!(kernel.burst().unwrap(), ROUNDS * round + 256);
        assert_eq!(kernel.probe().unwrap().accesses, SHORT * round + 256);
    }
}
