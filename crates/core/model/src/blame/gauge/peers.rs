//! What is usual among groups of which most are alike, and how much they differ.

/// Fewer groups do not tell what is usual.
const FEWEST: usize = 4;
/// Groups are taken to differ by so much at least, in ln: some alike are so by chance.
const LEAST_SD: f64 = 0.015;
/// Of a normal distribution: its standard deviation over the median distance from its middle...
const SD_OF_DISTANCE: f64 = 1.4826;
/// ... and the variance of a median over that of a mean.
const MEDIAN_OVER_MEAN: f64 = core::f64::consts::FRAC_PI_2;

/// Values of all groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Peers {
    /// In order; none of too few.
    values: Vec<f64>,
    sd: f64,
}

impl Peers {
    /// Of these values, one of each group. All are finite.
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        if values.len() < FEWEST {
            return Self::default();
        }
        values.sort_by(f64::total_cmp);
        let middle = median_without(&values, values.len());
        let mut distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        distances.sort_by(f64::total_cmp);
        let sd = SD_OF_DISTANCE * median_without(&distances, distances.len());
        Self { values, sd: sd.max(LEAST_SD) }
    }

    /// What is usual among the others than the group of this value, and the variance of what differs from it by
    /// chance; none where there are too few.
    pub(super) fn beside(&self, own: f64) -> Option<(f64, f64)> {
        let at = self.values.partition_point(|value| *value < own);
        let others = self.values.len().checked_sub(1).filter(|others| *others > 0)?;
        let unsure = 1.0 + MEDIAN_OVER_MEAN / others as f64;
        Some((median_without(&self.values, at), self.sd * self.sd * unsure))
    }
}

/// The median of these ordered values without the one at a place; of all where there is none at it.
fn median_without(ordered: &[f64], place: usize) -> f64 {
    let count = ordered.len() - usize::from(place < ordered.len());
    let of = |k: usize| ordered[k + usize::from(k >= place)];
    f64::midpoint(of((count - 1) / 2), of(count / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_that_stands_out_moves_neither_what_is_usual_nor_what_differs() {
        let alike = [0.00, 0.01, 0.02, 0.03];
        let peers = |more: &[f64]| Peers::of(alike.iter().chain(more).copied().collect());
        let (usual, variance) = peers(&[0.5]).beside(0.5).unwrap();
        let (_, wild) = peers(&[50.0]).beside(50.0).unwrap();
        assert!((usual - 0.015).abs() < 1e-12 && (variance - wild).abs() < 1e-12);
        assert!(variance.sqrt() < 0.025, "{variance}");
        // Those who are alike are compared with each other.
        let (usual, _) = peers(&[0.5]).beside(0.01).unwrap();
        assert!((usual - 0.025).abs() < 1e-12, "{usual}");
    }

    #[test]
    fn few_do_not_tell_and_those_alike_by_chance_are_not_taken_for_equal() {
        assert_eq!(Peers::of(vec![0.0; 3]).beside(0.0), None);
        assert_eq!(Peers::default().beside(0.0), None);
        let (usual, variance) = Peers::of(vec![0.2; 4]).beside(0.2).unwrap();
        assert!(usual == 0.2 && variance > LEAST_SD * LEAST_SD);
    }

    proptest! {
        #[test]
        fn the_median_of_the_others_is_that_of_a_list_without_it(
            values in proptest::collection::vec(-1.0f64..1.0, 4..30), at in 0usize..30
        ) {
            let own = values[at % values.len()];
            let mut others = values.clone();
            others.remove(at % values.len());
            others.sort_by(f64::total_cmp);
            let expected = f64::midpoint(others[(others.len() - 1) / 2], others[others.len() / 2]);
            let (usual, variance) = Peers::of(values).beside(own).unwrap();
            prop_assert!((usual - expected).abs() < 1e-12 && variance >= LEAST_SD * LEAST_SD);
        }
    }
}
