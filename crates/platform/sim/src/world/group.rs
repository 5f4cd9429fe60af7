//! A control group: its settings and its counters.

use crate::mask::Mask;
use quell_types::LogHistogram;

/// Weight of a group in the idle class, against 100: 3 of 1024 (kernel/sched/sched.h).
const IDLE_WEIGHT: f64 = 0.3;

/// CPU bandwidth as it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quota {
    /// CPU time of a period in nanoseconds.
    pub(crate) quota_ns: u64,
    pub(crate) period_ns: u64,
    /// What is left of it.
    pub(crate) pool_ns: f64,
    pub(crate) since: u64,
    pub(crate) refill: u64,
    pub(crate) throttled_since: Option<u64>,
}

/// A service or a batch group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) weight: u32,
    pub(crate) idle: bool,
    pub(crate) frozen: bool,
    pub(crate) cpus: Mask,
    pub(crate) quota: Option<Quota>,
    /// Cache masks by domain.
    pub(crate) ways: Vec<u64>,
    /// Bandwidth throttle by domain, in percent.
    pub(crate) percent: Vec<u32>,
    /// Links that it sends on.
    pub(crate) links: Vec<usize>,
    pub(crate) threads: Vec<usize>,
    /// Threads that run or wait for a CPU.
    pub(crate) runnable: u32,
    pub(crate) running: u32,
    /// Of these, those that its CPU bandwidth is charged for.
    pub(crate) charged: u32,
    pub(crate) cpu_ns: u64,
    pub(crate) periods: u64,
    pub(crate) throttled_periods: u64,
    pub(crate) throttled_ns: u64,
    waiting: u32,
    waiting_since: u64,
    /// Nanoseconds in which some thread of it waited for a CPU.
    pub(crate) waited_ns: u64,
    pub(crate) run_queue: LogHistogram,
    /// Nanoseconds that its threads stood in a queue behind each group, by group; the last is for
    /// CPUs on which nobody ran. Kept for services; empty for batch.
    pub(crate) stood_ns: Vec<u64>,
    /// Of that behind other groups, by the group that had another CPU meanwhile, one taken after the
    /// other; only while it may use all of them.
    pub(crate) elsewhere_ns: Vec<u64>,
    /// Bytes moved between cache and memory.
    pub(crate) traffic_bytes: f64,
    /// Bytes sent without a link of ours.
    pub(crate) egress_bytes: f64,
    /// Instructions done.
    pub(crate) instructions: f64,
    /// Bus locks made.
    pub(crate) bus_locks: f64,
}

impl Group {
    pub(crate) fn new(cpus: Mask, full: u64, domains: usize, links: Vec<usize>) -> Self {
        Self {
            weight: 100,
            idle: false,
            frozen: false,
            cpus,
            quota: None,
            ways: vec![full; domains],
            percent: vec![100; domains],
            links,
            threads: Vec::new(),
            runnable: 0,
            running: 0,
            charged: 0,
            cpu_ns: 0,
            periods: 0,
            throttled_periods: 0,
            throttled_ns: 0,
            waiting: 0,
            waiting_since: 0,
            waited_ns: 0,
            run_queue: LogHistogram::new(),
            stood_ns: Vec::new(),
            elsewhere_ns: Vec::new(),
            traffic_bytes: 0.0,
            egress_bytes: 0.0,
            instructions: 0.0,
            bus_locks: 0.0,
        }
    }

    /// By how much weighted time runs faster than real time for one of its threads: a group's
    /// weight is shared out among its threads that want to run.
    pub(crate) fn pace(&self) -> f64 {
        let weight = if self.idle { IDLE_WEIGHT } else { f64::from(self.weight) };
        100.0 * f64::from(self.runnable.max(1)) / weight
    }

    /// Whether its CPU bandwidth of this period is spent.
    pub(crate) fn is_throttled(&self) -> bool {
        self.quota.is_some_and(|q| q.throttled_since.is_some())
    }

    pub(crate) fn settle_waiting(&mut self, now: u64) {
        if self.waiting > 0 {
            self.waited_ns += now - self.waiting_since;
        }
        self.waiting_since = now;
    }

    /// One more thread waits, or one less. Answers whether the group began or ceased to wait.
    pub(crate) fn wait(&mut self, now: u64, more: bool) -> bool {
        let before = self.waiting > 0;
        self.settle_waiting(now);
        self.waiting = if more { self.waiting + 1 } else { self.waiting.saturating_sub(1) };
        before != (self.waiting > 0)
    }
}
