//! The shape of the machine, as far as it tells.

use crate::{Bytes, CpuSet, Reading};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One logical CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// The kernel's number.
    pub id: u32,
    /// Socket (physical package).
    pub socket: u32,
    /// Core within the socket; CPUs with equal socket and core are SMT siblings.
    pub core: u32,
    /// NUMA node.
    pub node: u32,
}

/// What a cache holds.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// A cache that one CPU sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Capacity.
    pub size_bytes: u64,
    /// Line size in bytes.
    pub line_bytes: u32,
    /// Associativity; none if the kernel does not tell.
    pub ways: Option<u32>,
    /// The CPUs that share it.
    pub cpus: CpuSet,
}

/// A group of CPUs behind one last-level cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LlcDomain {
    /// The kernel's cache id (the domain id of resctrl), else its rank.
    pub id: u32,
    /// CPUs that share it.
    pub cpus: CpuSet,
    /// Capacity.
    pub size_bytes: u64,
    /// Associativity; none if unknown.
    pub ways: Option<u32>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NumaNode {
    /// The kernel's number.
    pub id: u32,
    /// Its CPUs (may be none).
    pub cpus: CpuSet,
    /// Its memory.
    pub memory_bytes: u64,
    /// Distances to all nodes in the order of their ids; 10 is local.
    pub distances: Vec<u32>,
}

/// The machine. An empty `llc` means that the kernel tells nothing of caches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// The processor's name.
    pub model: String,
    /// Online CPUs in rising order.
    pub cpus: Vec<Cpu>,
    /// All caches, each once, nearest first.
    pub caches: Vec<Cache>,
    /// Last-level cache domains.
    pub llc: Vec<LlcDomain>,
    /// NUMA nodes; one if the machine has none.
    pub nodes: Vec<NumaNode>,
    /// All memory.
    pub memory_bytes: u64,
    /// The hypervisor's name; none on bare metal.
    pub hypervisor: Option<String>,
}

impl Topology {
    /// All online CPUs.
    #[must_use]
    pub fn online(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// Number of sockets.
    #[must_use]
    pub fn sockets(&self) -> usize {
        let sockets: std::collections::BTreeSet<u32> = self.cpus.iter().map(|c| c.socket).collect();
        sockets.len()
    }

    /// `cpu` and the hardware threads that share its core.
    #[must_use]
    pub fn siblings(&self, cpu: u32) -> CpuSet {
        let Some(me) = self.cpus.iter().find(|c| c.id == cpu) else { return CpuSet::new() };
        let same = |c: &&Cpu| c.socket == me.socket && c.core == me.core;
        self.cpus.iter().filter(same).map(|c| c.id).collect()
    }

    /// Whether any core has more than one hardware thread.
    #[must_use]
    pub fn has_smt(&self) -> bool {
        self.cpus.iter().any(|c| self.siblings(c.id).len() > 1)
    }

    /// The last-level cache domain of a CPU.
    #[must_use]
    pub fn llc_of(&self, cpu: u32) -> Option<&LlcDomain> {
        self.llc.iter().find(|domain| domain.cpus.contains(cpu))
    }

    /// The data or unified cache of this level that `cpu` sees, with a reason if unknown.
    pub fn cache(&self, cpu: u32, level: u32) -> Reading<&Cache> {
        let fits = |c: &&Cache| {
            c.level == level && c.kind != CacheKind::Instruction && c.cpus.contains(cpu)
        };
        self.caches
            .iter()
            .find(fits)
            .ok_or_else(|| crate::Gap::absent(format!("no level {level} cache known of CPU {cpu}")))
    }

    /// All memory as a quantity.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        Bytes(self.memory_bytes)
    }
}
