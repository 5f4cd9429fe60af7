//! Values as scenarios write them.

use super::words::Words;
use super::{ScenarioError, Word};
use quell_config::{parse_duration, parse_fraction, parse_rate, parse_size};
use std::time::Duration;

/// A span of time with its unit.
pub(crate) fn duration(word: &Word) -> Result<Duration, ScenarioError> {
    parse_duration(&word.text).map_err(|e| word.wrong(&e.problem, e.help))
}

/// A share: `0.4` or `40%`.
pub(crate) fn fraction(word: &Word) -> Result<f64, ScenarioError> {
    parse_fraction(&word.text).map_err(|e| word.wrong(&e.problem, e.help))
}

/// Bytes per second.
pub(crate) fn rate(word: &Word) -> Result<f64, ScenarioError> {
    parse_rate(&word.text).map(|r| r.0).map_err(|e| word.wrong(&e.problem, e.help))
}

/// Bytes.
pub(crate) fn size(word: &Word) -> Result<u64, ScenarioError> {
    parse_size(&word.text).map(|b| b.0).map_err(|e| word.wrong(&e.problem, e.help))
}

/// A finite number, not negative.
pub(crate) fn number(word: &Word) -> Result<f64, ScenarioError> {
    let value = word.text.parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0);
    value.ok_or_else(|| word.unfit("a number such as 12 or 0.5"))
}

/// A whole number from 1.
pub(crate) fn whole(word: &Word) -> Result<u32, ScenarioError> {
    let value = word.text.parse::<u32>().ok().filter(|v| (1..=100_000).contains(v));
    value.ok_or_else(|| word.unfit("a whole number from 1"))
}

/// A number of a figure, or a share in percent.
pub(crate) fn metric_number(word: &Word) -> Result<f64, ScenarioError> {
    let (text, whole) = match word.text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (word.text.as_str(), 1.0),
    };
    let value = text.parse::<f64>().ok().filter(|v| v.is_finite());
    value.map(|v| v / whole).ok_or_else(|| word.unfit("a number, or a share such as 40%"))
}

/// What clients offer, as a share of a peak rate or in requests per second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Load {
    Share(f64),
    Rate(f64),
    /// From each moment (seconds) this share of the peak.
    Steps(Vec<(f64, f64)>),
    /// Lowest and highest share of the peak, and the length of a day in seconds.
    Diurnal(f64, f64, f64),
    /// Linear between (seconds, share of the peak), repeated.
    Trace(Vec<(f64, f64)>),
}

/// Points of a day that is drawn as a raised cosine.
const POINTS_OF_A_DAY: u32 = 48;

impl Load {
    /// `40%`, `500/s`, `steps 0s 30% 60s 90%`, `diurnal 20% 90% 12h`, `trace 0s 20% 1h 90% 2h 20%`.
    pub(crate) fn read(words: &mut Words<'_>) -> Result<Self, ScenarioError> {
        let first = words.next("a load such as 40%, 500/s, steps …, diurnal …, trace …")?;
        match first.text.as_str() {
            "steps" => Ok(Load::Steps(points(words, first, 1)?)),
            "trace" => Ok(Load::Trace(points(words, first, 2)?)),
            "diurnal" => {
                let low = fraction(words.next("the lowest load, as 20%")?)?;
                let high = fraction(words.next("the highest load, as 90%")?)?;
                let word = words.next("the length of a day, as 12h")?;
                let day = duration(word)?;
                if day < Duration::from_secs(1) {
                    return Err(word.unfit("a day of at least 1s"));
                }
                Ok(Load::Diurnal(low, high, day.as_secs_f64()))
            }
            _ => match first.text.strip_suffix("/s") {
                Some(text) => {
                    let rate = Word { text: text.into(), ..first.clone() };
                    number(&rate).map(Load::Rate)
                }
                None => fraction(first).map(Load::Share),
            },
        }
    }

    /// Requests per second over time, of a service with this peak.
    pub(crate) fn offered(&self, peak: f64) -> quell_sim::Load {
        let scaled = |points: &[(f64, f64)]| points.iter().map(|(s, f)| (*s, f * peak)).collect();
        match self {
            Load::Share(share) => quell_sim::Load::Constant(share * peak),
            Load::Rate(rate) => quell_sim::Load::Constant(*rate),
            Load::Steps(points) => quell_sim::Load::Steps(scaled(points)),
            Load::Trace(points) => quell_sim::Load::Cycle(scaled(points)),
            Load::Diurnal(low, high, day) => {
                let at = |n: u32| {
                    let part = f64::from(n) / f64::from(POINTS_OF_A_DAY);
                    let up = (1.0 - libm::cos(part * std::f64::consts::TAU)) / 2.0;
                    (part * day, (low + (high - low) * up) * peak)
                };
                quell_sim::Load::Cycle((0..=POINTS_OF_A_DAY).map(at).collect())
            }
        }
    }
}

/// Moments that rise, each with a share.
fn points(
    words: &mut Words<'_>,
    at: &Word,
    least: usize,
) -> Result<Vec<(f64, f64)>, ScenarioError> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    while let Some(word) = words.peek() {
        let moment = duration(words.next("a moment")?)?.as_secs_f64();
        if points.last().is_some_and(|last| last.0 >= moment) {
            return Err(word.unfit("a moment later than the one before"));
        }
        points.push((moment, fraction(words.next("a load after each moment, as 40%")?)?));
    }
    match points.len() < least {
        true => {
            Err(at.wrong("the load has too few points", "moments and shares, as 0s 30% 60s 90%"))
        }
        false => Ok(points),
    }
}
