//! What others than a trial use of the machine meanwhile.
//!
//! A trial tells what its own groups do to each other. Whoever else works hurts them too, and is put down to
//! nobody, or to the wrong one. So the CPU time of the whole machine is compared with that of the trial's
//! groups, of its own process (the generator), and of the agent. What is left are strangers, and the kernel's
//! own threads.

use super::crowd::TrialGroups;
use quell_cgroup::CpuUsage;
use quell_pressure::process_cpu_time;
use quell_topology::Machine;
use std::time::{Duration, Instant};

/// Strangers that use so much of the machine make a trial void: an agent, a build, another trial.
const VOID_FRAC: f64 = 0.1;

/// CPU time at a moment, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Used {
    machine_ns: u64,
    groups_ns: u64,
    own_ns: u64,
}

/// Everybody's use from a moment on.
#[derive(Debug)]
pub(super) struct Strangers {
    machine: Machine,
    groups: CpuUsage,
    cpus: f64,
    begun: Instant,
    before: Option<Used>,
}

impl Strangers {
    /// From now on.
    ///
    /// # Errors
    /// The groups are gone.
    pub(super) fn watch(groups: &TrialGroups) -> anyhow::Result<Self> {
        let machine = Machine::new("/");
        let cpus = machine.online_cpus().map_or(1.0, |cpus| cpus.len().max(1) as f64);
        let groups = CpuUsage::new(&groups.home()?);
        let mut strangers = Self { machine, groups, cpus, begun: Instant::now(), before: None };
        strangers.before = strangers.used();
        Ok(strangers)
    }

    /// The share of the machine that strangers used since then, 0..1, where an agent that began meanwhile used
    /// so many seconds; none where the kernel does not tell.
    pub(super) fn used_frac(mut self, agent_s: f64) -> Option<f64> {
        let (before, mut now) = (self.before?, self.used()?);
        now.own_ns += (1e9 * agent_s) as u64;
        Some(strangers_frac(before, now, self.begun.elapsed(), self.cpus))
    }

    fn used(&mut self) -> Option<Used> {
        let machine_ns = self.machine.cpu_times().ok()?.busy_ns;
        let own_ns = process_cpu_time(std::process::id())?.as_nanos() as u64;
        Some(Used { machine_ns, groups_ns: self.groups.read().ok()?, own_ns })
    }
}

/// Whether so much use by strangers makes a trial void.
pub(super) fn spoil(used_frac: Option<f64>) -> bool {
    used_frac.is_some_and(|frac| frac >= VOID_FRAC)
}

fn strangers_frac(before: Used, now: Used, passed: Duration, cpus: f64) -> f64 {
    let machine_ns = now.machine_ns.saturating_sub(before.machine_ns);
    let groups_ns = now.groups_ns.saturating_sub(before.groups_ns);
    let own_ns = now.own_ns.saturating_sub(before.own_ns);
    let strangers_ns = machine_ns.saturating_sub(groups_ns + own_ns) as f64;
    strangers_ns / (passed.as_nanos() as f64 * cpus).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neither_the_groups_nor_this_process_used_is_strangers() {
        let used = |machine_ns, groups_ns, own_ns| Used { machine_ns, groups_ns, own_ns };
        let second = Duration::from_secs(1);
        let frac = |now: Used| strangers_frac(used(5, 3, 1), now, second, 2.0);
        assert_eq!(frac(used(1_200_000_005, 700_000_003, 300_000_001)), 0.1);
        assert_eq!(frac(used(100_000_005, 100_000_003, 20_000_001)), 0.0, "ticks are coarse");
        assert!(spoil(Some(0.1)) && !spoil(Some(0.09)) && !spoil(None));
    }
}
