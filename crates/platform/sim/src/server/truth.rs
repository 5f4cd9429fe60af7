//! What is really going on: for tests and reports.

use super::body::Body;
use crate::world::World;
use quell_types::{CpuSet, Knob, Setting, Tenant};
use std::collections::BTreeMap;

/// The state of the simulated hardware, without noise or delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// How every knob stands, whatever is on its way.
    pub knobs: BTreeMap<Knob, Setting>,
    /// CPUs that each tenant may really run on.
    pub cpus: BTreeMap<Tenant, CpuSet>,
    /// Bytes held in all last-level caches, by tenant.
    pub llc_bytes: BTreeMap<Tenant, f64>,
    /// Bytes held in each last-level cache, all tenants.
    pub held_by_domain: Vec<f64>,
    /// Bytes moved to and from memory, by tenant.
    pub traffic_bytes: BTreeMap<Tenant, f64>,
    /// Utilisation of each memory controller, 0..1.
    pub memory_utilisation: Vec<f64>,
    /// Share of time in which bus locks block each server's memory, 0..0.95.
    pub blocked: Vec<f64>,
    /// Power of each socket in watts.
    pub watts: Vec<f64>,
    /// Temperature of each socket in °C.
    pub celsius: Vec<f64>,
    /// Frequency of each socket in kHz.
    pub khz: Vec<u64>,
    /// CPU time by tenant in nanoseconds.
    pub cpu_ns: BTreeMap<Tenant, u64>,
    /// Instructions done, by tenant.
    pub instructions: BTreeMap<Tenant, f64>,
    /// Requests that found all connections taken, by service.
    pub refused: BTreeMap<Tenant, u64>,
}

impl Body {
    pub(crate) fn truth(&mut self) -> Truth {
        self.world.settle_all();
        let world = &self.world;
        let by_tenant = |of: &dyn Fn(usize) -> f64| {
            self.tenants.iter().enumerate().map(|(g, name)| (name.clone(), of(g))).collect()
        };
        let services = self.setup.services.iter().zip(&world.services);
        Truth {
            knobs: self.knobs.all().clone(),
            cpus: self.tenants.iter().map(|t| (t.clone(), self.effective_cpus(t))).collect(),
            llc_bytes: by_tenant(&|g| world.held_by(g)),
            held_by_domain: world.caches.iter().map(|c| c.all_held()).collect(),
            traffic_bytes: by_tenant(&|g| world.groups[g].traffic_bytes),
            memory_utilisation: world.node_loads().to_vec(),
            blocked: world.blocked().to_vec(),
            watts: world.sockets.iter().map(|s| s.watts).collect(),
            celsius: world.sockets.iter().map(|s| s.celsius).collect(),
            khz: world.sockets.iter().map(|s| s.khz).collect(),
            cpu_ns: self
                .tenants
                .iter()
                .cloned()
                .zip(world.groups.iter().map(|g| g.cpu_ns))
                .collect(),
            instructions: by_tenant(&|g| world.groups[g].instructions),
            refused: services.map(|(spec, s)| (spec.name.clone(), s.refused)).collect(),
        }
    }
}

impl World {
    /// Bytes that a group holds in all last-level caches.
    pub(crate) fn held_by(&self, group: usize) -> f64 {
        let works = self.works.iter().enumerate().filter(|(_, w)| w.group == group && w.alive);
        works.map(|(index, _)| self.held_by_work(index)).sum()
    }

    /// Bytes that each group holds in all last-level caches.
    pub(crate) fn held_by_groups(&self) -> Vec<f64> {
        let mut held = vec![0.0; self.groups.len()];
        for (index, work) in self.works.iter().enumerate().filter(|(_, work)| work.alive) {
            held[work.group] += self.held_by_work(index);
        }
        held
    }

    fn held_by_work(&self, work: usize) -> f64 {
        self.caches.iter().map(|cache| cache.held(work)).sum()
    }

    /// Memory in use by a group, in bytes.
    pub(crate) fn memory_of(&self, group: usize) -> u64 {
        let works = self.works.iter().filter(|w| w.group == group && w.alive);
        works.map(|w| w.program.memory_bytes).sum()
    }
}
