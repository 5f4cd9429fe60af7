//! What a knob of the simulated server takes, and how it stands at first.

use crate::machine::Machine;
use quell_types::{CpuBandwidth, Knob, KnobRange, Setting, Setup, Tenant};

/// The kernel refuses quotas under 1 ms, and periods beyond 1 s.
const LEAST_QUOTA_US: u64 = 1_000;
const LONGEST_PERIOD_US: u64 = 1_000_000;

/// Knobs of a control group: a service's CPUs and weight, everything of a batch group's.
pub(super) fn group_ranges(
    setup: &Setup,
    name: &Tenant,
    is_batch: bool,
    exclusive: bool,
) -> Vec<(Knob, KnobRange)> {
    let tenant = || name.clone();
    let within = setup.managed_cpus.clone();
    let mut all = vec![
        (Knob::Cpus { tenant: tenant() }, KnobRange::Cpus { within, exclusive }),
        (Knob::CpuWeight { tenant: tenant() }, KnobRange::Weight { min: 1, max: 10_000 }),
    ];
    if setup.topology.nodes.len() > 1 {
        let within = setup.topology.nodes.iter().map(|node| node.id).collect();
        all.push((Knob::MemoryNodes { tenant: tenant() }, KnobRange::Nodes { within }));
    }
    if is_batch {
        let bandwidth = KnobRange::Bandwidth {
            min_quota_us: LEAST_QUOTA_US,
            min_period_us: LEAST_QUOTA_US,
            max_period_us: LONGEST_PERIOD_US,
        };
        all.push((Knob::CpuBandwidth { tenant: tenant() }, bandwidth));
        all.push((Knob::CpuIdle { tenant: tenant() }, KnobRange::Flag));
        all.push((Knob::Frozen { tenant: tenant() }, KnobRange::Flag));
    }
    all
}

/// Knobs of caches and bandwidth. A service's bandwidth is never throttled.
pub(super) fn cache_ranges(
    machine: &Machine,
    name: &Tenant,
    is_batch: bool,
) -> Vec<(Knob, KnobRange)> {
    let mut all = Vec::new();
    for domain in 0..machine.domains() as u32 {
        let tenant = || name.clone();
        if let Some(allocation) = machine.allocation {
            let range = KnobRange::Ways {
                full: (1 << machine.cache.ways) - 1,
                min_bits: allocation.min_bits,
                sparse: allocation.sparse,
                shareable: 0,
                classes: allocation.classes,
            };
            all.push((Knob::LlcWays { tenant: tenant(), domain }, range));
        }
        if let Some(throttle) = machine.throttle.filter(|_| is_batch) {
            let (min, step) = (throttle.min_percent, throttle.step_percent);
            let range = KnobRange::Percent { min, step };
            all.push((Knob::MemoryBandwidth { tenant: tenant(), domain }, range));
        }
    }
    all
}

/// How a knob stands before anybody touches it.
pub(super) fn first(knob: &Knob, range: &KnobRange) -> Setting {
    match range {
        KnobRange::Cpus { within, .. } => Setting::Cpus(within.clone()),
        KnobRange::Bandwidth { .. } => Setting::Bandwidth(CpuBandwidth::unlimited()),
        KnobRange::Weight { .. } => Setting::Weight(100),
        KnobRange::Flag => Setting::Flag(false),
        KnobRange::Rate { .. } => Setting::Rate(None),
        KnobRange::Ways { full, .. } => Setting::Ways(*full),
        KnobRange::Percent { .. } => Setting::Percent(100),
        KnobRange::Duty { parts } => Setting::Duty(*parts),
        KnobRange::Nodes { within } => Setting::Nodes(within.clone()),
        KnobRange::Frequency { max, .. } => {
            debug_assert!(matches!(knob, Knob::FrequencyMax { .. }));
            Setting::Frequency(*max)
        }
    }
}

/// Whether a knob of this range takes a setting.
pub(super) fn fits(range: &KnobRange, to: &Setting) -> bool {
    match (range, to) {
        (KnobRange::Cpus { within, .. }, Setting::Cpus(set)) => {
            !set.is_empty() && set.is_subset(within)
        }
        (
            KnobRange::Bandwidth { min_quota_us, min_period_us, max_period_us },
            Setting::Bandwidth(bandwidth),
        ) => {
            (*min_period_us..=*max_period_us).contains(&bandwidth.period_us)
                && bandwidth.quota_us().is_none_or(|quota| quota >= *min_quota_us)
        }
        (KnobRange::Weight { min, max }, Setting::Weight(weight)) => (*min..=*max).contains(weight),
        (KnobRange::Flag, Setting::Flag(_)) => true,
        (KnobRange::Rate { min }, Setting::Rate(rate)) => rate.is_none_or(|r| r.0 >= min.0),
        (KnobRange::Ways { full, min_bits, sparse, .. }, Setting::Ways(mask)) => {
            let low = mask >> mask.trailing_zeros().min(63);
            let contiguous = low & low.wrapping_add(1) == 0;
            mask & !full == 0 && mask.count_ones() >= (*min_bits).max(1) && (*sparse || contiguous)
        }
        (KnobRange::Percent { min, step }, Setting::Percent(percent)) => {
            (*min..=100).contains(percent) && percent.is_multiple_of((*step).max(1))
        }
        (KnobRange::Frequency { min, max }, Setting::Frequency(khz)) => {
            (min.0..=max.0).contains(&khz.0)
        }
        (KnobRange::Duty { parts }, Setting::Duty(on)) => (1..=*parts).contains(on),
        (KnobRange::Nodes { within }, Setting::Nodes(set)) => {
            !set.is_empty() && set.is_subset(within)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_must_be_contiguous_unless_the_machine_is_sparse() {
        let range = |sparse| KnobRange::Ways {
            full: 0x7ff,
            min_bits: 2,
            sparse,
            shareable: 0,
            classes: 16,
        };
        for (mask, dense, holes) in [
            (0x003, true, true),
            (0x600, true, true),
            (0x005, false, true),
            (0x001, false, false),
            (0x000, false, false),
            (0xfff, false, false),
            (0x7ff, true, true),
        ] {
            assert_eq!(fits(&range(false), &Setting::Ways(mask)), dense, "{mask:x}");
            assert_eq!(fits(&range(true), &Setting::Ways(mask)), holes, "{mask:x}");
        }
    }
}
