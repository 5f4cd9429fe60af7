//! Prime and probe: how much of what a cache or a TLB held somebody else took meanwhile.
//!
//! *Prime*: touch all lines (or pages), until the cache holds nothing else. *Wait*, while the other
//! works. *Probe*: time some of them; what was driven out takes longer.
//!
//! Why some of them: a line that is found missing is brought in, and drives out another. If that is
//! one that was still to be looked at, few lost lines become many, and who took a third of a cache
//! seems to have taken all of it. How many depends on what the cache drives out first, which
//! processors do not tell. So a probe looks at one line in [`PART`], in a random order that has
//! nothing to do with the one in which the cache was primed: there is about one such line in a set
//! of [`PART`] ways, and hardly any that a miss could drive out. On average a set that lost k of its
//! ways then shows k / ways, whatever is driven out first.
//!
//! ```text
//! prime: for 2 × lines steps:    at   := next_primed[at]
//! wait
//! probe: for lines / PART steps: from := next_probed[from]; goes on where the last one ended
//! ```

use crate::PressureError;
use crate::kernel::{below, step, streams};
use crate::region::{LINE, Line, Region};
use crate::ticks::ticks;
use crate::worker::cpu_time;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// One line in so many is looked at.
const PART: usize = 16;
/// But so many at least: fewer are short against the clock.
const LEAST: usize = 32;
/// A probe in which the thread was off its CPU for longer is not one.
const INTERRUPTED: Duration = Duration::from_micros(20);

/// Lines of a cache of one's own, on the thread that calls.
#[derive(Debug)]
pub struct PrimeProbe {
    /// Each place holds where the next one is: the primed in the lower half, the probed in the upper.
    region: Region,
    count: usize,
    primed: usize,
    probed: usize,
}

/// What a probe saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Mean time of an access, in nanoseconds.
    pub access_ns: f64,
    /// The thread lost its CPU midway: what it was looking at may be gone for that reason.
    pub interrupted: bool,
}

impl PrimeProbe {
    /// Over the lines of so many bytes, at least two lines, in huge pages where they are to be had:
    /// then every set of a private cache has as many of them as another.
    ///
    /// # Errors
    /// The memory is not to be had.
    pub fn lines(bytes: usize) -> Result<PrimeProbe, PressureError> {
        let count = (bytes / LINE).max(2);
        Ok(PrimeProbe::over(Region::map(count * LINE)?, count))
    }

    fn over(region: Region, count: usize) -> PrimeProbe {
        let [mut state] = streams::<1>(count);
        let (prime, probe) = (cycle(count, &mut state), cycle(count, &mut state));
        let lines = region.lines();
        for (i, (prime, probe)) in prime.into_iter().zip(probe).enumerate() {
            let next = prime as u64 | (probe as u64) << 32;
            lines[i].word.store(next, Relaxed);
        }
        PrimeProbe { region, count, primed: 0, probed: 0 }
    }

    /// How many lines it fills.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Touches all, twice.
    pub fn prime(&mut self) {
        self.primed = walk(self.region.lines(), self.primed, 2 * self.count, |next| next as u32);
    }

    /// Times some of them, others each time.
    pub fn probe(&mut self) -> Look {
        let (watch, begun) = (Watch::start(), Instant::now());
        let some = self.look_at_some();
        let access_ns = begun.elapsed().as_nanos() as f64 / some as f64;
        Look { access_ns, ..watch.look(0.0) }
    }

    /// The mean ticks of an access: the same without clocks that drive out lines of code.
    pub(crate) fn access(&mut self) -> f64 {
        timed(sample_of(self.count), || _ = self.look_at_some())
    }

    fn look_at_some(&mut self) -> usize {
        let some = sample_of(self.count);
        self.probed = walk(self.region.lines(), self.probed, some, |next| (next >> 32) as u32);
        some
    }
}

/// How many of so many are looked at.
pub(crate) fn sample_of(count: usize) -> usize {
    (count / PART).max(LEAST).min(count)
}

/// The mean ticks of so many accesses.
pub(crate) fn timed(accesses: usize, body: impl FnOnce()) -> f64 {
    let begun = ticks();
    body();
    ticks().wrapping_sub(begun) as f64 / accesses as f64
}

/// Sees what a tick is, and whether the thread that calls keeps its CPU.
pub(crate) struct Watch {
    ran: Duration,
    begun: Instant,
    ticks: u64,
}

impl Watch {
    pub(crate) fn start() -> Watch {
        Watch { ran: cpu_time(), begun: Instant::now(), ticks: ticks() }
    }

    /// What was seen since then, from the mean ticks of an access.
    pub(crate) fn look(&self, access: f64) -> Look {
        let (took, ticks) = (self.begun.elapsed(), ticks().wrapping_sub(self.ticks));
        let ran = cpu_time().saturating_sub(self.ran);
        let access_ns = access * took.as_nanos() as f64 / (ticks as f64).max(1.0);
        Look { access_ns, interrupted: took > ran + INTERRUPTED }
    }
}

/// Follows one of the two cycles: each step waits for the one before.
fn walk(lines: &[Line], from: usize, steps: usize, next: impl Fn(u64) -> u32) -> usize {
    let mut at = from;
    for _ in 0..steps {
        at = next(lines[at].word.load(Relaxed)) as usize;
    }
    std::hint::black_box(at)
}

/// One random cycle through `0..count`: who follows each (Sattolo).
fn cycle(count: usize, state: &mut u64) -> Vec<usize> {
    let mut next: Vec<usize> = (0..count).collect();
    for i in (1..count).rev() {
        *state = step(*state);
        next.swap(i, below(*state, i as u64));
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn both_orders_visit_all_and_differ() {
        let mut lines = PrimeProbe::lines(100 * LINE).unwrap();
        let round = |of: fn(u64) -> u32, from: usize| {
            let mut seen = Vec::new();
            let mut at = from;
            for _ in 0..100 {
                at = walk(lines.region.lines(), at, 1, of);
                seen.push(at);
            }
            assert_eq!((at, seen.iter().collect::<BTreeSet<_>>().len()), (from, 100));
            seen
        };
        let (primed, probed) = (lines.primed, lines.probed);
        assert_ne!(round(|n| n as u32, primed), round(|n| (n >> 32) as u32, probed));
        lines.prime();
        assert_eq!(lines.primed, primed, "two rounds end where they began");
        assert!(lines.probe().access_ns > 0.0);
        assert_ne!(lines.probed, probed, "the next look is at others");
    }

    #[test]
    fn what_was_driven_out_takes_longer() {
        let mut mine = PrimeProbe::lines(1 << 20).unwrap();
        let other = Region::map(64 << 20).unwrap();
        let mut median = |disturbed: bool| {
            let mut seen: Vec<f64> = (0..15)
                .map(|_| {
                    mine.prime();
                    if disturbed {
                        other.lines().iter().for_each(|line| line.word.store(1, Relaxed));
                    }
                    mine.probe().access_ns
                })
                .collect();
            seen.sort_by(f64::total_cmp);
            seen[seen.len() / 2]
        };
        let (kept, lost) = (median(false), median(true));
        assert!(lost > 1.5 * kept, "{kept} ns and {lost} ns");
    }

    /// A cache of 64 sets in which line n lies in set n % 64.
    struct Cache {
        sets: Vec<Vec<usize>>,
        ways: usize,
        /// Which of a set's lines goes, oldest first; the second argument is a random number.
        leaves: fn(usize, u64) -> usize,
        state: u64,
    }

    impl Cache {
        const SETS: usize = 64;

        fn new(leaves: fn(usize, u64) -> usize) -> Cache {
            Cache { sets: vec![Vec::new(); Cache::SETS], ways: 16, leaves, state: 7 }
        }

        /// Touches a line; whether it was there.
        fn touch(&mut self, line: usize) -> bool {
            let set = &mut self.sets[line % Cache::SETS];
            let found = set.iter().position(|held| *held == line);
            if let Some(at) = found {
                set.remove(at);
            } else if set.len() == self.ways {
                self.state = step(self.state);
                set.remove((self.leaves)(self.ways, self.state));
            }
            set.push(line);
            found.is_some()
        }
    }

    /// The share of `looks` lines that is missing after somebody took `ways` ways of each set.
    fn seen_missing(leaves: fn(usize, u64) -> usize, ways: usize, part: usize) -> f64 {
        let lines = Cache::SETS * 16;
        let mut state = 1;
        let (prime, probe) = (cycle(lines, &mut state), cycle(lines, &mut state));
        let (mut cache, mut missing, mut looked) = (Cache::new(leaves), 0, 0);
        let (mut primed, mut probed) = (0, 0);
        for _ in 0..8 * part {
            for _ in 0..4 * lines {
                primed = prime[primed];
                cache.touch(primed);
            }
            for _ in 0..40 {
                (0..ways * Cache::SETS).for_each(|i| _ = cache.touch(lines + i));
            }
            for _ in 0..lines / part {
                probed = probe[probed];
                missing += usize::from(!cache.touch(probed));
                looked += 1;
            }
        }
        missing as f64 / looked as f64
    }

    #[test]
    fn a_sample_sees_the_share_that_was_taken_whatever_is_driven_out_first() {
        let oldest: fn(usize, u64) -> usize = |_, _| 0;
        let any: fn(usize, u64) -> usize = |ways, random| below(random, ways as u64);
        for ways in [0, 2, 4, 8, 12, 16] {
            let truth = ways as f64 / 16.0;
            for leaves in [oldest, any] {
                let seen = seen_missing(leaves, ways, PART);
                assert!((seen - truth).abs() < 0.06, "{ways} ways: {seen}");
            }
        }
        // What all lines in the other order would have said.
        assert!(seen_missing(oldest, 4, 1) > 0.5);
    }
}
