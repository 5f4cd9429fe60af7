//! What the groups of a trial use and may use, read several times a second from the kernel: what
//! the law is seen to do, whatever it says of itself.

use super::crowd::TrialGroups;
use crate::readings::Readings;
use quell_cgroup::{BandwidthKnob, CpuUsage, Group, GroupKnob as _};
use quell_service::now_ns;
use quell_types::Setting;
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two readings.
const PERIOD: Duration = Duration::from_millis(100);

/// One reading.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Moment {
    /// `CLOCK_MONOTONIC`.
    pub(super) at_ns: u64,
    /// CPU time that each batch group has used, in the order of the groups.
    pub(super) cpu_ns: Vec<u64>,
    /// CPUs that each may use; none where nothing limits it.
    pub(super) limit_cpus: Vec<Option<f64>>,
}

/// CPUs that a group may use; none where nothing limits it, or that cannot be read.
pub(super) fn limit_cpus(group: &Group) -> Option<f64> {
    match BandwidthKnob::new(group).ok()?.read() {
        Ok(Setting::Bandwidth(bandwidth)) => bandwidth.limit_cpus.map(|cpus| cpus.0),
        _ => None,
    }
}

/// Whether any batch group is limited now.
pub(super) fn limits_any(groups: &TrialGroups) -> bool {
    groups.batch().iter().any(|group| limit_cpus(group).is_some())
}

/// Reads the batch groups from now on.
pub(super) fn watch(groups: &TrialGroups) -> anyhow::Result<Readings<Moment>> {
    let groups = groups.batch().to_vec();
    let mut usage: Vec<CpuUsage> = groups.iter().map(CpuUsage::new).collect();
    Readings::start("quell-watch", PERIOD, move || Moment {
        at_ns: now_ns(),
        cpu_ns: usage.iter_mut().map(|cpu| cpu.read().unwrap_or(0)).collect(),
        limit_cpus: groups.iter().map(limit_cpus).collect(),
    })
}

/// Places of the groups that were limited at some time, and when that was first seen.
pub(super) fn limited(moments: &[Moment]) -> BTreeMap<usize, u64> {
    let mut first = BTreeMap::new();
    for moment in moments {
        for (place, _) in moment.limit_cpus.iter().enumerate().filter(|(_, limit)| limit.is_some())
        {
            first.entry(place).or_insert(moment.at_ns);
        }
    }
    first
}

/// CPUs that a group used between readings: (time, CPUs), in seconds from `start_ns`.
pub(super) fn used(moments: &[Moment], group: usize, start_ns: u64) -> Vec<(f64, f64)> {
    let rate = |pair: &[Moment]| {
        let [before, after] = pair else { return None };
        let ns = after.at_ns.checked_sub(before.at_ns).filter(|ns| *ns > 0)?;
        let used = after.cpu_ns.get(group)?.saturating_sub(*before.cpu_ns.get(group)?);
        Some((after.at_ns.saturating_sub(start_ns) as f64 / 1e9, used as f64 / ns as f64))
    };
    moments.windows(2).filter_map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_ms: u64, cpu_ms: [u64; 2], limit: Option<f64>) -> Moment {
        let cpu_ns = cpu_ms.map(|ms| ms * 1_000_000).to_vec();
        Moment { at_ns: at_ms * 1_000_000, cpu_ns, limit_cpus: vec![None, limit] }
    }

    #[test]
    fn who_was_limited_once_is_told_and_use_is_a_rate() {
        let free = [moment(1000, [0, 0], None), moment(1100, [50, 100], None)];
        assert_eq!(limited(&free), BTreeMap::new());
        let all = [free[0].clone(), moment(1050, [0, 0], Some(0.1)), free[1].clone()];
        assert_eq!(limited(&all), [(1, 1_050_000_000)].into());
        let used = used(&free, 0, 1_000_000_000);
        assert!((used[0].0 - 0.1).abs() < 1e-9 && (used[0].1 - 0.5).abs() < 1e-9, "{used:?}");
    }
}
