//! What can be set.

use crate::{BytesPerSecond, CpuSet, Cpus, Kilohertz, Link, Tenant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

/// One thing that can be set. Each knob has one writer.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(tag = "knob", rename_all = "snake_case")]
pub enum Knob {
    /// The CPUs that a group may run on.
    Cpus {
        /// Whose.
        tenant: Tenant,
    },
    /// The CPU time a group may use in each period.
    CpuBandwidth {
        /// Whose.
        tenant: Tenant,
    },
    /// The group's weight when CPUs are contended (100 is the usual one).
    CpuWeight {
        /// Whose.
        tenant: Tenant,
    },
    /// Whether the group is in the idle class: it runs only where nobody else wants to.
    CpuIdle {
        /// Whose.
        tenant: Tenant,
    },
    /// Whether the group is frozen.
    Frozen {
        /// Whose.
        tenant: Tenant,
    },
    /// The most a group may send on a link.
    EgressCeiling {
        /// Whose.
        tenant: Tenant,
        /// Where.
        link: Link,
    },
    /// Ways of one last-level cache that a group may fill, as a bit mask.
    LlcWays {
        /// Whose.
        tenant: Tenant,
        /// The cache (resctrl's domain id).
        domain: u32,
    },
    /// Memory bandwidth throttle (MBA) of a group in one domain, in percent.
    MemoryBandwidth {
        /// Whose.
        tenant: Tenant,
        /// The domain.
        domain: u32,
    },
    /// The highest frequency of one CPU.
    FrequencyMax {
        /// Which CPU.
        cpu: u32,
    },
    /// How much of the time one CPU's clock runs (clock modulation, MSR 0x19A). A core runs at the
    /// highest that any of its threads is set to.
    DutyCycle {
        /// Which CPU.
        cpu: u32,
    },
    /// The NUMA nodes on which a group's memory lies; what lies elsewhere is moved there.
    MemoryNodes {
        /// Whose.
        tenant: Tenant,
    },
    /// Whether a CPU that has nothing to do stays awake: it polls in place of halting.
    StayAwake {
        /// Which CPU.
        cpu: u32,
    },
}

impl Knob {
    /// The group it belongs to; none for what is set of a CPU.
    #[must_use]
    pub fn tenant(&self) -> Option<&Tenant> {
        match self {
            Knob::Cpus { tenant }
            | Knob::CpuBandwidth { tenant }
            | Knob::CpuWeight { tenant }
            | Knob::CpuIdle { tenant }
            | Knob::Frozen { tenant }
            | Knob::EgressCeiling { tenant, .. }
            | Knob::LlcWays { tenant, .. }
            | Knob::MemoryBandwidth { tenant, .. }
            | Knob::MemoryNodes { tenant } => Some(tenant),
            Knob::FrequencyMax { .. } | Knob::DutyCycle { .. } | Knob::StayAwake { .. } => None,
        }
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Knob::Cpus { tenant } => write!(f, "cpus of {tenant}"),
            Knob::CpuBandwidth { tenant } => write!(f, "cpu bandwidth of {tenant}"),
            Knob::CpuWeight { tenant } => write!(f, "cpu weight of {tenant}"),
            Knob::CpuIdle { tenant } => write!(f, "idle class of {tenant}"),
            Knob::Frozen { tenant } => write!(f, "freezer of {tenant}"),
            Knob::EgressCeiling { tenant, link } => write!(f, "egress of {tenant} on {link}"),
            Knob::LlcWays { tenant, domain } => write!(f, "LLC ways of {tenant} in {domain}"),
            Knob::MemoryBandwidth { tenant, domain } => write!(f, "MBA of {tenant} in {domain}"),
            Knob::FrequencyMax { cpu } => write!(f, "top frequency of CPU {cpu}"),
            Knob::DutyCycle { cpu } => write!(f, "duty cycle of CPU {cpu}"),
            Knob::MemoryNodes { tenant } => write!(f, "memory nodes of {tenant}"),
            Knob::StayAwake { cpu } => write!(f, "staying awake of CPU {cpu}"),
        }
    }
}

/// CPU time per period, as CFS enforces it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuBandwidth {
    /// CPUs' worth of time, 0.5 = half of one CPU; none = no limit.
    pub limit_cpus: Option<Cpus>,
    /// Length of the period in microseconds.
    pub period_us: u64,
}

impl CpuBandwidth {
    /// The kernel's usual period.
    pub const DEFAULT_PERIOD: Duration = Duration::from_millis(100);

    /// No limit, at the kernel's usual period.
    #[must_use]
    pub fn unlimited() -> Self {
        Self { limit_cpus: None, period_us: Self::DEFAULT_PERIOD.as_micros() as u64 }
    }

    /// `cpus` of CPU time in each `period`.
    #[must_use]
    pub fn limited(cpus: f64, period: Duration) -> Self {
        Self { limit_cpus: Some(Cpus(cpus)), period_us: period.as_micros() as u64 }
    }

    /// The quota in microseconds a period, as the kernel is told it; none = no limit.
    #[must_use]
    pub fn quota_us(&self) -> Option<u64> {
        self.limit_cpus.map(|cpus| (cpus.0 * self.period_us as f64).round() as u64)
    }
}

/// What a knob is, or shall be, set to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "setting", content = "value", rename_all = "snake_case")]
pub enum Setting {
    /// For [`Knob::Cpus`].
    Cpus(CpuSet),
    /// For [`Knob::CpuBandwidth`].
    Bandwidth(CpuBandwidth),
    /// For [`Knob::CpuWeight`]: 1..10000, 100 is the usual one.
    Weight(u32),
    /// For [`Knob::CpuIdle`], [`Knob::Frozen`] and [`Knob::StayAwake`].
    Flag(bool),
    /// For [`Knob::EgressCeiling`]; none = no limit of ours.
    Rate(Option<BytesPerSecond>),
    /// For [`Knob::LlcWays`].
    Ways(u64),
    /// For [`Knob::MemoryBandwidth`], 0..100.
    Percent(u32),
    /// For [`Knob::FrequencyMax`].
    Frequency(Kilohertz),
    /// For [`Knob::DutyCycle`]: parts of the time in which the clock runs, of as many as the range
    /// says. All of them = no modulation, which the register calls level 0.
    Duty(u32),
    /// For [`Knob::MemoryNodes`]: numbers of nodes.
    Nodes(CpuSet),
}

impl Setting {
    /// Whether `self` leaves the tenant less (`Less`), the same or more (`Greater`) than `other`;
    /// none where neither holds (different CPUs) or the kinds differ. "Less" is *tighter*.
    #[must_use]
    pub fn compare_freedom(&self, other: &Setting) -> Option<Ordering> {
        match (self, other) {
            (Setting::Cpus(a), Setting::Cpus(b)) => subset_order(a, b),
            (Setting::Bandwidth(a), Setting::Bandwidth(b)) => {
                unlimited_last(a.limit_cpus.map(|c| c.0), b.limit_cpus.map(|c| c.0))
            }
            (Setting::Weight(a), Setting::Weight(b)) => Some(a.cmp(b)),
            // Set means held back: true is tighter.
            (Setting::Flag(a), Setting::Flag(b)) => Some(b.cmp(a)),
            (Setting::Rate(a), Setting::Rate(b)) => unlimited_last(a.map(|r| r.0), b.map(|r| r.0)),
            (Setting::Ways(a), Setting::Ways(b)) => mask_order(*a, *b),
            (Setting::Percent(a), Setting::Percent(b)) => Some(a.cmp(b)),
            (Setting::Frequency(a), Setting::Frequency(b)) => a.partial_cmp(b),
            (Setting::Duty(a), Setting::Duty(b)) => Some(a.cmp(b)),
            (Setting::Nodes(a), Setting::Nodes(b)) => subset_order(a, b),
            _ => None,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Cpus(set) => write!(f, "{set}"),
            Setting::Bandwidth(CpuBandwidth { limit_cpus: Some(cpus), period_us }) => {
                write!(f, "{:.3} CPU per {} ms", cpus.0, *period_us as f64 / 1e3)
            }
            Setting::Bandwidth(_) => write!(f, "unlimited"),
            Setting::Weight(weight) => write!(f, "{weight}"),
            Setting::Flag(flag) => write!(f, "{}", if *flag { "on" } else { "off" }),
            Setting::Rate(Some(rate)) => write!(f, "{:.3} Mbit/s", rate.bits() / 1e6),
            Setting::Rate(None) => write!(f, "unlimited"),
            Setting::Ways(mask) => write!(f, "{mask:#x}"),
            Setting::Percent(percent) => write!(f, "{percent} %"),
            Setting::Duty(parts) => write!(f, "{parts} parts"),
            Setting::Nodes(nodes) => write!(f, "{nodes}"),
            Setting::Frequency(khz) => write!(f, "{:.3} GHz", khz.0 as f64 / 1e6),
        }
    }
}

fn subset_order(a: &CpuSet, b: &CpuSet) -> Option<Ordering> {
    match (a.is_subset(b), b.is_subset(a)) {
        (true, true) => Some(Ordering::Equal),
        (true, false) => Some(Ordering::Less),
        (false, true) => Some(Ordering::Greater),
        (false, false) => None,
    }
}

fn mask_order(a: u64, b: u64) -> Option<Ordering> {
    match (a & !b == 0, b & !a == 0) {
        (true, true) => Some(Ordering::Equal),
        (true, false) => Some(Ordering::Less),
        (false, true) => Some(Ordering::Greater),
        (false, false) => None,
    }
}

fn unlimited_last(a: Option<f64>, b: Option<f64>) -> Option<Ordering> {
    a.unwrap_or(f64::INFINITY).partial_cmp(&b.unwrap_or(f64::INFINITY))
}

/// What a knob accepts on this machine. A knob that is not controllable has no range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "range", rename_all = "snake_case")]
pub enum KnobRange {
    /// Any non-empty subset of these.
    Cpus {
        /// The CPUs that the group's parent has.
        within: CpuSet,
        /// Whether sets must not overlap those of siblings (`cpu_exclusive`, partitions).
        exclusive: bool,
    },
    /// CPU bandwidth.
    Bandwidth {
        /// Smallest quota of one period, in microseconds.
        min_quota_us: u64,
        /// Shortest period, in microseconds.
        min_period_us: u64,
        /// Longest period, in microseconds.
        max_period_us: u64,
    },
    /// A weight.
    Weight {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// On or off.
    Flag,
    /// A rate up to the link's capacity.
    Rate {
        /// Smallest that the shaper takes.
        min: BytesPerSecond,
    },
    /// A mask of contiguous ways (or any, where `sparse`).
    Ways {
        /// All ways.
        full: u64,
        /// Fewest bits.
        min_bits: u32,
        /// Whether holes are allowed.
        sparse: bool,
        /// Ways that others (I/O) share.
        shareable: u64,
        /// Classes of service in all.
        classes: u32,
    },
    /// Percent in steps.
    Percent {
        /// Smallest.
        min: u32,
        /// Step.
        step: u32,
    },
    /// Frequencies.
    Frequency {
        /// Lowest.
        min: Kilohertz,
        /// Highest.
        max: Kilohertz,
    },
    /// Parts of the time in which a clock runs: 1 to `parts`.
    Duty {
        /// Into how many parts time is cut: 8 or 16.
        parts: u32,
    },
    /// Any non-empty subset of these nodes.
    Nodes {
        /// The nodes that the group's parent has.
        within: CpuSet,
    },
}
