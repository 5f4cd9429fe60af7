//! Does this machine have what the configuration names? Looked up before anything is changed, so
//! that every error carries the line that caused it.

use quell_cgroup::{CgroupError, Group, Layout, Version};
use quell_config::{
    Checked, ConfigErrors, Controller, Found, LinkConfig, Machine, Needs, Selector, resolve,
};
use quell_types::{Gap, Reading};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// All that does not fit: selectors that lead to nothing, groups that overlap, batch that holds
/// the agent itself, CPUs that are not online, links that are not there.
pub(crate) fn fit(config: &Checked) -> Result<(), ConfigErrors> {
    let layout = Layout::discover("/");
    let selectors = config.services.iter().map(|s| &s.selector);
    let selectors = selectors.chain(config.batch.iter().map(|b| &b.selector));
    let machine = Machine {
        topology: quell_topology::Machine::new("/").topology(),
        selectors: selectors.map(|s| (s.clone(), look_up(&layout, s))).collect(),
        links: config.links.iter().map(|l| (l.name.to_string(), link(l))).collect(),
        agent: found(Group::of_pid(&layout, std::process::id())).unwrap_or_default(),
        ..Machine::default()
    };
    // Which groups must be there is the platform's question: it knows what it can do without.
    let needs = Needs { service: BTreeSet::new(), batch: BTreeSet::new() };
    resolve(config, &machine, &needs).map(drop)
}

fn look_up(layout: &Layout, selector: &Selector) -> Reading<Found> {
    found(group(layout, selector))
}

/// The group of a selector.
pub(crate) fn group(layout: &Layout, selector: &Selector) -> Result<Group, CgroupError> {
    match selector {
        Selector::Cgroup(path) => Group::find(layout, path),
        Selector::Unit(unit) => Group::of_unit(layout, unit),
        Selector::Pid(pid) => Group::of_pid(layout, *pid),
        Selector::Vm(name) => quell_linux::find_vm(layout, name),
    }
}

fn found(group: Result<Group, CgroupError>) -> Reading<Found> {
    let group = group.map_err(|error| Gap::absent(error.to_string()))?;
    let mut groups = BTreeMap::new();
    for place in group.places() {
        let inner = place.dir.strip_prefix(&place.top).unwrap_or(Path::new(""));
        let path = format!("/{}", inner.display());
        let mut add = |controller| {
            groups.entry(controller).or_insert_with(|| path.clone());
        };
        if place.version == Version::V2 {
            add(Controller::Unified);
        }
        for (name, controller) in [
            ("cpu", Controller::Cpu),
            ("cpuset", Controller::Cpuset),
            ("freezer", Controller::Freezer),
        ] {
            if place.controllers.iter().any(|c| c == name) {
                add(controller);
            }
        }
    }
    Ok(Found { groups })
}

/// Links in other namespaces are looked for when they are opened.
fn link(link: &LinkConfig) -> Reading<()> {
    let folder = Path::new("/sys/class/net").join(link.name.as_str());
    if link.netns.is_some() || folder.exists() {
        return Ok(());
    }
    Err(Gap::absent(format!("{} is not there", folder.display())))
}
