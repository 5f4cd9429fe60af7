//! What a machine lets one measure and control.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far something is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", content = "detail", rename_all = "snake_case")]
pub enum Capability {
    /// The machine has it; the detail says what exactly.
    Native(String),
    /// Quell makes do with another means; the detail says which.
    Emulated(String),
    /// It is not there; the detail says why.
    Absent(String),
}

impl Capability {
    /// Whether it can be used at all.
    #[must_use]
    pub fn is_present(&self) -> bool {
        !matches!(self, Capability::Absent(_))
    }
}

/// What may be there or not.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum CapabilityKind {
    Topology,
    NumaNodes,
    CacheGeometry,
    Smt,
    Virtualisation,
    CgroupLayout,
    CpuBandwidth,
    CpuWeight,
    CpuIdle,
    CpuSets,
    CpuReserve,
    Freezer,
    Psi,
    StealTime,
    HiddenSteal,
    RequestLatency,
    RunQueueLatency,
    CpuContention,
    CpuTimePerRequest,
    EgressMeter,
    EgressShaper,
    PerfHardwareEvents,
    PerfSoftwareEvents,
    BusLocks,
    LockTraps,
    BusLockGauge,
    CacheGauge,
    ResctrlCat,
    ResctrlCdp,
    ResctrlMba,
    ResctrlMonitoring,
    MemoryBandwidth,
    PowerReading,
    FrequencyScaling,
    IdleStates,
    Thermal,
    Msr,
    Ebpf,
    Btf,
    TrafficControl,
    Libvirt,
    Systemd,
}

/// One line of `quell doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilityReport {
    /// What.
    pub kind: CapabilityKind,
    /// How far it is there.
    #[serde(flatten)]
    pub capability: Capability,
    /// What Quell does without it, or with the stand-in; empty when native.
    pub without: String,
}
