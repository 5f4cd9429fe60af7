//! What shows the progress of a workload that reports nothing: the requests on its sockets, counted by
//! eBPF, and the instructions that it retires, where the machine counts them.

use quell_cgroup::Layout;
use quell_counters::{CounterCheck, Counters, Event, Target};
use quell_ebpf::{CgroupIds, Listener, Options, Probes, ServiceKey, listening_sockets};
use quell_profiler::{Counter, Group, Metric};
use quell_types::CpuSet;
use std::path::{Path, PathBuf};

/// Whatever can count this group here, the most telling first. What is not to be had is left out:
/// the bytes of its system calls are always there.
pub(super) fn counters(group: &Group, online: &CpuSet) -> Vec<Box<dyn Counter>> {
    let mut found: Vec<Box<dyn Counter>> = Vec::new();
    found.extend(Sockets::open(group).map(|counter| Box::new(counter) as Box<dyn Counter>));
    found.extend(Instructions::open(group, online).map(|c| Box::new(c) as Box<dyn Counter>));
    found
}

/// The same, of a program that is to be started.
pub(super) fn outside(online: &CpuSet) -> quell_profiler::Counters {
    let online = online.clone();
    quell_profiler::Counters::new(move |group| counters(group, &online))
}

/// Requests answered on the sockets on which a group listens.
struct Sockets {
    probes: Probes,
}

impl std::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sockets")
    }
}

impl Sockets {
    /// None without a listening socket, without cgroup v2, or where eBPF is not to be had.
    fn open(group: &Group) -> Option<Sockets> {
        let pids: Vec<u32> = group.processes().ok()?.into_iter().collect();
        let sockets = listening_sockets(Path::new("/proc"), &pids).ok()?;
        if sockets.is_empty() {
            return None;
        }
        let listener = |socket: &quell_ebpf::ListeningSocket| Listener {
            address: Some(socket.address.ip()),
            port: socket.address.port(),
            netns: Some(socket.netns),
        };
        let options =
            Options { services: 1, slots: 1, run_queue_ids: CgroupIds::V2, count_loopback: false };
        let mut probes = Probes::load(options).ok()?;
        probes.attach_meter(&Layout::discover("/").v2()?.dir).ok()?;
        let listeners = sockets.iter().map(listener).collect();
        probes.set_service(0, ServiceKey { listeners, cgroup_ids: Vec::new() }).ok()?;
        Some(Sockets { probes })
    }
}

impl Counter for Sockets {
    fn metric(&self) -> Metric {
        Metric::Requests
    }

    fn count(&mut self) -> Option<u64> {
        self.probes.read_requests(0).ok().map(|reading| reading.requests)
    }
}

/// Instructions of a group: of the cgroup as a whole where perf knows it, else of the threads that
/// it has now.
#[derive(Debug)]
struct Instructions {
    counters: Vec<Counters>,
}

impl Instructions {
    /// None where the machine does not count instructions, or not rightly.
    fn open(group: &Group, online: &CpuSet) -> Option<Instructions> {
        CounterCheck::run().ok()?;
        let targets = match group {
            Group::Cgroup(dir) if dir.join("cgroup.controllers").is_file() => {
                vec![Target::Cgroup { dir: dir.clone(), cpus: online.clone() }]
            }
            _ => threads(group).into_iter().map(Target::Task).collect(),
        };
        let open = |target: &Target| Counters::open(target, &[Event::Instructions]).ok();
        let counters: Vec<Counters> = targets.iter().filter_map(open).collect();
        (!counters.is_empty()).then_some(Instructions { counters })
    }
}

/// All threads of a group's processes.
fn threads(group: &Group) -> Vec<u32> {
    let of = |pid: u32| {
        let tasks = std::fs::read_dir(PathBuf::from(format!("/proc/{pid}/task")));
        let names = tasks.into_iter().flatten().flatten().map(|task| task.file_name());
        names.filter_map(|name| name.to_str()?.parse().ok()).collect::<Vec<u32>>()
    };
    group.processes().unwrap_or_default().into_iter().flat_map(of).collect()
}

impl Counter for Instructions {
    fn metric(&self) -> Metric {
        Metric::Instructions
    }

    fn count(&mut self) -> Option<u64> {
        let one = |counters: &mut Counters| {
            counters.read().remove(&Event::Instructions).and_then(Result::ok)
        };
        let counts: Vec<u64> = self.counters.iter_mut().filter_map(one).collect();
        (!counts.is_empty()).then(|| counts.iter().sum())
    }
}
