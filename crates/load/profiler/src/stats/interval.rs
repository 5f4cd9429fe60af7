//! Intervals by resampling: draw as many numbers from those measured, with repetition, and see how
//! far the answer moves (the bootstrap). It asks for no shape of the noise.
//!
//! Few numbers show too little of it: four lie on one side of the truth one time in eight, two every second time, and
//! whatever is drawn from them does, too. So the interval of four and more is stretched, and fewer are taken to scatter
//! by what they show and what is usual together.

use super::{median, quantile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Draws for one interval. More move its ends by less than its width's hundredth.
const DRAWS: usize = 400;

/// A number and the interval in which it lies with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

impl Estimate {
    /// A number without doubt.
    #[must_use]
    pub fn exact(value: f64) -> Estimate {
        Estimate { value, low: value, high: value }
    }

    /// How wide the interval is.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.high - self.low
    }

    /// A change that never falls, applied to all three.
    #[must_use]
    pub fn map(self, rising: impl Fn(f64) -> f64) -> Estimate {
        Estimate { value: rising(self.value), low: rising(self.low), high: rising(self.high) }
    }

    /// From resampled answers around a value.
    #[must_use]
    pub fn of_draws(value: f64, draws: &[f64]) -> Estimate {
        let end = |share| quantile(draws, share).unwrap_or(value);
        Estimate { value, low: end(0.025).min(value), high: end(0.975).max(value) }
    }
}

/// Draws numbers from measured ones. Equal seeds draw the same.
#[derive(Clone, Debug)]
pub struct Resampler(u64);

impl Resampler {
    /// A source of draws.
    #[must_use]
    pub fn new(seed: u64) -> Resampler {
        Resampler(seed)
    }

    /// A number below `bound`, which is not 0 (splitmix64; the bias is below 2⁻⁴⁰ for such counts).
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * bound as u128) >> 64) as usize
    }

    /// A number as good as normal, of deviation 1: the sum of twelve between −½ and ½.
    pub(crate) fn normal(&mut self) -> f64 {
        let fine = 1 << 20;
        (0..12).map(|_| self.below(fine) as f64 / fine as f64 - 0.5).sum()
    }

    /// As many of `values`, with repetition.
    pub fn draw(&mut self, values: &[f64]) -> Vec<f64> {
        values.iter().map(|_| values[self.below(values.len())]).collect()
    }
}

/// From so many on numbers show their noise themselves.
const ENOUGH: usize = 4;
/// How far a ratio of two short windows usually is off, as a share; it counts as much as so many numbers.
const USUAL: f64 = 0.04;
const USUAL_COUNTS: f64 = 4.0;
/// Student's t over the normal law's, both at 97.5 %, at four to six degrees of freedom.
const STUDENT: f64 = 1.35;

/// By how much the middle of too few numbers may be off (one standard deviation, Student's t made normal): their own
/// squares and the usual ones together.
fn uncertainty(values: &[f64]) -> f64 {
    let (middle, count) = (median(values).unwrap_or(0.0), values.len() as f64);
    let own: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    let variance = (USUAL_COUNTS * (USUAL * middle).powi(2) + own) / (USUAL_COUNTS + count - 1.0);
    STUDENT * (variance / count).sqrt()
}

/// How many times further off than resampling says the middle of enough numbers is, so that its interval holds the
/// truth 95 times of a hundred where they scatter by the normal law (played 1500 times for each count up to 20).
fn stretch(count: usize) -> f64 {
    if count == ENOUGH { 1.7 } else { 1.25 }
}

/// Other numbers that these, of which each is finite, might have been.
#[must_use]
fn might_be(values: &[f64], resampler: &mut Resampler) -> Vec<f64> {
    if values.len() < ENOUGH {
        let off = resampler.normal() * uncertainty(values);
        return values.iter().map(|value| value + off).collect();
    }
    let drawn = resampler.draw(values);
    let off = median(&drawn).zip(median(values)).map_or(0.0, |(drawn, middle)| drawn - middle);
    let further = off * (stretch(values.len()) - 1.0);
    drawn.into_iter().map(|value| value + further).collect()
}

/// The median of `values` with its interval; none without any finite one.
#[must_use]
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    by_draws(values, might_be)
}

/// The same as far as resampling alone tells, which for few says too much: to decide whether to go on.
#[must_use]
pub(crate) fn resampled(values: &[f64]) -> Option<Estimate> {
    by_draws(values, |finite, resampler| resampler.draw(finite))
}

fn by_draws(values: &[f64], draw: impl Fn(&[f64], &mut Resampler) -> Vec<f64>) -> Option<Estimate> {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let value = median(&finite)?;
    let mut resampler = Resampler::new(finite.len() as u64);
    let mut one = || median(&draw(&finite, &mut resampler));
    let draws: Vec<f64> = (0..DRAWS).filter_map(|_| one()).collect();
    Some(Estimate::of_draws(value, &draws))
}

/// The mean of the medians of groups of numbers, with its interval: what was measured in stretches of
/// time that differ counts once a stretch. Groups without a finite number do not count; none without any.
#[must_use]
pub fn mean_of_medians(groups: &[Vec<f64>]) -> Option<Estimate> {
    let finite = |group: &Vec<f64>| group.iter().copied().filter(|v| v.is_finite()).collect();
    let mut groups: Vec<Vec<f64>> = groups.iter().map(finite).collect();
    groups.retain(|group| !group.is_empty());
    if let [one] = &groups[..] {
        return estimate(one);
    }
    let mean = |medians: &mut dyn Iterator<Item = f64>| medians.sum::<f64>() / groups.len() as f64;
    let value = mean(&mut groups.iter().filter_map(|group| median(group)));
    let mut resampler = Resampler::new(groups.iter().map(Vec::len).sum::<usize>() as u64);
    let mut one = || mean(&mut groups.iter().filter_map(|group| median(&resampler.draw(group))));
    let draws: Vec<f64> = (0..DRAWS).map(|_| one()).collect();
    (!groups.is_empty()).then(|| Estimate::of_draws(value, &draws))
}

/// The median of `a` less that of `b`, with its interval; none if either has no finite number.
#[must_use]
pub fn difference(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let value = median(a)? - median(b)?;
    let mut resampler = Resampler::new((a.len() + b.len()) as u64);
    let mut one = || Some(median(&resampler.draw(a))? - median(&resampler.draw(b))?);
    let draws: Vec<f64> = (0..DRAWS).filter_map(|_| one()).collect();
    Some(Estimate::of_draws(value, &draws))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers around `centre` with a spread, one in ten of them far off: as on a shared host.
    fn noisy(centre: f64, spread: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut source = Resampler::new(seed);
        let mut uniform = || source.below(1 << 20) as f64 / f64::from(1 << 20) - 0.5;
        (0..count)
            .map(|i| centre + spread * uniform() - if i % 10 == 9 { 5.0 * spread } else { 0.0 })
            .collect()
    }

    #[test]
    fn the_interval_holds_the_truth_about_as_often_as_it_says() {
        let holds = |seed: &u64| {
            let found = estimate(&noisy(1.0, 0.2, 21, *seed)).unwrap();
            found.low <= 1.0 && 1.0 <= found.high
        };
        let hits = (0..300).filter(holds).count();
        assert!((258..=300).contains(&hits), "{hits} of 300");
    }

    #[test]
    fn few_numbers_promise_no_more_than_they_hold() {
        let mut source = Resampler::new(9);
        // What is usual, and two and a half times that.
        for (scatter, least) in [(0.04, 930), (0.1, 780)] {
            for count in [1, 2, 3, 4, 5, 6, 10, 15].into_iter().skip(usize::from(scatter > 0.05)) {
                let mut holds = |by: fn(&[f64]) -> Option<Estimate>| {
                    let one = |_| 1.0 + scatter * source.normal();
                    let values: Vec<f64> = (0..count).map(one).collect();
                    by(&values).is_some_and(|found| found.low <= 1.0 && 1.0 <= found.high)
                };
                let hits = (0..1000).filter(|_| holds(estimate)).count();
                assert!((least..1000).contains(&hits), "{hits} of 1000 with {count}, {scatter}");
                let plain = (0..1000).filter(|_| holds(resampled)).count();
                assert!(plain < hits, "{plain} of 1000 with {count}, by resampling alone");
            }
        }
    }

    #[test]
    fn more_numbers_narrow_it() {
        let width = |count| estimate(&noisy(1.0, 0.2, count, 7)).unwrap().width();
        assert!(width(200) < width(20), "{} {}", width(200), width(20));
    }

    #[test]
    fn few_numbers_are_spanned() {
        assert_eq!(estimate(&[]), None);
        assert_eq!(resampled(&[2.0]), Some(Estimate::exact(2.0)));
        let spans = |values: &[f64]| estimate(values).map(|found| (found.low, found.high)).unwrap();
        let (low, high) = spans(&[2.0]);
        assert!((1.7..1.85).contains(&low) && (2.15..2.3).contains(&high), "{low} {high}");
        let (low, high) = spans(&[2.0, 4.0, f64::NAN]);
        assert!(low < 2.0 && high > 4.0, "{low} {high}");
    }

    #[test]
    fn each_stretch_of_time_counts_once() {
        let (calm, rough) = (noisy(0.0, 0.1, 30, 1), noisy(0.3, 0.1, 10, 2));
        let found = mean_of_medians(&[calm.clone(), rough, vec![f64::NAN], vec![]]).unwrap();
        assert!((found.value - 0.15).abs() < 0.02 && found.width() < 0.06, "{found:?}");
        assert!(found.low <= 0.15 && 0.15 <= found.high, "{found:?}");
        assert_eq!(mean_of_medians(std::slice::from_ref(&calm)), estimate(&calm));
        assert_eq!(mean_of_medians(&[vec![], vec![f64::NAN]]), None);
        assert_eq!(mean_of_medians(&[vec![1.0], vec![3.0]]), Some(Estimate::exact(2.0)));
    }

    #[test]
    fn differences_have_a_sign() {
        let (a, b) = (noisy(2.0, 0.1, 30, 1), noisy(1.0, 0.1, 30, 2));
        let found = difference(&a, &b).unwrap();
        assert!(found.low > 0.9 && found.high < 1.1, "{found:?}");
        assert_eq!(difference(&a, &[]), None);
    }

    proptest! {
        #[test]
        fn ends_enclose_the_value(values in proptest::collection::vec(-1e3f64..1e3, 1..30)) {
            let found = estimate(&values).unwrap();
            prop_assert!(found.low <= found.value && found.value <= found.high);
            prop_assert_eq!(estimate(&values), Some(found), "the same numbers, the same answer");
        }
    }
}
