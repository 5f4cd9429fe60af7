//! Selectors -> groups.

use super::{Binding, Controller, GroupBinding, Machine, Role};
use crate::checked::{Checked, Selector};
use crate::error::Faults;
use crate::spot::Spot;
use quell_types::Tenant;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Finder<'a> {
    pub(super) machine: &'a Machine,
    pub(super) faults: &'a mut Faults,
}

/// What is looked for.
struct Wanted<'a> {
    tenant: &'a Tenant,
    role: Role,
    selector: &'a Selector,
    adopt: bool,
    spot: &'a Spot,
    path: &'a str,
    needs: &'a BTreeSet<Controller>,
}

impl Finder<'_> {
    pub(super) fn services(
        &mut self,
        config: &Checked,
        needs: &BTreeSet<Controller>,
    ) -> Vec<Binding> {
        let mut found = Vec::new();
        for service in &config.services {
            let wanted = Wanted {
                tenant: &service.name,
                role: Role::Service,
                selector: &service.selector,
                adopt: service.adopt,
                spot: &service.spot,
                path: &service.path,
                needs,
            };
            let latency = Some(service.latency.clone());
            found.extend(self.bind(&wanted).map(|binding| Binding { latency, ..binding }));
        }
        found
    }

    pub(super) fn batch(&mut self, config: &Checked, needs: &BTreeSet<Controller>) -> Vec<Binding> {
        let mut found = Vec::new();
        for batch in &config.batch {
            found.extend(self.bind(&Wanted {
                tenant: &batch.name,
                role: Role::Batch,
                selector: &batch.selector,
                adopt: batch.adopt,
                spot: &batch.spot,
                path: &batch.path,
                needs,
            }));
        }
        found
    }

    fn bind(&mut self, wanted: &Wanted<'_>) -> Option<Binding> {
        let found = match self.machine.selectors.get(wanted.selector) {
            Some(Ok(found)) => found,
            Some(Err(gap)) => return self.not_found(wanted, &gap.to_string()),
            None => return self.not_found(wanted, "it was not looked up"),
        };
        let mut groups: BTreeMap<Controller, GroupBinding> = found
            .groups
            .iter()
            .filter(|(_, path)| path.as_str() != "/")
            .map(|(controller, path)| (*controller, GroupBinding::Existing(path.clone())))
            .collect();
        let lacks =
            |c: &&Controller| self.machine.controllers.contains(c) && !groups.contains_key(c);
        let lacking: Vec<Controller> = wanted.needs.iter().filter(lacks).copied().collect();
        if !lacking.is_empty() && !wanted.adopt {
            self.no_group(wanted, &lacking);
            return None;
        }
        let own = format!("/quell/{}", wanted.tenant);
        groups.extend(lacking.iter().map(|c| (*c, GroupBinding::Adopted(own.clone()))));
        Some(Binding {
            tenant: wanted.tenant.clone(),
            role: wanted.role,
            selector: wanted.selector.clone(),
            groups,
            latency: None,
        })
    }

    fn not_found(&mut self, wanted: &Wanted<'_>, why: &str) -> Option<Binding> {
        let (key, help) = match wanted.selector {
            Selector::Cgroup(_) => ("cgroup", "a group that is there in some mounted hierarchy"),
            Selector::Unit(_) => ("unit", "a unit that `systemctl status` shows as active"),
            Selector::Pid(_) => ("pid", "a process that runs"),
            Selector::Vm(_) => ("vm", "a machine that `virsh list` shows as running"),
        };
        let problem = format!("{} was not found: {why}", wanted.selector);
        self.faults.push(wanted.spot, format!("{}.{key}", wanted.path), problem, help.to_owned());
        None
    }

    fn no_group(&mut self, wanted: &Wanted<'_>, lacking: &[Controller]) {
        let names = lacking.iter().map(Controller::to_string).collect::<Vec<_>>().join(", ");
        let problem = format!(
            "{} has no group of its own under the controller{} {names}, so `{}` cannot be limited \
             there",
            wanted.selector,
            if lacking.len() == 1 { "" } else { "s" },
            wanted.tenant,
        );
        let help = format!(
            "adopt = true, and Quell moves its tasks into /quell/{} there; or a group made by you",
            wanted.tenant
        );
        self.faults.push(wanted.spot, format!("{}.adopt", wanted.path), problem, help);
    }
}
