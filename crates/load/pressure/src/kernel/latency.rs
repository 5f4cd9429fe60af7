//! Timing a few dependent accesses.

use super::Probe;
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
