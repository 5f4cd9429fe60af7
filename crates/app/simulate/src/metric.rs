//! What is measured of a point, by name. Names carry units.

use crate::text::{ScenarioError, Word, unknown};

/// Of the whole machine.
pub(crate) const HOST: &[(&str, &str)] = &[
    ("slo_kept_frac", "share of windows in which every service keeps its objective"),
    ("slo_violations", "windows in which some service misses its objective"),
    ("utilisation_frac", "busy CPU time over that of the managed CPUs"),
    ("utilisation_lean_frac", "the same without what only waits longer than when alone"),
    ("inflation_frac", "the part of the CPU time that is only a longer wait than when alone"),
    ("service_cpus", "CPUs that services use"),
    ("batch_cpus", "CPUs that batch uses"),
    ("batch_work_frac", "work of batch over that of batch alone on the machine"),
    ("load_frac", "work of services over their peak"),
    ("emu_frac", "load_frac + batch_work_frac (X-9)"),
    ("batch_off_frac", "share of windows in which batch gets no CPU time"),
    ("memory_mb_per_s", "memory traffic"),
    ("memory_peak_mb_per_s", "memory traffic of the window that has most"),
    ("egress_mbit_per_s", "bits sent by all"),
    ("link_use_frac", "the same over the capacity of the links"),
    ("power_w", "power of all sockets"),
    ("moves", "steps in which the law turned a knob"),
    ("knob_writes", "settings that the law wrote"),
    ("refused_writes", "settings that the machine refused"),
    ("experiments", "experiments that ended"),
    ("knobs_turned", "knobs that stand otherwise at the end than before the law began"),
    ("blocked_frac", "share of time in which bus locks block the memory, at the end"),
    ("fleet_hurt_frac", "share of a fleet's nodes whose victim was slowed by more than 5 %"),
    ("fleet_hurt_hours", "hours in which a victim was slowed by more than 5 %, for 1000 nodes"),
    ("fleet_error_frac", "mean error of the fleet's table on nodes that were simulated in full"),
    ("fleet_agree_frac", "share of those nodes of which it says rightly whether they are hurt"),
];

/// Of a service or batch group (`of NAME`).
pub(crate) const TENANT: &[(&str, &str)] = &[
    ("p50_ms", "median of the sojourn"),
    ("p95_ms", "95th percentile of the sojourn over the whole run"),
    ("p99_ms", "99th percentile of the sojourn over the whole run"),
    ("mean_ms", "mean of the sojourn"),
    ("slo_ms", "the percentile of the objective over the whole run"),
    ("worst_slo_ms", "the percentile of the objective in the worst window"),
    ("slack_frac", "(target - latency) / target over the whole run"),
    ("kept_frac", "share of windows in which the objective is kept"),
    ("violations", "windows in which the objective is missed"),
    ("qps", "requests answered per second"),
    ("cpus", "CPUs used"),
    ("instructions_per_s", "instructions done per second"),
    ("cpi", "cycles at the machine's base frequency per instruction"),
    ("speed_frac", "instructions per CPU second over the same when alone"),
    ("work_frac", "instructions per second over the same when alone"),
    ("traffic_mb_per_s", "memory traffic"),
    ("llc_mb", "last-level cache held at the end"),
    ("sent_mbit_per_s", "bits sent"),
    ("named_frac", "share of steps in which a law names it for slowing a service"),
    ("accused_frac", "the same, named or suspected"),
    ("hypervisor_frac", "share of steps in which a law puts its slowness down to the hypervisor"),
];

/// Of these, those that are known window by window. `slack_frac` is then that of the service that is
/// worst off, on its judged percentile.
pub(crate) const OVER_TIME: &[&str] = &[
    "load_frac",
    "slack_frac",
    "emu_frac",
    "batch_work_frac",
    "utilisation_frac",
    "service_cpus",
    "batch_cpus",
    "memory_mb_per_s",
    "egress_mbit_per_s",
    "power_w",
];

/// The metric that a word names.
pub(crate) fn read(word: &Word) -> Result<String, ScenarioError> {
    let names = || HOST.iter().chain(TENANT).map(|(name, _)| *name);
    match names().any(|name| name == word.text) {
        true => Ok(word.text.clone()),
        false => Err(unknown(word, "metric", names().collect::<Vec<_>>())),
    }
}

/// The metric that a word names, of those that are known window by window.
pub(crate) fn read_over_time(word: &Word) -> Result<String, ScenarioError> {
    match OVER_TIME.contains(&word.text.as_str()) {
        true => Ok(word.text.clone()),
        false => Err(unknown(word, "metric over time", OVER_TIME.to_vec())),
    }
}

/// Whether it is one of a service or batch group.
pub(crate) fn is_of_tenant(name: &str) -> bool {
    TENANT.iter().any(|(known, _)| *known == name)
}

/// Whether batch alone must be played to know it.
pub(crate) fn needs_batch_alone(name: &str) -> bool {
    matches!(name, "batch_work_frac" | "emu_frac" | "work_frac" | "speed_frac") || needs_lean(name)
}

/// Whether each tenant alone must be played to know it.
pub(crate) fn needs_lean(name: &str) -> bool {
    matches!(name, "utilisation_lean_frac" | "inflation_frac" | "work_frac" | "speed_frac")
}

/// How many digits after the point are worth showing.
pub(crate) fn digits(name: &str) -> u8 {
    match name {
        _ if name.ends_with("_frac") || name.ends_with("_ms") => 3,
        "cpi" | "service_cpus" | "batch_cpus" | "cpus" => 2,
        _ => 1,
    }
}
