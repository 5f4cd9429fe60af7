//! From values to places, and which values get a tick.

use crate::{Plot, Range, Style};

/// Maps values to a range of places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) log: bool,
    /// The place of `low`.
    pub(crate) from: f64,
    /// The place of `high`.
    pub(crate) to: f64,
}

impl Scale {
    /// The place of a value; none if a logarithm does not have it. May lie outside.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        if self.log && value <= 0.0 {
            return None;
        }
        let way =
            (self.warp(value) - self.warp(self.low)) / (self.warp(self.high) - self.warp(self.low));
        let place = self.from + (self.to - self.from) * way;
        place.is_finite().then_some(place)
    }

    /// The place of a value, moved to the nearer end if it lies outside.
    pub(crate) fn place_inside(&self, value: f64) -> Option<f64> {
        let (first, last) = (self.from.min(self.to), self.from.max(self.to));
        self.place(value).map(|place| place.clamp(first, last))
    }

    /// Whether a value is shown.
    pub(crate) fn shows(&self, value: f64) -> bool {
        let slack = if self.log { 0.0 } else { (self.high - self.low) * 1e-9 };
        value >= self.low - slack && value <= self.high + slack
    }

    fn warp(&self, value: f64) -> f64 {
        if self.log { value.log10() } else { value }
    }

    /// At most about `most` values in rising order that are worth a tick.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        if self.log { self.log_ticks(most) } else { self.even_ticks(most) }
    }

    fn even_ticks(&self, most: usize) -> Vec<f64> {
        let step = step(self.high - self.low, most);
        let first = (self.low / step - 1e-6).ceil();
        let tick = |i: usize| (first + i as f64) * step;
        (0..=most + 1).map(tick).filter(|&value| self.shows(value)).collect()
    }

    /// Decades; their double and fivefold too if there is room; every n-th decade if not.
    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let all = |factors: &[f64], every: usize| -> Vec<f64> {
            let tens = decades.clone().step_by(every);
            let values = tens.flat_map(|ten| factors.iter().map(move |f| f * 10f64.powi(ten)));
            let near = |v: &f64| *v >= self.low * 0.999_999 && *v <= self.high * 1.000_001;
            values.filter(near).collect()
        };
        let fine = all(&[1.0, 2.0, 5.0], 1);
        if fine.len() <= most {
            return fine;
        }
        let whole = (1..64).map(|every| all(&[1.0], every)).find(|ticks| ticks.len() <= most);
        whole.filter(|ticks| ticks.len() > 1).unwrap_or_else(|| vec![self.low, self.high])
    }
}

/// A step of 1, 2 or 5 times a power of ten that cuts `width` into `most` parts at most.
fn step(width: f64, most: usize) -> f64 {
    let rough = width / most.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let fits = |factor: &&f64| *factor * power >= rough * 0.999_999;
    power * [1.0, 2.0, 5.0].iter().find(fits).unwrap_or(&10.0)
}

/// The numbers that the y axis shows: the data, the lines across, and zero unless logarithmic; up
/// to the next tick.
pub(crate) fn y_range(plot: &Plot, most: usize) -> Range {
    let data = plot.series.iter().flat_map(|series| series.drawable().map(|(_, y)| y));
    let lines = plot.h_lines.iter().map(|line| line.at).filter(|at| at.abs() < 1e30);
    let values: Vec<f64> = data.chain(lines).collect();
    if let Some(range) = given(plot.y.range, plot.y.log) {
        return range;
    }
    if plot.y.log {
        return log_range(&values);
    }
    let zero = std::iter::once(0.0);
    let Range { low, high } = even_range(values.into_iter().chain(zero));
    let step = step(high - low, most);
    Range { low: (low / step).floor() * step, high: (high / step * 0.999_999).ceil() * step }
}

/// The numbers that the x axis shows: the data and the spans, or the ranks of the categories with
/// half a place on each side.
pub(crate) fn x_range(plot: &Plot) -> Range {
    if !plot.categories.is_empty() {
        return Range { low: -0.5, high: plot.categories.len() as f64 - 0.5 };
    }
    if let Some(range) = given(plot.x.range, plot.x.log) {
        return range;
    }
    let data = plot.series.iter().flat_map(|series| series.drawable().map(|(x, _)| x));
    let spans = plot.spans.iter().flat_map(|span| [span.from, span.to]);
    let values: Vec<f64> = data.chain(spans).filter(|x| x.abs() < 1e30).collect();
    if plot.x.log {
        return log_range(&values);
    }
    let Range { low, high } = even_range(values.into_iter());
    // Half a bar on each side, so that the first and the last are whole.
    let bars = plot.series.iter().filter(|series| series.style == Style::Bars);
    let pad = match bars.map(|series| series.points.len()).max() {
        Some(most) => (high - low) / (2 * most.max(1)) as f64,
        None => 0.0,
    };
    Range { low: low - pad, high: high + pad }
}

/// A range that was asked for, if it makes sense.
fn given(range: Option<Range>, log: bool) -> Option<Range> {
    let sound = |r: &Range| r.low < r.high && r.low.abs() < 1e30 && r.high.abs() < 1e30;
    range.filter(sound).filter(|range| !log || range.low > 0.0)
}

/// From the least to the greatest; never empty, nor too narrow to have digits.
fn even_range(values: impl Iterator<Item = f64>) -> Range {
    let ends = values.fold(None, |ends: Option<(f64, f64)>, v| {
        Some(ends.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
    });
    let (low, high) = ends.unwrap_or((0.0, 1.0));
    let least = (low.abs().max(high.abs()) * 1e-6).max(1e-12);
    if high - low < least {
        let pad = if low == 0.0 && high == 0.0 { 1.0 } else { low.abs().max(high.abs()) * 0.1 };
        return Range { low: low - if low == 0.0 { 0.0 } else { pad }, high: high + pad };
    }
    Range { low, high }
}

/// From the next lower to the next higher of 1, 2 or 5 times a power of ten.
fn log_range(values: &[f64]) -> Range {
    let positive = || values.iter().copied().filter(|&v| v > 1e-30);
    let (low, high) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
    if low > high {
        return Range { low: 1.0, high: 10.0 };
    }
    let nice = |value: f64| {
        let power = 10f64.powf(value.log10().floor());
        [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power)
    };
    let below = nice(low).into_iter().rfind(|&v| v <= low * 1.000_001).unwrap_or(low);
    let above = nice(high).into_iter().find(|&v| v >= high * 0.999_999).unwrap_or(high);
    if below < above {
        Range { low: below, high: above }
    } else {
        Range { low: below / 2.0, high: above * 2.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Series;
    use proptest::prelude::*;

    fn plot_of(values: &[f64], log: bool) -> Plot {
        let points = values.iter().enumerate().map(|(i, &y)| (i as f64, y));
        let mut plot = Plot::new("", "", "");
        plot.y.log = log;
        plot.series.push(Series::new("", Style::Line, points));
        plot
    }

    #[test]
    fn ranges_end_at_ticks_and_begin_at_zero() {
        for (values, log, low, high) in [
            (vec![3.0, 9.3], false, 0.0, 10.0),
            (vec![-3.0, 9.3], false, -5.0, 10.0),
            (vec![0.0], false, 0.0, 1.0),
            (vec![], false, 0.0, 1.0),
            (vec![0.3, 170.0], true, 0.2, 200.0),
            (vec![-1.0, 0.0], true, 1.0, 10.0),
            (vec![5.0], true, 2.5, 10.0),
        ] {
            let range = y_range(&plot_of(&values, log), 6);
            assert!(
                (range.low - low).abs() < 1e-9 && (range.high - high).abs() < 1e-9,
                "{values:?}: {range:?}"
            );
        }
    }

    #[test]
    fn ticks_are_round() {
        let scale = |low, high, log| Scale { low, high, log, from: 0.0, to: 100.0 };
        assert_eq!(scale(0.0, 10.0, false).ticks(5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(scale(0.5, 3.2, false).ticks(6), [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
        assert_eq!(scale(1.0, 10.0, true).ticks(6), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(scale(1.0, 1e6, true).ticks(4), [1.0, 100.0, 1e4, 1e6]);
    }

    proptest! {
        #[test]
        fn ticks_are_few_rising_and_inside(
            values in proptest::collection::vec(-1e12..1e12f64, 0..20),
            most in 2usize..12, log in any::<bool>(), exponent in -20i32..15,
        ) {
            let scaled: Vec<f64> = values.iter().map(|v| v * 10f64.powi(exponent)).collect();
            let range = y_range(&plot_of(&scaled, log), most);
            prop_assert!(range.low < range.high, "{range:?}");
            let scale = Scale { low: range.low, high: range.high, log, from: 300.0, to: 0.0 };
            let ticks = scale.ticks(most);
            prop_assert!((1..=most + 2).contains(&ticks.len()), "{ticks:?}");
            prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
            for value in scaled.iter().chain(&ticks) {
                if let Some(place) = scale.place(*value) {
                    prop_assert!((-0.1..=300.1).contains(&place), "{value} at {place} of {range:?}");
                }
            }
        }
    }
}
