//! Who loads memory, by what reads of it take while it has another CPU.
//!
//! # Problem
//! Looks tell who slows a service through memory, and 1 % of a suspect's time is little where harm is a tenth
//! and requests scatter. What a request costs beside whom ([`Company`](super::super::Company)) is for
//! nothing, and as noisy as requests are.
//!
//! # Idea
//! A read of memory that nobody has in a cache takes as long as memory is loaded, which is known to a tenth
//! after four of them, where a request's cost scatters by more than itself: two seconds of the gauge's
//! samples tell who makes it a fiftieth longer. That is no harm yet: a service need not have use for memory.
//! So it is others' word about a suspect, as a trap is ([`Traps`](super::super::Traps)): guilt is more likely
//! by as much as the difference is more likely of somebody who loads memory than of chance, eight times at
//! most. It says whom to hold first, and makes looks that nearly suffice suffice. Unlike a trap it was measured,
//! and is no older than its samples, so suspicion may rest on it together with looks: of who surely loads memory it
//! is said that it may do a little harm, as long as looks do not speak against it
//! ([`Slight`](super::super::Slight)). And it tells over what culprit and victim fight.
//!
//! What is different beside anybody for other reasons is told by the groups themselves, where there are
//! enough of them: most do not load memory, and beside those reads differ by 1 or 2 % from one to the next
//! ([`Peers`]). So each is compared with the middle one of the others, whom a polluter among them does not move.
//!
//! # Units
//! ln of the time of a read.
//!
//! # Pseudo-code
//! ```text
//! x(g), v(g)     mean and variance of ln over the samples beside g, of the last twenty seconds or so
//! four groups or more:
//!     y(g)       = x(g) - median of x of the other groups
//!     d          = median distance of all x from their median, as a standard deviation; 1.5 % at least
//!     s²         = v(g) / n(g) + d² + d² π / 2 / other groups, what their median is uncertain by
//! fewer:
//!     y(g)       = x(g) - mean over all other samples
//!     s²         = v(g) / n(g) + v(others) / n(others) + 3 %², what is different beside anybody
//! expected(g)    = y(g), give or take 0.6 y(g) and what y(g) is uncertain by: the harm to a service of which it is
//!                  not known how much of its time it waits for memory, and what it loses of the caches besides
//! weight(g)      = ln of 1 (guilty: any y from 0 to 1 alike) over Normal(y; 0, s²), for y of 5 % and more
//! ```
//!
//! # Degradation
//! Where most load memory, these are what is usual: nobody stands out, and looks have to tell.
//! Who has another CPU all the time has nothing to be compared with: few samples, a wide s, no weight. What
//! loads memory from the host's other guests is there beside everybody alike.
//!
//! Source: A-9, R-3; issue "Name the polluter and limit only it" (the scheduler's own randomness as a free
//! experiment).

use super::growth::both;
use super::moments::Moments;
use super::peers::Peers;
use super::{EIGHTH_LN, MEMORY_S};
use crate::blame::slight::Expected;
use quell_types::{GaugeCounts, GaugeReading, Tenant};
use std::collections::BTreeMap;

/// Fewest samples on either side.
const LEAST: f64 = 10.0;
/// What is different beside anybody for other reasons (a CPU that is awake, for one), in ln, where there are too
/// few groups to tell.
const OTHER_SD: f64 = 0.03;
/// The least that counts, in ln.
const LEAST_LN: f64 = 0.05;
/// The most that it says, in ln: eight times as likely.
pub(super) const MOST_LN: f64 = 2.08;
/// So many standard deviations above nothing it is told over what they fight.
const SURE_SD: f64 = 3.0;

/// A service gets slower by as much as reads of memory take longer: less if it seldom waits for them, more if it
/// loses what it had in the caches besides (0 to 2.2 times as much in fourteen trials, 1.1 on average).
const LOST_RATIO: f64 = 1.0;
const LOST_SD: f64 = 0.6;

/// What samples read between two readings, in ln.
fn grown(before: Option<&GaugeCounts>, after: &GaugeCounts) -> Moments {
    let old = before.map_or(&[][..], |counts| &counts.slots);
    let (memory, squares) = before.map_or((0, 0), |c| (c.memory, c.memory_squares));
    Moments {
        count: super::growth::grown(old, &after.slots).sum(),
        sum: EIGHTH_LN * after.memory.saturating_sub(memory) as f64,
        squares: EIGHTH_LN * EIGHTH_LN * after.memory_squares.saturating_sub(squares) as f64,
    }
}

/// How loaded memory is beside somebody.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loads {
    /// ln of the time of a read beside it over that beside others.
    pub more_ln: f64,
    /// Standard deviation of that.
    pub sd: f64,
    /// Samples beside it, old ones counting less.
    pub samples: f64,
}

impl Loads {
    /// Whether it surely loads memory.
    pub(super) fn is_sure(self) -> bool {
        self.more_ln >= LEAST_LN && self.more_ln >= SURE_SD * self.sd
    }

    /// What harm is to be expected of it.
    pub(super) fn expected(self) -> Expected {
        let (differs, unsure) = (LOST_SD * self.more_ln, LOST_RATIO * self.sd);
        let variance = differs * differs + unsure * unsure;
        Expected { effect_ln: LOST_RATIO * self.more_ln, variance }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    all: Moments,
    beside: BTreeMap<Tenant, Moments>,
    peers: Peers,
}

impl Memory {
    pub(super) fn keep(&mut self, cpus: &BTreeMap<Tenant, f64>) {
        self.beside.retain(|tenant, _| cpus.contains_key(tenant));
    }

    pub(super) fn forget(&mut self, suspect: &Tenant) {
        self.beside.remove(suspect);
    }

    pub(super) fn learn(&mut self, passed_s: f64, old: &GaugeReading, new: &GaugeReading) {
        let keep = libm::exp(-passed_s / MEMORY_S);
        self.all.fade(keep, grown(Some(&old.all), &new.all));
        for (tenant, before, after) in both(&old.beside, &new.beside) {
            let more = grown(before, after);
            self.beside.entry(tenant.clone()).or_default().fade(keep, more);
        }
        let enough = self.beside.values().filter(|beside| beside.count >= LEAST);
        self.peers = Peers::of(enough.map(|beside| beside.mean()).collect());
    }

    /// What the reads of a sample take, in ln; none before there are enough.
    pub(super) fn usual_ln(&self) -> Option<f64> {
        (self.all.count >= LEAST).then(|| self.all.mean())
    }

    /// What is known of one; none before there is enough to compare.
    pub(super) fn loads(&self, suspect: &Tenant) -> Option<Loads> {
        self.loads_of(*self.beside.get(suspect)?)
    }

    fn loads_of(&self, beside: Moments) -> Option<Loads> {
        let rest = self.all.less(beside);
        if beside.count < LEAST || rest.count < LEAST {
            return None;
        }
        let usual = self.peers.beside(beside.mean());
        let (usual_ln, variance) =
            usual.unwrap_or_else(|| (rest.mean(), rest.variance_of_mean() + OTHER_SD * OTHER_SD));
        let more_ln = beside.mean() - usual_ln;
        let sd = libm::sqrt(beside.variance_of_mean() + variance);
        Some(Loads { more_ln, sd, samples: beside.count })
    }

    /// All beside whom there were samples.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        self.beside.keys()
    }

    /// Those who surely load memory.
    pub(super) fn surely_load(&self) -> impl Iterator<Item = &Tenant> {
        let sure = |beside: Moments| self.loads_of(beside).is_some_and(Loads::is_sure);
        self.beside.iter().filter(move |(_, beside)| sure(**beside)).map(|(tenant, _)| tenant)
    }

    /// ln of how many times as likely that makes the guilt of each, where it makes it so.
    pub(super) fn weights_ln(&self) -> BTreeMap<Tenant, f64> {
        let one = |(tenant, beside): (&Tenant, &Moments)| {
            let Loads { more_ln, sd, .. } = self.loads_of(*beside)?;
            let chance_ln = -0.5 * (more_ln / sd) * (more_ln / sd)
                - libm::log(sd * libm::sqrt(core::f64::consts::TAU));
            let weight_ln = (-chance_ln).min(MOST_LN);
            (more_ln >= LEAST_LN && weight_ln > 0.0).then(|| (tenant.clone(), weight_ln))
        };
        self.beside.iter().filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// So many samples that read this, in eighths, give or take.
    fn counts(samples: u32, eighths: u64, by: u64) -> GaugeCounts {
        let each = |k: u32| eighths - by + 2 * by * u64::from(k % 2);
        GaugeCounts {
            slots: vec![samples],
            memory: (0..samples).map(each).sum(),
            memory_squares: (0..samples).map(|k| each(k) * each(k)).sum(),
            ..GaugeCounts::default()
        }
    }

    fn sum(of: &[&GaugeCounts]) -> GaugeCounts {
        GaugeCounts {
            slots: vec![of.iter().map(|c| c.slots[0]).sum()],
            memory: of.iter().map(|c| c.memory).sum(),
            memory_squares: of.iter().map(|c| c.memory_squares).sum(),
            ..GaugeCounts::default()
        }
    }

    /// A second in which two had another CPU.
    fn memory(a: &GaugeCounts, b: &GaugeCounts) -> Memory {
        let mut memory = Memory::default();
        let beside = [("a".into(), a.clone()), ("b".into(), b.clone())].into();
        let new = GaugeReading { all: sum(&[a, b]), beside, ..GaugeReading::default() };
        memory.learn(1.0, &GaugeReading::default(), &new);
        memory
    }

    #[test]
    fn who_makes_reads_longer_is_told_and_by_how_much() {
        // As measured beside streams: 6211 ns against 3700, six eighths of a power of two.
        let memory = memory(&counts(200, 36, 1), &counts(60, 30, 1));
        let a = memory.loads(&"a".into()).unwrap();
        assert!((a.more_ln - 6.0 * EIGHTH_LN).abs() < 1e-9 && a.sd < 0.04, "{a:?}");
        let weights = memory.weights_ln();
        assert_eq!(weights.keys().map(Tenant::as_str).collect::<Vec<_>>(), ["a"]);
        assert_eq!(weights[&"a".into()], MOST_LN);
    }

    #[test]
    fn little_is_nothing_and_few_samples_tell_nothing() {
        assert!(memory(&counts(200, 31, 2), &counts(200, 31, 2)).weights_ln().is_empty());
        let few = memory(&counts(9, 40, 1), &counts(200, 30, 1));
        assert_eq!((few.loads(&"a".into()), few.weights_ln().len()), (None, 0));
        let mut gone = memory(&counts(200, 36, 1), &counts(60, 30, 1));
        gone.forget(&"a".into());
        assert!(gone.weights_ln().is_empty());
    }

    #[test]
    fn among_groups_that_are_alike_a_little_more_is_sure() {
        let of = |at: usize| counts(200, [30, 30, 30, 30, 31][at], 1);
        let beside: Vec<(Tenant, GaugeCounts)> = ["a", "b", "c", "d", "e"]
            .iter()
            .enumerate()
            .map(|(i, t)| ((*t).into(), of(i)))
            .collect();
        let told = |groups: &[(Tenant, GaugeCounts)]| {
            let all = sum(&groups.iter().map(|(_, counts)| counts).collect::<Vec<_>>());
            let beside = groups.iter().cloned().collect();
            let mut memory = Memory::default();
            let new = GaugeReading { all, beside, ..GaugeReading::default() };
            memory.learn(1.0, &GaugeReading::default(), &new);
            memory
        };
        let all = told(&beside);
        assert_eq!(all.surely_load().map(Tenant::as_str).collect::<Vec<_>>(), ["e"]);
        let e = all.loads(&"e".into()).unwrap();
        assert!((e.more_ln - EIGHTH_LN).abs() < 1e-9 && e.sd < 0.03, "{e:?}");
        // The same eighth beside two others is not: that much may be different beside anybody.
        let few = told(&beside[2..]);
        assert_eq!(few.surely_load().count(), 0);
        assert!(few.loads(&"e".into()).unwrap().sd > e.sd);
    }

    #[test]
    fn what_is_old_fades() {
        let mut memory = memory(&counts(200, 36, 1), &counts(60, 30, 1));
        let (a, b) = (counts(400, 30, 1), counts(400, 30, 1));
        let beside = [("a".into(), a.clone()), ("b".into(), b.clone())].into();
        let new = GaugeReading { all: sum(&[&a, &b]), beside, ..GaugeReading::default() };
        memory.learn(120.0, &GaugeReading::default(), &new);
        assert!(memory.loads(&"a".into()).unwrap().more_ln.abs() < 0.01);
    }

    proptest! {
        #[test]
        fn weights_are_of_who_reads_more_and_bounded(
            a in 1u32..500, b in 1u32..500, x in 8u64..60, y in 8u64..60, by in 0u64..6
        ) {
            let memory = memory(&counts(a, x, by), &counts(b, y, by));
            for (tenant, weight) in memory.weights_ln() {
                prop_assert!(weight > 0.0 && weight <= MOST_LN);
                prop_assert!(memory.loads(&tenant).unwrap().more_ln >= LEAST_LN);
            }
        }
    }
}
