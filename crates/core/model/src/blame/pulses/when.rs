//! In what a look was made: in a slow moment, right before one, or in neither.
//!
//! The samples around it tell, and the look itself must not: what is chosen by what it shows is no
//! evidence. So what counts is the slow sample right before a look, and the rest of the sample in which
//! it ended, without its chips. Who was slow before a look and is not after it may have been looked at when
//! the moment was over: that something shows says nearly as much as ever, and that nothing does says little.
//! Who was slow only after it was looked at while something began, and nothing is learned of that.

use super::{Felt, Pulses};
use crate::inflation::Side;
use quell_types::{ChipTrace, ExperimentTrace, Time};
use std::time::Duration;

/// In what a look was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// In a slow moment, or right after one: it speaks of these. With the probability that it was over.
    Moment(f64),
    /// One began in it, or right after it: it says nothing.
    Edge,
    /// In none, or in one so long that this is how the victim is now: it speaks of that.
    Usual,
}

/// A rest of a sample that is so many standard deviations above the usual tells that the moment went on.
const STILL_SDS: f64 = 2.0;
/// Where nothing of a moment is left after a look, it may as well have been over before.
const OVER_FRAC: f64 = 0.5;

/// What a victim did in a sample besides a look.
#[derive(Clone, Copy, Debug)]
struct Rest {
    ln_cost: f64,
    requests: f64,
}

impl Pulses {
    /// In what a look was made that came with this sample, before that is felt.
    #[must_use]
    pub fn when(&self, trace: &ExperimentTrace, felt: Option<&Felt>) -> When {
        let rest = felt.and_then(|felt| self.rest(trace, felt));
        match (self.is_prompt(trace), rest) {
            (false, _) if self.is_overlong() => When::Usual,
            (true, rest) => {
                let left_sds = rest.and_then(|rest| self.left_sds(rest));
                let gone_frac = left_sds.map_or(0.0, |left| 1.0 - left / STILL_SDS);
                When::Moment(OVER_FRAC * gone_frac.clamp(0.0, 1.0))
            }
            (false, Some(rest)) if self.level.off(rest.ln_cost, &self.params).is_some() => {
                When::Edge
            }
            (false, _) => When::Usual,
        }
    }

    /// By how many standard deviations the rest of a sample is above the usual.
    fn left_sds(&self, rest: Rest) -> Option<f64> {
        let (above, sd) = self.level.above(rest.ln_cost)?;
        let chance = libm::sqrt(self.measurer.variance(rest.requests, f64::INFINITY));
        Some(above / chance.max(sd))
    }

    /// Whether a look began right after a slow sample.
    fn is_prompt(&self, trace: &ExperimentTrace) -> bool {
        let Some(first) = trace.chips.first() else { return false };
        let promptly = Duration::from_secs_f64(self.params.promptly_s);
        let after = |end: &Time| first.from >= *end && first.from.since(*end) <= promptly;
        self.slow_ends.iter().any(after)
    }

    /// That part of a sample which is not of a look; none if that is too short.
    fn rest(&self, trace: &ExperimentTrace, felt: &Felt) -> Option<Rest> {
        let (mut cpu_s, mut requests) = (felt.cost_s * felt.requests, felt.requests);
        for chip in &trace.chips {
            let side = Side::of(&self.victim, chip).ok()?;
            let part = overlap_frac(chip, felt);
            cpu_s -= part * side.cpu_s;
            requests -= part * side.requests as f64;
        }
        let tells = requests >= self.params.fewest_requests && cpu_s > 0.0;
        tells.then(|| Rest { ln_cost: libm::log(cpu_s / requests), requests })
    }
}

/// The part of a chip that lies in a sample.
fn overlap_frac(chip: &ChipTrace, felt: &Felt) -> f64 {
    let lasts_s = chip.to.since(chip.from).as_secs_f64();
    let outside_s =
        |from: Time, to: Time| if from < to { to.since(from).as_secs_f64() } else { 0.0 };
    let begin = Time(felt.time.0.saturating_sub((felt.interval_s * 1e9) as u64));
    let outside =
        outside_s(chip.from, begin.min(chip.to)) + outside_s(felt.time.max(chip.from), chip.to);
    if lasts_s > 0.0 { (1.0 - outside / lasts_s).clamp(0.0, 1.0) } else { 0.0 }
}
