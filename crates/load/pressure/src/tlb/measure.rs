//! The entries that a thread gets for its pages, measured: once in a process.
//!
//! All pages show one page of memory, a line of it each, so data caches hold everything and only
//! translations are missing. Each count of pages gets its turn in each pass; the median of the passes
//! stands, so that a thread that loses its CPU now and then does not matter.

use super::knee;
use crate::affinity;
use crate::kernel::{Alias, below, step};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Pages at most: twice as many as the largest TLB has that is to be found.
const MOST: usize = 8192;
/// The fewest pages, and in how many steps they double.
const LEAST: usize = 16;
const STEPS: i32 = 4;
/// Accesses that are timed together.
const TIMED: usize = 1024;
/// Passes go on for so long.
const BUDGET: Duration = Duration::from_millis(50);
/// But there are so many of them at least, and at most.
const PASSES: (usize, usize) = (5, 31);

/// Entries as measured on this CPU (or wherever the thread may run) when first asked for; none where
/// that told nothing.
pub(super) fn entries(cpu: Option<u32>) -> Option<u64> {
    static FOUND: OnceLock<Option<u64>> = OnceLock::new();
    *FOUND.get_or_init(|| std::thread::scope(|s| s.spawn(|| once(cpu)).join().ok().flatten()))
}

fn once(cpu: Option<u32>) -> Option<u64> {
    cpu.map_or(Ok(()), affinity::bind).ok()?;
    knee::entries(&curve(&Alias::map(MOST).ok()?))
}

/// Mean times of an access over growing counts of pages.
fn curve(pages: &Alias) -> Vec<(f64, f64)> {
    let counts = counts();
    let mut seen = vec![Vec::new(); counts.len()];
    let (begun, mut state) = (Instant::now(), 1);
    for pass in 0..PASSES.1 {
        if pass >= PASSES.0 && begun.elapsed() > BUDGET {
            break;
        }
        for (&count, seen) in counts.iter().zip(&mut seen) {
            seen.push(access_ns(pages, count, &mut state));
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    counts.iter().map(|&count| count as f64).zip(seen.into_iter().map(median)).collect()
}

fn counts() -> Vec<usize> {
    let count = |i: i32| (LEAST as f64 * 2f64.powf(f64::from(i) / f64::from(STEPS))).round();
    (0..).map(|i| count(i) as usize).take_while(|&count| count <= MOST).collect()
}

/// Touches all, then some at random until what is held is what random accesses leave, and then times
/// some more.
fn access_ns(pages: &Alias, count: usize, state: &mut u64) -> f64 {
    (0..count).for_each(|page| _ = std::hint::black_box(pages.word(page).load(Relaxed)));
    wander(pages, count, 2 * count, state);
    let begun = Instant::now();
    wander(pages, count, TIMED, state);
    begun.elapsed().as_nanos() as f64 / TIMED as f64
}

/// So many accesses, each only when the one before has arrived.
fn wander(pages: &Alias, count: usize, accesses: usize, state: &mut u64) {
    let mut at = *state;
    for _ in 0..accesses {
        // The word is 0, but only memory says so.
        let arrived = pages.word(below(at, count as u64)).load(Relaxed);
        at = step(at).wrapping_add(arrived);
    }
    *state = std::hint::black_box(at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_grow_to_the_last() {
        let counts = counts();
        assert_eq!((counts[0], counts.last()), (LEAST, Some(&MOST)));
        assert!(counts.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn more_pages_than_any_tlb_has_take_longer() {
        let pages = Alias::map(MOST).unwrap();
        let curve = curve(&pages);
        assert_eq!(curve.len(), counts().len());
        let (few, many) = (curve[0].1, curve[curve.len() - 1].1);
        assert!(many > 1.1 * few, "{few} ns and {many} ns");
    }

    #[test]
    fn what_was_measured_stays_and_is_plausible() {
        let found = entries(None);
        assert_eq!(entries(None), found);
        assert!(found.is_none_or(|found| (16..=8192).contains(&found)), "{found:?}");
    }
}
