//! Whether the host runs the CPUs on cores that share a cache just now.
//!
//! # Problem
//! Who fills a cache, or reads it fast, hurts a service on another CPU as long as both share that cache. A host
//! that moves its guest's CPUs about has them on cores of one cache now and of two then, for a second or for
//! minutes, and tells the guest of one all the time. A look at a culprit made while there are two shows nothing,
//! and acquits him.
//!
//! # Idea
//! The kernel's gauge times how long lines take that another CPU wrote a moment ago (`crates/sys/ebpf/bpf/passes.h`):
//! a quarter as long, or less, from a core with the same cache as from one with another. What is *near* is told by the
//! reading in which most of them took least; a sample is near if it took less than three times as long. Lines that a
//! stream has driven out meanwhile come from memory, as slowly as from another cache. So CPUs are apart only while
//! hardly any sample is near.
//!
//! # Units
//! Samples by slot, two slots to each power of two. Shares 0..1.
//!
//! # Pseudo-code
//! ```text
//! each reading:  of at least 6 new samples: nearest = the least that the middle one ever took, as a slot
//!                near = new samples up to nearest + 2
//!                apart = near < 0.1 of them, where it was most of them of late; unknown where they are fewer
//! share:         of the last minute, old readings counting less
//! ```
//!
//! # Degradation
//! Without samples nothing is told, and CPUs are taken to be where the machine says. CPUs that share no cache all the
//! time have no near samples to compare with: then far is as near as it gets, and they are not told to be apart. Of
//! many CPUs pairs are drawn: where only some share a cache at any time, few samples are near, and nothing is told.
//!
//! Source: issue "Name the polluter and limit only it" (self-inflicted slowness and what the hypervisor does are
//! told apart from a neighbour's).

use super::growth::grown;
use quell_types::PassCounts;

/// Slots above the nearest one that are near all the same: less than three times as long.
const NEAR_SLOTS: usize = 2;
/// Fewest samples in a reading that tell anything.
const FEWEST: f64 = 6.0;
/// CPUs are apart while fewer samples than this are near.
const APART_NEAR_FRAC: f64 = 0.1;
/// CPUs that are together at times have this share of near ones then...
const TOGETHER_NEAR_FRAC: f64 = 0.5;
/// ... in a mean in which each reading has this weight, ...
const READING_WEIGHT: f64 = 0.1;
/// ... of late: after so many seconds a third of it counts.
const TOGETHER_MEMORY_S: f64 = 1800.0;
/// After so many seconds a third of a reading's weight in the share is left.
const MEMORY_S: f64 = 60.0;

/// How long lines take from one CPU to another.
#[derive(Clone, Debug, Default)]
pub(super) struct Passes {
    /// The least slot that the middle sample of a reading ever had.
    nearest: Option<usize>,
    /// The mean share of near samples, and the most that it was of late.
    near_frac: Option<f64>,
    most_near_frac: f64,
    apart: Option<bool>,
    /// Seconds in which CPUs were apart, and in which it was known, old ones counting less.
    apart_s: f64,
    known_s: f64,
    /// For so long they have been apart until now, in seconds.
    lasts_s: f64,
}

impl Passes {
    /// Takes in what was counted since the reading before, `passed_s` ago.
    pub(super) fn learn(&mut self, passed_s: f64, old: &PassCounts, new: &PassCounts) {
        let grew: Vec<f64> = grown(&old.slots, &new.slots).collect();
        self.most_near_frac *= libm::exp(-passed_s / TOGETHER_MEMORY_S);
        self.apart = self.near(&grew).map(|near| self.follow(near));
        let keep = libm::exp(-passed_s / MEMORY_S);
        let [apart_s, known_s] = match self.apart {
            Some(apart) => [if apart { passed_s } else { 0.0 }, passed_s],
            None => [0.0, 0.0],
        };
        self.apart_s = keep * self.apart_s + apart_s;
        self.known_s = keep * self.known_s + known_s;
        match self.apart {
            Some(true) => self.lasts_s += passed_s,
            Some(false) => self.lasts_s = 0.0,
            None => {}
        }
    }

    /// The share of near ones among so many new samples by slot; none of too few.
    fn near(&mut self, grew: &[f64]) -> Option<f64> {
        let new: f64 = grew.iter().sum();
        let middle = middle(grew, new).filter(|_| new >= FEWEST)?;
        let nearest = self.nearest.map_or(middle, |least| least.min(middle));
        self.nearest = Some(nearest);
        let near: f64 = grew.iter().take(nearest + NEAR_SLOTS + 1).sum();
        Some(near / new)
    }

    /// Whether a reading with such a share is one of CPUs that are apart.
    fn follow(&mut self, near_frac: f64) -> bool {
        let mean = self.near_frac.get_or_insert(near_frac);
        *mean += READING_WEIGHT * (near_frac - *mean);
        self.most_near_frac = self.most_near_frac.max(*mean);
        near_frac < APART_NEAR_FRAC && self.most_near_frac >= TOGETHER_NEAR_FRAC
    }

    /// Whether they were apart since the reading before; none where too few samples tell.
    pub(super) fn apart(&self) -> Option<bool> {
        self.apart
    }

    /// For how long they have been apart without a break, in seconds; 0 where they are not.
    pub(super) fn lasts_s(&self) -> f64 {
        self.lasts_s
    }

    /// The share of the last minute or so in which they were; none where it was not known.
    pub(super) fn share(&self) -> Option<f64> {
        (self.known_s > 0.0).then(|| self.apart_s / self.known_s)
    }
}

/// The slot of the middle one of so many samples.
fn middle(grew: &[f64], new: f64) -> Option<usize> {
    let mut below = 0.0;
    grew.iter().position(|count| {
        below += count;
        2.0 * below > new
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLOTS: usize = 16;

    struct World {
        passes: Passes,
        counts: PassCounts,
    }

    impl World {
        fn new() -> Self {
            Self { passes: Passes::default(), counts: PassCounts { slots: vec![0; SLOTS] } }
        }

        /// A quarter of a second with so many samples in these slots.
        fn sample(&mut self, samples: &[(usize, u32)]) -> Option<bool> {
            let old = self.counts.clone();
            for (slot, count) in samples {
                self.counts.slots[*slot] = self.counts.slots[*slot].wrapping_add(*count);
            }
            self.passes.learn(0.25, &old, &self.counts);
            self.passes.apart()
        }
    }

    #[test]
    fn cpus_that_are_moved_apart_are_told_and_for_how_long() {
        let mut world = World::new();
        for _ in 0..40 {
            assert_eq!(
                world.sample(&[(2, 20), (3, 8), (7, 10)]),
                Some(false),
                "some are driven out"
            );
        }
        assert_eq!(world.passes.share(), Some(0.0));
        for _ in 0..20 {
            assert_eq!(world.sample(&[(6, 10), (7, 25), (3, 2)]), Some(true));
        }
        assert!((world.passes.lasts_s() - 5.0).abs() < 1e-9);
        assert!((0.3..0.4).contains(&world.passes.share().unwrap()), "{:?}", world.passes.share());
        assert_eq!(world.sample(&[(7, 3)]), None, "too few");
        assert!((world.passes.lasts_s() - 5.0).abs() < 1e-9, "which say nothing");
        assert_eq!(world.sample(&[(2, 20)]), Some(false));
        assert!(world.passes.lasts_s() == 0.0);
    }

    #[test]
    fn those_that_are_never_near_are_not_told_to_be_apart() {
        let mut world = World::new();
        for _ in 0..40 {
            assert_eq!(world.sample(&[(6, 10), (7, 25)]), Some(false));
        }
        // Once they are near it is known what that is.
        for _ in 0..40 {
            assert_eq!(world.sample(&[(2, 20), (3, 8)]), Some(false));
        }
        assert_eq!(world.sample(&[(6, 10), (7, 25)]), Some(true));
    }

    #[test]
    fn of_many_cpus_of_which_few_pairs_share_a_cache_nothing_is_told() {
        let mut world = World::new();
        for window in 0..400 {
            let near = [3, 0, 1, 4, 0, 2][window % 6];
            assert_eq!(world.sample(&[(2, near), (7, 15 - near)]), Some(false), "{window}");
        }
    }

    #[test]
    fn counts_wrap_and_without_any_nothing_is_told() {
        let mut world = World::new();
        world.counts.slots[2] = u32::MAX - 5;
        assert_eq!(world.sample(&[(2, 20)]), Some(false));
        let mut none = Passes::default();
        none.learn(0.25, &PassCounts::default(), &PassCounts::default());
        assert_eq!((none.apart(), none.share()), (None, None));
    }

    proptest! {
        #[test]
        fn shares_are_shares(windows in proptest::collection::vec((0_usize..SLOTS, 0_u32..50), 1..60)) {
            let mut world = World::new();
            for window in windows {
                world.sample(&[window]);
                prop_assert!(world.passes.share().is_none_or(|share| (0.0..=1.0).contains(&share)));
                prop_assert!(world.passes.lasts_s() >= 0.0);
            }
        }
    }
}
