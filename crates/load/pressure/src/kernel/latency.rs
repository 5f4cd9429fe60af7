//! Timing a few dependent accesses.

use super::Probe;
use super::random::{below, step};
use crate::region::Line;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A mean above this is no access to memory but a thread that lost its CPU meanwhile.
const LONGEST_ACCESS: Duration = Duration::from_micros(2);

/// Times chains of dependent accesses, less what reading the clock itself costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    clock: Duration,
}

impl Stopwatch {
    pub(crate) fn new() -> Self {
        let once = || {
            let start = Instant::now();
            start.elapsed()
        };
        let clock = (0..100).map(|_| once()).min().unwrap_or(Duration::ZERO);
        Stopwatch { clock }
    }

    /// Times `accesses` accesses; none if the thread was evidently interrupted.
    pub(crate) fn time(self, accesses: u32, chain: impl FnOnce()) -> Option<Probe> {
        let start = Instant::now();
        chain();
        let took = start.elapsed().saturating_sub(self.clock);
        (took <= LONGEST_ACCESS * accesses).then_some(Probe { took, accesses: accesses.into() })
    }
}

/// Reads `count` random lines, each chosen only when the one before has arrived.
fn chase(lines: &[Line], start: u64, count: u32) -> u64 {
    let mut state = start;
    for _ in 0..count {
        let arrived = lines[below(state, lines.len() as u64)].word.load(Relaxed);
        // Zero, but only the loaded word says so.
        state = step(state).wrapping_add(arrived >> 63);
    }
    state
}

/// Times `accesses` dependent reads at random among these lines (at least one), and moves the
/// generator's state on; none if the thread was evidently interrupted.
pub(crate) fn time_chain(
    watch: Stopwatch,
    lines: &[Line],
    state: &mut u64,
    accesses: u32,
) -> Option<Probe> {
    let mut next = *state;
    let probe = watch.time(accesses, || next = chase(lines, next, accesses));
    *state = std::hint::black_box(next);
    probe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_chain_is_no_sample() {
        let watch = Stopwatch::new();
        let long = watch.time(4, || std::thread::sleep(Duration::from_millis(1)));
        assert_eq!(long, None);
        let short = (0..1000).find_map(|_| watch.time(1000, || ()));
        assert_eq!(short.map(|probe| probe.accesses), Some(1000));
    }
}
