//! Whether somebody who presses on the caches, or on memory, does a little harm.
//!
//! # Problem
//! [`Guilt`](super::Guilt) asks who does harm that is worth a limit, and expects of the guilty that a CPU of
//! them makes a request half as dear again. Who makes it a tenth dearer fits that as badly as nothing at all,
//! and looks, which scatter by more than that, speak against it before they speak for it. So somebody who
//! fills the caches beside a service that lives in them was not even suspected.
//!
//! # Idea
//! Of who was measured to drive out what others left in the caches ([`DrivesOut`](super::DrivesOut)), or to make
//! reads of memory longer ([`Loads`](super::Loads)), some harm is to be expected ([`Expected`]): of the former a
//! tenth, of the latter about as much as reads take longer, each give or take most of it. Looks say how much it is,
//! but those of a quarter of a minute scatter by three quarters of a tenth. So they count beside what is expected, and
//! only as many as a minute has take a suspicion back for certain.
//!
//! Of everybody else in a look it is assumed that a CPU of it makes a request a third dearer, give or take as much:
//! what they do is not known.
//!
//! That is no accusation: it is told as a suspicion, with what is known of the harm, as long as more harm than
//! counts is likelier than less; and taken back once it is not. Nobody is named or limited for it.
//!
//! Looks that hold several are put down to each of them, less what is thought of the others, and as much
//! wider as that is unsure.
//!
//! # Units
//! Harm in ln for each CPU.
//!
//! # Pseudo-code
//! ```text
//! harm(g) ~ Normal(0.3, 0.3²), before anything was measured
//! each look:  rest = ln slowdown - sum of dose * harm of others; noise = its variance + sum of dose² * var
//!             harm(g) by a Kalman step
//! as time passes what looks said loses weight
//! of g something is expected: what looks told is put upon that in place of what was assumed, by precision:
//!     1/var' = 1/var - 1/0.3² + 1/var expected;  mean'/var' = mean/var - 0.3/0.3² + expected/var expected
//! likely(g) = P(harm(g) * CPUs of g > least)
//! ```
//!
//! # Degradation
//! Without looks it stays as it is expected: who presses is suspected.
//!
//! Source: A-2, T-3; issue "Name the polluter and limit only it" (harm of 1.05 to 1.2: at least suspected).

use super::guilt::Measurement;
use super::normal::probability_below;
use quell_types::{Tenant, Time};
use std::collections::BTreeMap;

/// What is assumed of the harm: mean and standard deviation.
const ASSUMED: f64 = 0.3;
const ASSUMED_SD: f64 = 0.3;
/// After so many seconds a third of what looks said is left.
const MEMORY_S: f64 = 300.0;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Harm {
    mean: f64,
    variance: f64,
    looks: u32,
}

impl Default for Harm {
    fn default() -> Self {
        Self { mean: ASSUMED, variance: ASSUMED_SD * ASSUMED_SD, looks: 0 }
    }
}

/// What is expected of somebody's harm before any look, in ln of the victim's slowdown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The mean.
    pub effect_ln: f64,
    /// Its variance; above 0.
    pub variance: f64,
}

impl Harm {
    /// What looks said: their precision, and their mean times that.
    fn told_by_looks(self) -> (f64, f64) {
        let assumed = Self::default();
        let looked = 1.0 / self.variance - 1.0 / assumed.variance;
        let told = self.mean / self.variance - assumed.mean / assumed.variance;
        if looked > 0.0 { (looked, told) } else { (0.0, 0.0) }
    }

    /// That, put upon another mean and variance.
    fn upon(self, mean: f64, variance: f64, looked: f64, told: f64) -> Self {
        let precision = looked + 1.0 / variance;
        Self { mean: (told + mean / variance) / precision, variance: 1.0 / precision, ..self }
    }

    /// The same, where that was expected of somebody who uses so many CPUs.
    fn given(self, expected: Expected, cpus: f64) -> Self {
        let (looked, told) = self.told_by_looks();
        self.upon(expected.effect_ln / cpus, expected.variance / (cpus * cpus), looked, told)
    }
}

/// What is thought of somebody's harm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likely {
    /// Its effect, in ln.
    pub effect_ln: f64,
    /// Probability that this is more than counts.
    pub confidence: f64,
    /// Looks that say so: without any it is assumed.
    pub looks: u32,
}

/// What looks say of little harm that each suspect does to one victim.
#[derive(Clone, Debug, Default)]
pub struct Slight {
    harms: BTreeMap<Tenant, Harm>,
    time: Option<Time>,
}

impl Slight {
    /// From now on these are the suspects.
    pub fn keep(&mut self, suspects: &[Tenant]) {
        if !self.harms.keys().eq(suspects) {
            let of = |s: &Tenant| (s.clone(), self.harms.get(s).copied().unwrap_or_default());
            self.harms = suspects.iter().map(of).collect();
        }
    }

    /// Begins anew with one of them.
    pub fn forget(&mut self, suspect: &Tenant) {
        if let Some(harm) = self.harms.get_mut(suspect) {
            *harm = Harm::default();
        }
    }

    /// Takes in a look.
    pub fn measure(&mut self, look: &Measurement) {
        self.grow_old(look.time);
        if !look.ln_slowdown.is_finite() {
            return;
        }
        let held = look.doses_cpus.iter();
        let known = held.filter_map(|(s, dose)| Some((*dose, *self.harms.get(s)?)));
        let (foretold, unsure) =
            known.fold((0.0, look.variance), |(ln, variance), (dose, harm)| {
                (ln + dose * harm.mean, variance + dose * dose * harm.variance)
            });
        for (suspect, dose) in &look.doses_cpus {
            let Some(harm) = self.harms.get_mut(suspect) else { continue };
            let gain = harm.variance * dose / unsure;
            harm.mean += gain * (look.ln_slowdown - foretold);
            harm.variance -= gain * dose * harm.variance;
            harm.looks = harm.looks.saturating_add(1);
        }
    }

    fn grow_old(&mut self, now: Time) {
        let then = self.time.unwrap_or(now);
        self.time = Some(then.max(now));
        let (keep, assumed) =
            (libm::exp(-now.since(then).as_secs_f64() / MEMORY_S), Harm::default());
        for harm in self.harms.values_mut() {
            let (looked, told) = harm.told_by_looks();
            *harm = harm.upon(assumed.mean, assumed.variance, keep * looked, keep * told);
        }
    }

    /// What is thought of a suspect with so many CPUs of whom this is expected, and how likely it does more harm
    /// than `least_ln`; none of somebody who is none, or uses nothing.
    #[must_use]
    pub fn likely(
        &self,
        suspect: &Tenant,
        cpus: f64,
        expected: Option<Expected>,
        least_ln: f64,
    ) -> Option<Likely> {
        let harm = *self.harms.get(suspect).filter(|_| cpus > 0.0)?;
        let harm = expected.map_or(harm, |expected| harm.given(expected, cpus));
        let sd = libm::sqrt(harm.variance).max(f64::MIN_POSITIVE) * cpus;
        let effect_ln = harm.mean * cpus;
        let confidence = probability_below((effect_ln - least_ln) / sd);
        Some(Likely { effect_ln, confidence, looks: harm.looks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEAST_LN: f64 = 0.04;

    fn look(at_s: u64, doses: &[(&str, f64)], ln_slowdown: f64, variance: f64) -> Measurement {
        Measurement {
            time: Time(at_s * 1_000_000_000),
            ln_slowdown,
            variance,
            doses_cpus: doses.iter().map(|(name, dose)| ((*name).into(), *dose)).collect(),
            experiment: true,
            void_frac: 0.0,
        }
    }

    fn slight() -> Slight {
        let mut slight = Slight::default();
        slight.keep(&["a".into(), "b".into()]);
        slight
    }

    fn likely(slight: &Slight, name: &str, cpus: f64) -> f64 {
        slight.likely(&name.into(), cpus, None, LEAST_LN).unwrap().confidence
    }

    #[test]
    fn who_uses_a_cpu_is_suspected_before_anything_was_seen_and_who_uses_little_is_not() {
        let slight = slight();
        assert!(likely(&slight, "a", 1.0) > 0.7);
        assert!(likely(&slight, "a", 0.1) < 0.5);
        assert!(slight.likely(&"a".into(), 0.0, None, LEAST_LN).is_none());
        assert!(slight.likely(&"c".into(), 1.0, None, LEAST_LN).is_none());
    }

    #[test]
    fn looks_that_show_nothing_take_it_back_and_those_that_show_a_twentieth_do_not() {
        for (shown, stays) in [(0.0, false), (0.07, true)] {
            let mut slight = slight();
            for at_s in 0..40 {
                slight.measure(&look(at_s, &[("a", 1.0)], shown, 0.02));
            }
            assert_eq!(likely(&slight, "a", 1.0) > 0.5, stays, "{slight:?}");
            // It says nothing of who was not held, and grows old.
            assert_eq!(likely(&slight, "b", 1.0), likely(&self::slight(), "b", 1.0));
            slight.grow_old(Time(3_000_000_000_000));
            assert!((likely(&slight, "a", 1.0) - likely(&slight, "b", 1.0)).abs() < 0.01);
        }
    }

    #[test]
    fn a_look_at_two_is_put_down_to_both_and_new_suspects_begin_anew() {
        let mut both = slight();
        let mut one = slight();
        for at_s in 0..10 {
            both.measure(&look(at_s, &[("a", 1.0), ("b", 1.0)], 0.3, 0.01));
            one.measure(&look(at_s, &[("a", 1.0)], 0.3, 0.01));
        }
        assert_eq!(likely(&both, "a", 1.0), likely(&both, "b", 1.0));
        assert!(likely(&both, "a", 1.0) < likely(&one, "a", 1.0));
        one.keep(&["b".into()]);
        one.keep(&["a".into(), "b".into()]);
        assert_eq!(likely(&one, "a", 1.0), likely(&slight(), "a", 1.0));
        both.forget(&"b".into());
        assert_eq!(likely(&both, "b", 1.0), likely(&slight(), "b", 1.0));
    }

    #[test]
    fn where_more_is_expected_looks_count_beside_that() {
        let expected = |effect_ln, sd: f64| Some(Expected { effect_ln, variance: sd * sd });
        let told = |slight: &Slight, expected| {
            let Likely { effect_ln, confidence, .. } =
                slight.likely(&"a".into(), 0.2, expected, LEAST_LN).unwrap();
            (effect_ln, confidence)
        };
        let mut slight = slight();
        // Without a look it is what is expected.
        let (effect_ln, confidence) = told(&slight, expected(0.08, 0.04));
        assert!((effect_ln - 0.08).abs() < 1e-9 && (confidence - 0.841).abs() < 0.001);
        for at_s in 0..5 {
            slight.measure(&look(at_s, &[("a", 0.2)], 0.0, 0.02));
        }
        // What is assumed of anybody, expected, is the same as nothing expected.
        let (same, usual) = (told(&slight, expected(0.2 * 0.3, 0.2 * 0.3)), told(&slight, None));
        assert!((same.0 - usual.0).abs() < 1e-9 && (same.1 - usual.1).abs() < 1e-9);
        // Looks that see nothing speak against both, and sooner against what is less sure.
        let (surely, maybe) =
            (told(&slight, expected(0.08, 0.04)), told(&slight, expected(0.08, 0.1)));
        assert!(surely.0 < 0.08 && maybe.0 < surely.0, "{surely:?} {maybe:?}");
    }

    proptest! {
        #[test]
        fn variances_stay_positive_and_fall(
            looks in proptest::collection::vec((0.0f64..2.0, 0.0f64..2.0, -1.0f64..1.0, 0.001f64..1.0), 1..50)
        ) {
            let mut slight = slight();
            for (a, b, ln, variance) in looks {
                slight.measure(&look(1, &[("a", a), ("b", b)], ln, variance));
                for harm in slight.harms.values() {
                    prop_assert!(harm.variance > 0.0 && harm.variance <= ASSUMED_SD * ASSUMED_SD + 1e-12);
                }
            }
        }
    }
}
