//! Setups.

use quell_types::{
    BatchSpec, BytesPerSecond, Cpu, CpuSet, Kilohertz, Knob, KnobRange, Link, LinkSpec, LlcDomain,
    NumaNode, ServiceSpec, Setup, Slo, Tenant, Topology,
};
use std::collections::BTreeMap;

/// Starts the setup of a machine with `cpus` CPUs on one socket, all of them managed.
pub(crate) fn setup(cpus: u32) -> SetupBuilder {
    SetupBuilder { cpus, sockets: 1, smt: false, ..SetupBuilder::default() }
}

/// See [`setup`].
#[derive(Default)]
pub(crate) struct SetupBuilder {
    cpus: u32,
    sockets: u32,
    smt: bool,
    exclusive: bool,
    ways: Option<u32>,
    mba: bool,
    frequency: Option<(u64, u64)>,
    duty: Option<u32>,
    services: Vec<ServiceSpec>,
    batch: Vec<BatchSpec>,
    links: Vec<LinkSpec>,
    without: Vec<fn(&Knob) -> bool>,
}

#[allow(dead_code)] // each law's tests use their own part
impl SetupBuilder {
    /// Spreads the CPUs over so many sockets, each with its own last-level cache.
    pub(crate) fn sockets(mut self, sockets: u32) -> Self {
        self.sockets = sockets;
        self
    }

    /// Makes CPUs 2k and 2k+1 siblings.
    pub(crate) fn smt(mut self) -> Self {
        self.smt = true;
        self
    }

    /// Forbids CPU sets that overlap, as `cpu_exclusive` and partitions do.
    pub(crate) fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// Adds a service that sends on all links; its objective is a p99.
    pub(crate) fn service(mut self, name: &str, target_ms: f64, peak_qps: f64) -> Self {
        self.services.push(ServiceSpec {
            name: name.into(),
            slo: Slo { percentile_frac: 0.99, target_s: target_ms / 1e3 },
            peak_qps: Some(peak_qps),
            links: Vec::new(),
        });
        self
    }

    /// Adds a batch group that takes up to 4 tasks and sends on all links.
    pub(crate) fn batch(mut self, name: &str) -> Self {
        self.batch.push(BatchSpec {
            name: name.into(),
            links: Vec::new(),
            takes_tasks: true,
            max_tasks: 4,
        });
        self
    }

    /// Adds a shaped link.
    pub(crate) fn link(mut self, name: &str, mbit_per_s: f64) -> Self {
        let capacity = BytesPerSecond::from_bits(mbit_per_s * 1e6);
        self.links.push(LinkSpec { name: name.into(), capacity });
        self
    }

    /// Gives every socket's cache so many controllable ways.
    pub(crate) fn ways(mut self, ways: u32) -> Self {
        self.ways = Some(ways);
        self
    }

    /// Makes memory bandwidth throttling controllable in steps of 10 %.
    pub(crate) fn mba(mut self) -> Self {
        self.mba = true;
        self
    }

    /// Makes every CPU's top frequency controllable.
    pub(crate) fn frequency(mut self, min_khz: u64, max_khz: u64) -> Self {
        self.frequency = Some((min_khz, max_khz));
        self
    }

    /// Makes every CPU's clock controllable in so many parts.
    pub(crate) fn duty(mut self, parts: u32) -> Self {
        self.duty = Some(parts);
        self
    }

    /// Takes knobs away.
    pub(crate) fn without(mut self, which: fn(&Knob) -> bool) -> Self {
        self.without.push(which);
        self
    }

    /// The setup.
    pub(crate) fn build(mut self) -> Setup {
        let topology = self.topology();
        let links: Vec<Link> = self.links.iter().map(|l| l.name.clone()).collect();
        self.services.iter_mut().for_each(|s| s.links = links.clone());
        self.batch.iter_mut().for_each(|b| b.links = links.clone());
        let mut knobs = BTreeMap::new();
        let names = self.services.iter().map(|s| &s.name).chain(self.batch.iter().map(|b| &b.name));
        for tenant in names {
            knobs.extend(self.tenant_knobs(tenant, &topology, &links));
        }
        if let Some((min, max)) = self.frequency {
            let range = KnobRange::Frequency { min: Kilohertz(min), max: Kilohertz(max) };
            let knob = |cpu| (Knob::FrequencyMax { cpu }, range.clone());
            knobs.extend(topology.online().iter().map(knob));
        }
        if let Some(parts) = self.duty {
            let knob = |cpu| (Knob::DutyCycle { cpu }, KnobRange::Duty { parts });
            knobs.extend(topology.online().iter().map(knob));
        }
        knobs.retain(|knob, _| !self.without.iter().any(|gone| gone(knob)));
        Setup {
            managed_cpus: topology.online(),
            topology,
            services: self.services,
            batch: self.batch,
            links: self.links,
            knobs,
        }
    }

    fn topology(&self) -> Topology {
        let per_socket = (self.cpus / self.sockets).max(1);
        let threads = if self.smt { 2 } else { 1 };
        let cpu = |id| Cpu {
            id,
            socket: id / per_socket,
            core: id % per_socket / threads,
            node: id / per_socket,
        };
        let cpus_of = |socket: u32| -> CpuSet {
            (0..self.cpus).filter(|id| id / per_socket == socket).collect()
        };
        let llc = |id| LlcDomain { id, cpus: cpus_of(id), size_bytes: 32 << 20, ways: self.ways };
        let node = |id| NumaNode {
            id,
            cpus: cpus_of(id),
            memory_bytes: 32 << 30,
            distances: (0..self.sockets).map(|other| if other == id { 10 } else { 21 }).collect(),
        };
        Topology {
            model: "test machine".into(),
            cpus: (0..self.cpus).map(cpu).collect(),
            caches: Vec::new(),
            llc: (0..self.sockets).map(llc).collect(),
            nodes: (0..self.sockets).map(node).collect(),
            memory_bytes: u64::from(self.sockets) << 35,
            hypervisor: None,
        }
    }

    fn tenant_knobs(
        &self,
        t: &Tenant,
        topology: &Topology,
        links: &[Link],
    ) -> Vec<(Knob, KnobRange)> {
        let tenant = || t.clone();
        let cpus = KnobRange::Cpus { within: topology.online(), exclusive: self.exclusive };
        let bandwidth = KnobRange::Bandwidth {
            min_quota_us: 1000,
            min_period_us: 1000,
            max_period_us: 1_000_000,
        };
        let mut knobs = vec![
            (Knob::Cpus { tenant: tenant() }, cpus),
            (Knob::CpuBandwidth { tenant: tenant() }, bandwidth),
            (Knob::CpuWeight { tenant: tenant() }, KnobRange::Weight { min: 1, max: 10_000 }),
            (Knob::CpuIdle { tenant: tenant() }, KnobRange::Flag),
            (Knob::Frozen { tenant: tenant() }, KnobRange::Flag),
        ];
        for link in links {
            let range = KnobRange::Rate { min: BytesPerSecond(12.5) };
            knobs.push((Knob::EgressCeiling { tenant: tenant(), link: link.clone() }, range));
        }
        for domain in &topology.llc {
            if let Some(ways) = self.ways {
                let full = (1u64 << ways) - 1;
                let range =
                    KnobRange::Ways { full, min_bits: 1, sparse: false, shareable: 0, classes: 16 };
                knobs.push((Knob::LlcWays { tenant: tenant(), domain: domain.id }, range));
            }
            if self.mba {
                let knob = Knob::MemoryBandwidth { tenant: tenant(), domain: domain.id };
                knobs.push((knob, KnobRange::Percent { min: 10, step: 10 }));
            }
        }
        knobs
    }
}
