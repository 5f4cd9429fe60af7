//! How much of its footprint a kernel of cache capacity really has in the cache, seen from another CPU.
//!
//! Prime and probe cannot tell that of a cache that strangers use, too: what *another's* lines lose depends
//! on what the cache drives out first (the oldest: nothing, until all is full; any: some, at once), and on
//! what the strangers bring in between prime and probe. So the kernel's own lines are looked at: they are
//! flushed, the kernel works, and then some of them are read, one by one, from the other CPU. What comes
//! sooner than from memory was held by a cache, whoever else was there and whatever the cache drives out.
//!
//! ```text
//! far        := the median time of reads of flushed lines
//! near       := the same of lines that a core's own caches do not hold any more, of those that come in less than NEAR of
//!               far: a shared cache may have let most of them go, too, if they were used just once
//! flush all lines; let the kernel work; let it rest
//! held_frac  := share of random lines of all that come in less than (far + near) / 2
//! ```
//!
//! All lines are asked, those too that the kernel does not use at its present intensity. Right before each the first
//! line of its page is read: a translation that has to come from memory takes as long as the line.

use crate::PressureError;
use crate::kernel::{Stopwatch, flush, step, streams, time_chain};
use crate::region::{Line, Region};
use crate::registers::median;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Lines of a look: a share of a half is exact to a hundredth.
const LOOKED_AT: usize = 2048;
/// But no more than one line in so many: those that were looked at are held.
const PART: usize = 64;
/// Lines from which it is learnt what near and far are, each read once and none beside another: what is fetched with
/// another one would count as near.
const LEARNT_FROM: usize = 512;
const GAP: usize = 4;
/// So often: strangers may take what is near just then.
const ATTEMPTS: usize = 8;
/// A core's own caches are swept with so many times their size.
const SWEEPS: usize = 2;
/// What is near is reached in less than this share of the time of what is far.
const NEAR: f64 = 0.8;
/// Of one in so many lines that has to be so, or they are one.
const FEW: usize = 32;
/// Lines of the smallest page that there is.
const PAGE: usize = 4096 / size_of::<Line>();

/// The memory of a kernel of cache capacity, behind one cache. Others may read it while the kernel works.
#[derive(Clone, Debug)]
pub struct Footprint {
    region: Arc<Region>,
    lines: usize,
    nearer_bytes: usize,
    watch: Stopwatch,
    state: u64,
    /// What takes longer comes from memory, in nanoseconds; none until that was learnt.
    border_ns: Option<f64>,
}

impl Footprint {
    /// What a kernel of cache capacity needs for each line until a cache has what it will have of them: it touches
    /// each several times meanwhile.
    pub const FILL_A_LINE: Duration = Duration::from_nanos(40);

    /// Over the first `lines` of a region; a core's own caches before that one hold `nearer_bytes`.
    pub(crate) fn new(region: Arc<Region>, lines: usize, nearer_bytes: usize) -> Footprint {
        let [state] = streams::<1>(1);
        let lines = lines.clamp(1, region.lines().len());
        Footprint { region, lines, nearer_bytes, watch: Stopwatch::new(), state, border_ns: None }
    }

    /// Bytes of it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lines * size_of::<Line>()
    }

    /// Learns, on the thread that will look, how long reads take that come from memory, and from a cache
    /// that cores share. The kernel has to rest. False where the one cannot be told from the other: then
    /// nothing can be looked at.
    ///
    /// # Errors
    /// No memory to sweep the core's own caches with.
    pub fn learn(&mut self) -> Result<bool, PressureError> {
        let sweep = Region::map((SWEEPS * self.nearer_bytes).max(1))?;
        self.border_ns = (0..ATTEMPTS).find_map(|_| self.border(&sweep));
        Ok(self.border_ns.is_some())
    }

    /// Halfway between near and far, if these are two.
    fn border(&mut self, sweep: &Region) -> Option<f64> {
        let scattered = self.scattered();
        self.clear();
        let far = median(self.times_of(&scattered)?);
        let lines = scattered.iter().map(|&at| &self.region.lines()[at]);
        lines.chain(sweep.lines()).for_each(|line| line.word.store(1, Relaxed));
        border(self.times_of(&scattered)?, far)
    }

    /// Some lines, none beside another if there is room, in random order.
    fn scattered(&mut self) -> Vec<usize> {
        let few = LEARNT_FROM.min(self.lines);
        let gap = (self.lines / few).min(GAP);
        let mut lines: Vec<usize> = (0..few).map(|i| i * gap).collect();
        for last in (1..few).rev() {
            self.state = step(self.state);
            lines.swap(last, (self.state >> 32) as usize % (last + 1));
        }
        lines
    }

    /// Takes all lines out of all caches, where a program may do that ([`crate::Chase::FLUSHES`]).
    pub fn clear(&self) {
        self.clear_of(self.lines);
    }

    /// The same of the first lines only.
    pub(crate) fn clear_of(&self, among: usize) {
        flush(self.region.lines()[..among].iter());
    }

    /// The share of all lines that a cache holds, by random ones. None before [`Footprint::learn`], or if the
    /// thread was interrupted all the time.
    pub fn held_frac(&mut self) -> Option<f64> {
        self.held_of(self.lines)
    }

    /// The same of the first lines only.
    pub(crate) fn held_of(&mut self, among: usize) -> Option<f64> {
        let border = self.border_ns?;
        let times = self.times_ns(among, LOOKED_AT.min(among.div_ceil(PART)));
        let held = times.iter().filter(|ns| **ns < border).count();
        (!times.is_empty()).then(|| held as f64 / times.len() as f64)
    }

    /// What so many reads take, each of a random one of the first lines.
    fn times_ns(&mut self, among: usize, reads: usize) -> Vec<f64> {
        let once = |_| {
            self.state = step(self.state);
            self.time_ns(past_the_first(self.state as usize % among, among))
        };
        (0..reads).filter_map(once).collect()
    }

    /// What a read of each of these lines takes, one after the other; none if not one could be timed.
    fn times_of(&mut self, lines: &[usize]) -> Option<Vec<f64>> {
        let times: Vec<f64> = lines.iter().filter_map(|&at| self.time_ns(at)).collect();
        (!times.is_empty()).then_some(times)
    }

    /// What a read of this line takes, after one of the first on its page; none if it was interrupted.
    fn time_ns(&mut self, at: usize) -> Option<f64> {
        let lines = self.region.lines();
        black_box(lines[at - at % PAGE].word.load(Relaxed));
        let probe = time_chain(self.watch, &lines[at..=at], &mut self.state, 1)?;
        Some(probe.took.as_nanos() as f64)
    }
}

/// Not the first line of a page, nor the one that comes with it.
fn past_the_first(at: usize, among: usize) -> usize {
    let past = at - at % PAGE + at % PAGE % (PAGE - 2) + 2;
    if past < among { past } else { at }
}

/// Halfway between what is near and far, if enough of these times are near.
fn border(times: Vec<f64>, far: f64) -> Option<f64> {
    let enough = times.len() / FEW;
    let near: Vec<f64> = times.into_iter().filter(|time| *time < NEAR * far).collect();
    (near.len() > enough).then(|| f64::midpoint(far, median(near)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chase;
    use crate::region::LINE;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_was_flushed_is_not_held_and_what_was_touched_since_is() {
        let mut print =
            Footprint::new(Arc::new(Region::map(2 * MIB).unwrap()), 2 * MIB / LINE, MIB);
        assert_eq!(print.held_frac(), None, "it was not learnt yet what is near");
        if !Chase::FLUSHES {
            return;
        }
        // Other tests may use all of the cache for a while.
        let learnt = (0..20).any(|_| print.learn().unwrap());
        assert!(learnt, "a cache is nearer than memory");
        let mut held = |touched: usize| {
            let seen: Vec<f64> = (0..9)
                .filter_map(|_| {
                    print.clear();
                    let lines = &print.region.lines()[..touched / LINE];
                    lines.iter().for_each(|line| line.word.store(1, Relaxed));
                    print.held_frac()
                })
                .collect();
            median(seen)
        };
        let (none, quarter) = (held(0), held(MIB / 2));
        assert!(none < 0.05, "{none}");
        assert!((0.15..0.3).contains(&quarter), "{quarter}");
    }

    #[test]
    fn it_is_learnt_from_lines_that_lie_apart() {
        let region = Arc::new(Region::map(2 * MIB).unwrap());
        let lines = 2 * MIB / LINE;
        let mut scattered = Footprint::new(Arc::clone(&region), lines, MIB).scattered();
        assert!(!scattered.is_sorted(), "in random order");
        scattered.sort_unstable();
        assert!(scattered.windows(2).all(|pair| pair[1] - pair[0] == GAP), "{scattered:?}");
        assert_eq!(Footprint::new(region, 3, 0).scattered().len(), 3, "as many as there are");
    }

    #[test]
    fn what_is_near_may_be_the_lesser_part() {
        let of = |near: usize, far: usize| [vec![40.0; near], vec![110.0; far]].concat();
        assert_eq!(border(of(60, 452), 120.0), Some(80.0));
        assert_eq!(border(of(512, 0), 120.0), Some(80.0));
        assert_eq!(border(of(10, 502), 120.0), None, "a few may be anything");
        assert_eq!(border(of(0, 512), 120.0), None);
    }

    #[test]
    fn the_first_lines_of_a_page_are_not_looked_at() {
        let (mut seen, lines) = (std::collections::BTreeSet::new(), 4 * PAGE);
        seen.extend((0..lines).map(|at| past_the_first(at, lines)));
        assert_eq!(seen.len(), 4 * (PAGE - 2), "all others are");
        assert!(seen.iter().all(|at| at % PAGE >= 2));
        assert_eq!(past_the_first(0, 1), 0, "there is no other");
    }

    #[test]
    fn it_is_never_larger_than_its_memory() {
        let region = Arc::new(Region::map(2 * MIB).unwrap());
        assert_eq!(Footprint::new(Arc::clone(&region), usize::MAX, 0).bytes(), 2 * MIB);
        assert_eq!(Footprint::new(region, 0, 0).bytes(), LINE);
    }
}
