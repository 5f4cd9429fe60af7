//! Sharing an allowance of harm among batch groups.
//!
//! # Problem
//! The services can bear an inflation of `e^A` in all. Group g causes `h_g` for each CPU it uses.
//! Wanted are budgets `b_g` with `Σ h_g·b_g ≤ A` and as much batch CPU time as can be.
//!
//! # Answer
//! A linear knapsack: fill in rising order of harm, alike groups alike. That alone would starve the most harmful
//! group, so every group first gets `least_cpus`. Harmless groups are not limited at all.
//!
//! A budget never exceeds what the services leave free. Periods are as short as the kernel's
//! least quota (1 ms) allows, 2..20 ms, so that a budget is spent in many small pieces: the
//! service's requests each meet a little of it, not a few of them all.

use super::harm::Harm;
use super::params::QuellParams;
use super::signals::Signals;
use quell_types::{CpuBandwidth, Setup, Tenant};
use std::collections::BTreeMap;
use std::time::Duration;

/// The kernel refuses quotas under this many seconds a period.
const LEAST_QUOTA_S: f64 = 0.001;
const SHORTEST_PERIOD_S: f64 = 0.002;
const LONGEST_PERIOD_S: f64 = 0.1;
/// Groups whose harm differs by less than this factor share alike: measurements are no better.
const ALIKE: f64 = 1.25;
/// Budgets are rounded to this many steps a CPU, so that tiny changes cause no writes.
const STEPS_PER_CPU: f64 = 50.0;

/// One group's share.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    /// Harm by which it was judged, as ln(inflation) per CPU.
    pub(super) harm: f64,
    /// Its CPU bandwidth.
    pub(super) bandwidth: CpuBandwidth,
    /// Where bandwidth cannot be set: how many CPUs it may use.
    pub(super) whole_cpus: usize,
}

/// All groups' shares.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shares {
    /// What there was to share, as ln(inflation).
    pub(super) allowance_ln: f64,
    pub(super) by_group: BTreeMap<Tenant, Share>,
}

impl Shares {
    /// No group is limited.
    pub(super) fn free(setup: &Setup, harm: &Harm) -> Self {
        let cpus = setup.managed_cpus.len().max(1) as f64;
        let share = |name: &Tenant| one_share(harm.of(name), cpus, cpus);
        let by_group = setup.batch.iter().map(|b| (b.name.clone(), share(&b.name))).collect();
        Self { allowance_ln: f64::INFINITY, by_group }
    }
}

/// Works the shares out.
pub(super) fn share(
    setup: &Setup,
    params: &QuellParams,
    signals: &Signals,
    trust: f64,
    harm: &Harm,
) -> Shares {
    let allowance_ln = allowance(params, signals, trust);
    let cpus = setup.managed_cpus.len().max(1) as f64;
    let mut groups: Vec<(&Tenant, f64)> =
        setup.batch.iter().map(|b| (&b.name, harm.of(&b.name))).collect();
    groups.sort_by(|a, b| a.1.total_cmp(&b.1));
    let reserved: f64 = groups.iter().map(|(_, h)| h * params.least_cpus).sum();
    let mut left = (allowance_ln - reserved).max(0.0);
    let mut by_group = BTreeMap::new();
    for (i, (tenant, harm)) in groups.iter().copied().enumerate() {
        let budget = if harm <= params.harmless_ln_per_cpu {
            cpus
        } else {
            let alike = groups[i..].iter().filter(|(_, h)| *h <= ALIKE * harm).count().max(1);
            let room = (cpus - params.least_cpus).max(0.0);
            let more = (left / alike as f64 / harm).min(room);
            left -= more * harm;
            params.least_cpus + more
        };
        by_group.insert(tenant.clone(), one_share(harm, budget, cpus));
    }
    Shares { allowance_ln, by_group }
}

/// ln of the inflation that may be caused: what brings the services' CPU use to the target.
fn allowance(params: &QuellParams, signals: &Signals, trust: f64) -> f64 {
    let rho = signals.rho_without_harm().max(0.01);
    let room = libm::log(params.rho_target_frac / rho).clamp(0.0, params.most_allowance_ln);
    trust * room
}

fn one_share(harm: f64, budget: f64, cpus: f64) -> Share {
    let rounded = ((budget * STEPS_PER_CPU).floor() / STEPS_PER_CPU).max(1.0 / STEPS_PER_CPU);
    let bandwidth =
        if budget >= 0.98 * cpus { CpuBandwidth::unlimited() } else { bandwidth_of(rounded) };
    Share { harm, bandwidth, whole_cpus: (budget.round() as usize).max(1) }
}

/// The bandwidth setting of a budget: the shortest period that the kernel's least quota allows.
pub(super) fn bandwidth_of(cpus: f64) -> CpuBandwidth {
    let period_s = (LEAST_QUOTA_S / cpus).clamp(SHORTEST_PERIOD_S, LONGEST_PERIOD_S);
    let period_ms = (period_s * 1000.0).ceil() as u64;
    CpuBandwidth::limited(cpus, Duration::from_millis(period_ms))
}
