//! Prime and probe of address translations: [`crate::PrimeProbe`] for pages.
//!
//! All pages show one page of memory and the orders lie in lists, so that what is slow is the
//! translation. With a line of its own for each page a third of the lines lay in the first-level
//! cache, and those that the other's page table drove out of there counted as lost translations:
//! it seemed that four of five pages took all entries.

use crate::PressureError;
use crate::kernel::{Alias, below, step};
use crate::prime_probe::{sample_of, timed};
use std::sync::atomic::Ordering::Relaxed;

/// So many pages of one's own, on the thread that calls.
pub(crate) struct PageProbe {
    pages: Alias,
    primed: Vec<u32>,
    /// In another order than they are primed; the first ones once more at the end.
    probed: Vec<u32>,
    /// Where the next look begins.
    at: usize,
}

impl PageProbe {
    /// Maps them, at least two.
    pub(crate) fn new(count: usize) -> Result<PageProbe, PressureError> {
        let count = count.max(2);
        let mut state = 1;
        let (primed, mut probed) = (shuffled(count, &mut state), shuffled(count, &mut state));
        probed.extend_from_within(..sample_of(count));
        Ok(PageProbe { pages: Alias::map(count)?, primed, probed, at: 0 })
    }

    pub(crate) fn count(&self) -> usize {
        self.primed.len()
    }

    /// Touches all, twice.
    pub(crate) fn prime(&self) {
        let all = self.primed.iter().chain(&self.primed);
        let sum = all.fold(0, |sum, &page| sum | self.pages.word(page as usize).load(Relaxed));
        std::hint::black_box(sum);
    }

    /// The mean ticks of an access to some of them, others each time.
    pub(crate) fn access(&mut self) -> f64 {
        let some = sample_of(self.count());
        let order = &self.probed[self.at..self.at + some];
        self.at = (self.at + some) % self.count();
        let pages = &self.pages;
        timed(some, || {
            let mut arrived = 0;
            for &page in order {
                // The word is 0, but only memory says so: each access waits for the one before.
                arrived = pages.word(page as usize + arrived as usize).load(Relaxed);
            }
            std::hint::black_box(arrived);
        })
    }
}

/// A random order of `0..count` (Fisher and Yates).
fn shuffled(count: usize, state: &mut u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        *state = step(*state);
        order.swap(i, below(*state, i as u64 + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn both_orders_hold_all_and_differ_and_each_look_is_at_others() {
        let mut pages = PageProbe::new(100).unwrap();
        for order in [&pages.primed, &pages.probed] {
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 100);
        }
        assert_ne!(pages.primed, pages.probed[..100]);
        pages.prime();
        let mut begun = BTreeSet::new();
        for _ in 0..25 {
            begun.insert(pages.at);
            assert!(pages.access() > 0.0);
        }
        assert!(begun.len() > 20, "{begun:?}");
    }
}
