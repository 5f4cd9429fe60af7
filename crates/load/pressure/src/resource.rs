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
    /// 11: the integer units of a core.
    Integer,
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
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 4] = [
        Resource::LlcCapacity,
        Resource::MemoryBandwidth,
        Resource::Integer,
        Resource::NetworkBandwidth,
    ];

    /// Its name, as in commands and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Resource::MemoryBandwidth => "memory-bandwidth",
            Resource::NetworkBandwidth => "network-bandwidth",
            Resource::LlcCapacity => "llc-capacity",
            Resource::Integer => "integer",
        }
    }

    /// What its kernel counts.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Resource::MemoryBandwidth | Resource::NetworkBandwidth => Unit::Bytes,
            Resource::LlcCapacity => Unit::Accesses,
            Resource::Integer => Unit::Operations,
        }
    }

    /// Its number in B-2, which is also its code in a feed.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Resource::MemoryBandwidth => 2,
            Resource::NetworkBandwidth => 5,
            Resource::LlcCapacity => 6,
            Resource::Integer => 11,
        }
    }

    /// The resource of this number.
    pub(crate) fn of_number(number: u64) -> Option<Resource> {
        Self::ALL.into_iter().find(|r| r.number() == number)
    }

    /// Whether intensity is a share of time. If not, the kernel itself scales: a footprint, or the
    /// pace of its flows.
    #[must_use]
    pub fn works_by_time(self) -> bool {
        matches!(self, Resource::MemoryBandwidth | Resource::Integer)
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
        match text {
            "llc" | "llc-capacity" => Ok(Resource::LlcCapacity),
            "membw" | "memory-bandwidth" => Ok(Resource::MemoryBandwidth),
            "cpu" | "int" | "integer" => Ok(Resource::Integer),
            "net" | "network" | "network-bandwidth" => Ok(Resource::NetworkBandwidth),
            _ => Err(PressureError::UnknownResource(text.chars().take(40).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back() {
        for resource in Resource::ALL {
            assert_eq!(resource.name().parse::<Resource>().unwrap(), resource);
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
        assert!("disk".parse::<Resource>().is_err());
    }
}
