//! Selective power throttling: who heats the socket runs slower, so that the others keep their
//! clock.
//!
//! # Problem
//! Above its power limit a socket slows all of its cores. One tenant that draws much so slows all.
//! Power cannot be measured by core.
//!
//! # Idea
//! Temperature stands for it (A-30): a tenant whose cores are warmer than the socket's mean while
//! most of them are busy is *noisy*. Its clocks go down a step in each loop in which the socket is
//! above its quota, and everybody's go up again, a step a loop, once it is well below.
//!
//! A socket at its own limit draws just that, however much it is asked for: how far the clocks must
//! come down cannot be read from its power. So the step grows with each loop in a row that did not
//! help (`step_growth_parts`; A-28 takes one level each time), and is small again after one that
//! did. Too deep is made good in single steps up.
//!
//! # Units
//! Watts, degrees Celsius, shares of time; levels in parts as in the crate's other clocks.
//!
//! # Pseudo-code (A-28)
//! ```text
//! each loop and socket: P <= 140 W: each clock that is held back goes up a step
//!                       P >= 150 W: noisy = mean temperature of the tenant's CPUs >= the socket's
//!                                   and half of them busier than 50 %
//!                                   each CPU of a noisy tenant goes down a step, never below 1;
//!                                   the next step is larger by `step_growth_parts`
//!                       between: nothing; below 150 W the step is the first again
//! remembering variant (beta): CPUs once noisy go on down while P >= 150 W, even if they have
//!                       cooled, until their clock is whole again
//! ```
//!
//! # Degradation
//! A tenant counts on a socket only with at least four CPUs there (A-7). Without a reading of
//! power nothing is done; CPUs without temperature or use make no tenant noisy.
//!
//! Source: A-7, A-27 to A-30.

use quell_types::{Celsius, CpuSet, Fraction, Tenant, Watts};
use std::collections::BTreeMap;

/// A-27.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerThrottleParams {
    /// Power that a socket may draw, in watts.
    pub quota_w: f64,
    /// How far below it clocks are given back.
    pub guard_w: f64,
    /// Use from which a CPU is busy.
    pub busy_frac: f64,
    /// CPUs that a tenant needs on a socket to count there.
    pub least_cpus: u32,
    /// Whether CPUs that were noisy are remembered (beta).
    pub remembers: bool,
    /// Levels that a noisy tenant's clocks lose in the first loop at the quota; they gain one.
    pub step_parts: u32,
    /// Levels more that they lose in each further loop in a row.
    pub step_growth_parts: u32,
}

impl Default for PowerThrottleParams {
    fn default() -> Self {
        Self {
            quota_w: 150.0,
            guard_w: 10.0,
            busy_frac: 0.5,
            least_cpus: 4,
            remembers: true,
            step_parts: 1,
            step_growth_parts: 1,
        }
    }
}

/// One socket in one loop.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketPower {
    /// What it draws.
    pub power: Watts,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Temperature by CPU; a hardware thread without its own takes its core's.
    pub temperature: BTreeMap<u32, Celsius>,
    /// Use by CPU.
    pub busy: BTreeMap<u32, Fraction>,
}

/// The controller of one socket.
#[derive(Clone, Debug)]
pub struct PowerThrottle {
    params: PowerThrottleParams,
    parts: u32,
    levels: BTreeMap<u32, u32>,
    noisy: CpuSet,
    /// Loops in a row at the quota, before this one.
    in_vain: u32,
}

impl PowerThrottle {
    /// Nobody is held back; clocks are set in so many parts (8 or 16).
    #[must_use]
    pub fn new(params: PowerThrottleParams, parts: u32) -> Self {
        let (levels, noisy) = (BTreeMap::new(), CpuSet::new());
        Self { params, parts: parts.max(2), levels, noisy, in_vain: 0 }
    }

    /// One loop. Answers with the level of each CPU that is held back, in parts.
    pub fn step(
        &mut self,
        seen: &SocketPower,
        tenants: &BTreeMap<Tenant, CpuSet>,
    ) -> BTreeMap<u32, u32> {
        let PowerThrottleParams { quota_w, guard_w, .. } = self.params;
        if seen.power.0 >= quota_w {
            self.lower(seen, tenants);
        } else {
            self.in_vain = 0;
            if seen.power.0 <= quota_w - guard_w {
                self.raise();
            }
        }
        self.levels.clone()
    }

    /// A step down for the noisy, larger than the last one if that was not enough.
    fn lower(&mut self, seen: &SocketPower, tenants: &BTreeMap<Tenant, CpuSet>) {
        let now = self.noisy_cpus(seen, tenants);
        self.noisy = if self.params.remembers { self.noisy.union(&now) } else { now };
        let growth = self.params.step_growth_parts.saturating_mul(self.in_vain);
        let step = self.params.step_parts.saturating_add(growth);
        for cpu in self.noisy.iter() {
            let level = self.levels.entry(cpu).or_insert(self.parts);
            *level = level.saturating_sub(step).max(1);
        }
        self.in_vain = if self.noisy.is_empty() { 0 } else { self.in_vain.saturating_add(1) };
    }

    /// Forgets all CPUs but these: they belong to somebody else now, or may not be held back.
    pub fn keep(&mut self, cpus: &CpuSet) {
        self.levels.retain(|cpu, _| cpus.contains(*cpu));
        self.noisy = self.noisy.intersection(cpus);
    }

    /// Whether nobody is held back.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.levels.is_empty()
    }

    /// Whether a CPU is held to less than half of its parts.
    pub(super) fn is_below_half(&self, cpu: u32) -> bool {
        self.levels.get(&cpu).is_some_and(|level| 2 * level < self.parts)
    }

    /// A step up for each clock that is held back; what is whole again is forgotten.
    fn raise(&mut self) {
        self.levels.values_mut().for_each(|level| *level += 1);
        let parts = self.parts;
        self.levels.retain(|_, level| *level < parts);
        let held = |cpu: &u32| self.levels.contains_key(cpu);
        self.noisy = self.noisy.iter().filter(held).collect();
    }

    fn noisy_cpus(&self, seen: &SocketPower, tenants: &BTreeMap<Tenant, CpuSet>) -> CpuSet {
        let Some(mean) = mean_temperature(seen, &seen.cpus) else { return CpuSet::new() };
        let here = tenants.values().map(|cpus| cpus.intersection(&seen.cpus));
        let noisy = here.filter(|cpus| self.is_noisy(seen, cpus, mean));
        noisy.flat_map(|cpus| cpus.iter().collect::<Vec<_>>()).collect()
    }

    fn is_noisy(&self, seen: &SocketPower, cpus: &CpuSet, mean: f64) -> bool {
        let many = cpus.len() >= self.params.least_cpus as usize;
        let warm = mean_temperature(seen, cpus).is_some_and(|own| own >= mean);
        let is_busy =
            |cpu: &u32| seen.busy.get(cpu).is_some_and(|busy| busy.0 > self.params.busy_frac);
        let busy = cpus.iter().filter(is_busy).count();
        many && warm && 2 * busy >= cpus.len()
    }
}

/// Mean over the CPUs whose temperature is known.
fn mean_temperature(seen: &SocketPower, cpus: &CpuSet) -> Option<f64> {
    let known: Vec<f64> =
        cpus.iter().filter_map(|cpu| seen.temperature.get(&cpu)).map(|t| t.0).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(range: std::ops::Range<u32>) -> CpuSet {
        range.collect()
    }

    fn tenants() -> BTreeMap<Tenant, CpuSet> {
        [("attacker".into(), cpus(0..8)), ("victim".into(), cpus(8..12))].into()
    }

    /// A socket of 12 CPUs at so many watts; the attacker's are this warm and busy.
    fn socket(watts: f64, celsius: f64, busy: f64) -> SocketPower {
        let warm = |cpu| (cpu, Celsius(if cpu < 8 { celsius } else { 60.0 }));
        let works = |cpu| (cpu, Fraction(if cpu < 8 { busy } else { 0.9 }));
        SocketPower {
            power: Watts(watts),
            cpus: cpus(0..12),
            temperature: (0..12).map(warm).collect(),
            busy: (0..12).map(works).collect(),
        }
    }

    fn throttle(remembers: bool) -> PowerThrottle {
        let params = PowerThrottleParams { remembers, step_growth_parts: 0, ..Default::default() };
        PowerThrottle::new(params, 16)
    }

    #[test]
    fn only_who_is_warm_and_busy_is_stepped_down() {
        let mut power = throttle(true);
        let first = power.step(&socket(170.0, 80.0, 0.9), &tenants());
        assert_eq!(first, (0..8).map(|cpu| (cpu, 15)).collect());
        for _ in 0..40 {
            power.step(&socket(170.0, 80.0, 0.9), &tenants());
        }
        assert!(power.levels.values().all(|level| *level == 1), "never below 1");
        let idle = throttle(true).step(&socket(170.0, 80.0, 0.3), &tenants());
        assert!(idle.is_empty(), "warm, but not busy");
    }

    #[test]
    fn between_the_bounds_nothing_changes_and_below_all_get_a_step_back() {
        let mut power = throttle(true);
        for _ in 0..5 {
            power.step(&socket(155.0, 80.0, 0.9), &tenants());
        }
        let held = power.levels.clone();
        assert_eq!(power.step(&socket(145.0, 80.0, 0.9), &tenants()), held);
        assert!(power.step(&socket(140.0, 80.0, 0.9), &tenants()).values().all(|l| *l == 12));
        for _ in 0..15 {
            power.step(&socket(100.0, 60.0, 0.0), &tenants());
        }
        assert!(power.levels.is_empty(), "sixteen loops at most (A-36)");
    }

    #[test]
    fn the_remembering_variant_goes_on_with_those_that_cooled() {
        for (remembers, level) in [(true, 14), (false, 15)] {
            let mut power = throttle(remembers);
            power.step(&socket(170.0, 80.0, 0.9), &tenants());
            let cooled = power.step(&socket(160.0, 50.0, 0.9), &tenants());
            assert_eq!(cooled[&0], level, "remembers: {remembers}");
        }
    }

    #[test]
    fn a_larger_step_goes_down_faster_and_up_as_slowly() {
        let params =
            PowerThrottleParams { step_parts: 3, step_growth_parts: 0, ..Default::default() };
        let mut power = PowerThrottle::new(params, 16);
        let mut level = |watts| power.step(&socket(watts, 80.0, 0.9), &tenants())[&0];
        assert_eq!([170.0, 170.0, 140.0].map(&mut level), [13, 10, 11]);
    }

    #[test]
    fn a_step_that_did_not_help_is_followed_by_a_larger_one_and_one_that_did_by_the_first() {
        let mut power = PowerThrottle::new(PowerThrottleParams::default(), 16);
        let mut level = |watts| power.step(&socket(watts, 80.0, 0.9), &tenants())[&0];
        assert_eq!([165.0, 165.0, 165.0, 165.0].map(&mut level), [15, 13, 10, 6]);
        assert_eq!([145.0, 150.0, 150.0].map(&mut level), [6, 5, 3]);
        assert_eq!([140.0, 150.0].map(&mut level), [4, 3]);
    }

    #[test]
    fn who_is_not_kept_is_free_at_once() {
        let mut power = throttle(true);
        power.step(&socket(170.0, 80.0, 0.9), &tenants());
        power.keep(&cpus(0..4));
        let held = power.step(&socket(145.0, 80.0, 0.9), &tenants());
        assert_eq!(held, (0..4).map(|cpu| (cpu, 15)).collect());
    }

    #[test]
    fn few_cpus_do_not_count_and_a_lack_of_readings_blames_nobody() {
        let small = BTreeMap::from([("small".into(), cpus(0..3))]);
        assert!(throttle(true).step(&socket(170.0, 80.0, 0.9), &small).is_empty());
        let mut blind = socket(170.0, 80.0, 0.9);
        blind.temperature.clear();
        assert!(throttle(true).step(&blind, &tenants()).is_empty());
    }
}
