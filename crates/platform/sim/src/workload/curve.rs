//! Misses of the last-level cache by what a program holds there.
//!
//! # Sweeps
//! Whoever walks round and round an array meets each line just before a cache that replaces the least
//! recently used would have to bring it again: in a set with more lines than ways it hits none of them,
//! in any other all. Lines lie in sets as pages of memory happen to, at random. With λ lines to a set
//! on average, its own and others', a set has N of them by Poisson's law, so with w ways
//! `P(N ≥ w; λ)` of its accesses miss (there is no room for one more beside those that are there),
//! while it holds `E[min(N, w)] / λ` of its array. Others only add to λ: both as functions of λ are a
//! curve of misses by what is held, which begins with what the array alone brings. So an array as
//! large as the cache never fits: at eleven ways half of its accesses miss with nobody beside it.

use crate::machine::LastLevelCache;

/// Points of a sweep's curve.
const POINTS: u32 = 12;

/// Misses of the last-level cache by the bytes held in it: falling, linear between points.
#[derive(Clone, Debug, PartialEq)]
pub struct MissCurve {
    points: Vec<(f64, f64)>,
    /// Of a sweep: bytes of the array, and accesses per 1000 instructions.
    swept: Option<(f64, f64)>,
}

impl MissCurve {
    /// From (bytes held, misses per 1000 instructions), rising in bytes, falling in misses. Before
    /// the first and after the last point the curve is flat.
    #[must_use]
    pub fn new(points: &[(f64, f64)]) -> Option<Self> {
        let sound = points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 >= w[1].1);
        let finite = points.iter().all(|(b, m)| b.is_finite() && m.is_finite() && *m >= 0.0);
        (sound && finite && !points.is_empty()).then(|| Self::of(points.to_vec()))
    }

    fn of(points: Vec<(f64, f64)>) -> Self {
        Self { points, swept: None }
    }

    /// A sweep round and round an array of `bytes`: its misses follow from the sets of the machine's
    /// cache. Until that is known they are those of a cache without sets.
    #[must_use]
    pub fn sweep(bytes: f64, apki: f64) -> Self {
        let bytes = bytes.max(1.0);
        Self { swept: Some((bytes, apki.max(0.0))), ..Self::linear(bytes, apki, 0.0) }
    }

    /// The curve in this cache.
    pub(crate) fn in_cache(&self, cache: &LastLevelCache) -> Self {
        let Some((bytes, apki)) = self.swept else { return self.clone() };
        let ways = f64::from(cache.ways);
        let (alone, spread) = (ways * bytes / cache.bytes as f64, libm::sqrt(ways));
        let (first, last) = (alone.max(ways - 3.0 * spread).max(0.25 * ways), ways + 5.0 * spread);
        if alone >= last {
            return Self { swept: self.swept, ..Self::flat(apki) };
        }
        let lines = |i: u32| last + (first - last) * f64::from(i) / f64::from(POINTS - 1);
        // Of an array that hardly overflows any set, so little misses that it would only be noise.
        let heard = |missed: f64| if missed < 1e-3 { 0.0 } else { missed };
        let point = |i: u32| {
            let (held, missed) = in_sets(lines(i), cache.ways);
            (bytes * held, if i == 0 { apki } else { apki * heard(missed) })
        };
        Self { points: (0..POINTS).map(point).collect(), swept: self.swept }
    }

    /// Of a sweep, the bytes that it fills when nobody else does: more than its array, since in sets that
    /// this alone overflows it brings lines in for ever.
    pub(crate) fn pressure_bytes(&self, cache: &LastLevelCache) -> Option<f64> {
        let (bytes, _) = self.swept?;
        let lines = f64::from(cache.ways) * bytes / cache.bytes as f64;
        let (_, overflowing) = in_sets(lines, cache.ways + 1);
        Some(bytes / (1.0 - overflowing).max(1e-3))
    }

    /// The same misses whatever is held.
    #[must_use]
    pub fn flat(mpki: f64) -> Self {
        Self::of(vec![(0.0, mpki.max(0.0))])
    }

    /// Misses fall in proportion to the part of the working set that is held, down to `least`.
    #[must_use]
    pub fn linear(working_set_bytes: f64, most_mpki: f64, least_mpki: f64) -> Self {
        let least = least_mpki.clamp(0.0, most_mpki.max(0.0));
        Self::of(vec![(0.0, most_mpki.max(0.0)), (working_set_bytes.max(1.0), least)])
    }

    /// Misses per 1000 instructions with `bytes` held.
    #[must_use]
    pub fn mpki(&self, bytes: f64) -> f64 {
        let mut last = self.points[0];
        for &(x, y) in &self.points {
            if bytes < x {
                let width = x - last.0;
                let part = if width > 0.0 { (bytes - last.0) / width } else { 1.0 };
                return last.1 + part.clamp(0.0, 1.0) * (y - last.1);
            }
            last = (x, y);
        }
        last.1
    }
}

/// With so many lines to a set on average: the share of them that find room, and that of accesses that
/// miss.
fn in_sets(lines: f64, ways: u32) -> (f64, f64) {
    let (mut probability, mut fewer, mut held) = (libm::exp(-lines), 0.0, 0.0);
    for n in 0..ways {
        fewer += probability;
        held += f64::from(n) * probability;
        probability *= lines / f64::from(n + 1);
    }
    let full = (1.0 - fewer).max(0.0);
    ((held + f64::from(ways) * full) / lines, full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cache(ways: u32) -> LastLevelCache {
        LastLevelCache { ways, ..crate::machine::preset("i9-7960x").unwrap().cache }
    }

    #[test]
    fn a_curve_is_linear_between_points_and_flat_outside() {
        let curve = MissCurve::new(&[(10.0, 8.0), (20.0, 4.0), (40.0, 0.0)]).unwrap();
        for (bytes, mpki) in [(0.0, 8.0), (10.0, 8.0), (15.0, 6.0), (30.0, 2.0), (99.0, 0.0)] {
            assert!((curve.mpki(bytes) - mpki).abs() < 1e-12, "{bytes}");
        }
        assert!(MissCurve::new(&[(0.0, 1.0), (1.0, 2.0)]).is_none(), "misses that rise");
        assert!(MissCurve::new(&[]).is_none());
    }

    /// Sets filled one line after the other, each into one at random.
    #[test]
    fn a_sweep_misses_in_sets_that_are_full() {
        const SETS: usize = 4_096;
        let (ways, cache) = (11u32, cache(11));
        let bytes = cache.bytes as f64;
        let mut random = crate::random::Stream::new(5, 0);
        for (own, others) in [(1.0, 0.0), (1.0, 0.3), (0.5, 0.0), (0.5, 0.6), (0.25, 0.0)] {
            let mut sets = vec![(0u32, 0u32); SETS];
            let mut fill = |share: f64, mine: bool| {
                for _ in 0..(share * f64::from(ways) * SETS as f64) as usize {
                    let set = &mut sets[((random.uniform() * SETS as f64) as usize).min(SETS - 1)];
                    if mine { set.0 += 1 } else { set.1 += 1 }
                }
            };
            fill(own, true);
            fill(others, false);
            let all: u32 = sets.iter().map(|set| set.0).sum();
            let missed: u32 = sets.iter().filter(|s| s.0 + s.1 > ways).map(|s| s.0).sum();
            let room = |s: &(u32, u32)| {
                f64::from(s.0) * (f64::from(ways) / f64::from((s.0 + s.1).max(1))).min(1.0)
            };
            let held = sets.iter().map(room).sum::<f64>() / f64::from(all);
            let curve = MissCurve::sweep(own * bytes, 100.0).in_cache(&cache);
            let (found, said) =
                (f64::from(missed) / f64::from(all), curve.mpki(held * own * bytes));
            assert!((found - said / 100.0).abs() < 0.04, "{own} beside {others}: {found}, {said}");
        }
    }

    #[test]
    fn a_small_array_fits_a_large_one_never_and_other_curves_stay() {
        let cache = cache(11);
        let bytes = cache.bytes as f64;
        let swept = |share: f64| MissCurve::sweep(share * bytes, 100.0).in_cache(&cache);
        assert!(swept(0.25).mpki(0.25 * bytes) < 0.1);
        assert!(swept(0.25).mpki(0.1 * bytes) > 90.0);
        assert_eq!(swept(40.0).mpki(bytes), 100.0);
        let other = MissCurve::linear(5.0, 2.0, 1.0);
        assert_eq!(other.in_cache(&cache), other);
    }

    proptest! {
        #[test]
        fn more_bytes_never_bring_more_misses(
            steps in proptest::collection::vec((1.0f64..9.0, 0.0f64..5.0), 1..8),
            a in 0.0f64..80.0,
            more in 0.0f64..40.0,
        ) {
            let total: f64 = steps.iter().map(|s| s.1).sum();
            let mut points = Vec::new();
            let (mut x, mut y) = (0.0, total);
            for (dx, dy) in steps {
                points.push((x, y));
                x += dx;
                y = (y - dy).max(0.0);
            }
            let curve = MissCurve::new(&points).unwrap();
            prop_assert!(curve.mpki(a + more) <= curve.mpki(a) + 1e-12);
        }
    }
}
