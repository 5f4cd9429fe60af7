//! How much the culprit hurts, with Quell off: an estimate from pairs of short turns.
//!
//! # Problem
//! A service of some hundred requests a second has a tail that scatters by a quarter from second to
//! second, and where CPUs are short what was left behind in one turn is answered in the next. A
//! class of harm that is 14 % wide is not seen through that.
//!
//! # Idea
//! A *pair* is two runs of the generator with the very same arrivals and requests, each from an
//! empty queue: one beside the culprit, one with it stopped. What the arrivals do to latency is in
//! both, and cancels in their ratio. Pairs are played in the order B W W B, so that what drifts
//! steadily cancels too, each with arrivals of its own. The mean latency counts, not its tail: it is
//! told by all requests of a turn, not by a few.
//!
//! The harm is the greatest of three factors (`HARM_DEFINITION`), each the trimmed mean over pairs in
//! ln: a fifth of the pairs is left out at either end, so one in which something else ran says
//! little. Its 95 % interval is that of Tukey and McLaughlin (winsorised variance, Student's t).
//!
//! It is the same in all classes of harm, whatever the culprit takes.

use quell_service::{Window, student_95};
use std::sync::{Mutex, PoisonError};

/// Length of a window of latencies in the course of a trial.
pub(super) const WINDOW_S: f64 = 0.2;
/// This share of pairs is left out at either end.
const TRIMMED_FRAC: f64 = 0.2;
/// What harm is, as reports say it.
pub(super) const HARM_DEFINITION: &str = "the greatest of three factors: the service's mean \
    latency from the scheduled arrival, its CPU time per answer, and its answers in time (upside \
    down), each beside the culprit over that with the culprit stopped, everybody else at work and \
    Quell off; trimmed means in ln over pairs of turns with the same arrivals, each from an empty \
    queue; where nothing is answered beside the culprit, half an answer at the turn's end is assumed";

/// What was seen in one turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    /// Mean sojourn from the scheduled arrival.
    pub(super) mean_ms: f64,
    /// 95 % of sojourns.
    pub(super) p95_ms: f64,
    /// CPU time of the service per answer.
    pub(super) cost_s: f64,
    /// Share of the requests that was answered before the turn's end.
    pub(super) answered_frac: f64,
}

impl Seen {
    /// The same, of a turn of so many ms and requests beside the culprit: where nothing was answered, as if half an
    /// answer had come at its end. So harm beyond all measure is told as what it is at least.
    pub(super) fn at_least(self, turn_ms: f64, offered: u64) -> Self {
        let or = |seen: f64, assumed: f64| if seen > 0.0 { seen } else { assumed };
        Self {
            mean_ms: or(self.mean_ms, turn_ms),
            p95_ms: or(self.p95_ms, turn_ms),
            cost_s: self.cost_s,
            answered_frac: or(self.answered_frac, 0.5 / offered.max(1) as f64),
        }
    }
}

/// One pair: each factor in ln, beside the culprit over without it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) latency_ln: f64,
    pub(super) p95_ln: f64,
    pub(super) cost_ln: f64,
    /// Upside down: a service that is starved answers fewer.
    pub(super) answered_ln: f64,
}

impl Pair {
    /// None if nothing was answered in one of the two. Where that was so beside the culprit and is assumed
    /// ([`Seen::at_least`]), nobody knows what a request cost: that factor is 1.
    pub(super) fn of(beside: Seen, without: Seen) -> Option<Self> {
        let cost_ln = (beside.cost_s / without.cost_s).ln();
        let pair = Self {
            latency_ln: (beside.mean_ms / without.mean_ms).ln(),
            p95_ln: (beside.p95_ms / without.p95_ms).ln(),
            cost_ln: if cost_ln.is_finite() { cost_ln } else { 0.0 },
            answered_ln: (without.answered_frac / beside.answered_frac).ln(),
        };
        let all = [pair.latency_ln, pair.p95_ln, pair.answered_ln];
        all.iter().all(|ln| ln.is_finite()).then_some(pair)
    }
}

/// A trimmed mean and half the width of its 95 % interval, in ln.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) ln: f64,
    pub(super) half_width_ln: f64,
}

impl Estimate {
    /// None of fewer than two values.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let cut = (TRIMMED_FRAC * count as f64) as usize;
        let kept = values.get(cut..count - cut).filter(|kept| kept.len() > 1)?;
        let (left, ln) = (kept.len() as f64, mean(kept));
        let (least, most) = (kept[0], kept[kept.len() - 1]);
        let winsorised: Vec<f64> = values.iter().map(|value| value.clamp(least, most)).collect();
        let middle = mean(&winsorised);
        let squares: f64 = winsorised.iter().map(|value| (value - middle).powi(2)).sum();
        let error = (squares / (left * (left - 1.0))).sqrt();
        Some(Self { ln, half_width_ln: student_95(kept.len() - 1) * error })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// How much the culprit hurts, as factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) latency_ratio: f64,
    pub(super) cost_ratio: f64,
    pub(super) answered_ratio: f64,
    /// No part of the harm; told beside it.
    pub(super) p95_ratio: f64,
    /// 95 % interval of the greatest of the first three.
    pub(super) interval: (f64, f64),
    pub(super) pairs: u32,
}

impl Measured {
    /// None of fewer than two pairs.
    pub(super) fn of(pairs: &[Pair]) -> Option<Self> {
        let over = |of: fn(&Pair) -> f64| Estimate::of(pairs.iter().map(of).collect());
        let latency = over(|pair| pair.latency_ln)?;
        let cost = over(|pair| pair.cost_ln)?;
        let answered = over(|pair| pair.answered_ln)?;
        let p95 = over(|pair| pair.p95_ln)?;
        // The harm is at least the greatest of the lower ends, and at most that of the upper ones. Not
        // the interval of the factor that seems greatest: answers in time, of which none was lost, are
        // 1 exactly, and would hide a latency that may well be 1.1.
        let greatest = |end: fn(&Estimate) -> f64| {
            [latency, cost, answered].iter().map(end).fold(f64::MIN, f64::max).exp()
        };
        let low = greatest(|factor| factor.ln - factor.half_width_ln);
        let high = greatest(|factor| factor.ln + factor.half_width_ln);
        Some(Self {
            latency_ratio: latency.ln.exp(),
            cost_ratio: cost.ln.exp(),
            answered_ratio: answered.ln.exp(),
            p95_ratio: p95.ln.exp(),
            interval: (low, high),
            pairs: pairs.len() as u32,
        })
    }

    /// The harm.
    pub(super) fn ratio(self) -> f64 {
        self.latency_ratio.max(self.cost_ratio).max(self.answered_ratio)
    }
}

/// The p95 of windows, for the course of a trial.
#[derive(Debug, Default)]
pub(super) struct Latencies(Mutex<Vec<(u64, f64)>>);

impl Latencies {
    pub(super) fn add(&self, window: &Window) {
        let Some(p95_ms) = window.p95_ms else { return };
        let end_ns = window.start_monotonic_ns + (window.length_s * 1e9) as u64;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((end_ns, p95_ms));
    }

    /// The p95 of each window, and when it ended.
    pub(super) fn tail(&self) -> Vec<(u64, f64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests;
