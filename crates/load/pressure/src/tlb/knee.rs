//! How many entries a TLB has, from what an access costs over ever more pages.
//!
//! Pages are touched uniformly at random. Whatever a TLB of `c` entries drives out first, of `n` pages
//! it then holds `c`, so of the accesses a share of `1 − c / n` misses (none below `c`), and with two
//! levels of `c1 < c2` entries the mean time of an access is
//!
//! ```text
//! t(n) = t0 + a · max(0, 1 − c1/n) + b · max(0, 1 − c2/n)        a, b ≥ 0
//! ```
//!
//! For each pair of candidates the best `t0`, `a`, `b` are those of least squares; the best pair wins.
//! What is found is not the number of a data sheet: pages that meet in one set, a neighbour on the
//! other hardware thread and the host's own translations take their part, and misses then begin
//! smoothly before `c2`. It is the number of entries that a thread gets for its pages, and so the one
//! over which pressure has to be spread to be in proportion to intensity.
//!
//! Page tables of very many pages leave the first-level cache, and each walk takes longer: the far end
//! of the curve is steeper than the model. So a second fit takes only what lies within [`NEAR`] times
//! the first one's answer.

/// The second fit sees the curve up to so many times the entries.
const NEAR: f64 = 3.0;
/// Steps of candidates in a doubling.
const FINE: i32 = 16;
/// The same for the first level, of which the answer hardly depends.
const COARSE: usize = 4;
/// The fewest entries.
const FEWEST: f64 = 16.0;
/// Points between two levels' candidates: so many candidates apart, a factor of 2.
const APART: usize = FINE as usize;
/// The last step is at least so high, as a share of the time before it.
const STEP: f64 = 0.15;
/// Points lie so near to the fit on average, as a share of the last step.
const NOISE: f64 = 0.15;

/// A fit of the model.
#[derive(Clone, Copy, Debug)]
struct Fit {
    entries: f64,
    /// Time of an access before the last step, and the height of that.
    before: f64,
    step: f64,
    /// Mean square of what is left.
    left: f64,
}

/// The entries of the last level that a curve of (pages, time of an access) shows; none if it shows
/// no clear step, or one so near to its end that it cannot be told.
pub(super) fn entries(curve: &[(f64, f64)]) -> Option<u64> {
    let rough = best(curve)?;
    let near: Vec<(f64, f64)> =
        curve.iter().copied().filter(|(pages, _)| *pages <= NEAR * rough.entries).collect();
    let fit = best(&near)?;
    let clear = fit.step >= STEP * fit.before && fit.left.sqrt() <= NOISE * fit.step;
    clear.then_some(fit.entries.round() as u64)
}

/// The best of all pairs of candidates that leave enough of the curve behind them.
fn best(curve: &[(f64, f64)]) -> Option<Fit> {
    let most = curve.iter().map(|(pages, _)| *pages).reduce(f64::max)?;
    let candidate = |i: i32| FEWEST * 2f64.powf(f64::from(i) / f64::from(FINE));
    let all: Vec<f64> = (0..).map(candidate).take_while(|c| 1.5 * c <= most).collect();
    let pairs = (0..all.len()).flat_map(|i| {
        let nearer = (0..i.saturating_sub(APART)).step_by(COARSE).map(Some);
        std::iter::once(None).chain(nearer).map(move |j| (j, i))
    });
    pairs
        .filter_map(|(nearer, last)| fit(curve, nearer.map(|j| all[j]), all[last]))
        .min_by(|a, b| a.left.total_cmp(&b.left))
}

/// Least squares for these entries; none if a step goes down, or nothing depends on it.
fn fit(curve: &[(f64, f64)], nearer: Option<f64>, last: f64) -> Option<Fit> {
    let missing = |entries: f64, pages: f64| (1.0 - entries / pages).max(0.0);
    let x = |pages: f64| nearer.map_or(0.0, |entries| missing(entries, pages));
    let y = |pages: f64| missing(last, pages);
    let mean = |of: &dyn Fn(f64, f64) -> f64| {
        curve.iter().map(|(pages, ns)| of(*pages, *ns)).sum::<f64>() / curve.len() as f64
    };
    let (mx, my, mt) = (mean(&|p, _| x(p)), mean(&|p, _| y(p)), mean(&|_, t| t));
    let xx = mean(&|p, _| (x(p) - mx).powi(2));
    let xy = mean(&|p, _| (x(p) - mx) * (y(p) - my));
    let yy = mean(&|p, _| (y(p) - my).powi(2));
    let xt = mean(&|p, t| (x(p) - mx) * (t - mt));
    let yt = mean(&|p, t| (y(p) - my) * (t - mt));
    let (a, b) = match nearer {
        None => (0.0, yt / yy),
        Some(_) => {
            let whole = xx * yy - xy * xy;
            ((xt * yy - yt * xy) / whole, (yt * xx - xt * xy) / whole)
        }
    };
    let left = mean(&|p, t| (t - mt - a * (x(p) - mx) - b * (y(p) - my)).powi(2));
    let start = mt - a * mx - b * my;
    let before = start + a * x(last);
    (a >= 0.0 && b > 0.0 && left.is_finite()).then_some(Fit {
        entries: last,
        before,
        step: b,
        left,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::step;
    use proptest::prelude::*;

    /// Counts of pages as they are measured.
    fn counts() -> impl Iterator<Item = f64> {
        (0..=36).map(|i| (16.0 * 2f64.powf(f64::from(i) / 4.0)).round())
    }

    /// What a TLB of two levels would show, each point off by up to a share of itself.
    fn curve(first: f64, last: f64, walk_ns: f64, noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut state = seed;
        let mut off = || {
            state = step(state);
            (state >> 40) as f64 / f64::from(1 << 24) * 2.0 - 1.0
        };
        let miss = |entries: f64, pages: f64| (1.0 - entries / pages).max(0.0);
        counts()
            .map(|n| (n, 5.0 + 2.4 * miss(first, n) + walk_ns * miss(last, n)))
            .map(|(n, ns)| (n, ns * (1.0 + noise * off())))
            .collect()
    }

    fn within(found: Option<u64>, truth: f64, share: f64) -> bool {
        found.is_some_and(|found| (found as f64 / truth - 1.0).abs() <= share)
    }

    #[test]
    fn finds_the_sizes_of_known_processors() {
        // First and second level, and what a walk costs in nanoseconds.
        for (first, last, walk) in [
            (64.0, 1536.0, 7.0),
            (64.0, 2048.0, 10.0),
            (96.0, 2048.0, 30.0),
            (72.0, 3072.0, 8.0),
            (48.0, 1280.0, 12.0),
            (32.0, 512.0, 20.0),
            (96.0, 4096.0, 9.0),
        ] {
            let found = entries(&curve(first, last, walk, 0.01, 3));
            assert!(within(found, last, 0.06), "{last} entries: {found:?}");
        }
    }

    #[test]
    fn one_level_is_found_too_and_none_where_nothing_is_to_be_seen() {
        let single: Vec<_> =
            counts().map(|n| (n, 4.0 + 20.0 * (1.0 - 256.0 / n).max(0.0))).collect();
        assert!(within(entries(&single), 256.0, 0.03));
        let flat: Vec<_> = counts().map(|n| (n, 5.0)).collect();
        assert_eq!(entries(&flat), None);
        let noise: Vec<_> = curve(1e9, 1e9, 0.0, 0.3, 9);
        assert_eq!(entries(&noise), None);
        assert_eq!(entries(&[]), None);
        assert_eq!(entries(&curve(64.0, 1e9, 10.0, 0.0, 1)[..3]), None);
    }

    #[test]
    fn sets_that_fill_unevenly_begin_to_miss_early_and_move_it_little() {
        // 128 sets of 16 ways whose pages come by chance: Poisson.
        let overflow = |mean: f64| {
            let (mut p, mut kept) = ((-mean).exp(), 0.0);
            for i in 1..=16 {
                p *= mean / f64::from(i);
                kept += p * f64::from(i);
            }
            let mut tail = 1.0 - (-mean).exp();
            let mut q = (-mean).exp();
            for i in 1..=16 {
                q *= mean / f64::from(i);
                tail -= q;
            }
            1.0 - (kept + 16.0 * tail.max(0.0)) / mean
        };
        let uneven: Vec<_> = counts()
            .map(|n| (n, 5.5 + 2.3 * (1.0f64 - 96.0 / n).max(0.0) + 10.0 * overflow(n / 128.0)))
            .collect();
        let found = entries(&uneven);
        assert!(within(found, 2048.0, 0.12), "{found:?}");
    }

    #[test]
    fn longer_walks_at_the_far_end_move_it_little() {
        let longer: Vec<_> = curve(64.0, 2048.0, 10.0, 0.0, 1)
            .into_iter()
            .map(|(n, ns)| {
                let misses = (1.0 - 2048.0 / n).max(0.0);
                (n, ns + 3.0 * misses * (1.0 - 5000.0 / n).max(0.0))
            })
            .collect();
        let found = entries(&longer);
        assert!(within(found, 2048.0, 0.05), "{found:?}");
    }

    proptest! {
        #[test]
        fn noise_of_some_percent_moves_it_by_little(
            first in 24.0..128.0f64, last in 400.0..4096.0f64, walk_ns in 6.0..40.0f64, seed: u64,
        ) {
            let found = entries(&curve(first, last, walk_ns, 0.02, seed));
            prop_assert!(within(found, last, 0.15), "{last} entries: {found:?}");
        }

        #[test]
        fn any_curve_is_answered(
            points in proptest::collection::vec((1.0..1e5f64, 0.0..1e4f64), 0..12),
        ) {
            if let Some(found) = entries(&points) {
                let most = points.iter().map(|p| p.0).fold(0.0, f64::max);
                prop_assert!(found as f64 <= most, "{found} of {most}");
            }
        }
    }
}
