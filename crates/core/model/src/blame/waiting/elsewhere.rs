//! What somebody has to do with a victim's standing who ran on another CPU meanwhile.
//!
//! # Problem
//! One who never sleeps takes whatever CPU is free. Where the others have each what they want, the
//! scheduler soon leaves him one CPU nearly to himself, and puts the rest together on those that are left,
//! the victim among them. Then it stands behind those who sleep, who are innocent, and hardly ever behind
//! him; and yet without him there would be room.
//!
//! # Idea
//! A thread stands only while every CPU that it may use has somebody. Were any one of those away, there
//! would be a CPU for it. So while no CPU is idle, what a victim stands is put down, in equal parts, to
//! all who have a CPU:
//!
//! ```text
//! full    = 1 - CPUs that are idle on average while the victim stands; at least 0
//! part(s) = full * (behind s + other CPUs * elsewhere(s)) / CPUs
//! x(s)    = max(behind s, part(s)) / what the victim needs anyway
//! ```
//!
//! `elsewhere(s)` is how long it stood behind others while one of the other CPUs, on average over them, was
//! that of s. With two CPUs a loop has to do with half of what is stood; with 48 each of them with a part
//! in 48, as it should: one less would hardly help. Who really had the victim's CPU is never accused of less
//! for that. This accuses nobody who sleeps ([`rivals`](super::super::rivals())): he has his turn wherever it is.
//!
//! # Degradation
//! Threads that may not use all CPUs could not have had that one: nothing is told of them. Where nothing
//! is told, x is what it was: what was stood behind s.

use quell_types::{Elsewhere, Tenant};

/// What one stretch of time tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Presence<'a> {
    elsewhere: &'a Elsewhere,
    /// Of the time in which it stood behind others, the share in which no CPU was idle; at least so much.
    full_frac: f64,
}

impl<'a> Presence<'a> {
    pub(super) fn new(elsewhere: &'a Elsewhere) -> Self {
        let all = elsewhere.tenants.values().sum::<f64>() + elsewhere.others + elsewhere.nobody;
        let idle_cpus = f64::from(elsewhere.cpus) * elsewhere.nobody / all;
        let tells = elsewhere.cpus > 0 && all > 0.0 && all.is_finite();
        let full_frac = if tells { (1.0 - idle_cpus).max(0.0) } else { 0.0 };
        Self { elsewhere, full_frac }
    }

    /// What was stood that has to do with a suspect, of which so much was stood behind it.
    pub(super) fn part(&self, suspect: &Tenant, behind: f64) -> f64 {
        let there = self.elsewhere.tenants.get(suspect).copied().unwrap_or(0.0);
        let others = f64::from(self.elsewhere.cpus);
        behind.max(self.full_frac * (behind + others * there) / (others + 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cpus: u32, tenants: &[(&str, f64)], nobody: f64) -> Elsewhere {
        let tenants = tenants.iter().map(|(name, threads)| ((*name).into(), *threads)).collect();
        Elsewhere { cpus, tenants, others: 0.0, nobody }
    }

    fn part(elsewhere: &Elsewhere, behind: f64) -> f64 {
        Presence::new(elsewhere).part(&"loop".into(), behind)
    }

    #[test]
    fn who_has_the_other_cpu_has_to_do_with_half_of_it() {
        let always = of(1, &[("loop", 0.8)], 0.0);
        assert!((part(&always, 0.0) - 0.4).abs() < 1e-12);
        let mostly = of(1, &[("loop", 0.6), ("a", 0.2)], 0.0);
        assert!((part(&mostly, 0.1) - 0.35).abs() < 1e-12);
    }

    #[test]
    fn one_of_many_cpus_is_a_part_of_many() {
        let one_of_47 = of(47, &[("loop", 0.8 / 47.0), ("a", 0.8 * 46.0 / 47.0)], 0.0);
        assert!((part(&one_of_47, 0.0) - 0.8 / 48.0).abs() < 1e-12);
    }

    #[test]
    fn while_a_cpu_is_idle_nobody_elsewhere_has_to_do_with_it() {
        assert_eq!(part(&of(1, &[], 0.8), 0.0), 0.0);
        let half = of(1, &[("loop", 0.4)], 0.4);
        assert!((part(&half, 0.0) - 0.1).abs() < 1e-12, "half of half of 0.4");
        assert_eq!(part(&of(47, &[("loop", 0.7)], 0.1), 0.0), 0.0, "5.9 of 47 are idle");
    }

    #[test]
    fn who_has_its_own_cpu_is_never_accused_of_less() {
        let elsewhere = of(1, &[("a", 0.8)], 0.0);
        assert_eq!(part(&elsewhere, 0.8), 0.8);
        assert_eq!(part(&Elsewhere::default(), 0.3), 0.3, "nothing is told");
    }
}
