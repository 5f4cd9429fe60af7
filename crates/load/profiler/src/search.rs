//! Which intensity to try next, and when it is known whether it was tolerated.
//!
//! **Problem.** Find the highest intensity x in 0..100 at which a workload keeps a share `threshold`
//! of its speed (B-6), from measurements that are dear (two windows each) and noisy.
//!
//! **Idea.** The curve never rises, so halving finds the place; each trial goes on until its
//! interval lies on one side of the threshold, so a plain case takes few measurements and a close
//! one many. 100 comes first: most workloads tolerate most resources in full.
//!
//! ```text
//! trial(x): repeat ratio = speed under pressure / quiet speed beside it
//!           until n >= LEAST and the interval of the median excludes the threshold, or n = MOST
//! search:   trial(100): kept -> 100
//!           lo = 0, hi = 100; while hi - lo > resolution: x = (lo + hi) / 2
//!           trial(x): kept -> lo = x, lost -> hi = x
//! refine:   while there is time and the interval of the answer is wider than the resolution:
//!           three more ratios at that one of the two levels around the answer which has fewer; where there is
//!           none below, halfway between that above and quiet, once ten ratios are known of that above
//! ```
//!
//! What is not decided at MOST is judged by its median; the interval of the answer, which
//! [`Posterior`](crate::Posterior) tells from all trials, is then wide. Degradation: when the time is up
//! the search ends where it is.

use crate::curve::Level;
use crate::stats::{median, resampled};

/// Fewer ratios decide nothing: by chance alone four lie on one side one time in eight.
pub const LEAST: usize = 4;
/// More are not worth their time.
pub const MOST: usize = 10;

/// Whether an intensity was tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The quality of service was kept.
    Kept,
    /// It was lost.
    Lost,
}

/// What the ratios of a trial say so far; none: measure on.
#[must_use]
pub fn verdict(ratios: &[f64], threshold: f64) -> Option<Verdict> {
    let found = resampled(ratios)?;
    let side = |value: f64| if value >= threshold { Verdict::Kept } else { Verdict::Lost };
    if ratios.len() >= MOST {
        return median(ratios).map(side);
    }
    (ratios.len() >= LEAST && side(found.low) == side(found.high)).then(|| side(found.value))
}

/// The intensity at which more ratios tell most about an answer: of the levels next to it on either side the one with
/// fewer; where there is none below, halfway down to quiet, once the one above is known. None without levels.
#[must_use]
pub(crate) fn nearest(levels: &[Level], answer: f64) -> Option<f64> {
    let side = |above: bool| {
        let there = levels.iter().filter(move |l| (l.percent >= answer) == above);
        there.min_by(|a, b| (a.percent - answer).abs().total_cmp(&(b.percent - answer).abs()))
    };
    let above = side(true).map(|level| (level.percent, level.ratios.len()));
    let below = match side(false) {
        _ if answer >= 100.0 => None,
        Some(level) => Some((level.percent, level.ratios.len())),
        None => above.filter(|(_, known)| *known >= MOST).map(|(percent, _)| (percent / 2.0, 0)),
    };
    [below, above].into_iter().flatten().min_by_key(|(_, known)| *known).map(|(percent, _)| percent)
}

/// The search of one resource.
#[derive(Clone, Debug)]
pub struct Search {
    resolution: f64,
    low: f64,
    high: Option<f64>,
    over: bool,
}

impl Search {
    /// A search that ends when the place is known to `resolution` points.
    #[must_use]
    pub fn new(resolution: f64) -> Search {
        Search { resolution: resolution.max(0.5), low: 0.0, high: None, over: false }
    }

    /// The next intensity to try; none: it is over.
    #[must_use]
    pub fn next(&self) -> Option<f64> {
        match self.high {
            _ if self.over => None,
            None => Some(100.0),
            Some(high) if high - self.low > self.resolution => Some(f64::midpoint(self.low, high)),
            Some(_) => None,
        }
    }

    /// What was found at the intensity that [`Search::next`] gave.
    pub fn tell(&mut self, verdict: Verdict) {
        let Some(tried) = self.next() else { return };
        match (verdict, self.high) {
            (Verdict::Kept, None) => self.over = true,
            (Verdict::Kept, Some(_)) => self.low = tried,
            (Verdict::Lost, _) => self.high = Some(tried),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn search(resolution: f64, limit: f64) -> (f64, usize) {
        let (mut search, mut tried) = (Search::new(resolution), 0);
        while let Some(level) = search.next() {
            search.tell(if level <= limit { Verdict::Kept } else { Verdict::Lost });
            tried += 1;
        }
        (if search.over { 100.0 } else { search.low }, tried)
    }

    #[test]
    fn what_is_tolerated_in_full_takes_one_trial() {
        assert_eq!(search(5.0, 100.0), (100.0, 1));
    }

    #[test]
    fn verdicts_need_evidence() {
        for (ratios, said) in [
            (vec![], None),
            (vec![0.5; 3], None),
            (vec![0.5; 4], Some(Verdict::Lost)),
            (vec![1.0; 4], Some(Verdict::Kept)),
            (vec![0.90, 0.99, 0.91, 1.0], None),
            (vec![0.94, 0.96, 0.93, 0.97, 0.94, 0.96, 0.94, 0.96, 0.94, 0.94], Some(Verdict::Lost)),
        ] {
            assert_eq!(verdict(&ratios, 0.95), said, "{ratios:?}");
        }
    }

    #[test]
    fn more_is_measured_next_to_the_answer() {
        let level = |percent, count| Level { percent, ratios: vec![1.0; count] };
        let levels = [level(100.0, 9), level(50.0, 4), level(75.0, 6), level(25.0, 1)];
        for (answer, at) in [
            (100.0, Some(100.0)),
            (60.0, Some(50.0)),
            (80.0, Some(75.0)),
            (50.0, Some(25.0)),
            (3.0, Some(25.0)),
        ] {
            assert_eq!(nearest(&levels, answer), at, "{answer}");
        }
        assert_eq!(nearest(&[], 50.0), None);
        assert_eq!(
            nearest(&levels[1..], 100.0),
            None,
            "nothing there: the search ended before it began"
        );
        // It was kept at 100, and all ratios together say that it was not quite.
        assert_eq!(nearest(&[level(100.0, MOST - 1)], 70.0), Some(100.0));
        assert_eq!(nearest(&[level(100.0, MOST)], 70.0), Some(50.0));
        assert_eq!(nearest(&[level(100.0, MOST)], 100.0), Some(100.0));
    }

    proptest! {
        #[test]
        fn the_place_is_found_to_its_resolution(limit in 0.0f64..99.9, resolution in 0.5f64..20.0) {
            let (found, tried) = search(resolution, limit);
            prop_assert!(found <= limit && limit - found <= resolution);
            prop_assert!(tried <= 10);
        }
    }
}
