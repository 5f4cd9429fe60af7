//! How large suspects are: in what their harm is reckoned.
//!
//! # Problem
//! A CPU's worth of a guilty group is expected to make a request half as dear again, and one of an innocent group to
//! change it by 3 % at most. On a machine with two CPUs that is so. On one with sixteen a group whose eight threads
//! fill a cache that is as many times as large makes a request a fifth dearer with all of them: a fortieth for each
//! CPU, less than an innocent's may do. Nobody was ever named there for harm by memory.
//!
//! # Idea
//! What is expected is expected of a group as it is, not of each of its CPUs: who is guilty makes a request half as
//! dear again, with however many threads, and who is innocent hardly changes it. So doses and harms are reckoned in
//! *units*: one CPU for whoever uses less than two, and else the largest power of two that is no more than it used at
//! most of late.
//!
//! When a unit changes, what looks have shown is kept, for each CPU, and put upon what is expected of the new unit.
//!
//! # Units
//! CPUs. What callers say and hear stays in ln for each CPU.
//!
//! # Pseudo-code
//! ```text
//! each sample:  most = max(used, most * exp(-dt / MEMORY))
//!               want = max(1, power of two below most)
//!               unit = want if want > unit or most < unit / 2
//! ```
//!
//! # Degradation
//! Where nobody says how much suspects use, a unit is a CPU.
//!
//! Source: A-2; issue "Name the polluter and limit only it" (whoever it is, on machines of any size).

use super::Guilt;
use quell_types::{Tenant, Time};
use std::collections::BTreeMap;

/// What was used longer ago hardly counts: who is limited is as large as before for some minutes.
const MEMORY_S: f64 = 300.0;

/// How large a suspect is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    /// The most CPUs that it used, fading.
    most_cpus: f64,
    unit_cpus: f64,
    time: Option<Time>,
}

impl Default for Size {
    fn default() -> Self {
        Self { most_cpus: 0.0, unit_cpus: 1.0, time: None }
    }
}

impl Size {
    pub(super) fn unit_cpus(self) -> f64 {
        self.unit_cpus
    }

    /// With what it uses now.
    fn with(self, used_cpus: f64, now: Time) -> Self {
        let passed_s = self.time.map_or(0.0, |then| now.since(then.min(now)).as_secs_f64());
        let most_cpus = used_cpus.max(self.most_cpus * libm::exp(-passed_s / MEMORY_S));
        let wanted = power_of_two_below(most_cpus);
        let changes = wanted > self.unit_cpus || most_cpus < 0.5 * self.unit_cpus;
        let unit_cpus = if changes { wanted } else { self.unit_cpus };
        Self { most_cpus, unit_cpus, time: Some(now) }
    }
}

/// The largest that is no more than this, and 1 at least.
fn power_of_two_below(most_cpus: f64) -> f64 {
    let mut power = 1.0;
    while 2.0 * power <= most_cpus {
        power *= 2.0;
    }
    power
}

impl Guilt {
    /// How many CPUs suspects use now.
    pub fn size(&mut self, now: Time, used_cpus: &BTreeMap<Tenant, f64>) {
        for index in 0..self.suspects.len() {
            let Some(used) = self.part_of(used_cpus, &self.suspects[index]) else { continue };
            let (before, after) = (self.sizes[index], self.sizes[index].with(used, now));
            self.sizes[index] = after;
            if after.unit_cpus != before.unit_cpus {
                self.resize(index, after.unit_cpus / before.unit_cpus);
            }
        }
    }

    /// A suspect's unit has so many times as many CPUs from now on.
    fn resize(&mut self, suspect: usize, times: f64) {
        let places: Vec<usize> = self.against(suspect).collect();
        for place in places {
            self.hypotheses[place].resize(suspect, times, &self.params);
        }
        // Told for each unit; it is told anew with the next sample.
        self.company.clear();
        self.weights.take();
    }

    /// So many CPUs of a suspect in its units.
    pub(in super::super) fn dose(&self, index: usize, cpus: f64) -> f64 {
        cpus / self.sizes[index].unit_cpus
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blame::{GuiltParams, Measurement};
    use proptest::prelude::*;
    use std::time::Duration;

    fn at(second: f64) -> Time {
        Time(0) + Duration::from_secs_f64(second)
    }

    #[test]
    fn a_unit_is_a_power_of_two_and_stays_while_its_owner_is_limited() {
        let mut size = Size::default();
        let units = [(0.0, 0.3, 1.0), (1.0, 1.9, 1.0), (2.0, 2.0, 2.0), (3.0, 13.0, 8.0)];
        for (second, used, unit) in units {
            size = size.with(used, at(second));
            assert_eq!(size.unit_cpus, unit, "{used}");
        }
        assert_eq!(size.with(0.2, at(120.0)).unit_cpus, 8.0, "limited for two minutes");
        assert_eq!(size.with(0.2, at(1200.0)).unit_cpus, 1.0, "another workload by now");
    }

    /// Looks at a suspect of so many CPUs that makes requests dearer by so much, and at innocent ones as large.
    fn looked(cpus: f64, effect_ln: f64, looks: u32) -> Guilt {
        let mut guilt = Guilt::new(GuiltParams::default());
        let names = ["a", "b", "c"].map(Tenant::from);
        guilt.keep(&names);
        guilt.size(at(0.0), &names.iter().map(|name| (name.clone(), cpus)).collect());
        let sd = 0.04;
        for look in 0..looks {
            let held = &names[look as usize % 3];
            let shown = if held.as_str() == "b" { effect_ln } else { 0.0 };
            guilt.measure(&Measurement {
                time: at(f64::from(look)),
                ln_slowdown: shown + sd * [0.7, -0.9, 0.4, -0.2][look as usize / 3 % 4],
                variance: sd * sd,
                doses_cpus: [(held.clone(), cpus)].into(),
                experiment: true,
                void_frac: 0.0,
            });
        }
        guilt
    }

    #[test]
    fn the_same_looks_say_the_same_of_a_group_however_many_cpus_it_uses() {
        let (small, large) = (looked(1.0, 0.2, 9), looked(8.0, 0.2, 9));
        for name in ["a", "b", "c"].map(Tenant::from) {
            let (one, eight) = (small.belief(&name).unwrap(), large.belief(&name).unwrap());
            assert!((one.guilt - eight.guilt).abs() < 1e-9, "{one:?} {eight:?}");
            assert!((one.harm - 8.0 * eight.harm).abs() < 1e-9, "told for each CPU");
            let harmful = |guilt: &Guilt, cpus| guilt.harmful(&name, cpus, 0.04);
            assert!((harmful(&small, 1.0) - harmful(&large, 8.0)).abs() < 1e-9);
        }
        assert!(large.harmful(&"b".into(), 8.0, 0.04) > 0.95);
        assert!(large.harmful(&"a".into(), 8.0, 0.04) < 0.05);
        let doses = [("b".into(), 8.0)].into();
        assert!((large.foretell(&doses) - 0.2).abs() < 0.05);
    }

    #[test]
    fn what_was_shown_of_each_cpu_is_kept_when_a_group_grows() {
        let mut guilt = looked(1.0, 0.3, 12);
        let before = guilt.belief(&"b".into()).unwrap();
        guilt.size(at(20.0), &[("b".into(), 4.0)].into());
        let after = guilt.belief(&"b".into()).unwrap();
        assert!((before.harm - after.harm).abs() < 0.05, "{before:?} {after:?}");
        assert_eq!(before.experiments, after.experiments);
        // Nothing was learnt of one that was never held: of it the same is expected as of any group.
        let mut fresh = Guilt::new(GuiltParams::default());
        fresh.keep(&["x".into()]);
        fresh.size(at(0.0), &[("x".into(), 4.0)].into());
        let belief = fresh.belief(&"x".into()).unwrap();
        assert!((belief.harm - 0.125).abs() < 1e-9 && (belief.harm_sd - 0.1).abs() < 1e-9);
    }

    proptest! {
        /// Looks at one or two, however sure or contrary, beside any use, at any pace.
        #[test]
        fn whatever_comes_beliefs_stay_finite(
            looks in prop::collection::vec(
                (0.001f64..60.0, -3.0f64..3.0, 1e-7f64..1.0, 0.0f64..40.0, 0.0f64..40.0), 1..60
            )
        ) {
            let mut guilt = Guilt::new(GuiltParams::default());
            let names = ["a", "b", "c"].map(Tenant::from);
            guilt.keep(&names);
            let mut second = 0.0;
            for (passed_s, ln_slowdown, variance, a, b) in looks {
                second += passed_s;
                let used = BTreeMap::from([("a".into(), a), ("b".into(), b)]);
                guilt.size(at(second), &used);
                guilt.measure(&Measurement {
                    time: at(second),
                    ln_slowdown,
                    variance,
                    doses_cpus: used,
                    experiment: true,
                    void_frac: 0.0,
                });
                for name in &names {
                    let belief = guilt.belief(name).unwrap();
                    prop_assert!(belief.harm.is_finite() && belief.harm_sd.is_finite(), "{belief:?}");
                    prop_assert!((0.0..=1.0 + 1e-9).contains(&belief.guilt), "{belief:?}");
                }
                let sum: f64 = guilt.weights().iter().sum();
                prop_assert!((sum - 1.0).abs() < 1e-9, "{sum}");
            }
        }
    }
}
