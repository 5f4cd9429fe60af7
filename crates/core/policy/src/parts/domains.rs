//! Frequency domains: CPUs whose clocks are set by one knob.

use quell_types::{CpuSet, Knob, Setup};
use std::collections::BTreeMap;

/// Managed CPUs by the knob that slows them. A CPU without a knob of its own shares that of a
/// hardware thread of its core, else that of the nearest lower CPU of its socket: a domain is named
/// by its first CPU and goes on to the next one's.
pub(crate) fn frequency_domains(setup: &Setup) -> BTreeMap<u32, CpuSet> {
    let topology = &setup.topology;
    let has = |cpu: &u32| setup.knobs.contains_key(&Knob::FrequencyMax { cpu: *cpu });
    let mut domains: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for cpu in topology.cpus.iter().filter(|cpu| setup.managed_cpus.contains(cpu.id)) {
        let own = Some(cpu.id).filter(has);
        let by_core = || topology.siblings(cpu.id).iter().find(has);
        let lower = || cpus_of(setup, cpu.socket).iter().rev().filter(|c| *c < cpu.id).find(has);
        if let Some(knob) = own.or_else(by_core).or_else(lower) {
            domains.entry(knob).or_default().insert(cpu.id);
        }
    }
    domains
}

/// The sockets of a machine.
pub(crate) fn sockets(setup: &Setup) -> Vec<u32> {
    let mut sockets: Vec<u32> = setup.topology.cpus.iter().map(|cpu| cpu.socket).collect();
    sockets.sort_unstable();
    sockets.dedup();
    sockets
}

/// The CPUs of a socket.
pub(crate) fn cpus_of(setup: &Setup, socket: u32) -> CpuSet {
    setup.topology.cpus.iter().filter(|c| c.socket == socket).map(|c| c.id).collect()
}
