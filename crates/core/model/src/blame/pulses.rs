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
//! CPU time than they usually do, which is in the better heap of samples where they are slow for much of
//! the time (`pulses/level.rs`). What such looks show is weighed apart from all others, in a set of
//! hypotheses of its own ([`Guilt`]): it speaks of the victim's slow moments only, and what is seen
//! between them does not speak against it. The sample that calls for a look is not part of it, so
//! that chance in the one is no evidence in the other.
//!
//! A moment may be over when the look at it begins, and with one who pulses in step with the samples it
//! often is. That nothing shows then acquits nobody. So the rest of the sample in which a look was made
//! tells whether the moment went on (`pulses/when.rs`); where it did not, the look may as well have come
//! too late: what shows in it counts as ever, that nothing shows counts little.
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
//! each other), but tells whom to hold first: all such measurements together are one word about each
//! ([`Guilt::hear`]), which makes its guilt ten times as likely at most. Else who is in step with the
//! culprit would be guilty after some dozen moments, whatever looks say of it.
//!
//! Slowness of more than two seconds is how the victim is now, and all looks speak of it, at first. But
//! if it ends within some more, it was a moment, and the next ones may be twice as long.
//!
//! # Units
//! ln of costs; CPUs; seconds.
//!
//! # Pseudo-code
//! ```text
//! each sample:   usual = median of the last 30 s, or of their lower heap if they fall into two
//!                off = ln(cost) - usual
//!                slow = off > least, and > 4 deviations (by the median of distances)
//!                longest = 2 s, or twice the longest slowness of late that ended within 12 s
//!                a moment = samples in a row that are slow; a longer one is none: the
//!                    victim is as it is now
//!                its end: hint(highest off; CPUs then - usual CPUs)
//! each trace:    if it began right after a slow sample and both ends of it are alike: measure; it may
//!                    have come too late if the rest of its sample is as usual
//!                if it began after another one, and the rest of its sample is slow: it says nothing
//!                else it speaks of the usual, and so do those in a moment that got too long
//! to look again: right after a slow sample, by these hypotheses; not after the one with which moments usually
//!                    end (`pulses/lasts.rs`)
//! named:         as elsewhere, by these, with the CPUs of the moments; after two moments at least
//! ```
//!
//! # Degradation
//! A victim whose requests nobody counts has no such moments. One that is slow in more than three of four
//! samples has none either: then that is usual, and everything else speaks of it. Who pulses faster than
//! samples come makes no moments: all samples are alike, and ordinary looks tell. That it is so shows in looks
//! whose ends differ (`pulses/edges.rs`).
//!
//! Source: A-2, R-3; issue "Name the polluter and limit only it" (bursts).

mod edges;
mod lasts;
mod level;
mod looks;
mod told;
mod when;

pub(in crate::blame) use told::usual_apart_s;
pub use when::When;

use super::guilt::{Guilt, GuiltParams, Measurement};
use super::measure::{MeasureParams, Measurer, Signal};
use crate::inflation::InflationParams;
use edges::Edges;
use level::Level;
use quell_types::{Tenant, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
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
    /// The longest moment in seconds, as long as none was longer.
    pub longest_s: f64,
    /// Slowness that ends within so many seconds makes moments twice as long ones.
    pub longest_ever_s: f64,
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
            longest_ever_s: 12.0,
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
/// What moves together makes guilt at most ten times as likely, in ln; and less than this is nothing.
const MOST_HINT_LN: f64 = core::f64::consts::LN_10;
const LEAST_HINT_LN: f64 = 0.05;
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
    /// How long it is, in seconds.
    pub interval_s: f64,
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
    /// What moved together in moments, by itself: it only tells whom to hold first.
    hints: Guilt,
    /// Others' word.
    said: BTreeMap<Tenant, f64>,
    measurer: Measurer,
    drift_variance: f64,
    edges: Edges,
    level: Level,
    open: Option<Open>,
    /// When the last slow sample ended; none once its moment is too long.
    slow_at: Option<Time>,
    /// Ends of the last slow samples: a look may end some samples after the one in which it began.
    slow_ends: VecDeque<Time>,
    /// When slowness ended of late, and how long it had lasted, in seconds.
    lasted: VecDeque<(Time, f64)>,
    begun: VecDeque<Time>,
    /// How long the last sample was, in seconds.
    sample_s: f64,
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
            hints: Guilt::new(GuiltParams::default()),
            said: BTreeMap::new(),
            measurer: Measurer::new(victim.clone(), Signal::Work, measures),
            victim,
            drift_variance: measures.drift_sd * measures.drift_sd,
            edges: Edges::default(),
            level: Level::default(),
            open: None,
            slow_at: None,
            slow_ends: VecDeque::new(),
            lasted: VecDeque::new(),
            begun: VecDeque::new(),
            sample_s: 0.0,
            usual: BTreeMap::new(),
            height: BTreeMap::new(),
        }
    }

    /// From now on these are the suspects.
    pub fn keep(&mut self, suspects: &[Tenant]) {
        self.guilt.keep(suspects);
        self.hints.keep(suspects);
        let kept: BTreeSet<&Tenant> = suspects.iter().collect();
        self.usual.retain(|tenant, _| kept.contains(tenant));
        self.height.retain(|tenant, _| kept.contains(tenant));
    }

    /// How many CPUs they use now.
    pub fn size(&mut self, now: Time, used_cpus: &BTreeMap<Tenant, f64>) {
        self.guilt.size(now, used_cpus);
    }

    /// Begins anew with one of them.
    pub fn forget(&mut self, suspect: &Tenant) {
        self.guilt.forget(suspect);
        self.hints.forget(suspect);
        self.listen();
        self.height.remove(suspect);
    }

    /// Others' word about suspects, as [`Guilt::hear`] takes it.
    pub fn hear(&mut self, hearsay_ln: &BTreeMap<Tenant, f64>) {
        if self.said != *hearsay_ln {
            self.said.clone_from(hearsay_ln);
            self.listen();
        }
    }

    /// Hears others' word and what moved together in moments, which is no more than a word either.
    fn listen(&mut self) {
        let mut all = self.said.clone();
        for suspect in self.hints.suspects() {
            let hint_ln = self.hints.evidence_ln(suspect).clamp(0.0, MOST_HINT_LN);
            if hint_ln >= LEAST_HINT_LN {
                *all.entry(suspect.clone()).or_default() += hint_ln;
            }
        }
        self.guilt.hear(&all);
    }

    /// Time passes, whether requests come or not: what is old counts less, and a moment whose end
    /// nobody saw is none.
    pub fn fade(&mut self, now: Time) {
        self.guilt.fade(now);
        self.hints.fade(now);
        self.begun.retain(|then| now.since(*then) <= MEMORY);
        self.lasted.retain(|(then, _)| now.since(*then) <= MEMORY);
        let unseen = Duration::from_secs_f64(self.params.longest_s);
        if self.slow_at.is_some_and(|end| now.since(end) > unseen) {
            (self.slow_at, self.open) = (None, None);
        }
    }

    /// Takes in a sample in which the suspects used so many CPUs.
    pub fn feel(&mut self, felt: Felt, cpus: &BTreeMap<Tenant, f64>) {
        self.fade(felt.time);
        if felt.cost_s <= 0.0 || felt.requests < self.params.fewest_requests {
            return;
        }
        self.sample_s = felt.interval_s;
        let ln_cost = libm::log(felt.cost_s);
        match self.level.off(ln_cost, &self.params) {
            Some(height_ln) => self.rise(felt, height_ln, cpus),
            None => self.calm(felt.time, cpus),
        }
        self.level.add(ln_cost, &self.params);
    }

    /// Whether it has been slow for so long that this is how it is now.
    #[must_use]
    pub fn is_overlong(&self) -> bool {
        self.open.is_some() && self.slow_at.is_none()
    }

    fn rise(&mut self, felt: Felt, height_ln: f64, cpus: &BTreeMap<Tenant, f64>) {
        let now =
            || Open { since: felt.time, height_ln, requests: felt.requests, cpus: cpus.clone() };
        let open = self.open.get_or_insert_with(now);
        if height_ln > open.height_ln {
            *open = Open { since: open.since, ..now() };
        }
        let lasts_s = felt.time.since(open.since).as_secs_f64();
        let longest_s = self.longest_s();
        self.slow_at = (lasts_s < longest_s).then_some(felt.time);
        self.slow_ends.extend(self.slow_at);
        if self.slow_ends.len() > SLOW_ENDS {
            self.slow_ends.pop_front();
        }
    }

    fn calm(&mut self, now: Time, cpus: &BTreeMap<Tenant, f64>) {
        let last = self.slow_at.take();
        if let Some(open) = self.open.take() {
            let lasted_s = now.since(open.since).as_secs_f64();
            if lasted_s <= self.params.longest_ever_s {
                self.lasted.push_back((now, lasted_s));
            }
            if self.lasted.len() > REMEMBERED {
                self.lasted.pop_front();
            }
            if last.is_some() {
                self.close(now, open);
            }
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
        self.hints.measure(&Measurement {
            time: now,
            ln_slowdown: open.height_ln,
            variance: self.measurer.variance(open.requests, f64::INFINITY) + self.drift_variance,
            doses_cpus: open.cpus.iter().map(more).collect(),
            experiment: false,
            void_frac: 0.0,
        });
        self.listen();
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
}

/// What is seen now has its weight in what was seen before.
fn mix(old: &mut BTreeMap<Tenant, f64>, new: &BTreeMap<Tenant, f64>) {
    for (tenant, value) in new {
        let known = old.entry(tenant.clone()).or_insert(*value);
        *known += FRESH * (value - *known);
    }
}

#[cfg(test)]
mod tests;
