//! How much of its footprint a kernel of cache capacity really has in the cache, seen from another CPU.
//!
//! Prime and probe cannot tell that of a cache that strangers use, too: what *another's* lines lose depends
//! on what the cache drives out first (the oldest: nothing, until all is full; any: some, at once), and on
//! what the strangers bring in between prime and probe. So the kernel's own lines are looked at: they are
//! flushed, the kernel works, and then some of them are read, one by one, from the other CPU. What comes
//! sooner than from memory was held by a cache, whoever else was there and whatever the cache drives out.
//!
//! ```text
//! far, near  := medians of reads of flushed lines, and of lines that a core's own caches do not hold any more
//! flush all lines; let the kernel work; let it rest
//! held_frac  := share of random lines of all that come in less than (far + near) / 2
//! ```
//!
//! All lines are asked, those too that the kernel does not use at its present intensity.

use crate::PressureError;
use crate::kernel::{Stopwatch, flush, step, streams, time_chain};
use crate::region::{Line, Region};
use crate::registers::median;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Lines of a look: a share of a half is exact to a hundredth.
const LOOKED_AT: usize = 2048;
/// But no more than one line in so many: those that were looked at are held.
const PART: usize = 64;
/// Lines from which it is learnt what near and far are.
const LEARNT_FROM: usize = 512;
/// So often: strangers may take what is near just then.
const ATTEMPTS: usize = 8;
/// A core's own caches are swept with so many times their size.
const SWEEPS: usize = 2;
/// What is near is reached in less than this share of the time of what is far, or they are one.
const NEAR: f64 = 0.8;

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
        let few = LEARNT_FROM.min(self.lines);
        self.clear();
        let far = self.median_ns(few)?;
        let lines = &self.region.lines()[..few];
        lines.iter().chain(sweep.lines()).for_each(|line| line.word.store(1, Relaxed));
        let near = self.median_ns(few)?;
        (near < NEAR * far).then(|| f64::midpoint(far, near))
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

    /// The median time of a read of one of the first lines.
    fn median_ns(&mut self, among: usize) -> Option<f64> {
        let times = self.times_ns(among, among.div_ceil(2));
        (!times.is_empty()).then(|| median(times))
    }

    /// What so many reads take, each of a random one of the first lines.
    fn times_ns(&mut self, among: usize, reads: usize) -> Vec<f64> {
        let lines = &self.region.lines()[..among];
        let once = |_| {
            self.state = step(self.state);
            let probe = time_chain(self.watch, lines, &mut self.state, 1)?;
            Some(probe.took.as_nanos() as f64)
        };
        (0..reads).filter_map(once).collect()
    }
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
    fn it_is_never_larger_than_its_memory() {
        let region = Arc::new(Region::map(2 * MIB).unwrap());
        assert_eq!(Footprint::new(Arc::clone(&region), usize::MAX, 0).bytes(), 2 * MIB);
        assert_eq!(Footprint::new(region, 0, 0).bytes(), LINE);
    }
}
