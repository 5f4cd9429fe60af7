//! CPU bandwidth of short periods: what a group does is spread thinly over time.

use quell_types::{CpuBandwidth, KnobRange};
use std::time::Duration;

/// So many CPUs in periods of this length, or longer ones where the kernel's least quota needs it.
pub(crate) fn short_period(range: &KnobRange, cpus: f64, period_ms: u64) -> CpuBandwidth {
    let wanted = Duration::from_millis(period_ms);
    let KnobRange::Bandwidth { min_quota_us, min_period_us, max_period_us } = range else {
        return CpuBandwidth::limited(cpus, wanted);
    };
    let needed_us = libm::ceil(*min_quota_us as f64 / cpus.max(1e-6)) as u64;
    let wanted_us = u64::try_from(wanted.as_micros()).unwrap_or(u64::MAX);
    let period_us = wanted_us.max(needed_us).clamp(*min_period_us, *max_period_us);
    CpuBandwidth::limited(cpus, Duration::from_micros(period_us))
}

/// Whether somebody uses more than a limit that holds lets through by its short periods and late ticks: CPU bandwidth
/// does not hold real-time threads where groups may have any.
pub(crate) fn runs_on(budget_cpus: f64, used_cpus: f64) -> bool {
    const OVER_RATIO: f64 = 3.0;
    const OVER_CPUS: f64 = 0.2;
    used_cpus > (OVER_RATIO * budget_cpus).max(budget_cpus + OVER_CPUS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_late_by_a_period_is_held_all_the_same() {
        for (budget, used, on) in
            [(0.05, 0.24, false), (0.05, 0.26, true), (1.0, 2.9, false), (1.0, 3.1, true)]
        {
            assert_eq!(runs_on(budget, used), on, "{used} of {budget}");
        }
    }

    #[test]
    fn a_small_budget_gets_a_longer_period_rather_than_more_time() {
        let range = KnobRange::Bandwidth {
            min_quota_us: 1_000,
            min_period_us: 1_000,
            max_period_us: 1_000_000,
        };
        for (cpus, period_us) in [(4.0, 10_000), (0.1, 10_000), (0.0625, 16_000), (1e-4, 1_000_000)]
        {
            let limit = short_period(&range, cpus, 10);
            assert_eq!(limit.period_us, period_us, "{cpus}");
            assert_eq!(limit.limit_cpus.map(|c| c.0), Some(cpus));
        }
    }
}
