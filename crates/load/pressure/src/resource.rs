//! The shared resources that a kernel can press on.

use crate::PressureError;
use facts::{FACTS, Facts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

mod facts;

/// A shared resource (numbers as in B-2).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// 1: memory to be had.
    MemoryCapacity,
    /// 2: sustained memory bandwidth.
    MemoryBandwidth,
    /// 3: room on a disk.
    StorageCapacity,
    /// 4: bandwidth of a disk.
    StorageBandwidth,
    /// 5: bandwidth of a network link, outgoing.
    NetworkBandwidth,
    /// 6: capacity of the last-level cache.
    LlcCapacity,
    /// 7: bandwidth of the last-level cache.
    LlcBandwidth,
    /// 6': capacity of a core's second-level cache.
    L2Capacity,
    /// 7': bandwidth of a core's second-level cache.
    L2Bandwidth,
    /// 8: a core's first-level instruction cache.
    L1Instruction,
    /// 9: a core's first-level data cache.
    L1Data,
    /// 10: a core's translations of addresses.
    Tlb,
    /// 11: the integer units of a core.
    Integer,
    /// 12: the scalar floating-point units of a core.
    FloatingPoint,
    /// 13: a core's prefetchers and branch predictor.
    Prefetcher,
    /// 14: what carries cache lines from core to core.
    Interconnect,
    /// 15: the vector units of a core.
    Vector,
    /// The power and heat budget of the socket.
    PowerVirus,
    /// The other hardware thread of a core.
    SmtSibling,
    /// The kernel's page faults and locks.
    PageFaults,
    /// The memory bus of a socket, which locked accesses across lines stop.
    BusLock,
}

/// What a kernel counts as its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Accesses to memory, one cache line each.
    Accesses,
    /// Bytes read and written, or acknowledged by the peer.
    Bytes,
    /// Machine instructions that compute.
    Operations,
    /// Cache lines handed from one core to another.
    Messages,
    /// Pages that the kernel brought in.
    Faults,
}

/// What intensity scales (B-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scales {
    /// The share of time at work, in slices of each thread's own.
    Time,
    /// The same, in slices that begin at the same moments for all threads.
    TogetherInTime,
    /// The kernel scales itself, a footprint or the pace of its flows, and works all the time.
    Itself,
}

impl Resource {
    /// All of them, in the order of B-2.
    pub const ALL: [Resource; 21] = [
        Resource::MemoryCapacity,
        Resource::MemoryBandwidth,
        Resource::StorageCapacity,
        Resource::StorageBandwidth,
        Resource::NetworkBandwidth,
        Resource::LlcCapacity,
        Resource::LlcBandwidth,
        Resource::L2Capacity,
        Resource::L2Bandwidth,
        Resource::L1Instruction,
        Resource::L1Data,
        Resource::Tlb,
        Resource::Integer,
        Resource::FloatingPoint,
        Resource::Prefetcher,
        Resource::Interconnect,
        Resource::Vector,
        Resource::PowerVirus,
        Resource::SmtSibling,
        Resource::PageFaults,
        Resource::BusLock,
    ];

    fn facts(self) -> &'static Facts {
        // The table names every resource once, in order of ALL: a test holds it to that.
        &FACTS[Self::ALL.iter().position(|&r| r == self).unwrap_or(0)]
    }

    /// Its name, as in commands and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Other names that commands understand.
    #[must_use]
    pub fn aliases(self) -> &'static [&'static str] {
        self.facts().aliases
    }

    /// What its kernel does, in plain words.
    #[must_use]
    pub fn words(self) -> &'static str {
        self.facts().words
    }

    /// What its kernel counts.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.facts().unit
    }

    /// Its number in B-2, which is also its code in a feed; those that B-2 does not have follow
    /// from 16.
    #[must_use]
    pub fn number(self) -> u64 {
        self.facts().number
    }

    /// The resource of this number.
    pub(crate) fn of_number(number: u64) -> Option<Resource> {
        Self::ALL.into_iter().find(|r| r.number() == number)
    }

    /// Whether intensity is a share of time. If not, the kernel itself scales: a footprint, or the
    /// pace of its flows.
    #[must_use]
    pub fn works_by_time(self) -> bool {
        self.scales() != Scales::Itself
    }

    /// Whether who uses it waits for it without using a CPU: links and disks.
    #[must_use]
    pub fn makes_wait(self) -> bool {
        use Resource::{NetworkBandwidth, StorageBandwidth, StorageCapacity};
        matches!(self, NetworkBandwidth | StorageBandwidth | StorageCapacity)
    }

    /// What intensity scales.
    pub(crate) fn scales(self) -> Scales {
        self.facts().scales
    }
}

impl Unit {
    /// Its name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unit::Accesses => "accesses",
            Unit::Bytes => "bytes",
            Unit::Operations => "operations",
            Unit::Messages => "messages",
            Unit::Faults => "faults",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Resource {
    type Err = PressureError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let called = |f: &&Facts| f.name == text || f.aliases.contains(&text);
        let found = FACTS.iter().find(called).map(|f| f.resource);
        found.ok_or_else(|| PressureError::UnknownResource(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_numbers_lead_back() {
        for resource in Resource::ALL {
            assert_eq!(resource.facts().resource, resource, "the table follows ALL");
            for name in resource.aliases().iter().chain([&resource.name()]) {
                assert_eq!(name.parse::<Resource>().unwrap(), resource);
            }
            assert_eq!(Resource::of_number(resource.number()), Some(resource));
            assert_eq!(
                serde_json::to_value(resource).unwrap(),
                serde_json::Value::from(resource.name())
            );
            assert_eq!(
                serde_json::to_value(resource.unit()).unwrap(),
                serde_json::Value::from(resource.unit().name())
            );
        }
        let none = "disc".parse::<Resource>().unwrap_err().to_string();
        assert!(none.contains("power-virus"), "the error names them all: {none}");
    }

    #[test]
    fn nothing_is_named_twice() {
        let names = || FACTS.iter().flat_map(|f| f.aliases.iter().chain([&f.name]));
        assert_eq!(names().collect::<BTreeSet<_>>().len(), names().count());
    }
}
