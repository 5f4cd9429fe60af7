//! NUMA nodes and memory.

use crate::text::Tree;
use quell_types::{CpuSet, NumaNode};
use std::collections::BTreeMap;

const DIR: &str = "sys/devices/system/node";

/// All memory in bytes (`MemTotal`).
pub(crate) fn total_memory(tree: &Tree) -> Option<u64> {
    memory_total(&tree.text("proc/meminfo")?)
}

/// `MemTotal:  123 kB`, with or without `Node N` before it, in bytes.
pub(crate) fn memory_total(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("MemTotal:")?;
    rest.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The node of each CPU.
pub(crate) fn node_by_cpu(tree: &Tree) -> BTreeMap<u32, u32> {
    let mut nodes = BTreeMap::new();
    for id in tree.numbered(DIR, "node") {
        let cpus = tree.cpu_list(&format!("{DIR}/node{id}/cpulist")).unwrap_or_default();
        nodes.extend(cpus.iter().map(|cpu| (cpu, id)));
    }
    nodes
}

/// All nodes; one with everything if the kernel names none.
pub(crate) fn read(tree: &Tree, online: &CpuSet, all_memory: u64) -> Vec<NumaNode> {
    let ids = tree.numbered(DIR, "node");
    if ids.is_empty() {
        let cpus = online.clone();
        return vec![NumaNode { id: 0, cpus, memory_bytes: all_memory, distances: vec![10] }];
    }
    ids.iter().map(|&id| one(tree, id, online)).collect()
}

fn one(tree: &Tree, id: u32, online: &CpuSet) -> NumaNode {
    let file = |name: &str| tree.text(&format!("{DIR}/node{id}/{name}")).unwrap_or_default();
    let cpus: CpuSet = file("cpulist").parse().unwrap_or_default();
    let distances = file("distance");
    NumaNode {
        id,
        cpus: cpus.intersection(online),
        memory_bytes: memory_total(&file("meminfo")).unwrap_or(0),
        distances: distances.split_ascii_whitespace().map_while(|d| d.parse().ok()).collect(),
    }
}
