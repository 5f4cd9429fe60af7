//! Groups that contain each other: limits and readings of one would be those of the other too.

use super::{Binding, Controller, Machine, Role};
use crate::checked::Checked;
use crate::error::Faults;
use crate::spot::Spot;

pub(super) fn refuse(
    config: &Checked,
    machine: &Machine,
    bindings: &[Binding],
    faults: &mut Faults,
) {
    for (index, later) in bindings.iter().enumerate() {
        let Some((spot, path)) = place(config, later) else { continue };
        let clash = bindings[..index].iter().find_map(|first| problem(first, later));
        let agent = || if later.role == Role::Batch { holds_agent(machine, later) } else { None };
        if let Some((problem, help)) = clash.or_else(agent) {
            faults.push(spot, path, problem, help.to_owned());
        }
    }
}

/// Where a tenant is configured.
fn place<'a>(config: &'a Checked, binding: &Binding) -> Option<(&'a Spot, &'a str)> {
    let services = config.services.iter().map(|s| (&s.name, &s.spot, s.path.as_str()));
    let batch = config.batch.iter().map(|b| (&b.name, &b.spot, b.path.as_str()));
    let found = services.chain(batch).find(|(name, ..)| **name == binding.tenant);
    found.map(|(_, spot, path)| (spot, path))
}

/// What is wrong between two tenants, and what would be right.
fn problem(first: &Binding, later: &Binding) -> Option<(String, &'static str)> {
    let (a, b) = (&first.tenant, &later.tenant);
    for (controller, path, other) in common(first, later) {
        if path == other {
            let problem = format!("`{b}` and `{a}` are the same group ({controller}:{path})");
            return Some((problem, "a group of its own for each"));
        }
        let (outer, inner, paths) = match (contains(other, path), contains(path, other)) {
            (true, _) => (later, first, [other, path]),
            (_, true) => (first, later, [path, other]),
            _ => continue,
        };
        let problem = format!(
            "`{}` contains `{}` ({controller}:{}, {})",
            outer.tenant, inner.tenant, paths[0], paths[1]
        );
        let help = match (outer.role, inner.role) {
            (Role::Batch, Role::Service) => {
                "limits on batch would hold the service too: a batch \
                                             group beside the service's, not above it"
            }
            (Role::Service, Role::Batch) => {
                "batch would count as the service: a batch group \
                                             beside the service's, not below it"
            }
            _ => "each would count the other's work: groups beside each other",
        };
        return Some((problem, help));
    }
    None
}

/// The paths of two tenants in the hierarchies where both have a group.
fn common<'a>(
    a: &'a Binding,
    b: &'a Binding,
) -> impl Iterator<Item = (Controller, &'a str, &'a str)> {
    a.groups.iter().filter_map(|(controller, group)| {
        Some((*controller, group.path(), b.groups.get(controller)?.path()))
    })
}

fn holds_agent(machine: &Machine, batch: &Binding) -> Option<(String, &'static str)> {
    batch.groups.iter().find_map(|(controller, group)| {
        let agent = machine.agent.groups.get(controller)?;
        let inside = group.path() == agent || contains(group.path(), agent);
        let problem = format!("`{}` holds the agent itself ({controller}:{agent})", batch.tenant);
        inside.then_some((problem, "a batch group without the agent: freezing it would stop both"))
    })
}

/// Whether `inner` lies below `outer`.
fn contains(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}
