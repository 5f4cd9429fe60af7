//! How straight a line is, and a curve that only falls.

/// Pearson's r of pairs; none for fewer than two or where one side does not change.
#[must_use]
pub fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|p| of(p.0 - x, p.1 - y)).sum::<f64>();
    let spread = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    (pairs.len() > 1 && spread > 0.0).then(|| sum(&|a, b| a * b) / spread)
}

/// The largest distance from the straight line between the first and the last pair, in points: the
/// last is 100. None without a rise from the first to the last.
#[must_use]
pub fn largest_deviation(pairs: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (pairs.first()?, pairs.last()?);
    let (dx, dy) = (last.0 - first.0, last.1 - first.1);
    if dx == 0.0 || dy == 0.0 || !dy.is_finite() {
        return None;
    }
    let off = |p: &(f64, f64)| 100.0 * ((p.1 - first.1) / dy - (p.0 - first.0) / dx).abs();
    Some(pairs.iter().map(off).fold(0.0, f64::max))
}

/// The x, as a share of the way from the first to the last pair, at which half of the change from
/// the first y to the last is reached for the first time: 0.5 on a straight line. None without one.
#[must_use]
pub fn half_effect(pairs: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (pairs.first()?, pairs.last()?);
    let (dx, dy) = (last.0 - first.0, last.1 - first.1);
    if dx == 0.0 || dy == 0.0 || !dy.is_finite() {
        return None;
    }
    let share = |p: &(f64, f64)| ((p.0 - first.0) / dx, (p.1 - first.1) / dy);
    let steps = pairs.windows(2).map(|pair| (share(&pair[0]), share(&pair[1])));
    let mut crossing = steps.filter(|(a, b)| a.1 < 0.5 && b.1 >= 0.5);
    crossing.next().map(|(a, b)| a.0 + (b.0 - a.0) * (0.5 - a.1) / (b.1 - a.1))
}

/// The nearest values (by squares) that never rise: more pressure does not make faster, so where
/// measured numbers say so it is noise (pool adjacent violators). Equal weights.
#[must_use]
pub fn falling(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut pool = (*value, 1);
        while let Some((before, count)) = pools.pop_if(|before| before.0 < pool.0) {
            let all = count + pool.1;
            pool = ((before * count as f64 + pool.0 * pool.1 as f64) / all as f64, all);
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(value, count)| std::iter::repeat_n(value, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(y: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        [0.0, 25.0, 50.0, 75.0, 100.0].map(|x| (x, y(x))).to_vec()
    }

    #[test]
    fn a_straight_line_is_straight() {
        let line = pairs(|x| 7.0 - 0.03 * x);
        assert!((pearson(&line).unwrap() + 1.0).abs() < 1e-12);
        assert!(largest_deviation(&line).unwrap() < 1e-9);
        assert!((half_effect(&line).unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_knee_is_seen() {
        let knee = pairs(|x| (x - 75.0).max(0.0));
        assert_eq!(largest_deviation(&knee), Some(75.0));
        assert_eq!(half_effect(&knee), Some(0.875));
        assert!(pearson(&knee).unwrap() < 0.8);
    }

    #[test]
    fn no_effect_is_no_line() {
        let flat = pairs(|_| 3.0);
        assert_eq!(
            (pearson(&flat), largest_deviation(&flat), half_effect(&flat)),
            (None, None, None)
        );
        assert_eq!(pearson(&[(1.0, 1.0)]), None);
        assert_eq!(largest_deviation(&[]), None);
    }

    #[test]
    fn rises_are_evened_out() {
        let curve = falling(&[1.0, 0.8, 0.9, 0.5]);
        let near = |(a, b): (&f64, f64)| (a - b).abs() < 1e-12;
        assert!(curve.iter().zip([1.0, 0.85, 0.85, 0.5]).all(near), "{curve:?}");
        assert_eq!(falling(&[1.0, 2.0, 3.0]), [2.0; 3]);
        assert!(falling(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn never_rises_and_keeps_the_mean(values in proptest::collection::vec(0.0f64..2.0, 1..20)) {
            let curve = falling(&values);
            prop_assert!(curve.windows(2).all(|pair| pair[0] >= pair[1]));
            let sum = |v: &[f64]| v.iter().sum::<f64>();
            prop_assert!((sum(&curve) - sum(&values)).abs() < 1e-9);
            prop_assert_eq!(falling(&curve), curve.clone(), "what falls stays");
        }

        #[test]
        fn r_lies_between_its_bounds(points in proptest::collection::vec((-1e3f64..1e3, -1e3f64..1e3), 2..20)) {
            if let Some(r) = pearson(&points) {
                prop_assert!((-1.0 - 1e-9..=1.0 + 1e-9).contains(&r));
            }
        }
    }
}
