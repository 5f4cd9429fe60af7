//! The machine laid out by index: which CPU lies where.

use super::Machine;
use crate::mask::Mask;
use quell_types::{Cache, CacheKind, Cpu, CpuSet, LlcDomain, NumaNode, Topology};

/// Where one CPU lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuPlace {
    pub(crate) core: usize,
    pub(crate) domain: usize,
    pub(crate) node: usize,
    pub(crate) socket: usize,
    pub(crate) sibling: Option<usize>,
    /// Speed against a fast core.
    pub(crate) speed: f64,
}

/// All places, and what lies in each domain.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) cpus: Vec<CpuPlace>,
    pub(crate) domain_cpus: Vec<Mask>,
    pub(crate) domain_node: Vec<usize>,
    pub(crate) domain_socket: Vec<usize>,
    pub(crate) node_socket: Vec<usize>,
    pub(crate) socket_server: Vec<usize>,
    /// Latency of an access from node to node, as a multiple of a local one.
    pub(crate) distance: Vec<Vec<f64>>,
}

impl Shape {
    /// CPUs are numbered as Linux does: first one thread of every core, then the siblings.
    pub(crate) fn new(machine: &Machine) -> Self {
        let cores = machine.cores();
        let per_domain = machine.cores_per_domain as usize;
        let sibling = |cpu: usize| {
            (machine.threads_per_core == 2)
                .then(|| if cpu < cores { cpu + cores } else { cpu - cores })
        };
        let place = |cpu: usize| {
            let core = cpu % cores;
            let domain = core / per_domain;
            let node = domain / machine.domains_per_node as usize;
            let fast = per_domain - machine.small_cores_per_domain as usize;
            let speed = if core % per_domain < fast { 1.0 } else { machine.small_core_speed };
            let socket = node / machine.nodes_per_socket as usize;
            CpuPlace { core, domain, node, socket, sibling: sibling(cpu), speed }
        };
        let cpus: Vec<CpuPlace> = (0..machine.cpus()).map(place).collect();
        let in_domain = |d: usize| (0..cpus.len()).filter(|c| cpus[*c].domain == d).collect();
        let nodes = machine.nodes();
        Self {
            domain_cpus: (0..machine.domains()).map(in_domain).collect(),
            domain_node: (0..machine.domains())
                .map(|d| d / machine.domains_per_node as usize)
                .collect(),
            domain_socket: (0..machine.domains())
                .map(|d| d / (machine.domains_per_node * machine.nodes_per_socket) as usize)
                .collect(),
            node_socket: (0..nodes).map(|n| n / machine.nodes_per_socket as usize).collect(),
            socket_server: (0..machine.sockets())
                .map(|s| s / machine.sockets_per_server as usize)
                .collect(),
            distance: (0..nodes)
                .map(|a| (0..nodes).map(|b| f64::from(distance(machine, a, b)) / 10.0).collect())
                .collect(),
            cpus,
        }
    }

    /// As policies see it.
    pub(crate) fn topology(&self, machine: &Machine) -> Topology {
        let set = |mask: &Mask| mask.iter().map(|c| c as u32).collect::<CpuSet>();
        let cpu = |(id, place): (usize, &CpuPlace)| Cpu {
            id: id as u32,
            socket: place.socket as u32,
            core: place.core as u32,
            node: place.node as u32,
        };
        let llc = |(id, cpus): (usize, &Mask)| LlcDomain {
            id: id as u32,
            cpus: set(cpus),
            size_bytes: machine.cache.bytes,
            ways: Some(machine.cache.ways),
        };
        Topology {
            model: machine.model.clone(),
            cpus: self.cpus.iter().enumerate().map(cpu).collect(),
            caches: self.caches(machine),
            llc: self.domain_cpus.iter().enumerate().map(llc).collect(),
            nodes: (0..machine.nodes()).map(|id| self.node(machine, id)).collect(),
            memory_bytes: machine.memory.bytes * machine.nodes() as u64,
            hypervisor: machine.hypervisor.clone(),
        }
    }

    fn node(&self, machine: &Machine, id: usize) -> NumaNode {
        let cpus = (0..self.cpus.len()).filter(|c| self.cpus[*c].node == id).map(|c| c as u32);
        NumaNode {
            id: id as u32,
            cpus: cpus.collect(),
            memory_bytes: machine.memory.bytes,
            distances: (0..machine.nodes()).map(|to| distance(machine, id, to)).collect(),
        }
    }

    fn caches(&self, machine: &Machine) -> Vec<Cache> {
        let cache = |level, kind, size_bytes, ways, cpus| Cache {
            level,
            kind,
            size_bytes,
            line_bytes: 64,
            ways,
            cpus,
        };
        let threads = |core: usize| -> CpuSet {
            let of = |c: &usize| self.cpus[*c].core == core;
            (0..self.cpus.len()).filter(of).map(|c| c as u32).collect()
        };
        let sizes = &machine.cache;
        let cores = || 0..machine.cores();
        let l1 = cores().map(|c| cache(1, CacheKind::Data, sizes.l1_bytes, Some(8), threads(c)));
        let l2 = cores().map(|c| cache(2, CacheKind::Unified, sizes.l2_bytes, None, threads(c)));
        let l3 = self.domain_cpus.iter().map(|cpus| {
            let cpus = cpus.iter().map(|c| c as u32).collect();
            cache(3, CacheKind::Unified, sizes.bytes, Some(sizes.ways), cpus)
        });
        l1.chain(l2).chain(l3).collect()
    }
}

/// The distance of two nodes in the kernel's units.
fn distance(machine: &Machine, from: usize, to: usize) -> u32 {
    let socket = |node: usize| node / machine.nodes_per_socket as usize;
    let server = |node: usize| (socket(node) / machine.sockets_per_server as usize) as u32;
    let far = &machine.distances;
    match (from == to, socket(from) == socket(to), server(from) == server(to)) {
        (true, ..) => 10,
        (_, true, _) => far.same_socket,
        (_, _, true) => far.same_server,
        _ if hops(machine, server(from), server(to)) == 1 => far.one_hop,
        _ => far.two_hops,
    }
}

/// Hops in a two-dimensional torus.
fn hops(machine: &Machine, from: u32, to: u32) -> u32 {
    let columns = machine.distances.torus_columns;
    let rows = machine.servers.div_ceil(columns).max(1);
    let around = |a: u32, b: u32, length: u32| a.abs_diff(b).min(length - a.abs_diff(b));
    around(from % columns, to % columns, columns) + around(from / columns, to / columns, rows)
}
