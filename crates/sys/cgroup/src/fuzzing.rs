//! Private readers, for the fuzz targets.

use crate::{mounts, parse, readers, systemd};

/// Every reader of a cgroup file's text, one after the other: numbers, fields, flags.
#[must_use]
pub fn numbers(text: &str) -> [Option<u64>; 5] {
    [
        parse::number(text),
        parse::field(text, "pgfault"),
        parse::field(text, "nr_periods"),
        parse::flag(text).map(u64::from),
        readers::usage_of_stat(text),
    ]
}

/// Periods, throttled periods and throttled nanoseconds of `cpu.stat`.
#[must_use]
pub fn throttling(text: &str) -> Option<(u64, u64, u64)> {
    parse::throttling(text).map(|t| (t.periods, t.throttled_periods, t.throttled_ns))
}

/// The stall time of a PSI file, in nanoseconds.
#[must_use]
pub fn some_total_ns(text: &str) -> Option<u64> {
    parse::some_total_ns(text)
}

/// Quota (none: no limit) and period of `cpu.max`, in microseconds.
#[must_use]
pub fn cpu_max(text: &str) -> Option<(Option<u64>, u64)> {
    parse::cpu_max(text)
}

/// Controllers and path of a line of `/proc/PID/cgroup`.
#[must_use]
pub fn membership(line: &str) -> Option<(Vec<&str>, &str)> {
    parse::membership(line)
}

/// Mount points, kinds and options of `/proc/mounts`.
#[must_use]
pub fn mounts(text: &str) -> Vec<(String, String, Vec<String>)> {
    mounts::parse(text).into_iter().map(|m| (m.point, m.kind, m.options)).collect()
}

/// Mount points and mounted parts of `/proc/self/mountinfo`.
#[must_use]
pub fn mounted_parts(text: &str) -> Vec<(String, String)> {
    mounts::mounted_parts(text)
}

/// A path of the mount table without its escapes.
#[must_use]
pub fn unescape(text: &str) -> String {
    mounts::unescape(text)
}

/// The assignments that bring back what `systemctl show` printed.
#[must_use]
pub fn saved_assignments(shown: &str) -> Vec<String> {
    systemd::saved_assignments(&systemd::parse_show(shown))
}

/// A time span of systemd, in microseconds.
#[must_use]
pub fn timespan_us(text: &str) -> Option<u64> {
    systemd::timespan_us(text)
}
