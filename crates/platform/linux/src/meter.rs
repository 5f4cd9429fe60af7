//! The eBPF probes, shared by all tenants: indices, slots and what each is known by.

use quell_cgroup::{Group, Layout};
use quell_ebpf::{
    CgroupIds, Listener, Options, Probes, Samples, ServiceKey, Stood, listening_sockets,
};
use quell_types::{
    CompanyReading, ElsewhereReading, Gap, GaugeCounts, GaugeReading, LogHistogram, Reading,
    RequestReading, Tenant, WaitReading,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Probes, or why there are none.
pub(crate) struct Meter {
    probes: Result<Probes, String>,
    ids: CgroupIds,
    next_slot: u32,
    slots: u32,
    /// Whose slot it is.
    names: BTreeMap<u32, Tenant>,
}

impl Meter {
    /// Loads what this kernel takes and attaches it at the v2 root.
    pub(crate) fn load(layout: &Layout, services: usize, groups: usize, loopback: bool) -> Self {
        let v1 = layout.v1("cpu").is_some();
        let ids = if v1 { CgroupIds::V1Cpu } else { CgroupIds::V2 };
        let slots = (groups as u32).max(1);
        let options = Options {
            services: (services as u32).clamp(1, 255),
            slots,
            run_queue_ids: ids,
            count_loopback: loopback,
        };
        // Of a fixture tree the running kernel knows nothing.
        let here = layout.root() == Path::new("/");
        let here = here.then_some(()).ok_or_else(|| {
            format!("{} is not the running machine: nothing is attached", layout.root().display())
        });
        let probes = here.and_then(|()| Probes::load(options).map_err(|error| error.to_string()));
        let probes = probes.and_then(|mut probes| {
            if probes.packets_gap().is_none() {
                let v2 = layout.v2().ok_or("no cgroup v2 tree to attach to".to_string())?;
                probes.attach_meter(&v2.dir).map_err(|error| error.to_string())?;
            }
            Ok(probes)
        });
        Self { probes, ids, next_slot: 0, slots, names: BTreeMap::new() }
    }

    fn probes(&mut self) -> Reading<&mut Probes> {
        self.probes.as_mut().map_err(|why| Gap::absent(why.clone()))
    }

    /// Turns the kernel's accounting of eBPF time on, and reads it: (program, runs, ns).
    pub(crate) fn stats(&mut self) -> Vec<(String, u64, u64)> {
        let Ok(probes) = self.probes() else { return Vec::new() };
        let _ = probes.count_time(true);
        probes.stats().into_iter().map(|s| (s.program, s.runs, s.time_ns)).collect()
    }

    /// Follows a tenant's run queue and egress; the slot is for reading.
    pub(crate) fn track(&mut self, name: &Tenant, group: &Group) -> Reading<u32> {
        if self.next_slot >= self.slots {
            return Err(Gap::failed("no slot left for this group"));
        }
        let slot = self.next_slot;
        self.retrack(group, slot)?;
        self.next_slot += 1;
        self.names.insert(slot, name.clone());
        Ok(slot)
    }

    /// Lets the slots be given anew (after groups changed).
    pub(crate) fn retrack(&mut self, group: &Group, slot: u32) -> Reading<()> {
        let ids = self.ids;
        let probes = self.probes()?;
        let run_queue_id = match ids {
            CgroupIds::V1Cpu => group.v1_cpu_id(),
            CgroupIds::V2 => group.v2_id(),
        };
        if let Ok(id) = run_queue_id {
            probes.track_run_queue(id, slot).map_err(Gap::failed)?;
        }
        if let Ok(id) = group.v2_id() {
            probes.track_egress(id, slot).map_err(Gap::failed)?;
        }
        Ok(())
    }

    /// Meters a service by its ports, found where none is given.
    pub(crate) fn meter(
        &mut self,
        proc: &Path,
        index: u32,
        group: &Group,
        ports: &[u16],
    ) -> Reading<()> {
        let listeners = if ports.is_empty() {
            let pids = group.pids()?;
            let found = listening_sockets(proc, &pids).map_err(Gap::failed)?;
            found
                .iter()
                .map(|s| Listener {
                    address: Some(s.address.ip()),
                    port: s.address.port(),
                    netns: Some(s.netns),
                })
                .collect()
        } else {
            ports.iter().map(|&port| Listener::port(port)).collect::<Vec<_>>()
        };
        let cgroup_ids: Vec<u64> = group.v2_id().into_iter().collect();
        if listeners.is_empty() && cgroup_ids.is_empty() {
            return Err(Gap::absent(format!("{} listens on no TCP port", group.name())));
        }
        let key = ServiceKey { listeners, cgroup_ids };
        self.probes()?.set_service(index, key).map_err(Gap::failed)
    }

    pub(crate) fn requests(&mut self, index: u32) -> Reading<RequestReading> {
        self.probes()?.read_requests(index)
    }

    pub(crate) fn run_queue(&mut self, slot: &Reading<u32>) -> Reading<LogHistogram> {
        let slot = *slot.as_ref().map_err(Clone::clone)?;
        self.probes()?.read_run_queue(slot)
    }

    /// What the gauge of bus locks has counted.
    pub(crate) fn gauge(&mut self) -> Reading<Arc<GaugeReading>> {
        let counted = self.probes()?.read_gauge()?;
        let counts = |samples: &Samples| GaugeCounts {
            slots: samples.slots.to_vec(),
            memory: samples.memory,
            memory_squares: samples.memory_squares,
            kept: samples.kept,
        };
        let slots = counted.slots.iter();
        let named = slots.filter_map(|(slot, of)| Some((self.names.get(slot)?, counts(of))));
        let used = named.filter(|(_, of)| of.any());
        Ok(Arc::new(GaugeReading {
            beside: used.map(|(name, of)| (name.clone(), of)).collect(),
            all: counts(&counted.all),
            others: counts(&counted.others),
            pauses: counted.pauses,
            passes: counted.passes,
        }))
    }

    /// From now on it is kept behind whom the tasks of this slot stand.
    pub(crate) fn watch(&mut self, slot: &Reading<u32>) -> Reading<()> {
        let slot = *slot.as_ref().map_err(Clone::clone)?;
        self.probes()?.watch_waits(slot).map_err(Gap::failed)
    }

    /// Behind whom they stood, and beside whom they ran.
    pub(crate) fn watched(
        &mut self,
        slot: &Reading<u32>,
    ) -> (Reading<WaitReading>, Reading<CompanyReading>) {
        let read = |meter: &mut Self| {
            let slot = *slot.as_ref().map_err(Clone::clone)?;
            let stood = meter.probes()?.read_waits(slot)?;
            Ok((slot, stood))
        };
        match read(self) {
            Ok((slot, stood)) => (Ok(self.waits(slot, &stood)), self.company(slot, stood)),
            Err(gap) => (Err(Gap::clone(&gap)), Err(gap)),
        }
    }

    fn waits(&self, slot: u32, stood: &Stood) -> WaitReading {
        let others = stood.behind_ns.iter().filter(|(behind, _)| **behind != slot);
        let name = |(slot, ns): (&u32, &u64)| Some((self.names.get(slot)?.clone(), *ns));
        let own = |of: &BTreeMap<u32, u64>| of.get(&slot).copied().unwrap_or(0);
        let there = &stood.elsewhere;
        let named = there.slots_ns.iter().filter(|(other, _)| **other != slot);
        let elsewhere = ElsewhereReading {
            cpus: there.cpus,
            tenants_ns: named.filter_map(name).collect(),
            others_ns: there.others_ns + own(&there.slots_ns),
            nobody_ns: there.nobody_ns,
        };
        WaitReading {
            behind_ns: others.filter_map(name).collect(),
            own_ns: own(&stood.behind_ns),
            others_ns: stood.others_ns,
            nobody_ns: stood.nobody_ns,
            elsewhere,
        }
    }

    fn company(&self, slot: u32, stood: Stood) -> Reading<CompanyReading> {
        let company = stood.company.map_err(Gap::absent)?;
        let others = company.slots.into_iter().filter(|(other, _)| *other != slot);
        let name = |(slot, b): (u32, _)| Some((self.names.get(&slot)?.clone(), b));
        Ok(CompanyReading {
            tenants: others.filter_map(name).collect(),
            others: company.others,
            nobody: company.nobody,
        })
    }

    pub(crate) fn egress(&mut self, slot: &Reading<u32>) -> Reading<u64> {
        let slot = *slot.as_ref().map_err(Clone::clone)?;
        self.probes()?.read_egress(slot)
    }

    /// Packets of this group go to an HTB class.
    pub(crate) fn set_class(&mut self, group: &Group, classid: Option<u32>) -> Reading<()> {
        let id = group.v2_id()?;
        self.probes()?.set_class(id, classid).map_err(Gap::failed)
    }
}
