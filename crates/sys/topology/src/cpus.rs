//! Logical CPUs with their socket, core and node.

use crate::cpuinfo::CpuInfo;
use crate::nodes;
use crate::text::Tree;
use quell_types::{Cpu, CpuSet};
use std::collections::BTreeMap;

const DIR: &str = "sys/devices/system/cpu";
/// Where the kernel lists the CPUs that are online.
pub(crate) const ONLINE: &str = "sys/devices/system/cpu/online";

/// A CPU with the first CPU of its core.
struct Placed {
    cpu: Cpu,
    leader: u32,
}

/// Online CPUs in rising order.
pub(crate) fn read(tree: &Tree, info: &CpuInfo) -> Vec<Cpu> {
    let node_of = nodes::node_by_cpu(tree);
    let placed: Vec<Placed> =
        online(tree, info).iter().map(|id| place(tree, info, &node_of, id)).collect();
    distinct_cores(placed)
}

/// From sysfs; else, with less and less to go by, the CPUs of cpuinfo and of `/proc/stat`.
fn online(tree: &Tree, info: &CpuInfo) -> CpuSet {
    let listed = tree.cpu_list(ONLINE).unwrap_or_default();
    if !listed.is_empty() {
        return listed;
    }
    let in_info: CpuSet = info.cpus().collect();
    if !in_info.is_empty() {
        return in_info;
    }
    let dirs: CpuSet = tree.numbered(DIR, "cpu").into_iter().collect();
    if !dirs.is_empty() {
        return dirs;
    }
    let stat = tree.text("proc/stat").unwrap_or_default();
    crate::stat::by_cpu(&stat).unwrap_or_default().into_iter().map(|(cpu, _)| cpu).collect()
}

fn place(tree: &Tree, info: &CpuInfo, node_of: &BTreeMap<u32, u32>, id: u32) -> Placed {
    let topology = format!("{DIR}/cpu{id}/topology");
    // ARM firmware without a PPTT table says -1, which is no number here: one socket.
    let socket = tree
        .number::<u32>(&format!("{topology}/physical_package_id"))
        .or_else(|| info.number(id, "physical id"))
        .unwrap_or(0);
    let core = tree
        .number::<u32>(&format!("{topology}/core_id"))
        .or_else(|| info.number(id, "core id"))
        .unwrap_or(id);
    let siblings = ["core_cpus_list", "thread_siblings_list"]
        .iter()
        .find_map(|file| tree.cpu_list(&format!("{topology}/{file}")));
    let leader = siblings.and_then(|set| set.iter().next()).unwrap_or(id);
    let node = node_of.get(&id).copied().unwrap_or(0);
    Placed { cpu: Cpu { id, socket, core, node }, leader }
}

/// The kernel's core ids are unique within a die only, and some firmware repeats them. Where two
/// cores of one socket share an id, all cores are named by their first CPU instead.
fn distinct_cores(placed: Vec<Placed>) -> Vec<Cpu> {
    let mut leaders: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let clash = placed.iter().any(|p| {
        let known = *leaders.entry((p.cpu.socket, p.cpu.core)).or_insert(p.leader);
        known != p.leader
    });
    let rename = |p: Placed| Cpu { core: if clash { p.leader } else { p.cpu.core }, ..p.cpu };
    placed.into_iter().map(rename).collect()
}
