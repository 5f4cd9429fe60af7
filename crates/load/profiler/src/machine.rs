//! What a measurement was made on: figures of one machine say little of another.

use quell_types::Topology;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine's fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The processor's name.
    pub model: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Whether cores are told to have several hardware threads.
    pub smt: bool,
    /// NUMA nodes.
    pub nodes: u32,
    /// All last-level caches together, as the kernel tells.
    pub llc_bytes: u64,
    /// The second-level cache of the first CPU; 0 if unknown.
    pub l2_bytes: u64,
    /// All memory.
    pub memory_bytes: u64,
    /// The hypervisor's name; null on bare metal.
    pub hypervisor: Option<String>,
    /// The kernel's release.
    pub kernel: String,
    /// A hash of all of the above but the kernel: equal machines, equal fingerprints.
    pub fingerprint: String,
}

impl Machine {
    /// Of a machine of this shape.
    #[must_use]
    pub fn of(topology: &Topology) -> Machine {
        let first = topology.cpus.first().map_or(0, |cpu| cpu.id);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mut machine = Machine {
            model: topology.model.clone(),
            cpus: count(topology.cpus.len()),
            smt: topology.has_smt(),
            nodes: count(topology.nodes.len()),
            llc_bytes: topology.llc.iter().map(|llc| llc.size_bytes).sum(),
            l2_bytes: topology.cache(first, 2).map_or(0, |cache| cache.size_bytes),
            memory_bytes: topology.memory_bytes,
            hypervisor: topology.hypervisor.clone(),
            ..Machine::default()
        };
        machine.fingerprint = format!("{:016x}", hash(&format!("{machine:?}")));
        machine.kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        machine
    }
}

/// FNV-1a: the same on every machine and in every version.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_machines_have_equal_fingerprints() {
        let topology = Topology { memory_bytes: 1 << 30, ..Topology::default() };
        let other = Topology { memory_bytes: 1 << 31, ..Topology::default() };
        assert_eq!(Machine::of(&topology), Machine::of(&topology));
        assert_ne!(Machine::of(&topology).fingerprint, Machine::of(&other).fingerprint);
        assert!(!Machine::of(&topology).kernel.is_empty());
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c, "FNV-1a as published");
    }
}
