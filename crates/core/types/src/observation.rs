//! What a policy sees: rates and windows, derived from samples by the model.

use crate::{
    BurstTrace, BytesPerSecond, Celsius, CompanyReading, Cpus, ExperimentTrace, Fraction,
    GaugeReading, Knob, Link, ProbeTrace, Reading, Setting, TaskRecord, Tenant, Time, Watts,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Latency of a window, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tails {
    /// Requests in the window.
    pub requests: u64,
    /// Length of the window: short windows with few requests are joined.
    pub window_s: f64,
    /// Median.
    pub p50_s: f64,
    /// 95th percentile.
    pub p95_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// 99.9th percentile.
    pub p999_s: f64,
    /// The percentile that the objective names.
    pub slo_s: f64,
}

/// Where the time of a service's threads went between two full samples: on a CPU, or ready to run
/// while somebody else had it. All but the length in threads on average (seconds per second).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Length in seconds.
    pub seconds: f64,
    /// Running.
    pub running: f64,
    /// Standing behind threads of each other tenant.
    pub behind: BTreeMap<Tenant, f64>,
    /// Standing behind its own threads.
    pub own: f64,
    /// Standing behind everybody else: kernel threads, groups that nobody named.
    pub others: f64,
    /// Standing behind nobody, while the CPU was on its way from idleness.
    pub nobody: f64,
    /// Who had the other CPUs while they stood behind others.
    #[serde(default)]
    pub elsewhere: Elsewhere,
}

impl Waits {
    /// Threads that were ready to run and did not, whoever had the CPU.
    #[must_use]
    pub fn standing(&self) -> f64 {
        self.behind.values().sum::<f64>() + self.own + self.others + self.nobody
    }
}

/// Who had the other CPUs while a service's threads, who may use all of them, stood behind others: what
/// one of those CPUs had, on average over them; in threads that stood meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// How many others there are; 0 where nothing is told of them.
    pub cpus: u32,
    /// Threads of each other tenant ran there.
    pub tenants: BTreeMap<Tenant, f64>,
    /// Everybody else ran there, the service itself among them.
    pub others: f64,
    /// Nobody ran there.
    pub nobody: f64,
}

/// A service as a policy sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceObservation {
    /// Latency of the last full window (see [`Tails::window_s`]).
    pub tails: Reading<Tails>,
    /// Latency of the shortest window that still means something (fast path, ≤ 0.5 s).
    pub fast_tails: Reading<Tails>,
    /// (target − latency) / target over the last full window.
    pub slack: Reading<f64>,
    /// The same over the fast window.
    pub fast_slack: Reading<f64>,
    /// Requests per second over the last interval.
    pub qps: Reading<f64>,
    /// Rate over peak rate; without a peak rate, CPU use over managed CPUs.
    pub load: Reading<Fraction>,
    /// CPU use.
    pub cpu: Reading<Cpus>,
    /// CPU time per request in seconds, over the last full window.
    pub cpu_per_request_s: Reading<f64>,
    /// CPU time per request beside batch ÷ the same with batch held, from the last experiment
    /// whose request mix did not change; 1 = no harm.
    pub inflation: Reading<f64>,
    /// When that experiment ended.
    pub inflation_time: Option<Time>,
    /// Payload bytes per request, in and out: a change voids comparisons.
    pub bytes_per_request: Reading<(f64, f64)>,
    /// 99th percentile of the run-queue wait, in seconds.
    pub run_queue_p99_s: Reading<f64>,
    /// Behind whom its threads stood for a CPU since the last full sample.
    pub waits: Reading<Waits>,
    /// What it did since the last full sample beside whom.
    #[serde(default = "crate::sample::unrecorded")]
    pub company: Reading<CompanyReading>,
    /// Share of CFS periods in which it ran out of its own quota, or of one above its group.
    pub throttled: Reading<Fraction>,
    /// Share of time in which some of its tasks waited for a CPU.
    pub cpu_pressure: Reading<Fraction>,
    /// Bytes sent per second.
    pub egress: Reading<BytesPerSecond>,
    /// Memory traffic.
    pub memory: Reading<BytesPerSecond>,
    /// Last-level cache held.
    pub llc_bytes: Reading<u64>,
    /// Whether it is another workload than in the sample before (restart): windows began anew.
    pub restarted: bool,
    /// A gap if the service is not there.
    pub present: Reading<()>,
}

/// A batch group as a policy sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchObservation {
    /// A gap if the group is not there.
    pub present: Reading<()>,
    /// CPU use.
    pub cpu: Reading<Cpus>,
    /// Threads that are ready to run and do not, on average: with the CPUs that it uses, what it
    /// asks for.
    pub standing: Reading<f64>,
    /// Share of CFS periods in which it ran out of quota.
    pub throttled: Reading<Fraction>,
    /// Bytes sent per second.
    pub egress: Reading<BytesPerSecond>,
    /// Memory traffic.
    pub memory: Reading<BytesPerSecond>,
    /// Last-level cache held.
    pub llc_bytes: Reading<u64>,
    /// Page faults per second.
    pub page_faults_per_s: Reading<f64>,
    /// Bus locks per second.
    pub bus_locks_per_s: Reading<f64>,
    /// Tasks of the queue that run in it.
    pub running_tasks: u32,
    /// Tasks of the queue that wait for it.
    pub ready_tasks: u32,
}

/// The machine as a policy sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostObservation {
    /// Busy time over all CPU time that was not stolen.
    pub utilisation: Reading<Fraction>,
    /// Share of time that the hypervisor took away, as it says itself or as late timers tell, whichever is more.
    pub steal: Reading<Fraction>,
    /// Memory traffic.
    pub memory: Reading<BytesPerSecond>,
    /// Share of time in which some task waited for a CPU.
    pub cpu_pressure: Reading<Fraction>,
    /// Power by socket.
    pub power: Reading<BTreeMap<u32, Watts>>,
    /// Frequency by CPU, in kHz.
    pub frequency_khz: Reading<BTreeMap<u32, u64>>,
    /// Bus locks per second by CPU, over the last interval in which they were read.
    pub bus_locks_per_s: Reading<Arc<BTreeMap<u32, f64>>>,
    /// Temperature by CPU.
    pub temperature: Reading<BTreeMap<u32, Celsius>>,
    /// Use by CPU, 0..1.
    pub cpu_busy: Reading<BTreeMap<u32, Fraction>>,
    /// Split and bus locks of each tenant that the kernel told of, since its log was first read
    /// (see [`HostReading::lock_traps`](crate::HostReading::lock_traps)).
    pub lock_traps: Reading<BTreeMap<Tenant, u64>>,
    /// What the kernel's gauge of bus locks has counted, in fast samples too
    /// (see [`HostReading::gauge`](crate::HostReading::gauge)).
    #[serde(default = "crate::sample::unrecorded")]
    pub gauge: Reading<Arc<GaugeReading>>,
}

/// A shaped link as a policy sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkObservation {
    /// What it carries.
    pub capacity: BytesPerSecond,
    /// Sent by all.
    pub sent: Reading<BytesPerSecond>,
    /// Sent by tenants with a class of their own.
    pub by_tenant: BTreeMap<Tenant, Reading<BytesPerSecond>>,
    /// Bytes waiting in the shaper.
    pub backlog_bytes: Reading<u64>,
    /// Packets dropped per second.
    pub drops_per_s: Reading<f64>,
}

/// What a policy steps on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The sample's time.
    pub time: Time,
    /// Time since the sample before, in seconds; 0 for the first.
    pub interval_s: f64,
    /// Services.
    pub services: BTreeMap<Tenant, ServiceObservation>,
    /// Batch groups.
    pub batch: BTreeMap<Tenant, BatchObservation>,
    /// The machine; shared, since fast samples bring little of it.
    pub host: Arc<HostObservation>,
    /// Links.
    pub links: BTreeMap<Link, LinkObservation>,
    /// Knobs as they really stand; shared, since most are the same from sample to sample.
    #[serde(with = "crate::pairs::shared")]
    pub knobs: Arc<BTreeMap<Knob, Reading<Setting>>>,
    /// The queue.
    pub tasks: Vec<TaskRecord>,
    /// Experiments that ended since the sample before.
    pub experiments: Vec<ExperimentTrace>,
    /// Probes that ended since the sample before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeTrace>,
    /// Bursts of a reporter that ended since the sample before, or were not played.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bursts: Vec<BurstTrace>,
}
