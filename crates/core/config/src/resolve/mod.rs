//! Checked -> resolved: does this machine have what the configuration names?

mod groups;
mod overlap;

use crate::checked::{Checked, LatencySource, Selector};
use crate::error::{ConfigErrors, Faults};
use groups::Finder;
use quell_types::{
    BatchSpec, CpuSet, Knob, KnobRange, LinkSpec, Reading, ServiceSpec, Setup, Tenant, Topology,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A hierarchy of cgroups by what it controls. Under cgroup v2 all are one tree, and the paths of
/// a group are the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Controller {
    /// CPU bandwidth, weight and idle class.
    Cpu,
    /// CPU sets.
    Cpuset,
    /// The freezer.
    Freezer,
    /// The v2 tree itself: pressure, and where eBPF programs are attached.
    Unified,
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Controller::Cpu => "cpu",
            Controller::Cpuset => "cpuset",
            Controller::Freezer => "freezer",
            Controller::Unified => "unified",
        })
    }
}

/// What a selector leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The group in each hierarchy, as a path from its root; `/` and a missing entry both mean
    /// that there is no group of its own.
    pub groups: BTreeMap<Controller, String>,
}

/// Controllers in which a group is needed, by role: what the control law sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Of every service.
    pub service: BTreeSet<Controller>,
    /// Of every batch group.
    pub batch: BTreeSet<Controller>,
}

/// The machine as far as a configuration depends on it.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Its CPUs.
    pub topology: Topology,
    /// Hierarchies that are mounted. What is not there cannot be needed: it is a missing
    /// capability, with which the laws cope.
    pub controllers: BTreeSet<Controller>,
    /// What each selector of the configuration leads to, or why to nothing.
    pub selectors: BTreeMap<Selector, Reading<Found>>,
    /// Whether each link of the configuration exists, by its name, or why not.
    pub links: BTreeMap<String, Reading<()>>,
    /// The agent's own groups: batch must not hold them, for it can be frozen.
    pub agent: Found,
    /// What can be set, by the platform's own account; may be empty and filled in later.
    pub knobs: BTreeMap<Knob, KnobRange>,
}

/// What a tenant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A latency-critical service.
    Service,
    /// A group of batch work.
    Batch,
}

/// The group of a tenant in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupBinding {
    /// One that is there.
    Existing(String),
    /// One that Quell makes and moves the tenant's tasks into.
    Adopted(String),
}

impl GroupBinding {
    /// The path from the hierarchy's root.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            GroupBinding::Existing(path) | GroupBinding::Adopted(path) => path,
        }
    }
}

/// What a tenant is on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// Its name.
    pub tenant: Tenant,
    /// What it is.
    pub role: Role,
    /// How it is found again after a restart.
    pub selector: Selector,
    /// Its groups.
    pub groups: BTreeMap<Controller, GroupBinding>,
    /// Where its latency comes from; none for batch.
    pub latency: Option<LatencySource>,
}

/// A configuration that fits the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// What the control laws know.
    pub setup: Setup,
    /// Services first, then batch groups, each in the order of the configuration.
    pub bindings: Vec<Binding>,
}

/// Fits a configuration to a machine.
///
/// # Errors
/// All that does not fit: CPUs that are not online, selectors that lead to nothing, groups that
/// overlap, controllers without a group where none may be made, links that are not there.
pub fn resolve(
    config: &Checked,
    machine: &Machine,
    needs: &Needs,
) -> Result<Resolved, ConfigErrors> {
    let mut faults = Faults::default();
    let managed = managed_cpus(config, machine, &mut faults);
    let mut finder = Finder { machine, faults: &mut faults };
    let mut bindings = finder.services(config, &needs.service);
    bindings.extend(finder.batch(config, &needs.batch));
    overlap::refuse(config, machine, &bindings, &mut faults);
    links(config, machine, &mut faults);
    if faults.is_empty() {
        Ok(Resolved { setup: setup(config, machine, managed), bindings })
    } else {
        Err(faults.into_errors())
    }
}

fn managed_cpus(config: &Checked, machine: &Machine, faults: &mut Faults) -> CpuSet {
    let online = machine.topology.online();
    let Some(wanted) = &config.agent.manage else { return online };
    let absent = wanted.difference(&online);
    if !absent.is_empty() {
        let verb = if absent.len() == 1 { "is" } else { "are" };
        let problem = format!("CPU {absent} {verb} not online");
        let help = format!("CPUs of {online}");
        faults.push(&config.agent.manage_spot, "agent.manage", problem, help);
    }
    wanted.clone()
}

fn links(config: &Checked, machine: &Machine, faults: &mut Faults) {
    for link in &config.links {
        let why = match machine.links.get(link.name.as_str()) {
            Some(Ok(())) => continue,
            Some(Err(gap)) => gap.to_string(),
            None => "it was not looked up".to_owned(),
        };
        let place = match &link.netns {
            Some(netns) => format!(" in network namespace {netns}"),
            None => String::new(),
        };
        let problem = format!("there is no interface `{}`{place}: {why}", link.name);
        let help = "an interface that `ip link` lists".to_owned();
        faults.push(&link.spot, format!("{}.name", link.path), problem, help);
    }
}

fn setup(config: &Checked, machine: &Machine, managed: CpuSet) -> Setup {
    let services = config.services.iter().map(|service| ServiceSpec {
        name: service.name.clone(),
        slo: service.slo,
        peak_qps: service.peak_qps,
        links: service.links.clone(),
    });
    let batch = config.batch.iter().map(|batch| BatchSpec {
        name: batch.name.clone(),
        links: batch.links.clone(),
        takes_tasks: batch.takes_tasks,
        max_tasks: batch.max_tasks,
    });
    let links = config
        .links
        .iter()
        .map(|link| LinkSpec { name: link.name.clone(), capacity: link.capacity });
    Setup {
        topology: machine.topology.clone(),
        services: services.collect(),
        batch: batch.collect(),
        links: links.collect(),
        knobs: knobs(config, machine, &managed),
        managed_cpus: managed,
    }
}

/// The knobs of configured tenants and managed CPUs, with CPU sets cut to the managed ones.
fn knobs(config: &Checked, machine: &Machine, managed: &CpuSet) -> BTreeMap<Knob, KnobRange> {
    let named = |tenant: &Tenant| {
        let services = config.services.iter().map(|s| &s.name);
        services.chain(config.batch.iter().map(|b| &b.name)).any(|name| name == tenant)
    };
    let ours = |knob: &Knob| match (knob, knob.tenant()) {
        (Knob::FrequencyMax { cpu } | Knob::DutyCycle { cpu } | Knob::StayAwake { cpu }, _) => {
            managed.contains(*cpu)
        }
        (_, Some(tenant)) => named(tenant),
        _ => false,
    };
    let cut = |range: &KnobRange| match range {
        KnobRange::Cpus { within, exclusive } => {
            KnobRange::Cpus { within: within.intersection(managed), exclusive: *exclusive }
        }
        other => other.clone(),
    };
    let all = machine.knobs.iter().filter(|(knob, _)| ours(knob));
    all.map(|(knob, range)| (knob.clone(), cut(range))).collect()
}
