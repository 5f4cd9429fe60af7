//! Private readers, for the fuzz targets.

use crate::{CgroupMembership, CpuInfo};
use crate::{caches, interrupts, nodes, process, stat};
use quell_types::{CpuSet, CpuTimes};

/// A cache's size, as `32K`, in bytes.
#[must_use]
pub fn cache_size(text: &str) -> Option<u64> {
    caches::parse_size(text)
}

/// A CPU mask in words of 32 bits.
#[must_use]
pub fn cpu_mask(text: &str) -> Option<CpuSet> {
    caches::parse_mask(text)
}

/// `MemTotal` of a meminfo file, in bytes.
#[must_use]
pub fn memory_total(text: &str) -> Option<u64> {
    nodes::memory_total(text)
}

/// Name, parent, CPU ticks and start ticks of `/proc/PID/stat`.
#[must_use]
pub fn process_stat(text: &str) -> Option<(String, u32, u64, u64)> {
    process::parse_stat(text).map(|s| (s.comm, s.parent, s.cpu_ticks, s.start_ticks))
}

/// The lines of `/proc/PID/cgroup`.
#[must_use]
pub fn memberships(text: &str) -> Vec<CgroupMembership> {
    process::parse_cgroups(text)
}

/// CPU times of `/proc/stat`: all together, and one by one.
#[must_use]
pub fn cpu_times(text: &str) -> (Option<CpuTimes>, Vec<(u32, CpuTimes)>) {
    (stat::total(text).ok(), stat::by_cpu(text).unwrap_or_default())
}

/// How many devices `/proc/interrupts` tells of, and for how many CPUs.
#[must_use]
pub fn interrupts(text: &str) -> Option<(usize, usize)> {
    let lines = interrupts::parse(text).ok()?;
    Some((lines.len(), lines.first().map_or(0, |line| line.by_cpu.len())))
}

/// The stall time of a PSI file, in nanoseconds.
#[must_use]
pub fn some_total_ns(text: &str) -> Option<u64> {
    stat::some_total_ns(text)
}

/// All that is asked of `/proc/cpuinfo`.
#[must_use]
pub fn cpu_info(text: &str) -> (CpuSet, String) {
    let info = CpuInfo::parse(text);
    let _ = info.flags();
    (info.cpus().collect(), info.model())
}
