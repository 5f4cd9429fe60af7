//! What this machine lets one measure and control, and what Quell does without.

use crate::resources::{counts_bandwidth, stands_in, why};
use quell_cgroup::{Layout, LayoutKind, Systemctl};
use quell_topology::Machine;
use quell_types::{Capability, CapabilityKind, CapabilityReport, Reading, Topology};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The report of `quell doctor`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doctor {
    /// The machine's shape.
    pub topology: Topology,
    /// One line for each capability.
    pub capabilities: Vec<CapabilityReport>,
}

/// Looks at the machine below `root`. Never fails because something is missing.
#[must_use]
pub fn doctor(root: &Path) -> Doctor {
    let machine = Machine::new(root);
    let layout = Layout::discover(root);
    let topology = machine.topology();
    let mut capabilities = machine_reports(&topology, &machine);
    capabilities.extend(cgroup_reports(&layout));
    let without = "who starves everybody by waking and sleeping starves the agent as well";
    capabilities.push(report(CapabilityKind::CpuReserve, quell_sched::capability(), without));
    capabilities.extend(quell_ebpf::capabilities(root));
    capabilities.push(cost_report(&capabilities));
    let shaper = quell_egress::probe();
    let without = "network ceilings are left out";
    capabilities.push(report(CapabilityKind::TrafficControl, shaper.clone(), without));
    capabilities.push(report(CapabilityKind::EgressShaper, shaper, without));
    capabilities.extend(quell_counters::capabilities(root));
    capabilities.extend(quell_resctrl::capabilities(root));
    capabilities.push(memory_bandwidth_report(root, &layout));
    capabilities.extend(manager_reports(root));
    capabilities.sort_by_key(|r| r.kind);
    capabilities.dedup_by_key(|r| r.kind);
    Doctor { topology, capabilities }
}

fn report(kind: CapabilityKind, capability: Capability, without: &str) -> CapabilityReport {
    let native = matches!(capability, Capability::Native(_));
    let without = if native { String::new() } else { without.to_owned() };
    CapabilityReport { kind, capability, without }
}

fn given<T>(reading: &Reading<T>, detail: impl FnOnce(&T) -> String) -> Capability {
    match reading {
        Ok(value) => Capability::Native(detail(value)),
        Err(gap) => Capability::Absent(gap.to_string()),
    }
}

fn if_any(any: bool, detail: String, why: &str) -> Capability {
    if any { Capability::Native(detail) } else { Capability::Absent(why.to_owned()) }
}

fn machine_reports(topology: &Topology, machine: &Machine) -> Vec<CapabilityReport> {
    let cpus = topology.cpus.len();
    let llc = |d: &quell_types::LlcDomain| {
        let ways = d.ways.map_or("unknown ways".into(), |w| format!("{w} ways"));
        format!("{} KiB, {ways}, CPUs {}", d.size_bytes / 1024, d.cpus)
    };
    let caches: Vec<String> = topology.llc.iter().map(llc).collect();
    let virtualised = topology.hypervisor.clone().unwrap_or_else(|| "bare metal".into());
    vec![
        report(
            CapabilityKind::Topology,
            if_any(
                cpus > 0,
                format!("{cpus} CPUs, {} sockets", topology.sockets()),
                "no CPUs found",
            ),
            "one socket is assumed",
        ),
        report(
            CapabilityKind::NumaNodes,
            if_any(
                topology.nodes.len() > 1,
                format!("{} nodes", topology.nodes.len()),
                "one NUMA node",
            ),
            "nothing is placed by node",
        ),
        report(
            CapabilityKind::CacheGeometry,
            if_any(!caches.is_empty(), caches.join("; "), "the kernel tells no cache geometry"),
            "cache sizes are assumed",
        ),
        report(
            CapabilityKind::Smt,
            if_any(topology.has_smt(), "sibling threads".into(), "one thread a core"),
            "siblings need not be kept apart",
        ),
        report(CapabilityKind::Virtualisation, Capability::Native(virtualised), ""),
        report(
            CapabilityKind::Psi,
            given(&machine.pressure(), |_| "/proc/pressure".into()),
            "stall times are left out",
        ),
        report(
            CapabilityKind::StealTime,
            given(&machine.cpu_times(), |t| format!("{} ms so far", t.steal_ns / 1_000_000)),
            "time taken by the hypervisor is not seen",
        ),
    ]
}

fn cgroup_reports(layout: &Layout) -> Vec<CapabilityReport> {
    let kind = match layout.kind() {
        LayoutKind::None => Capability::Absent("no cgroup tree is mounted".into()),
        _ => Capability::Native(layout.describe()),
    };
    let serves = |controller: &str, what: &str| match layout.serving(controller) {
        Some(hierarchy) => Capability::Native(format!("{what} in {}", hierarchy.dir.display())),
        None => Capability::Absent(format!("no hierarchy has the {controller} controller")),
    };
    let freezer = match (layout.v2(), layout.serving("freezer")) {
        (Some(v2), _) => Capability::Native(format!("cgroup.freeze in {}", v2.dir.display())),
        (None, Some(v1)) => Capability::Native(format!("freezer.state in {}", v1.dir.display())),
        (None, None) => Capability::Absent("neither cgroup v2 nor a freezer hierarchy".into()),
    };
    vec![
        report(CapabilityKind::CgroupLayout, kind, "nothing can be held back"),
        report(CapabilityKind::CpuBandwidth, serves("cpu", "quota"), "fewer CPUs are used instead"),
        report(CapabilityKind::CpuWeight, serves("cpu", "weight"), "no weights"),
        report(CapabilityKind::CpuIdle, serves("cpu", "idle class"), "the smallest weight is used"),
        report(CapabilityKind::CpuSets, serves("cpuset", "CPU sets"), "quotas are used instead"),
        report(CapabilityKind::Freezer, freezer, "the smallest budget is used instead"),
    ]
}

/// CPU time per request needs both halves: request counts and the group's CPU time.
fn cost_report(so_far: &[CapabilityReport]) -> CapabilityReport {
    let latency = so_far.iter().find(|r| r.kind == CapabilityKind::RequestLatency);
    let counted = latency.is_some_and(|r| r.capability.is_present());
    let how = "CPU time of the group over requests counted by eBPF: a CPI without a PMU";
    let capability = if_any(counted, how.into(), "requests cannot be counted here");
    report(CapabilityKind::CpuTimePerRequest, capability, "harm is judged by latency alone")
}

/// As the platform settles it when it is opened.
fn memory_bandwidth_report(root: &Path, layout: &Layout) -> CapabilityReport {
    let (capability, without) = match (counts_bandwidth(root), stands_in(layout)) {
        (Ok(()), _) => (Capability::Native("resctrl MBM".into()), ""),
        (Err(_), Ok(check)) => (
            Capability::Emulated(format!(
                "LLC misses × line size, by perf in cgroup mode ({} counters count)",
                check.agreeing
            )),
            "a lower bound: what prefetchers and write-backs move is left out",
        ),
        (Err(resctrl), Err(perf)) => (
            Capability::Absent(format!("resctrl: {}; perf: {}", why(&resctrl), why(&perf))),
            "the laws use CPU time per request instead",
        ),
    };
    report(CapabilityKind::MemoryBandwidth, capability, without)
}

fn manager_reports(root: &Path) -> Vec<CapabilityReport> {
    let systemd = if_any(
        Systemctl::detect(root).is_some(),
        "limits of its units are set through it".into(),
        "PID 1 is not systemd",
    );
    let libvirt = crate::vms::capability(root);
    vec![
        report(CapabilityKind::Systemd, systemd, "groups are set by their files"),
        report(
            CapabilityKind::Libvirt,
            libvirt,
            "virtual machines are seen as cgroups only, by the files that libvirt keeps",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_line_says_what_is_done_without() {
        let seen = doctor(Path::new("/"));
        for line in &seen.capabilities {
            if !matches!(line.capability, Capability::Native(_)) {
                assert!(!line.without.is_empty(), "{:?}", line.kind);
            }
        }
        let kinds: BTreeSet<_> = seen.capabilities.iter().map(|r| r.kind).collect();
        assert_eq!(kinds.len(), seen.capabilities.len(), "each capability once");
        assert!(kinds.len() > 25, "{kinds:?}");
    }

    #[test]
    fn a_machine_with_nothing_gets_a_report_all_the_same() {
        let empty = tempfile::tempdir().unwrap();
        let seen = doctor(empty.path());
        let layout = seen.capabilities.iter().find(|r| r.kind == CapabilityKind::CgroupLayout);
        assert!(!layout.unwrap().capability.is_present());
    }
}
