//! Interconnect: messages from core to core (B-2: 14).
//!
//! The threads stand in a ring and share a set of cache lines. Each line names the thread whose turn
//! it is; that one takes it, which moves the line to its core, and hands it to the next. All lines
//! are under way at once. Handing on is the work: a line that nobody else wanted is not counted.
//!
//! The threads work at the same moments ([`crate::resource::Scales::TogetherInTime`]): a message
//! needs its receiver.

use super::{Kernel, Probe};
use crate::region::Line;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Instant;

/// Lines under way, each second one of its neighbours: prefetchers take lines in pairs.
const LINES: usize = 128;
const APART: usize = 2;

/// The lines of a ring.
pub(crate) struct Ring {
    lines: Vec<Line>,
    threads: u64,
}

impl Ring {
    /// A ring of so many threads; all lines begin at the first.
    pub(crate) fn of(threads: usize) -> Ring {
        let lines = std::iter::repeat_with(Line::default).take(LINES * APART).collect();
        Ring { lines, threads: threads.max(1) as u64 }
    }
}

/// The kernel of one thread of the ring.
pub(crate) struct Interconnect {
    ring: Arc<Ring>,
    me: u64,
}

impl Interconnect {
    pub(crate) fn new(ring: Arc<Ring>, me: usize) -> Self {
        Interconnect { ring, me: me as u64 }
    }

    /// Hands on all lines whose turn is ours.
    fn pass(&self) -> u64 {
        let next = (self.me + 1) % self.ring.threads;
        let mut passed = 0;
        for line in self.ring.lines.iter().step_by(APART) {
            if line.word.load(Acquire) == self.me {
                line.word.store(next, Release);
                passed += 1;
            }
        }
        passed
    }
}

impl Kernel for Interconnect {
    fn burst(&mut self) -> Result<u64, String> {
        Ok(self.pass())
    }

    /// The mean time of a message, over a pass in which some came.
    fn probe(&mut self) -> Option<Probe> {
        let start = Instant::now();
        let accesses = self.pass();
        (accesses > 0).then(|| Probe { took: start.elapsed(), accesses })
    }

    fn footprint_bytes(&self) -> u64 {
        (LINES * size_of::<Line>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_round_and_only_in_turn() {
        let ring = Arc::new(Ring::of(3));
        let mut threads: Vec<_> =
            (0..3).map(|me| Interconnect::new(Arc::clone(&ring), me)).collect();
        assert_eq!(threads[1].burst().unwrap(), 0, "not its turn");
        for _ in 0..2 {
            for thread in &mut threads {
                assert_eq!(thread.burst().unwrap(), LINES as u64);
                assert_eq!(thread.burst().unwrap(), 0, "handed on already");
            }
        }
        assert_eq!(threads[2].probe(), None);
        assert_eq!(threads[0].probe().unwrap().accesses, LINES as u64);
        assert!(ring.lines.iter().step_by(APART).all(|line| line.word.load(Acquire) == 1));
    }
}
