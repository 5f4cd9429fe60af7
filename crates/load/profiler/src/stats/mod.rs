//! What is made of measured numbers. Pure: no clock, and chance only from a seed that is given.
//!
//! Everything here is a median or rests on one: on a virtual machine whose neighbours come and go a
//! mean is theirs as much as ours.

mod interval;
mod line;

pub(crate) use interval::resampled;
pub use interval::{Estimate, Resampler, difference, estimate, mean_of_medians};
pub use line::{falling, half_effect, largest_deviation, pearson};

/// The middle of these numbers, between the two middle ones if their count is even; what is not
/// finite does not count. None without any.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The quantile `share` (0..1) of these numbers, linear between neighbours; what is not finite does
/// not count. None without any.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (below, part) = (at.floor() as usize, at.fract());
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn middles() {
        for (values, middle) in [
            (vec![], None),
            (vec![f64::NAN], None),
            (vec![3.0], Some(3.0)),
            (vec![9.0, 1.0, 2.0], Some(2.0)),
            (vec![4.0, 1.0, 2.0, 3.0], Some(2.5)),
            (vec![1.0, f64::INFINITY, 3.0], Some(2.0)),
        ] {
            assert_eq!(median(&values), middle, "{values:?}");
        }
        assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 7.0), Some(10.0));
    }

    proptest! {
        #[test]
        fn half_lies_on_either_side(values in proptest::collection::vec(-1e6f64..1e6, 1..40)) {
            let middle = median(&values).unwrap();
            let below = values.iter().filter(|&&v| v < middle).count();
            let above = values.iter().filter(|&&v| v > middle).count();
            prop_assert!(2 * below <= values.len() && 2 * above <= values.len());
        }
    }
}
