//! Finding tenants and links, and which knobs they have.

use super::Linux;
use crate::adopt;
use crate::knobs::Managers;
use crate::latency::{LatencySource, PrometheusSource, PushedSource};
use crate::open::OpenError;
use crate::options::{BatchBinding, Latency, Selector, ServiceBinding};
use crate::tenant::{Role, TenantState, find_group, machine};
use quell_cgroup::Group;
use quell_types::{Knob, Setup, Tenant};
use std::collections::BTreeMap;

impl Linux {
    pub(super) fn set_up(&mut self) -> Result<(), Vec<OpenError>> {
        let topology = self.machine.topology();
        let online = topology.online();
        let managed = self.options.managed_cpus.clone().unwrap_or(online.clone());
        self.setup = Setup {
            managed_cpus: managed.intersection(&online),
            topology,
            services: self.options.services.iter().map(|s| s.spec.clone()).collect(),
            batch: self.options.batch.iter().map(|b| b.spec.clone()).collect(),
            links: self.options.links.iter().map(|l| l.spec.clone()).collect(),
            knobs: BTreeMap::new(),
        };
        let of_cpus = self.hardware.knobs(&self.setup.managed_cpus);
        self.setup.knobs.extend(self.knobs.install_cpus(of_cpus));
        let services = self.options.services.iter().map(|service| &service.spec.name);
        let batch = self.options.batch.iter().map(|batch| &batch.spec.name);
        self.resources.share_classes(batch.chain(services));
        let mut errors = Vec::new();
        for (index, service) in self.options.services.clone().iter().enumerate() {
            errors.extend(self.add_service(index as u32, service).err());
        }
        for batch in &self.options.batch.clone() {
            errors.extend(self.add_batch(batch).err());
        }
        // Nothing is in a hurry yet: what libvirt has of its machines is known before the first write.
        self.vms.settle();
        for link in &self.options.links.clone() {
            if let Err(why) = self.links.open(link, &self.options.batch) {
                errors.push(OpenError::Link { link: link.spec.name.to_string(), why });
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        self.install_links().map_err(|error| vec![error])
    }

    fn install_links(&mut self) -> Result<(), OpenError> {
        let failed = |why: String| OpenError::Link { link: "set-up".into(), why };
        let done = self.links.install(&mut self.journal).map_err(|e| failed(e.to_string()))?;
        done.map_err(failed)?;
        self.setup.knobs.extend(self.links.ranges());
        for (tenant, class) in self.links.classes() {
            let Some(state) = self.tenants.get(&tenant) else { continue };
            self.meter.set_class(&state.group, Some(class)).map_err(|gap| OpenError::Link {
                link: tenant.to_string(),
                why: format!("its packets cannot be told apart: {gap}"),
            })?;
        }
        Ok(())
    }

    fn add_service(&mut self, index: u32, binding: &ServiceBinding) -> Result<(), OpenError> {
        let name = binding.spec.name.clone();
        let source = open_source(&binding.latency)
            .map_err(|why| OpenError::NoGroup { tenant: name.to_string(), why })?;
        let group = self.group_of(&name, &binding.selector, binding.adopt)?;
        let role = Role::Service { index, latency: binding.latency.clone(), source };
        self.add_tenant(name, role, &binding.selector, group);
        Ok(())
    }

    fn add_batch(&mut self, binding: &BatchBinding) -> Result<(), OpenError> {
        let name = binding.spec.name.clone();
        let group = self.group_of(&name, &binding.selector, binding.adopt)?;
        self.add_tenant(name.clone(), Role::Batch, &binding.selector, group);
        let held_back = |knob: &Knob| {
            let by =
                matches!(knob, Knob::CpuBandwidth { .. } | Knob::Cpus { .. } | Knob::Frozen { .. });
            by && knob.tenant() == Some(&name)
        };
        if self.setup.knobs.keys().any(held_back) {
            return Ok(());
        }
        let why = "no cpu, cpuset or freezer controller".to_string();
        Err(OpenError::Uncontrollable { tenant: name.to_string(), why })
    }

    /// The tenant's group, or the one that it is adopted into.
    fn group_of(
        &mut self,
        name: &Tenant,
        selector: &Selector,
        adopts: bool,
    ) -> Result<Group, OpenError> {
        let failed = |why: String| OpenError::NoGroup { tenant: name.to_string(), why };
        if !adopts {
            return find_group(&self.layout, selector).map_err(|error| failed(error.to_string()));
        }
        let pids = match selector {
            Selector::Pid(pid) => vec![*pid],
            _ => find_group(&self.layout, selector)
                .map_err(|error| failed(error.to_string()))?
                .pids()
                .map_err(|gap| failed(gap.to_string()))?,
        };
        adopt::adopt(&self.layout, &self.machine, &mut self.journal, name, &pids)
            .map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))
    }

    fn add_tenant(&mut self, name: Tenant, role: Role, selector: &Selector, group: Group) {
        let is_service = matches!(role, Role::Service { .. });
        let root = self.options.root.clone();
        // An adopted tenant is found again under the path of its new group.
        let selector = match group.name() {
            path if path == adopt::adopted_path(&name) => Selector::Cgroup(path.to_owned()),
            _ => selector.clone(),
        };
        let (vm, proc) = (machine(&mut self.vms, &root, &selector), root.join("proc"));
        let vm = vm.as_ref().map(|vm| (vm, proc.as_path()));
        let managers = Managers { systemctl: self.systemctl.as_ref(), vm };
        let ranges = self.knobs.install(&name, &group, is_service, managers);
        self.setup.knobs.extend(ranges);
        self.setup.knobs.extend(self.resources.install(&name, is_service));
        self.traffic.track(&name, &group);
        self.locks.track(&name, &group);
        let state = TenantState::new(name.clone(), role, selector, group, &mut self.meter, &root);
        self.tenants.insert(name, state);
    }
}

fn open_source(latency: &Latency) -> Result<Option<Box<dyn LatencySource>>, String> {
    Ok(match latency {
        Latency::Ebpf { .. } => None,
        Latency::Prometheus { url, metric, labels } => {
            Some(Box::new(PrometheusSource::new(url, metric, labels.clone())?))
        }
        Latency::Pushed { path } => Some(Box::new(PushedSource::open(path)?)),
    })
}
