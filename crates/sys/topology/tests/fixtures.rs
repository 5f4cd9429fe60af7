//! Machines of several kinds, and the machine that the tests run on.

use quell_topology::Machine;
use quell_types::{CacheKind, Gap};
use std::path::PathBuf;

fn fixture(name: &str) -> Machine {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures/topology");
    let path = root.join(name);
    assert!(path.is_dir(), "no fixture {}", path.display());
    Machine::new(path)
}

#[test]
fn a_small_cloud_machine_of_amd() {
    let machine = fixture("firecracker-2cpu");
    let t = machine.topology();
    assert_eq!(t.model, "AMD EPYC");
    assert_eq!((t.online().to_string().as_str(), t.sockets(), t.has_smt()), ("0-1", 1, false));
    assert_eq!(t.hypervisor.as_deref(), Some("kvm"), "flag, and the clock says which");
    assert_eq!(t.caches.len(), 7);
    assert_eq!(t.cache(1, 1).unwrap().size_bytes, 48 << 10);
    assert_eq!(t.llc.len(), 1);
    assert_eq!((t.llc[0].size_bytes, t.llc[0].ways), (32 << 20, Some(16)));
    assert_eq!(t.memory_bytes, 24_684_096 * 1024);
    assert_eq!(t.nodes.len(), 1);
}

#[test]
fn counters_of_a_small_cloud_machine() {
    let machine = fixture("firecracker-2cpu");
    let times = machine.cpu_times().unwrap();
    assert_eq!(times.steal_ns, 44 * 10_000_000);
    assert_eq!(times.busy_ns, 2 * (7789 + 6616 + 1478 + 3 + 8) * 10_000_000);
    let each = machine.cpu_times_by_cpu().unwrap();
    assert_eq!(each.iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(each.iter().map(|(_, t)| t.steal_ns).sum::<u64>(), times.steal_ns);
    let pressure = machine.pressure().unwrap();
    assert_eq!((pressure.cpu_some_ns, pressure.memory_some_ns), (30_118_133_000, 1_234_000));
    assert_eq!(machine.boot_id().unwrap(), "f61e28a7-171b-4f04-9c95-d02d6de48c46");
}

#[test]
fn a_process_with_a_hostile_name() {
    let process = fixture("firecracker-2cpu").process(4242).unwrap();
    assert_eq!(process.comm, "redis server) (x");
    assert_eq!((process.state, process.parent), ('S', 1));
    assert_eq!(process.start_ns, 1_420_260_000_000);
    assert_eq!(process.cpu_ns, 2_450_000_000);
    assert_eq!(process.threads, [4242, 4243, 4250]);
    let groups: Vec<_> =
        process.cgroups.iter().map(|m| (m.controllers.join(","), m.path.as_str())).collect();
    assert_eq!(groups[0], ("name=systemd".into(), "/"));
    assert_eq!(groups[2], ("cpu".into(), "/quell:odd"));
    assert_eq!(groups[3], (String::new(), "/"));
    assert!(matches!(fixture("firecracker-2cpu").process(1), Err(Gap::Gone(_))));
}

#[test]
fn a_two_socket_xeon_with_smt_and_numa() {
    let machine = fixture("xeon-2socket");
    let t = machine.topology();
    assert_eq!(t.model, "Intel(R) Xeon(R) Gold 6142 CPU @ 2.60GHz");
    assert_eq!((t.sockets(), t.has_smt(), t.hypervisor.as_deref()), (2, true, None));
    assert_eq!(t.siblings(1).to_string(), "1,5");
    assert_eq!(t.siblings(6).to_string(), "2,6");
    let llc: Vec<_> = t.llc.iter().map(|d| (d.id, d.cpus.to_string(), d.ways)).collect();
    assert_eq!(llc, [(0, "0-1,4-5".into(), Some(11)), (1, "2-3,6-7".into(), Some(11))]);
    assert_eq!(t.nodes.len(), 2);
    assert_eq!(t.nodes[1].distances, [21, 10]);
    assert_eq!(t.nodes[1].cpus.to_string(), "2-3,6-7");
    assert_eq!(t.cpus[3].node, 1);
    assert!(machine.cpu_info().flags().contains("cat_l3"));
    let level2 = t.caches.iter().filter(|c| c.level == 2).count();
    assert_eq!(level2, 4, "one a core, not one a thread");
}

#[test]
fn an_epyc_with_four_llc_domains_and_a_cpu_offline() {
    let t = fixture("epyc-4llc").topology();
    assert_eq!((t.cpus.len(), t.llc.len(), t.nodes.len()), (7, 4, 4));
    assert_eq!(t.llc_of(6).unwrap().cpus.to_string(), "6");
    assert_eq!(t.llc_of(3).unwrap().cpus.to_string(), "2-3");
    assert_eq!((t.nodes[2].memory_bytes, t.nodes[3].memory_bytes), (0, 32_768_000 * 1024));
    assert_eq!(t.hypervisor, None, "a cloud's bare machine names the cloud, but is not virtual");
}

#[test]
fn an_arm_server_without_model_package_or_ways() {
    let machine = fixture("arm-server");
    let t = machine.topology();
    assert_eq!(t.model, "ARM Neoverse-N1");
    assert_eq!((t.sockets(), t.has_smt(), t.cpus.len()), (1, false, 4));
    assert_eq!(t.hypervisor.as_deref(), Some("kvm"));
    assert_eq!((t.llc.len(), t.llc[0].id, t.llc[0].ways), (1, 0, None));
    assert_eq!(t.llc[0].size_bytes, 32 << 20);
    assert!(t.caches.iter().all(|c| c.ways.is_none()));
    assert_eq!(t.caches.iter().filter(|c| c.kind == CacheKind::Instruction).count(), 4);
    assert_eq!((t.nodes.len(), t.nodes[0].cpus.len()), (1, 4));
    assert!(matches!(machine.pressure(), Err(Gap::Absent(_))));
}

#[test]
fn machines_that_tell_almost_nothing() {
    let t = fixture("bare").topology();
    assert_eq!((t.cpus.len(), t.sockets(), t.has_smt()), (2, 1, false));
    assert!(t.llc.is_empty() && t.caches.is_empty());
    assert_eq!((t.nodes.len(), t.nodes[0].cpus.len()), (1, 2));
    assert_eq!(fixture("bare").cpu_times().unwrap().steal_ns, 0);

    let empty = fixture("empty");
    let t = empty.topology();
    assert_eq!((t.cpus.len(), t.model.as_str(), t.hypervisor), (0, "unknown", None));
    assert!(matches!(empty.cpu_times(), Err(Gap::Absent(_))));
    assert!(matches!(empty.boot_id(), Err(Gap::Absent(_))));
    assert!(matches!(empty.process(1), Err(Gap::Gone(_))));
    assert!(empty.processes().is_empty());
}

#[test]
fn this_machine() {
    let machine = Machine::new("/");
    let t = machine.topology();
    assert!(!t.cpus.is_empty() && t.memory_bytes > 0);
    let in_nodes: usize = t.nodes.iter().map(|n| n.cpus.len()).sum();
    assert_eq!(in_nodes, t.cpus.len(), "every CPU lies in one node");
    for domain in &t.llc {
        assert!(domain.size_bytes > 0 && !domain.cpus.is_empty());
    }
    let me = machine.process(std::process::id()).unwrap();
    assert!(me.threads.contains(&me.pid), "{me:?}");
    assert!(!me.cgroups.is_empty());
    let times = machine.cpu_times().unwrap();
    assert!(times.busy_ns > 0 && times.idle_ns > 0);
    assert_eq!(machine.boot_id().unwrap().len(), 36);
    assert!(machine.processes().contains(&me.pid));
}
