//! Which resources workload and pressure share on a machine, and why the others are left out.

use super::ProfileOptions;
use quell_pressure::Resource;
use quell_types::{CacheKind, CpuSet, Topology};
use std::collections::BTreeMap;

/// What a quick profile measures.
pub const QUICK: [Resource; 3] =
    [Resource::LlcCapacity, Resource::MemoryBandwidth, Resource::NetworkBandwidth];

/// The resources to measure, and those left out with the reason. What is asked for by name is
/// measured if it can be.
#[must_use]
pub fn scope(
    options: &ProfileOptions,
    topology: &Topology,
) -> (Vec<Resource>, BTreeMap<Resource, String>) {
    let (mut measured, mut absent) = (Vec::new(), BTreeMap::new());
    for resource in Resource::ALL {
        let named = options.only.contains(&resource);
        let reason = match why_not(resource, options, topology) {
            Some(why) => Some(why),
            None if named => None,
            None if !options.only.is_empty() => Some("not asked for".to_owned()),
            None if options.quick && !QUICK.contains(&resource) => {
                Some("a quick profile leaves it out".to_owned())
            }
            None => by_name_only(resource),
        };
        match reason {
            Some(why) => drop(absent.insert(resource, why)),
            None => measured.push(resource),
        }
    }
    (measured, absent)
}

/// What would take more of the machine than a measurement should without being asked.
fn by_name_only(resource: Resource) -> Option<String> {
    let what = match resource {
        Resource::MemoryCapacity => "memory",
        Resource::StorageCapacity => "disk",
        _ => return None,
    };
    Some(format!("it fills the {what}: name it with --only"))
}

/// Why it cannot be measured here at all.
fn why_not(resource: Resource, options: &ProfileOptions, topology: &Topology) -> Option<String> {
    let seats = &options.seats;
    let private = || {
        let shared = seats.same_core || siblings(&seats.workload, &seats.pressure, topology);
        (!shared).then(|| {
            "each core has its own, and the pressure's CPU is no hardware thread of the workload's: \
             --same-core shares one by time"
                .to_owned()
        })
    };
    match resource {
        Resource::BusLock => Some("it stops all tenants of the socket".to_owned()),
        Resource::Interconnect if seats.pressure.len() < 2 => {
            Some("its messages need two CPUs beside the workload's".to_owned())
        }
        Resource::SmtSibling if seats.same_core => {
            Some("one CPU is no pair of hardware threads".to_owned())
        }
        Resource::L2Capacity | Resource::L2Bandwidth if shares_l2(seats, topology) => None,
        Resource::L1Instruction
        | Resource::L1Data
        | Resource::L2Capacity
        | Resource::L2Bandwidth
        | Resource::Tlb
        | Resource::Integer
        | Resource::FloatingPoint
        | Resource::Vector
        | Resource::Prefetcher
        | Resource::SmtSibling => private(),
        _ => None,
    }
}

fn siblings(workload: &CpuSet, pressure: &CpuSet, topology: &Topology) -> bool {
    pressure.iter().any(|cpu| !topology.siblings(cpu).is_disjoint(workload))
}

fn shares_l2(seats: &crate::Seats, topology: &Topology) -> bool {
    let both =
        |cpus: &CpuSet| !cpus.is_disjoint(&seats.workload) && !cpus.is_disjoint(&seats.pressure);
    let l2 = topology.caches.iter().filter(|c| c.level == 2 && c.kind != CacheKind::Instruction);
    l2.into_iter().any(|cache| both(&cache.cpus))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seats;
    use quell_pressure::Options;
    use quell_types::Cpu;

    fn options(pressure: &str, same_core: bool) -> ProfileOptions {
        let workload: CpuSet = "0".parse().unwrap();
        let pressure = if same_core { workload.clone() } else { pressure.parse().unwrap() };
        ProfileOptions {
            only: Vec::new(),
            quick: false,
            threshold: 0.95,
            effort: None,
            within: None,
            yardsticks: false,
            witnesses: false,
            seats: Seats { workload, pressure, same_core },
            pressure: Options::new(Resource::Integer),
        }
    }

    /// Four CPUs; the first two are one core where there are hardware threads.
    fn machine(smt: bool) -> Topology {
        let cpu = |id: u32| Cpu { id, socket: 0, core: if smt { id / 2 } else { id }, node: 0 };
        Topology { cpus: (0..4).map(cpu).collect(), ..Topology::default() }
    }

    #[test]
    fn what_a_core_has_for_itself_needs_a_sibling() {
        for (pressure, smt, same_core, there) in [
            ("1", false, false, false),
            ("1", true, false, true),
            ("2", true, false, false),
            ("0", false, true, true),
        ] {
            let (measured, absent) = scope(&options(pressure, same_core), &machine(smt));
            for private in [Resource::Integer, Resource::L1Data, Resource::Tlb] {
                assert_eq!(measured.contains(&private), there, "{private} {pressure} {smt}");
                assert_eq!(absent.contains_key(&private), !there);
            }
            assert!(measured.contains(&Resource::MemoryBandwidth));
            assert!(absent.contains_key(&Resource::BusLock), "never");
            assert_eq!(measured.len() + absent.len(), Resource::ALL.len(), "none is forgotten");
        }
    }

    #[test]
    fn a_quick_one_is_short_and_the_rest_by_name() {
        let quick = ProfileOptions { quick: true, ..options("1", false) };
        assert_eq!(scope(&quick, &machine(false)).0.len(), QUICK.len());
        let memory = Resource::MemoryCapacity;
        assert!(scope(&options("1", false), &machine(false)).1[&memory].contains("--only"));
        let named = ProfileOptions { only: vec![memory], ..options("1", false) };
        assert_eq!(scope(&named, &machine(false)).0, [memory]);
    }

    #[test]
    fn messages_need_two_cpus() {
        let ring = Resource::Interconnect;
        assert!(!scope(&options("1", false), &machine(false)).0.contains(&ring));
        assert!(scope(&options("2-3", false), &machine(false)).0.contains(&ring));
    }
}
