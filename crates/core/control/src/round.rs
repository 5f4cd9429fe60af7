//! Wanted values rounded as the kernel will round them, before they are compared.

use quell_types::{CpuBandwidth, Cpus, KnobRange, Setting};

/// What the knob will read after `wanted` was written; none if the range cannot hold such a
/// setting at all.
#[must_use]
pub fn round_to_range(wanted: &Setting, range: &KnobRange) -> Option<Setting> {
    match (wanted, range) {
        (Setting::Cpus(set), KnobRange::Cpus { within, .. }) => {
            let set = set.intersection(within);
            (!set.is_empty()).then_some(Setting::Cpus(set))
        }
        (
            Setting::Bandwidth(wanted),
            KnobRange::Bandwidth { min_quota_us, min_period_us, max_period_us },
        ) => {
            let period_us = wanted.period_us.clamp(*min_period_us, *max_period_us);
            Some(Setting::Bandwidth(round_bandwidth(*wanted, period_us, *min_quota_us)))
        }
        (Setting::Weight(weight), KnobRange::Weight { min, max }) => {
            Some(Setting::Weight(*weight.clamp(min, max)))
        }
        (Setting::Flag(_), KnobRange::Flag) => Some(wanted.clone()),
        (Setting::Rate(rate), KnobRange::Rate { min }) => {
            let at_least = |r: quell_types::BytesPerSecond| if r.0 < min.0 { *min } else { r };
            Some(Setting::Rate(rate.map(at_least)))
        }
        (Setting::Ways(mask), KnobRange::Ways { full, min_bits, sparse, .. }) => {
            let mask = mask & full;
            let contiguous = mask == 0 || {
                let low = mask >> mask.trailing_zeros();
                low & (low + 1) == 0
            };
            (mask.count_ones() >= *min_bits && (*sparse || contiguous))
                .then_some(Setting::Ways(mask))
        }
        (Setting::Percent(percent), KnobRange::Percent { min, step }) => {
            let step = (*step).max(1);
            Some(Setting::Percent((percent.div_ceil(step) * step).clamp(*min, 100)))
        }
        (Setting::Frequency(khz), KnobRange::Frequency { min, max }) => {
            Some(Setting::Frequency(quell_types::Kilohertz(khz.0.clamp(min.0, max.0))))
        }
        (Setting::Duty(parts), KnobRange::Duty { parts: all }) => {
            Some(Setting::Duty((*parts).clamp(1, *all)))
        }
        (Setting::Nodes(set), KnobRange::Nodes { within }) => {
            let set = set.intersection(within);
            (!set.is_empty()).then_some(Setting::Nodes(set))
        }
        _ => None,
    }
}

/// The kernel counts quota in microseconds and refuses less than a minimum: a smaller share keeps
/// its size by a longer period.
fn round_bandwidth(wanted: CpuBandwidth, period_us: u64, min_quota_us: u64) -> CpuBandwidth {
    let Some(Cpus(cpus)) = wanted.limit_cpus else {
        return CpuBandwidth { limit_cpus: None, period_us };
    };
    let quota_us = ((cpus * period_us as f64).round() as u64).max(min_quota_us);
    CpuBandwidth { limit_cpus: Some(Cpus(quota_us as f64 / period_us as f64)), period_us }
}

/// A setting as the kernel counts it, where its range is not known: quota in whole microseconds.
/// What [`round_to_range`] gave stays as it is.
pub(crate) fn round_quota(wanted: &Setting) -> Setting {
    match wanted {
        Setting::Bandwidth(b) if b.period_us > 0 => {
            Setting::Bandwidth(round_bandwidth(*b, b.period_us, 0))
        }
        _ => wanted.clone(),
    }
}

/// Whether two settings are the same as far as the kernel can tell.
#[must_use]
pub fn same_setting(a: &Setting, b: &Setting) -> bool {
    match (a, b) {
        (Setting::Bandwidth(a), Setting::Bandwidth(b)) => match (a.quota_us(), b.quota_us()) {
            (None, None) => true,
            (Some(x), Some(y)) => x.abs_diff(y) <= 1 && a.period_us == b.period_us,
            _ => false,
        },
        (Setting::Rate(Some(a)), Setting::Rate(Some(b))) => {
            (a.0 - b.0).abs() <= 0.01 * a.0.max(b.0)
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::BytesPerSecond;
    use std::time::Duration;

    const BANDWIDTH: KnobRange =
        KnobRange::Bandwidth { min_quota_us: 1000, min_period_us: 1000, max_period_us: 1_000_000 };

    #[test]
    fn bandwidth_is_rounded_to_microseconds_and_never_under_the_least_quota() {
        let round = |cpus, ms| {
            let wanted = Setting::Bandwidth(CpuBandwidth::limited(cpus, Duration::from_millis(ms)));
            match round_to_range(&wanted, &BANDWIDTH).unwrap() {
                Setting::Bandwidth(b) => (b.quota_us().unwrap(), b.period_us),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(round(0.5, 2), (1000, 2000));
        assert_eq!(round(0.2, 2), (1000, 2000), "the least quota");
        assert_eq!(round(1.0 / 3.0, 10), (3333, 10_000));
    }

    #[test]
    fn masks_with_holes_are_refused_where_the_machine_refuses_them() {
        let range = |sparse| KnobRange::Ways {
            full: 0xfff,
            min_bits: 2,
            sparse,
            shareable: 0,
            classes: 16,
        };
        let round = |mask, sparse| round_to_range(&Setting::Ways(mask), &range(sparse));
        assert_eq!(round(0x0f0f, false), None, "a hole");
        assert_eq!(round(0x0f0, false), Some(Setting::Ways(0x0f0)));
        assert_eq!(round(0x101, true), Some(Setting::Ways(0x101)));
        assert_eq!(round(0x001, false), None, "too few bits");
    }

    #[test]
    fn a_setting_of_another_kind_is_refused() {
        assert_eq!(round_to_range(&Setting::Flag(true), &BANDWIDTH), None);
    }

    #[test]
    fn rates_agree_within_one_percent_and_quotas_within_a_microsecond() {
        let rate = |r| Setting::Rate(Some(BytesPerSecond(r)));
        assert!(same_setting(&rate(1e6), &rate(1.005e6)));
        assert!(!same_setting(&rate(1e6), &rate(1.05e6)));
        assert!(!same_setting(&rate(1e6), &Setting::Rate(None)));
        let quota = |c| Setting::Bandwidth(CpuBandwidth::limited(c, Duration::from_millis(10)));
        assert!(same_setting(&quota(0.33333), &quota(1.0 / 3.0)));
        assert!(!same_setting(&quota(0.3), &quota(0.31)));
    }
}
