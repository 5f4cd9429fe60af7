//! `quell tune`: what a program is hurt by and what it causes, ranked, in plain words (B-E8).

use crate::Profile;
use quell_pressure::Resource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of [`Tuning`]'s schema.
pub const TUNE_SCHEMA: &str = "quell.tune/1";

/// One resource of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// Which.
    pub resource: Resource,
    /// In plain words.
    pub name: String,
    /// What the program loses of its speed under full pressure on it, in percent.
    pub loses_percent: f64,
    /// What it costs a neighbour that lives off it, in percent; null where that was not measured.
    pub causes_percent: Option<f64>,
    /// Whether the interval of either excludes nothing at all.
    pub certain: bool,
    /// What usually helps.
    pub hint: String,
}

/// A program's resources, the most telling first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tuning {
    /// `quell.tune/1`.
    pub schema: String,
    /// The program.
    pub program: String,
    /// By what it loses and causes together, falling.
    pub advice: Vec<Advice>,
    /// What was not measured, and why.
    pub absent: BTreeMap<Resource, String>,
}

/// Ranks a profile.
#[must_use]
pub fn tune(profile: &Profile) -> Tuning {
    let mut advice: Vec<Advice> =
        profile.tolerated.keys().map(|resource| one(profile, *resource)).collect();
    let weight = |a: &Advice| a.loses_percent + a.causes_percent.unwrap_or(0.0);
    advice.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.resource.cmp(&b.resource)));
    let program = profile.workload.name.clone();
    let absent = profile.absent.clone();
    Tuning { schema: TUNE_SCHEMA.to_owned(), program, advice, absent }
}

fn one(profile: &Profile, resource: Resource) -> Advice {
    let caused = profile.caused.get(&resource);
    let worst = profile.curves.get(&resource).and_then(|points| points.last());
    let hurt = worst.is_some_and(|point| point.speed_frac.high < 1.0);
    let (name, hint) = words(resource);
    Advice {
        resource,
        name: name.to_owned(),
        loses_percent: 100.0 * (1.0 - profile.curve(resource).at(100.0)),
        causes_percent: caused.map(|caused| caused.value),
        certain: hurt || caused.is_some_and(|caused| caused.low > 0.0),
        hint: hint.to_owned(),
    }
}

fn words(resource: Resource) -> (&'static str, &'static str) {
    match resource {
        Resource::MemoryCapacity => {
            ("room in memory", "smaller types; free early; do not keep what can be made again")
        }
        Resource::MemoryBandwidth => (
            "traffic to memory",
            "smaller types; walk arrays in their order; block loops so that data is used again \
             while it is in the cache",
        ),
        Resource::StorageCapacity => {
            ("room on the disk", "compress; remove what is not read again")
        }
        Resource::StorageBandwidth => {
            ("traffic to the disk", "larger requests in order; buffer; read what is needed only")
        }
        Resource::NetworkBandwidth => ("the network", "compress; batch; ask for less"),
        Resource::LlcCapacity => (
            "room in the shared cache",
            "a smaller working set: smaller types, fields together that are used together, \
             blocked loops",
        ),
        Resource::LlcBandwidth => (
            "traffic to the shared cache",
            "use a cache line whole before the next; keep sums in registers",
        ),
        Resource::L2Capacity => {
            ("room in the core's second cache", "block loops to half of its size")
        }
        Resource::L2Bandwidth => {
            ("traffic to the core's second cache", "use a cache line whole; keep sums in registers")
        }
        Resource::L1Instruction => {
            ("room for code", "smaller hot loops; move what is rare out of line")
        }
        Resource::L1Data => ("room in the core's first cache", "small tables; block inner loops"),
        Resource::Tlb => ("address translations", "huge pages; dense data in place of many pages"),
        Resource::Integer => ("integer units", "less work: remember results; tables; vector code"),
        Resource::FloatingPoint => {
            ("floating-point units", "vector code; fewer divisions and roots")
        }
        Resource::Vector => ("vector units", "smaller types give more values an instruction"),
        Resource::Prefetcher => ("prefetchers", "walk memory in order, few streams at once"),
        Resource::Interconnect => {
            ("messages between cores", "let each core own its data; no counters shared by all")
        }
        Resource::PowerVirus => ("power", "it follows the clock: little but less work helps"),
        Resource::SmtSibling => ("the other hardware thread", "leave it idle"),
        Resource::PageFaults => {
            ("page faults", "allocate once and use again; huge pages; no map and unmap in loops")
        }
        Resource::BusLock => ("bus locks", "align what is shared"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_resource_has_words_of_its_own() {
        let names: BTreeSet<&str> = Resource::ALL.iter().map(|r| words(*r).0).collect();
        assert_eq!(names.len(), Resource::ALL.len());
        assert!(Resource::ALL.iter().all(|r| !words(*r).1.is_empty()));
    }
}
