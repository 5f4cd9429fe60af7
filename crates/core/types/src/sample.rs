//! Raw readings of one moment. Counters only grow; rates are the model's business.

use crate::{
    BurstTrace, BytesPerSecond, Celsius, CpuSet, Gap, Knob, Link, LogHistogram, Outcome,
    ProbeTrace, Reading, Setting, TaskRecord, Tenant, Time, Watts,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a recording that was made before there was such a reading has in its place.
pub(crate) fn unrecorded<T>() -> Reading<T> {
    Err(Gap::absent("the recording is older than this reading"))
}

/// Stall time totals of PSI, in nanoseconds since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// Some task waited for a CPU.
    pub cpu_some_ns: u64,
    /// Some task waited for memory.
    pub memory_some_ns: u64,
    /// Some task waited for storage.
    pub io_some_ns: u64,
}

/// CPU time of the whole machine since boot, summed over CPUs, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// Time in which a CPU ran something (user, nice, system, irq, softirq).
    pub busy_ns: u64,
    /// Time in which a CPU had nothing to run (idle, iowait).
    pub idle_ns: u64,
    /// Time that the hypervisor took away.
    pub steal_ns: u64,
}

/// CFS throttling totals of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttling {
    /// Periods that passed.
    pub periods: u64,
    /// Periods in which the group ran out of quota.
    pub throttled_periods: u64,
    /// Time spent throttled, in nanoseconds, summed over CPUs.
    pub throttled_ns: u64,
}

/// How long the threads of a service stood ready to run while somebody else had their CPU, in
/// nanoseconds since this was first watched, summed over threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitReading {
    /// Behind threads of each other tenant.
    pub behind_ns: BTreeMap<Tenant, u64>,
    /// Behind its own threads.
    pub own_ns: u64,
    /// Behind everybody else: kernel threads, groups that nobody named.
    pub others_ns: u64,
    /// Behind nobody: the CPU was on its way from idleness.
    pub nobody_ns: u64,
    /// Who had the other CPUs while they stood behind others.
    #[serde(default)]
    pub elsewhere: ElsewhereReading,
}

/// Who had the other CPUs while threads of a service, who may use all of them, stood behind others: what
/// one of those CPUs had, on average over them, in nanoseconds since this was first watched, summed over
/// threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElsewhereReading {
    /// How many others there are; 0 where nothing is told of them.
    pub cpus: u32,
    /// Threads of each other tenant ran there.
    pub tenants_ns: BTreeMap<Tenant, u64>,
    /// Everybody else ran there: the service itself, kernel threads, groups that nobody named.
    pub others_ns: u64,
    /// Nobody ran there.
    pub nobody_ns: u64,
}

/// What a service did in stretches, from one waking to the next, that began while somebody else had another CPU, since
/// this was first watched; summed over CPUs, so that what runs on two others counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// CPU time of its threads in nanoseconds.
    pub cpu_ns: u64,
    /// How often they sent something, which stands for answers.
    pub sends: u64,
}

/// What a service did beside whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompanyReading {
    /// Beside threads of each other tenant.
    pub tenants: BTreeMap<Tenant, Beside>,
    /// Beside everybody else: kernel threads, groups that nobody named.
    pub others: Beside,
    /// Beside idle CPUs.
    pub nobody: Beside,
}

/// What the latency source saw of a service since it was attached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestReading {
    /// Requests answered.
    pub requests: u64,
    /// Payload bytes received.
    pub bytes_in: u64,
    /// Payload bytes sent.
    pub bytes_out: u64,
    /// Latency in nanoseconds of the answered requests, or why it cannot be told (pipelined …).
    pub latency_ns: Reading<LogHistogram>,
}

/// Memory traffic of a group or the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthReading {
    /// Bytes moved since monitoring began.
    pub bytes: u64,
}

/// What is read of a service or a batch group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TenantReading {
    /// Changes when the workload is another one than before (new group inode, restart), so that
    /// counters are not compared across it; a gap if it is not there at all.
    pub identity: Reading<u64>,
    /// CPU time in nanoseconds.
    pub cpu_ns: Reading<u64>,
    /// CFS throttling.
    pub throttling: Reading<Throttling>,
    /// Stall times.
    pub pressure: Reading<Pressure>,
    /// Page faults (all of them).
    pub page_faults: Reading<u64>,
    /// Run-queue waits in nanoseconds.
    pub run_queue_ns: Reading<LogHistogram>,
    /// Behind whom its threads stood for a CPU; absent for batch groups.
    #[serde(default = "unrecorded")]
    pub waits: Reading<WaitReading>,
    /// Beside whom its threads ran, and what they got done there; absent for batch groups.
    #[serde(default = "unrecorded")]
    pub company: Reading<CompanyReading>,
    /// Requests; absent for batch groups.
    pub requests: Reading<RequestReading>,
    /// Bytes sent, all links, headers included.
    pub egress_bytes: Reading<u64>,
    /// Memory traffic.
    pub memory: Reading<BandwidthReading>,
    /// Last-level cache held, in bytes.
    pub llc_bytes: Reading<u64>,
    /// Memory in use, in bytes.
    pub memory_used_bytes: Reading<u64>,
    /// Bus locks that it made since counting began (see [`HostReading::bus_locks`]).
    #[serde(default = "unrecorded")]
    pub bus_locks: Reading<u64>,
}

impl TenantReading {
    /// A reading in which everything is missing for the same reason.
    #[must_use]
    pub fn missing(gap: &Gap) -> Self {
        Self {
            identity: Err(gap.clone()),
            cpu_ns: Err(gap.clone()),
            throttling: Err(gap.clone()),
            pressure: Err(gap.clone()),
            page_faults: Err(gap.clone()),
            run_queue_ns: Err(gap.clone()),
            waits: Err(gap.clone()),
            company: Err(gap.clone()),
            requests: Err(gap.clone()),
            egress_bytes: Err(gap.clone()),
            memory: Err(gap.clone()),
            llc_bytes: Err(gap.clone()),
            memory_used_bytes: Err(gap.clone()),
            bus_locks: Err(gap.clone()),
        }
    }
}

/// What is read of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostReading {
    /// CPU times.
    pub cpu: Reading<CpuTimes>,
    /// Stall times.
    pub pressure: Reading<Pressure>,
    /// Memory traffic.
    pub memory: Reading<BandwidthReading>,
    /// Power of each socket, by its number.
    pub power: Reading<BTreeMap<u32, Watts>>,
    /// Present frequency of each CPU in kHz.
    pub frequency_khz: Reading<BTreeMap<u32, u64>>,
    /// CPUs that are there now, also in fast samples.
    #[serde(default = "unrecorded")]
    pub online_cpus: Reading<CpuSet>,
    /// Bus locks that each CPU made since counting began: atomic operations across two cache lines
    /// (split locks) or on uncached memory, each of which stops everybody's memory. Read in
    /// fast samples too. Counters that did not grow may be shared from sample to sample.
    #[serde(default = "unrecorded")]
    pub bus_locks: Reading<Arc<BTreeMap<u32, u64>>>,
    /// Temperature of each CPU; a hardware thread has its core's. A gap where only whole sockets
    /// are measured: equal numbers would tell nobody apart.
    #[serde(default = "unrecorded")]
    pub temperature: Reading<BTreeMap<u32, Celsius>>,
    /// Time in which each CPU ran something, in nanoseconds since boot.
    #[serde(default = "unrecorded")]
    pub cpu_busy_ns: Reading<BTreeMap<u32, u64>>,
    /// Split and bus locks of each tenant that the kernel trapped and wrote to its log since that was
    /// first read; who made none is left out. It tells each thread's first, and not more than a few
    /// in a second: who made any at all, not how many.
    #[serde(default = "unrecorded")]
    pub lock_traps: Reading<BTreeMap<Tenant, u64>>,
    /// What the kernel's gauge of bus locks has counted. Read in fast samples too.
    #[serde(default = "unrecorded")]
    pub gauge: Reading<Arc<GaugeReading>>,
}

/// What the kernel's gauge read, since it began: of all samples, and of those in which somebody had another
/// CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GaugeReading {
    /// All samples.
    pub all: GaugeCounts,
    /// Those in which a task of this tenant had another CPU, and those of its own turns; who had none is left
    /// out.
    pub beside: BTreeMap<Tenant, GaugeCounts>,
    /// Those in which a task of nobody here had one.
    pub others: GaugeCounts,
    /// How late CPUs' timers came.
    #[serde(default)]
    pub pauses: PauseCounts,
    /// How long lines of cache took from one CPU to another.
    #[serde(default)]
    pub passes: PassCounts,
}

/// How long it took to read four lines of cache that another CPU had written within a millisecond: several times
/// as long where the host runs the two on cores without a common cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassCounts {
    /// Samples by slot, two slots to each power of two from 64 ns on; empty where none are taken. Counts wrap.
    pub slots: Vec<u32>,
}

/// What timers tell of time in which CPUs were not there, as when a hypervisor holds a virtual CPU back, or has
/// another one in its place, and does not call that steal. Summed over CPUs, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseCounts {
    /// From one tick to the next on CPUs that were not idle in between.
    pub timed_ns: u64,
    /// By so much the next one was late, where it was late by more than a quarter of the time.
    pub lost_ns: u64,
}

/// Samples of the gauge, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GaugeCounts {
    /// How many times as long as multiplications accesses to a core's own second cache took, which bus locks
    /// of other cores hold back and nothing else: samples by slot, two slots to each power of two. Counts
    /// wrap.
    pub slots: Vec<u32>,
    /// What [`Self::READS`] reads of memory took, in eighths of powers of two above [`Self::FROM_NS`], summed over
    /// samples.
    pub memory: u64,
    /// The sum of its squares.
    pub memory_squares: u64,
    /// What was left of lines that its CPU had read some milliseconds before in the same turn of its own, and
    /// that it may have driven out of the caches since.
    #[serde(default)]
    pub kept: KeptCounts,
}

/// Samples of a group's own turns, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptCounts {
    /// How many.
    pub samples: u64,
    /// What [`Self::LINES`] lines took to read again, in eighths of powers of two above
    /// [`GaugeCounts::FROM_NS`], summed.
    pub took: u64,
    /// How long they were left, in nanoseconds, summed.
    pub ns: u64,
}

impl KeptCounts {
    /// Lines of a sample, each of which is read when the one before has come.
    pub const LINES: f64 = 16.0;
}

impl GaugeCounts {
    /// Reads of memory of a sample, likewise.
    pub const READS: f64 = 4.0;
    /// From so many nanoseconds on times are told.
    pub const FROM_NS: f64 = 128.0;

    /// Whether there was any sample.
    #[must_use]
    pub fn any(&self) -> bool {
        self.kept.samples > 0 || self.slots.iter().any(|count| *count > 0)
    }
}

impl HostReading {
    /// A reading in which everything is missing for the same reason.
    #[must_use]
    pub fn missing(gap: &Gap) -> Self {
        Self {
            cpu: Err(gap.clone()),
            pressure: Err(gap.clone()),
            memory: Err(gap.clone()),
            power: Err(gap.clone()),
            frequency_khz: Err(gap.clone()),
            online_cpus: Err(gap.clone()),
            bus_locks: Err(gap.clone()),
            temperature: Err(gap.clone()),
            cpu_busy_ns: Err(gap.clone()),
            lock_traps: Err(gap.clone()),
            gauge: Err(gap.clone()),
        }
    }
}

/// What is read of a shaped link. Byte counters are those of the shaper's classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkReading {
    /// Bytes that left, all classes.
    pub sent_bytes: Reading<u64>,
    /// Bytes that left by tenant with a class of its own.
    pub by_tenant_bytes: BTreeMap<Tenant, Reading<u64>>,
    /// Bytes that wait in the shaper.
    pub backlog_bytes: Reading<u64>,
    /// Packets dropped by the shaper.
    pub drops: Reading<u64>,
}

/// One chip of an experiment as it was really played, with the victims' counters over just that
/// chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChipTrace {
    /// When the groups were really switched.
    pub from: Time,
    /// When the chip ended.
    pub to: Time,
    /// Whether the groups ran in it.
    pub running: bool,
    /// CPU time of each victim within the chip, in nanoseconds.
    pub victim_cpu_ns: BTreeMap<Tenant, Reading<u64>>,
    /// Requests, bytes and latency of each victim within the chip.
    pub victim_requests: BTreeMap<Tenant, Reading<RequestReading>>,
    /// CPU time of each shifted group within the chip, in nanoseconds.
    pub group_cpu_ns: BTreeMap<Tenant, Reading<u64>>,
}

/// An experiment that ended since the last sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentTrace {
    /// The experiment's number.
    pub id: u64,
    /// Its chips in order.
    pub chips: Vec<ChipTrace>,
    /// Why it was cut short; none if it was played to its end.
    pub aborted: Option<String>,
}

/// Everything read at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, on the platform's monotonic clock.
    pub time: Time,
    /// When, for people: milliseconds since 1970. Never used to decide anything.
    pub wall_unix_ms: u64,
    /// The machine.
    pub host: HostReading,
    /// Services and batch groups.
    pub tenants: BTreeMap<Tenant, TenantReading>,
    /// Shaped links.
    pub links: BTreeMap<Link, LinkReading>,
    /// Every controllable knob as it really stands; shared, since most are the same from sample to sample.
    #[serde(with = "crate::pairs::shared")]
    pub knobs: Arc<BTreeMap<Knob, Reading<Setting>>>,
    /// The queue: tasks ready and running (not those ended before the last sample).
    pub tasks: Vec<TaskRecord>,
    /// Experiments that ended since the last sample.
    pub experiments: Vec<ExperimentTrace>,
    /// Probes that ended since the last sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeTrace>,
    /// Bursts of a reporter that ended since the last sample, or were not played.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bursts: Vec<BurstTrace>,
    /// Actions that ended since the last sample, for the journal.
    pub outcomes: Vec<Outcome>,
    /// Free capacity of links as configured, so that a replay needs no configuration.
    pub link_capacity: BTreeMap<Link, BytesPerSecond>,
}
