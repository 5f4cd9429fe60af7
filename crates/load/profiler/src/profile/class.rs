//! What kind of neighbour a workload is, as far as the signals allow (U-6, U-8, V-5).
//!
//! Sheep, rabbit and devil want three signals: what a workload loses beside a devil, what it costs
//! others, and how often it misses the last-level cache. The last needs hardware counters. Without
//! them the loss that it causes in memory bandwidth or the last-level cache stands in, and the
//! report says so. The classes of Virtual Platforms rest on misses alone: without counters there
//! are none.

use quell_pressure::Resource;
use quell_types::Topology;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// U-8: who costs others more than this is a devil, in percent.
const DEVIL_CAUSES: f64 = 10.0;
/// U-8: who loses more than this beside a devil is a rabbit, in percent.
const RABBIT_LOSES: f64 = 15.0;
/// What CPUs share that have no thread of one core in common: who presses on these is a devil, and they are the
/// bubbles of a prediction.
pub const SHARED_BY_CPUS: [Resource; 3] =
    [Resource::LlcCapacity, Resource::LlcBandwidth, Resource::MemoryBandwidth];

/// Xie and Loh's animals, without the turtle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Animal {
    /// Gentle, and hardly hurt.
    Sheep,
    /// Easily hurt.
    Rabbit,
    /// Hurts others.
    Devil,
}

/// The class of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Class {
    /// Which animal; null where the signals do not tell.
    pub animal: Option<Animal>,
    /// What it lost at most under full pressure on the shared cache or memory, in percent.
    pub loses_percent: Option<f64>,
    /// What it cost the kernels there at most, in percent.
    pub causes_percent: Option<f64>,
    /// The signals that were used.
    pub signals: Vec<String>,
    /// Classes that cannot be told here, and why.
    pub absent: BTreeMap<String, String>,
}

impl Class {
    /// From the losses suffered and caused in percent, by resource.
    #[must_use]
    pub fn of(worst: &BTreeMap<Resource, (f64, Option<f64>)>, topology: &Topology) -> Class {
        let here = || SHARED_BY_CPUS.iter().filter_map(|resource| worst.get(resource));
        let loses_percent = here().map(|(loses, _)| *loses).reduce(f64::max);
        let causes_percent = here().filter_map(|(_, causes)| *causes).reduce(f64::max);
        let mut class = Class { loses_percent, causes_percent, ..Class::default() };
        class.judge();
        class.say_what_is_missing(topology);
        class
    }

    fn judge(&mut self) {
        if self.causes_percent.is_some() {
            self.signals.push(
                "loss caused to the kernels of the shared cache and of memory bandwidth, in place \
                 of misses per instruction"
                    .to_owned(),
            );
        }
        if self.loses_percent.is_some() {
            self.signals.push("loss under full pressure on the same".to_owned());
        }
        self.animal = match (self.loses_percent, self.causes_percent) {
            (_, Some(causes)) if causes > DEVIL_CAUSES => Some(Animal::Devil),
            (Some(loses), _) if loses > RABBIT_LOSES => Some(Animal::Rabbit),
            (Some(_), Some(_)) => Some(Animal::Sheep),
            _ => None,
        };
    }

    fn say_what_is_missing(&mut self, topology: &Topology) {
        let counters = "it rests on cache misses per instruction, which were not counted";
        self.absent.insert("virtual_platform".to_owned(), counters.to_owned());
        let remote = if topology.nodes.len() < 2 {
            "the machine has one memory node"
        } else {
            "it was not run with remote memory"
        };
        self.absent.insert("remote_sensitivity".to_owned(), remote.to_owned());
        if self.animal.is_none() {
            let why = "what it causes is not known, since it was not stopped to compare";
            self.absent.insert("animal".to_owned(), why.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn animals_by_their_thresholds() {
        for (loses, causes, animal) in [
            (5.0, Some(5.0), Some(Animal::Sheep)),
            (20.0, Some(5.0), Some(Animal::Rabbit)),
            (5.0, Some(20.0), Some(Animal::Devil)),
            (40.0, Some(20.0), Some(Animal::Devil)),
            (15.0, Some(10.0), Some(Animal::Sheep)),
            (20.0, None, Some(Animal::Rabbit)),
            (5.0, None, None),
        ] {
            let worst = [(Resource::MemoryBandwidth, (loses, causes))].into_iter().collect();
            let class = Class::of(&worst, &Topology::default());
            assert_eq!(class.animal, animal, "{loses} {causes:?}");
            assert_eq!(class.absent.contains_key("animal"), animal.is_none());
            assert!(!class.signals.is_empty());
        }
        let unknown = Class::of(&BTreeMap::new(), &Topology::default());
        assert_eq!((unknown.animal, unknown.signals.len()), (None, 0));
    }
}
