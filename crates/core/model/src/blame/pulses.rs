//! Moments: a victim that is slow now and then, and who makes it so.
//!
//! # Problem
//! A group that locks the bus for half a second, rests for some and locks it again does much harm
//! and leaves little evidence. On average it hardly slows anybody. Looks between its bursts say
//! that it does nothing, and where it works on between them they acquit it. And a look in which a
//! burst begins or ends says that whoever was held in it is guilty.
//!
//! # Idea
//! The victim itself tells when to look: at once after a sample in which its requests cost much more
//! CPU time than they usually do. What such looks show is weighed apart from all others, in a set of
//! hypotheses of its own ([`Guilt`]): it speaks of the victim's slow moments only, and what is seen
//! between them does not speak against it. The sample that calls for a look is not part of it, so
//! that chance in the one is no evidence in the other.
//!
//! A look in which the chips at its begin and its end, both with everybody at work, differ by more
//! than chance has an edge of such a moment in it, and is void. A victim that is starved answers
//! fewer requests while nobody is held. Elsewhere that voids a look, since the cost of a request
//! depends on their rate; here it widens the noise instead, by as much as rates are apart: otherwise
//! the worst harm could not be shown.
//!
//! That costs nobody anything: who works when the victim is slow and rests when it is not writes a code
//! of his own, as an experiment would. So each moment is one measurement besides, by what each group
//! used at its height over what it uses else. It names nobody (what moves together need not cause
//! each other), but tells whom to hold first.
//!
//! # Units
//! ln of costs; CPUs; seconds.
//!
//! # Pseudo-code
//! ```text
//! each sample:   off = ln(cost) - median of the last 30 s
//!                slow = off > least, and > 4 deviations (by the median of distances)
//!                a moment = samples in a row that are slow; one of more than 2 s is none: the
//!                    victim is as it is now
//!                its end: measure(highest off; CPUs then - usual CPUs), no experiment
//! each trace:    if it began right after a slow sample and both ends of it are alike: measure
//! to look again: right after a slow sample, by these hypotheses
//! named:         as elsewhere, by these, with the CPUs of the moments; after two moments at least
//! ```
//!
//! # Degradation
//! A victim whose requests nobody counts has no such moments. One that is slow in most samples has
//! none either: then that is usual, and everything else speaks of it.
//!
//! Source: A-2, R-3; issue "Name the polluter and limit only it" (bursts).

mod told;

use super::guilt::{Guilt, GuiltParams, Measurement};
use super::measure::{MeasureParams, Measurer, Signal};
use crate::inflation::{InflationParams, Side, sides};
use quell_types::{ExperimentTrace, Gap, Reading, Tenant, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What counts as a slow moment, and what looks in it are worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PulseParams {
    /// The least by which a slow sample costs more than usual, in ln.
    pub least_ln: f64,
    /// The same in standard deviations of usual samples.
    pub least_sd: f64,
    /// Samples that tell what is usual.
    pub usual_samples: usize,
    /// Fewest of them.
    pub fewest_samples: usize,
    /// Requests that a sample must have to tell anything.
    pub fewest_requests: f64,
    /// The longest moment in seconds.
    pub longest_s: f64,
    /// A look belongs to a moment if it begins within so many seconds of a slow sample's end.
    pub promptly_s: f64,
    /// Both ends of a look are alike if their costs are no further apart than this, in ln, or ...
    pub alike_ln: f64,
    /// ... than so many standard deviations of chance.
    pub alike_sd: f64,
    /// By how much the cost of a request may change where their rate does: ln for ln. Fewer wake
    /// the service more often each.
    pub rate_elasticity: f64,
    /// Moments that must have been seen before somebody is named for them.
    pub fewest: usize,
}

impl Default for PulseParams {
    fn default() -> Self {
        Self {
            least_ln: 0.14,
            least_sd: 4.0,
            usual_samples: 120,
            fewest_samples: 8,
            fewest_requests: 20.0,
            longest_s: 2.0,
            promptly_s: 0.15,
            alike_ln: 0.25,
            alike_sd: 3.0,
            rate_elasticity: 0.3,
            fewest: 2,
        }
    }
}

/// Begins of so many moments are remembered.
const REMEMBERED: usize = 5;
/// For so long.
const MEMORY: Duration = Duration::from_secs(600);
/// Ends of so many slow samples.
const SLOW_ENDS: usize = 8;
/// Weight of a sample, or of a moment, in what a group uses.
const FRESH: f64 = 0.3;
/// From the median of distances to the standard deviation of a normal distribution.
const MEDIAN_TO_SD: f64 = 1.4826;
/// Rates that are further apart than this are not compared at all.
const MOST_RATE_RATIO: f64 = 10.0;

/// One sample of the victim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Felt {
    /// Its end.
    pub time: Time,
    /// CPU time for each request, in seconds.
    pub cost_s: f64,
    /// Requests in it.
    pub requests: f64,
}

/// A moment that is not over yet.
#[derive(Clone, Debug)]
struct Open {
    since: Time,
    height_ln: f64,
    requests: f64,
    cpus: BTreeMap<Tenant, f64>,
}

/// The slow moments of one victim, and who makes them.
#[derive(Clone, Debug)]
pub struct Pulses {
    params: PulseParams,
    victim: Tenant,
    guilt: Guilt,
    measurer: Measurer,
    drift_variance: f64,
    /// ln of the cost in the last samples.
    costs: VecDeque<f64>,
    open: Option<Open>,
    /// When the last slow sample ended; none once its moment is too long.
    slow_at: Option<Time>,
    /// Ends of the last slow samples: a look may end some samples after the one in which it began.
    slow_ends: VecDeque<Time>,
    begun: VecDeque<Time>,
    /// CPUs of each group else, and at the height of a moment.
    usual: BTreeMap<Tenant, f64>,
    height: BTreeMap<Tenant, f64>,
}

impl Pulses {
    /// Nothing was seen.
    #[must_use]
    pub fn new(victim: Tenant, params: PulseParams) -> Self {
        let usual = MeasureParams::default();
        let comparable = InflationParams { max_rate_ratio: MOST_RATE_RATIO, ..usual.comparable };
        let measures = MeasureParams { comparable, ..usual };
        Self {
            params,
            guilt: Guilt::new(GuiltParams::default()),
            measurer: Measurer::new(victim.clone(), Signal::Work, measures),
            victim,
            drift_variance: measures.drift_sd * measures.drift_sd,
            costs: VecDeque::new(),
            open: None,
            slow_at: None,
            slow_ends: VecDeque::new(),
            begun: VecDeque::new(),
            usual: BTreeMap::new(),
            height: BTreeMap::new(),
        }
    }

    /// From now on these are the suspects.
    pub fn keep(&mut self, suspects: &[Tenant]) {
        self.guilt.keep(suspects);
        self.usual.retain(|tenant, _| suspects.contains(tenant));
        self.height.retain(|tenant, _| suspects.contains(tenant));
    }

    /// Begins anew with one of them.
    pub fn forget(&mut self, suspect: &Tenant) {
        self.guilt.forget(suspect);
        self.height.remove(suspect);
    }

    /// Others' word about suspects, as [`Guilt::hear`] takes it.
    pub fn hear(&mut self, hearsay_ln: &BTreeMap<Tenant, f64>) {
        self.guilt.hear(hearsay_ln);
    }

    /// Time passes, whether requests come or not: what is old counts less, and a moment whose end
    /// nobody saw is none.
    pub fn fade(&mut self, now: Time) {
        self.guilt.fade(now);
        self.begun.retain(|then| now.since(*then) <= MEMORY);
        let longest = Duration::from_secs_f64(self.params.longest_s);
        if self.slow_at.is_some_and(|end| now.since(end) > longest) {
            (self.slow_at, self.open) = (None, None);
        }
    }

    /// Takes in a sample in which the suspects used so many CPUs.
    pub fn feel(&mut self, felt: Felt, cpus: &BTreeMap<Tenant, f64>) {
        self.fade(felt.time);
        if felt.cost_s <= 0.0 || felt.requests < self.params.fewest_requests {
            return;
        }
        let ln_cost = libm::log(felt.cost_s);
        match self.off(ln_cost) {
            Some(height_ln) => self.rise(felt, height_ln, cpus),
            None => self.calm(felt.time, cpus),
        }
        self.costs.push_back(ln_cost);
        if self.costs.len() > self.params.usual_samples {
            self.costs.pop_front();
        }
    }

    /// By how much a sample costs more than usual, in ln, if that makes it a slow one.
    fn off(&self, ln_cost: f64) -> Option<f64> {
        if self.costs.len() < self.params.fewest_samples {
            return None;
        }
        let usual = median(self.costs.iter().copied())?;
        let distance = median(self.costs.iter().map(|cost| (cost - usual).abs()))?;
        let least = self.params.least_ln.max(self.params.least_sd * MEDIAN_TO_SD * distance);
        Some(ln_cost - usual).filter(|off| *off > least)
    }

    fn rise(&mut self, felt: Felt, height_ln: f64, cpus: &BTreeMap<Tenant, f64>) {
        let now =
            || Open { since: felt.time, height_ln, requests: felt.requests, cpus: cpus.clone() };
        let open = self.open.get_or_insert_with(now);
        if height_ln > open.height_ln {
            *open = Open { since: open.since, ..now() };
        }
        let lasts_s = felt.time.since(open.since).as_secs_f64();
        self.slow_at = (lasts_s < self.params.longest_s).then_some(felt.time);
        self.slow_ends.extend(self.slow_at);
        if self.slow_ends.len() > SLOW_ENDS {
            self.slow_ends.pop_front();
        }
    }

    fn calm(&mut self, now: Time, cpus: &BTreeMap<Tenant, f64>) {
        let last = self.slow_at.take();
        if let Some(open) = self.open.take()
            && last.is_some()
        {
            self.close(now, open);
        }
        mix(&mut self.usual, cpus);
    }

    /// A moment is over: what each group did otherwise in it is one measurement.
    fn close(&mut self, now: Time, open: Open) {
        self.begun.push_back(open.since);
        if self.begun.len() > REMEMBERED {
            self.begun.pop_front();
        }
        let more = |(tenant, cpus): (&Tenant, &f64)| {
            let usual = self.usual.get(tenant).copied().unwrap_or(0.0);
            (tenant.clone(), cpus - usual)
        };
        self.guilt.measure(&Measurement {
            time: now,
            ln_slowdown: open.height_ln,
            variance: self.measurer.variance(open.requests, f64::INFINITY) + self.drift_variance,
            doses_cpus: open.cpus.iter().map(more).collect(),
            experiment: false,
        });
        mix(&mut self.height, &open.cpus);
    }

    /// Whether the last sample was a slow one: now is the time to look.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.slow_at.is_some()
    }

    /// How many moments are remembered, five at most.
    #[must_use]
    pub fn count(&self) -> usize {
        self.begun.len()
    }

    /// What is believed of those who are suspected of the slow moments.
    #[must_use]
    pub fn guilt(&self) -> &Guilt {
        &self.guilt
    }

    /// Variance of what a look of so many requests on each side tells.
    #[must_use]
    pub fn variance(&self, requests: f64) -> f64 {
        self.measurer.variance(requests, requests)
    }

    /// Learns from a look, before the sample that it came with is felt.
    ///
    /// # Errors
    /// A gap that says why it tells nothing of slow moments.
    pub fn take(&mut self, trace: &ExperimentTrace) -> Reading<()> {
        let measurement = self.measured(trace)?;
        self.guilt.measure(&measurement);
        Ok(())
    }

    fn measured(&mut self, trace: &ExperimentTrace) -> Reading<Measurement> {
        let (running, held) = sides(&self.victim, trace)?;
        if !self.is_prompt(trace) {
            return Err(Gap::not_yet("the victim was not slow when it began"));
        }
        if !self.is_alike(trace)? {
            return Err(Gap::Ambiguous("a slow moment began or ended in it".into()));
        }
        let mut measurement = self.measurer.trace(trace)?;
        let rates = libm::log(held.rate() / running.rate().max(f64::MIN_POSITIVE));
        let doubt = self.params.rate_elasticity * rates;
        measurement.variance += doubt * doubt;
        Ok(measurement)
    }

    fn is_prompt(&self, trace: &ExperimentTrace) -> bool {
        let Some(first) = trace.chips.first() else { return false };
        let promptly = Duration::from_secs_f64(self.params.promptly_s);
        let after = |end: &Time| first.from >= *end && first.from.since(*end) <= promptly;
        self.slow_ends.iter().any(after)
    }

    /// Whether the first and the last chip in which everybody ran cost the same, but for chance.
    fn is_alike(&self, trace: &ExperimentTrace) -> Reading<bool> {
        let mut running = trace.chips.iter().filter(|chip| chip.running);
        let ends = [running.next(), running.next_back()];
        let [Some(first), Some(last)] = ends else {
            return Err(Gap::not_yet("it has no two ends with everybody at work"));
        };
        let [first, last] = [Side::of(&self.victim, first)?, Side::of(&self.victim, last)?];
        let fewest = first.requests.min(last.requests);
        if fewest == 0 {
            return Err(Gap::not_yet("no request at one end"));
        }
        let apart = libm::log(first.cpu_per_request() / last.cpu_per_request()).abs();
        let chance = self.measurer.variance(first.requests as f64, last.requests as f64);
        let most = self.params.alike_ln.max(self.params.alike_sd * libm::sqrt(chance));
        Ok(apart <= most)
    }
}

/// What is seen now has its weight in what was seen before.
fn mix(old: &mut BTreeMap<Tenant, f64>, new: &BTreeMap<Tenant, f64>) {
    for (tenant, value) in new {
        let known = old.entry(tenant.clone()).or_insert(*value);
        *known += FRESH * (value - *known);
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests;
