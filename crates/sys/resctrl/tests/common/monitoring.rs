//! Monitoring groups of the pretended resctrl: parts of the default group with an RMID each.

use super::kernel::{Kernel, Refusal, STALE_BYTES};
use std::collections::BTreeSet;
use std::path::Path;

/// How the kernel's state names a monitoring group.
pub(super) fn key(name: &str) -> String {
    format!("mon_groups/{name}")
}

pub(super) fn is_key(group: &str) -> bool {
    group.starts_with("mon_groups/")
}

/// Domains by the folders of mon_data.
pub(super) fn domains(mon_data: &Path) -> Vec<u32> {
    let names = std::fs::read_dir(mon_data).unwrap().map(|e| e.unwrap().file_name());
    let mut domains: Vec<u32> = names
        .map(|n| n.to_str().unwrap().strip_prefix("mon_L3_").unwrap().parse().unwrap())
        .collect();
    domains.sort_unstable();
    domains
}

impl Kernel {
    /// Classes of service by name, the default one included.
    pub(super) fn classes(&self) -> impl Iterator<Item = &String> {
        self.groups.keys().filter(|name| !is_key(name))
    }

    /// What mon_groups holds; none if the machine does not monitor.
    pub(super) fn monitoring_groups(&self) -> Option<Vec<(String, bool)>> {
        self.info.contains_key("info/L3_MON/num_rmids").then_some(())?;
        let names = self.groups.keys().filter_map(|key| key.strip_prefix("mon_groups/"));
        Some(names.map(|name| (name.to_owned(), true)).collect())
    }

    /// Tasks as the file of a group lists them: the default class lists nothing on a machine that
    /// allots nothing, since the kernel goes by the class's id there.
    pub(super) fn listed(&self, group: &str) -> BTreeSet<u32> {
        if group.is_empty() && !self.allots_to("") {
            return BTreeSet::new();
        }
        self.groups[group].tasks.clone()
    }

    /// A class's counts include those of its monitoring groups.
    pub(super) fn moved_with_parts(&self, group: &str, domain: u32) -> Option<u64> {
        let own = *self.groups.get(group)?.moved.get(&domain)?;
        let parts = self.groups.iter().filter(|(name, _)| group.is_empty() && is_key(name));
        Some(own + parts.map(|(_, part)| part.moved[&domain]).sum::<u64>())
    }

    /// A class takes a task whole. A monitoring group takes it from the default class alone, and
    /// the task stays in that class.
    pub(super) fn move_task(&mut self, group: &str, task: u32) -> Result<(), Refusal> {
        let elsewhere = |(name, g): (&String, &super::kernel::Group)| {
            !name.is_empty() && !is_key(name) && g.tasks.contains(&task)
        };
        if is_key(group) && self.groups.iter().any(elsewhere) {
            return Err(self.say("Can't move task to different control group", libc::EINVAL));
        }
        for (name, other) in &mut self.groups {
            if !(is_key(group) && name.is_empty()) {
                other.tasks.remove(&task);
            }
        }
        let class = if is_key(group) { "" } else { group };
        self.groups.get_mut(class).unwrap().tasks.insert(task);
        self.groups.get_mut(group).unwrap().tasks.insert(task);
        Ok(())
    }

    /// Gives a group an RMID, with what that counted for its former owner.
    pub(super) fn make_monitoring(&mut self, name: &str) -> Result<(), Refusal> {
        if self.groups.contains_key(&key(name)) {
            return Err(libc::EEXIST);
        }
        if name == "mon_groups" || self.monitoring_groups().is_none() {
            return Err(libc::EPERM);
        }
        let rmids = self.info["info/L3_MON/num_rmids"].trim().parse().unwrap();
        if self.groups.len() >= rmids {
            return Err(self.say("Out of RMIDs", libc::ENOSPC));
        }
        if self.groups.len() + self.dirty_rmids >= rmids {
            // The kernel looks each second whether they are clean; here they are at the next try.
            self.dirty_rmids = 0;
            return Err(self.say("Out of RMIDs", libc::EBUSY));
        }
        let group = self.fresh(STALE_BYTES);
        self.groups.insert(key(name), group);
        Ok(())
    }
}
