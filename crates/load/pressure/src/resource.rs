//! The shared resources that a kernel can press on.

use crate::PressureError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A shared resource (numbers as in B-2).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// 2: sustained memory bandwidth.
    MemoryBandwidth,
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

/// All there is to know of a resource.
struct Facts {
    resource: Resource,
    name: &'static str,
    aliases: &'static [&'static str],
    number: u64,
    unit: Unit,
    scales: Scales,
    words: &'static str,
}

/// In the order of B-2; those that it does not have are numbered from 16.
const FACTS: [Facts; Resource::ALL.len()] = [
    Facts {
        resource: Resource::MemoryBandwidth,
        name: "memory-bandwidth",
        aliases: &["membw"],
        number: 2,
        unit: Unit::Bytes,
        scales: Scales::Time,
        words: "reads and writes a stream through memory, as much as the channels carry",
    },
    Facts {
        resource: Resource::NetworkBandwidth,
        name: "network-bandwidth",
        aliases: &["network", "net"],
        number: 5,
        unit: Unit::Bytes,
        scales: Scales::Itself,
        words: "fills a network link with several TCP flows",
    },
    Facts {
        resource: Resource::LlcCapacity,
        name: "llc-capacity",
        aliases: &["llc"],
        number: 6,
        unit: Unit::Accesses,
        scales: Scales::Itself,
        words: "keeps a part of the last-level cache full of its own lines",
    },
    Facts {
        resource: Resource::LlcBandwidth,
        name: "llc-bandwidth",
        aliases: &["llcbw"],
        number: 7,
        unit: Unit::Bytes,
        scales: Scales::Time,
        words: "streams through a part of the last-level cache, as fast as it delivers",
    },
    Facts {
        resource: Resource::L2Capacity,
        name: "l2-capacity",
        aliases: &["l2"],
        number: 16,
        unit: Unit::Accesses,
        scales: Scales::Itself,
        words: "keeps a part of a core's second-level cache full of its own lines",
    },
    Facts {
        resource: Resource::L2Bandwidth,
        name: "l2-bandwidth",
        aliases: &["l2bw"],
        number: 17,
        unit: Unit::Bytes,
        scales: Scales::Time,
        words: "streams through a part of the second-level cache, as fast as it delivers",
    },
    Facts {
        resource: Resource::L1Instruction,
        name: "l1-instruction",
        aliases: &["l1i"],
        number: 8,
        unit: Unit::Accesses,
        scales: Scales::Itself,
        words: "runs straight-line code that fills a part of the instruction cache",
    },
    Facts {
        resource: Resource::L1Data,
        name: "l1-data",
        aliases: &["l1d"],
        number: 9,
        unit: Unit::Accesses,
        scales: Scales::Itself,
        words: "keeps a part of the first-level data cache full of its own lines",
    },
    Facts {
        resource: Resource::Tlb,
        name: "tlb",
        aliases: &[],
        number: 10,
        unit: Unit::Accesses,
        scales: Scales::Itself,
        words: "touches one word a page over more pages than the TLB knows",
    },
    Facts {
        resource: Resource::Integer,
        name: "integer",
        aliases: &["int", "cpu"],
        number: 11,
        unit: Unit::Operations,
        scales: Scales::Time,
        words: "keeps a core's integer units busy",
    },
    Facts {
        resource: Resource::FloatingPoint,
        name: "floating-point",
        aliases: &["fp", "float"],
        number: 12,
        unit: Unit::Operations,
        scales: Scales::Time,
        words: "keeps a core's scalar floating-point units busy",
    },
    Facts {
        resource: Resource::Prefetcher,
        name: "prefetcher",
        aliases: &["prefetch"],
        number: 13,
        unit: Unit::Accesses,
        scales: Scales::Time,
        words: "begins streams and breaks them off, so that wrong lines are prefetched",
    },
    Facts {
        resource: Resource::Interconnect,
        name: "interconnect",
        aliases: &["ring"],
        number: 14,
        unit: Unit::Messages,
        scales: Scales::TogetherInTime,
        words: "hands cache lines from core to core, many at once",
    },
    Facts {
        resource: Resource::Vector,
        name: "vector",
        aliases: &["simd"],
        number: 15,
        unit: Unit::Operations,
        scales: Scales::Time,
        words: "keeps a core's widest vector units busy",
    },
    Facts {
        resource: Resource::PowerVirus,
        name: "power-virus",
        aliases: &["power"],
        number: 18,
        unit: Unit::Operations,
        scales: Scales::Time,
        words: "draws as much power as instructions can, so that the socket lowers its clock",
    },
];

impl Resource {
    /// All of them, in the order of B-2.
    pub const ALL: [Resource; 15] = [
        Resource::MemoryBandwidth,
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
