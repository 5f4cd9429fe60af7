//! The words of Quell: what is read, what can be set, what is decided, and why.
//!
//! Everything here is plain data. Nothing reads a clock, a file or the network: a [`Sample`] brings
//! the time with it, and an [`Action`] is only carried out by a platform.
//!
//! Invariant: a missing value is a [`Gap`] with its reason, never 0 and never -1.

mod action;
mod burst;
mod capability;
mod cpuset;
mod histogram;
mod ids;
mod knob;
mod observation;
mod pairs;
mod probe;
mod proposal;
mod reading;
mod sample;
mod setup;
mod task;
mod topology;
mod units;

pub use action::{Action, Experiment, Outcome};
pub use burst::{AccessTimes, BURST_PATTERNS, Burst, BurstReport, BurstTrace};
pub use capability::{Capability, CapabilityKind, CapabilityReport};
pub use cpuset::{CpuSet, ParseCpuSetError};
pub use histogram::{LogHistogram, SLOTS, SUB_BUCKETS};
pub use ids::{Link, TaskId, Tenant};
pub use knob::{CpuBandwidth, Knob, KnobRange, Setting};
pub use observation::{
    BatchObservation, Elsewhere, HostObservation, LinkObservation, Observation, ServiceObservation,
    Tails, Waits,
};
pub use probe::{PROBE_GROUP, Probe, ProbeTrace, SharedResource};
pub use proposal::{Input, Precedence, Proposal, Verdict, Wish};
pub use reading::{Gap, Reading};
pub use sample::{
    BandwidthReading, Beside, ChipTrace, CompanyReading, CpuTimes, ElsewhereReading,
    ExperimentTrace, GaugeCounts, GaugeReading, HostReading, KeptCounts, LinkReading, PassCounts,
    PauseCounts, Pressure, RequestReading, Sample, TenantReading, Throttling, WaitReading,
};
pub use setup::{BatchSpec, LinkSpec, ServiceSpec, Setup, Slo};
pub use task::{TaskEnd, TaskRecord, TaskSpec, TaskState};
pub use topology::{Cache, CacheKind, Cpu, LlcDomain, NumaNode, Topology};
pub use units::{Bytes, BytesPerSecond, Celsius, Cpus, Fraction, Kilohertz, Time, Watts};
