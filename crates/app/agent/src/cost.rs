//! What the agent itself costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// The kernel reports times of processes in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// What the agent costs, from its readiness on. Shares are of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentCost {
    /// CPU time in user space, as a share of one CPU.
    pub user_cpu_frac: Option<f64>,
    /// CPU time in the kernel on the agent's behalf, as a share of one CPU.
    pub system_cpu_frac: Option<f64>,
    /// CPU time of the eBPF programs, as a share of one CPU; null unless it was asked for.
    pub bpf_cpu_frac: Option<f64>,
    /// Memory resident now, in bytes.
    pub rss_bytes: Option<u64>,
    /// The most memory ever resident, in bytes.
    pub rss_peak_bytes: Option<u64>,
    /// How long it has been measured, in seconds.
    pub measured_s: f64,
}

/// Runs and nanoseconds of the eBPF programs.
pub(crate) type BpfStats = Vec<(String, u64, u64)>;

/// Measures from its making on.
#[derive(Debug)]
pub(crate) struct CostMeter {
    since: Instant,
    first: Option<(f64, f64)>,
    first_bpf_ns: Option<u64>,
}

impl CostMeter {
    pub(crate) fn begin(bpf: Option<&BpfStats>) -> Self {
        Self { since: Instant::now(), first: cpu_seconds(), first_bpf_ns: bpf.map(total_ns) }
    }

    pub(crate) fn read(&self, bpf: Option<&BpfStats>) -> AgentCost {
        let measured_s = self.since.elapsed().as_secs_f64();
        let share = |seconds: f64| (measured_s > 0.0).then(|| seconds / measured_s);
        let spent = self.first.zip(cpu_seconds());
        let spent = spent.map(|((u0, s0), (u, s))| (u - u0, s - s0));
        let bpf_ns = self.first_bpf_ns.zip(bpf.map(total_ns));
        AgentCost {
            user_cpu_frac: spent.and_then(|(user, _)| share(user)),
            system_cpu_frac: spent.and_then(|(_, system)| share(system)),
            bpf_cpu_frac: bpf_ns
                .and_then(|(first, now)| share(now.saturating_sub(first) as f64 / 1e9)),
            rss_bytes: memory("VmRSS:"),
            rss_peak_bytes: memory("VmHWM:"),
            measured_s,
        }
    }
}

fn total_ns(stats: &BpfStats) -> u64 {
    stats.iter().map(|(_, _, ns)| ns).sum()
}

/// User and system time of this process.
fn cpu_seconds() -> Option<(f64, f64)> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let seconds = |at: usize| Some(fields.get(at)?.parse::<f64>().ok()? / TICKS_PER_SECOND);
    Some((seconds(11)?, seconds(12)?))
}

/// A line of `/proc/self/status`, in bytes.
fn memory(line: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = text.lines().find_map(|l| l.strip_prefix(line))?;
    Some(value.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn cpu_time_that_was_spent_is_seen() {
        let meter = CostMeter::begin(Some(&vec![("a".into(), 1, 1_000)]));
        let begun = Instant::now();
        let mut sum = 0u64;
        while begun.elapsed() < Duration::from_millis(300) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let cost = meter.read(Some(&vec![("a".into(), 2, 50_001_000)]));
        assert!(cost.user_cpu_frac.unwrap() > 0.02, "{cost:?}");
        assert!(cost.rss_bytes.unwrap() > 100_000 && cost.rss_peak_bytes >= cost.rss_bytes);
        let bpf = cost.bpf_cpu_frac.unwrap() * cost.measured_s;
        assert!((bpf - 0.05).abs() < 1e-6, "{bpf}");
        assert_eq!(meter.read(None).bpf_cpu_frac, None, "not asked for");
    }
}
