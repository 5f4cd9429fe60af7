//! One tenant: its group, found again when it was made anew, and its sensors.

use crate::latency::LatencySource;
use crate::meter::Meter;
use crate::options::{Latency, Selector};
use crate::resources::{Locks, Resources, Traffic};
use crate::vms::{Vm, Vms, find_vm};
use quell_cgroup::{CgroupError, Group, GroupReader, Layout};
use quell_types::{Gap, Reading, RequestReading, Tenant, TenantReading};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a tenant is.
pub(crate) enum Role {
    /// A service, with its place in the meter and where its latency comes from.
    Service { index: u32, latency: Latency, source: Option<Box<dyn LatencySource>> },
    /// A batch group.
    Batch,
}

/// A tenant on the real machine.
pub(crate) struct TenantState {
    pub(crate) name: Tenant,
    pub(crate) role: Role,
    pub(crate) selector: Selector,
    pub(crate) group: Group,
    reader: GroupReader,
    slot: Reading<u32>,
    identity: Reading<u64>,
    lost: bool,
    metered: Reading<()>,
    watched: Reading<()>,
}

/// The group that a selector names.
pub(crate) fn find_group(layout: &Layout, selector: &Selector) -> Result<Group, CgroupError> {
    match selector {
        Selector::Cgroup(path) => Group::find(layout, path),
        Selector::Unit(unit) => Group::of_unit(layout, unit),
        Selector::Pid(pid) => Group::of_pid(layout, *pid),
        Selector::Vm(name) => find_vm(layout, name),
    }
}

/// A tenant that is a machine of libvirt's, to be set through it.
pub(crate) fn machine(vms: &mut Vms, root: &Path, selector: &Selector) -> Option<Arc<Vm>> {
    match selector {
        Selector::Vm(name) => vms.take(root, name),
        _ => None,
    }
}

/// Of a service it matters whether any quota holds it back; of batch, whether its own does.
fn reader(role: &Role, group: &Group) -> GroupReader {
    match role {
        Role::Service { .. } => GroupReader::with_groups_above(group),
        Role::Batch => GroupReader::new(group),
    }
}

impl TenantState {
    pub(crate) fn new(
        name: Tenant,
        role: Role,
        selector: Selector,
        group: Group,
        meter: &mut Meter,
        root: &Path,
    ) -> Self {
        let slot = meter.track(&name, &group);
        let watched = match role {
            Role::Service { .. } => meter.watch(&slot),
            Role::Batch => Err(Gap::absent("followed for services only")),
        };
        let mut state = Self {
            reader: reader(&role, &group),
            slot,
            watched,
            identity: group.identity(),
            lost: false,
            metered: Err(Gap::absent("batch groups answer no requests")),
            name,
            role,
            selector,
            group,
        };
        state.begin_metering(meter, root);
        state
    }

    /// Looks for the service's listening sockets (again).
    pub(crate) fn begin_metering(&mut self, meter: &mut Meter, root: &Path) {
        if let Role::Service { index, latency: Latency::Ebpf { ports }, .. } = &self.role {
            self.metered = meter.meter(&root.join("proc"), *index, &self.group, ports);
        }
    }

    /// Whether metering never began, so that it is worth another try.
    pub(crate) fn wants_metering(&self) -> bool {
        let by_ebpf = matches!(self.role, Role::Service { latency: Latency::Ebpf { .. }, .. });
        by_ebpf && self.metered.is_err()
    }

    pub(crate) fn is_service(&self) -> bool {
        matches!(self.role, Role::Service { .. })
    }

    /// Looks whether the group was removed, or removed and made anew. Until the next look, readings
    /// go by what was found.
    pub(crate) fn look(&mut self) -> bool {
        self.lost = self.identity.is_err() || self.group.identity() != self.identity;
        self.lost
    }

    /// Takes over the group as it is found now; true if it is there and new.
    pub(crate) fn refind(
        &mut self,
        layout: &Layout,
        vms: &mut Vms,
        meter: &mut Meter,
        root: &Path,
    ) -> bool {
        let found = match &self.selector {
            Selector::Vm(name) => vms.again(layout, name),
            other => find_group(layout, other).ok(),
        };
        let Some(group) = found else { return false };
        let identity = group.identity();
        if identity.is_err() {
            return false;
        }
        self.reader = reader(&self.role, &group);
        self.group = group;
        self.identity = identity;
        self.lost = false;
        match self.slot {
            Ok(slot) => drop(meter.retrack(&self.group, slot)),
            Err(_) => self.slot = meter.track(&self.name, &self.group),
        }
        if self.is_service() && self.watched.is_err() {
            self.watched = meter.watch(&self.slot);
        }
        self.begin_metering(meter, root);
        true
    }

    /// CPU time alone: cheap enough for the edges of chips.
    pub(crate) fn cpu_ns(&mut self) -> Reading<u64> {
        self.reader.cpu_ns()
    }

    /// Requests alone.
    pub(crate) fn requests(&mut self, meter: &mut Meter) -> Reading<RequestReading> {
        match &mut self.role {
            Role::Batch => Err(Gap::absent("batch groups answer no requests")),
            Role::Service { source: Some(source), .. } => source.read(),
            Role::Service { index, .. } => {
                self.metered.clone()?;
                meter.requests(*index)
            }
        }
    }

    /// Everything.
    pub(crate) fn read(
        &mut self,
        meter: &mut Meter,
        (resources, traffic, locks): (&Resources, &Traffic, &Locks),
    ) -> TenantReading {
        if self.lost {
            let gap = Gap::Gone(format!("the group of {} is gone", self.name));
            return TenantReading::missing(&gap);
        }
        let group = self.reader.read();
        let (by_resctrl, llc_bytes) = resources.counted(&self.name);
        let by_perf = |_: &Gap| traffic.counted(&self.name);
        let memory = resources.counts_bandwidth().as_ref().map_or_else(by_perf, |()| by_resctrl);
        let (waits, company) = match &self.watched {
            Ok(()) => meter.watched(&self.slot),
            Err(gap) => (Err(gap.clone()), Err(gap.clone())),
        };
        TenantReading {
            identity: group.identity,
            cpu_ns: group.cpu_ns,
            throttling: group.throttling,
            pressure: group.pressure,
            page_faults: group.page_faults,
            run_queue_ns: meter.run_queue(&self.slot),
            waits,
            company,
            requests: self.requests(meter),
            egress_bytes: meter.egress(&self.slot),
            memory,
            llc_bytes,
            memory_used_bytes: group.memory_used_bytes,
            bus_locks: locks.of(&self.name),
        }
    }

    /// What the fast path needs; the rest stays as it was last seen.
    pub(crate) fn read_fast(&mut self, meter: &mut Meter) -> TenantReading {
        let later = Gap::not_yet("read in full samples only");
        if !self.is_service() {
            return TenantReading::missing(&later);
        }
        if self.look() {
            return TenantReading::missing(&Gap::Gone(format!("{} is gone", self.name)));
        }
        TenantReading {
            identity: self.identity.clone(),
            cpu_ns: self.reader.cpu_ns(),
            requests: self.requests(meter),
            ..TenantReading::missing(&later)
        }
    }

    /// Files by which a task is put into the group.
    pub(crate) fn procs_files(&self) -> Vec<PathBuf> {
        self.group.places().iter().map(|place| place.file("cgroup.procs")).collect()
    }
}
