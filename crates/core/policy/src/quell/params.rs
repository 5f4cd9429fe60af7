//! Parameters of the law.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of `[law.quell]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QuellParams {
    /// Fast loop in seconds.
    pub period_s: f64,
    /// Slow loop in seconds.
    pub slow_period_s: f64,
    /// Above this slack trust grows.
    pub grow_above_slack: f64,
    /// Below this slack trust shrinks.
    pub shrink_below_slack: f64,
    /// Step by which trust grows in each slow period.
    pub grow_step: f64,
    /// Step by which trust grows beyond the level that failed last.
    pub probe_step: f64,
    /// Factor of trust when slack is thin.
    pub shrink_factor: f64,
    /// Factor of trust when the fast window misses the objective.
    pub emergency_factor: f64,
    /// Factor of trust when load or cost jumps.
    pub jump_factor: f64,
    /// A rate or cost this many times its smoothed value is a jump.
    pub jump_ratio: f64,
    /// Trust at the start.
    pub start_trust: f64,
    /// Least trust while batch runs at all.
    pub least_trust: f64,
    /// Most trust.
    pub most_trust: f64,
    /// Most trust without a latency reading.
    pub blind_trust: f64,
    /// Share of the managed CPUs that services may use, harm included, before queues build up.
    pub rho_target_frac: f64,
    /// Most inflation that is ever allowed, as ln(ratio).
    pub most_allowance_ln: f64,
    /// Harm of a group that was not measured yet, as ln(inflation) per CPU.
    pub unknown_harm_ln_per_cpu: f64,
    /// Harm below which a group counts as harmless.
    pub harmless_ln_per_cpu: f64,
    /// Smallest budget of a group in CPUs.
    pub least_cpus: f64,
    /// Slack at which a held batch may go on.
    pub recovered_slack: f64,
    /// Longest first hold in seconds; it doubles while the objective stays out of reach.
    pub hold_s: f64,
    /// Longest hold in seconds.
    pub most_hold_s: f64,
    /// Weight of services.
    pub service_weight: u32,
    /// Whether harm is measured by holding groups.
    pub experiments: bool,
    /// Length of a chip in milliseconds.
    pub chip_ms: u64,
    /// Share of a group's time in which it may be held to measure.
    pub held_share_frac: f64,
    /// Shortest time between experiments in seconds.
    pub experiment_gap_s: f64,
    /// Share of a link that services and batch may use together (T-19).
    pub net_share_frac: f64,
    /// Least that batch may send on a link, as a share of it.
    pub net_least_frac: f64,
    /// Share of the cache that batch gets at full trust, where ways can be set.
    pub cache_share_frac: f64,
    /// Whether idle CPUs of a virtual machine are kept awake while slack is not ample.
    pub stay_awake: bool,
    /// Below this slack CPUs are kept awake.
    pub awake_below_slack: f64,
    /// Above this slack they may sleep again, once it has lasted.
    pub sleep_above_slack: f64,
    /// For how long, in seconds.
    pub awake_hold_s: f64,
    /// Whether free batch is tried in a virtual machine where slack stays thin under limits.
    pub try_free: bool,
}

impl Default for QuellParams {
    fn default() -> Self {
        Self {
            period_s: 0.25,
            slow_period_s: 1.0,
            grow_above_slack: 0.40,
            shrink_below_slack: 0.20,
            grow_step: 0.10,
            probe_step: 0.02,
            shrink_factor: 0.8,
            emergency_factor: 0.5,
            jump_factor: 0.3,
            jump_ratio: 1.5,
            start_trust: 0.5,
            least_trust: 0.05,
            most_trust: 3.0,
            blind_trust: 0.3,
            rho_target_frac: 0.85,
            most_allowance_ln: 0.7,
            unknown_harm_ln_per_cpu: 0.5,
            harmless_ln_per_cpu: 0.03,
            least_cpus: 0.05,
            recovered_slack: 0.30,
            hold_s: 2.0,
            most_hold_s: 600.0,
            service_weight: 10_000,
            experiments: true,
            chip_ms: 100,
            held_share_frac: 0.01,
            experiment_gap_s: 0.5,
            net_share_frac: 0.90,
            net_least_frac: 0.01,
            cache_share_frac: 0.5,
            stay_awake: true,
            awake_below_slack: 0.8,
            sleep_above_slack: 0.9,
            awake_hold_s: 30.0,
            try_free: true,
        }
    }
}

impl QuellParams {
    /// Checks that the parameters do not contradict each other.
    ///
    /// # Errors
    /// The first contradiction, in words.
    pub fn validate(&self) -> Result<(), String> {
        let frac = |name: &str, value: f64| {
            let fine = value > 0.0 && value <= 1.0;
            if fine { Ok(()) } else { Err(format!("{name} must lie in 0..1, not {value}")) }
        };
        frac("shrink_factor", self.shrink_factor)?;
        frac("emergency_factor", self.emergency_factor)?;
        frac("jump_factor", self.jump_factor)?;
        frac("rho_target_frac", self.rho_target_frac)?;
        frac("net_share_frac", self.net_share_frac)?;
        frac("cache_share_frac", self.cache_share_frac)?;
        if !(0.0..=0.01).contains(&self.held_share_frac) {
            return Err("held_share_frac must lie in 0..0.01".into());
        }
        if !(1..=200).contains(&self.chip_ms) {
            return Err("chip_ms must lie in 1..200".into());
        }
        if !(0.05..=self.slow_period_s).contains(&self.period_s) {
            return Err("period_s must lie in 0.05..slow_period_s".into());
        }
        if self.shrink_below_slack >= self.grow_above_slack {
            return Err("shrink_below_slack must be below grow_above_slack".into());
        }
        if self.awake_below_slack >= self.sleep_above_slack {
            return Err("awake_below_slack must be below sleep_above_slack".into());
        }
        if !(0.0..=86_400.0).contains(&self.awake_hold_s) {
            return Err("awake_hold_s must lie in 0..86400".into());
        }
        if !(self.least_trust > 0.0 && self.least_trust <= self.most_trust) {
            return Err("least_trust must lie in 0..most_trust".into());
        }
        if self.least_cpus < 0.01 {
            return Err("least_cpus must be at least 0.01".into());
        }
        Ok(())
    }
}
