//! A pretended resctrl: the state, the checks and the words of the kernel (fs/resctrl), written
//! apart from the crate under test so that both can be wrong only separately.

use super::monitoring;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What a fresh RMID still carries of its former owner.
pub(crate) const STALE_BYTES: u64 = 1 << 40;
/// What every reading of a bandwidth counter adds.
pub(crate) const GROWTH_BYTES: u64 = 65_536;

#[derive(Clone, Debug)]
struct Resource {
    name: String,
    classes: usize,
    domains: Vec<u32>,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    Mask { full: u64, min_bits: u32, sparse: bool },
    Amount { min: u64, max: u64, step: u64 },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    values: BTreeMap<(String, u32), u64>,
    pub(super) tasks: BTreeSet<u32>,
    cpus: BTreeSet<u32>,
    pub(super) moved: BTreeMap<u32, u64>,
}

pub(crate) struct Kernel {
    pub(super) info: BTreeMap<String, String>,
    resources: Vec<Resource>,
    padded: bool,
    domains: Vec<u32>,
    online: BTreeSet<u32>,
    /// Monitoring groups are `mon_groups/NAME`, the default group "".
    pub(super) groups: BTreeMap<String, Group>,
    /// RMIDs of monitoring groups that are gone, whose lines are still in the cache.
    pub(super) dirty_rmids: usize,
    status: String,
}

/// A directory's entries (name, is a directory) or a file's text.
pub(crate) enum Node {
    Dir(Vec<(String, bool)>),
    File(String),
}

pub(super) type Refusal = i32;

impl Kernel {
    /// Takes shape and limits from a fixture.
    pub(crate) fn load(tree: &Path) -> Self {
        // A machine that allots nothing has none.
        let text = fs::read_to_string(tree.join("schemata")).unwrap_or_default();
        let mut kernel = Kernel {
            info: BTreeMap::new(),
            resources: text.lines().map(|line| resource(tree, line)).collect(),
            padded: text.starts_with(' '),
            domains: Vec::new(),
            online: (0..4).collect(),
            groups: BTreeMap::new(),
            dirty_rmids: 0,
            status: "ok".into(),
        };
        kernel.domains = match kernel.resources.last() {
            Some(resource) => resource.domains.clone(),
            None => monitoring::domains(&tree.join("mon_data")),
        };
        collect(&tree.join("info"), "info", &mut kernel.info);
        let mut default = kernel.fresh(0);
        default.cpus = kernel.online.clone();
        default.tasks = [1, 2].into();
        kernel.groups.insert(String::new(), default);
        kernel
    }

    /// Whether a group has a schemata.
    pub(super) fn allots_to(&self, group: &str) -> bool {
        !self.resources.is_empty() && !monitoring::is_key(group)
    }

    pub(super) fn fresh(&self, stale: u64) -> Group {
        let mut group = Group::default();
        for resource in &self.resources {
            for domain in &resource.domains {
                let value = match resource.values {
                    Values::Mask { full, .. } => full,
                    Values::Amount { max, .. } => max,
                };
                group.values.insert((resource.name.clone(), *domain), value);
            }
        }
        group.moved = self.domains.iter().map(|d| (*d, stale)).collect();
        group
    }

    /// What is at `path` (relative to the mount, "" = root).
    pub(crate) fn read(&self, path: &str) -> Option<Node> {
        if path == "info/last_cmd_status" {
            return Some(Node::File(format!("{}\n", self.status)));
        }
        if path == "info" || path.starts_with("info/") {
            return self.read_info(path);
        }
        let (group, rest) = self.split(path)?;
        match rest {
            "" => Some(Node::Dir(self.group_entries(&group))),
            "schemata" | "mode" if !self.allots_to(&group) => None,
            "schemata" => Some(Node::File(self.schemata(&group))),
            "mode" => Some(Node::File("shareable\n".into())),
            "mon_groups" if group.is_empty() => Some(Node::Dir(self.monitoring_groups()?)),
            "tasks" => Some(Node::File(lines(&self.listed(&group)))),
            "cpus_list" => Some(Node::File(list(&self.groups[&group].cpus))),
            "mon_data" => {
                let dirs = self.domains.iter().map(|d| (format!("mon_L3_{d:02}"), true));
                Some(Node::Dir(dirs.collect()))
            }
            _ => self.read_counter(&group, rest),
        }
    }

    fn read_info(&self, path: &str) -> Option<Node> {
        if let Some(text) = self.info.get(path) {
            return Some(Node::File(text.clone()));
        }
        let below = format!("{path}/");
        let names = self.info.keys().filter_map(|key| key.strip_prefix(&below));
        let entries: BTreeSet<(String, bool)> = names
            .map(|name| match name.split_once('/') {
                Some((dir, _)) => (dir.to_owned(), true),
                None => (name.to_owned(), false),
            })
            .collect();
        (!entries.is_empty()).then(|| Node::Dir(entries.into_iter().collect()))
    }

    fn read_counter(&self, group: &str, rest: &str) -> Option<Node> {
        let mut parts = rest.strip_prefix("mon_data/mon_L3_")?.split('/');
        let domain: u32 = parts.next()?.parse().ok()?;
        let moved = self.moved_with_parts(group, domain)?;
        let value = match parts.next() {
            None => {
                let names = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];
                return Some(Node::Dir(names.map(|name| (name.to_owned(), false)).into()));
            }
            Some("llc_occupancy") => 4 * GROWTH_BYTES,
            Some("mbm_total_bytes") => moved,
            Some("mbm_local_bytes") => moved / 2,
            Some(_) => return None,
        };
        Some(Node::File(format!("{value}\n")))
    }

    /// Memory traffic goes on each time somebody opens the total's file.
    pub(crate) fn advance(&mut self, path: &str) {
        let Some((group, rest)) = self.split(path) else { return };
        let domain = rest.strip_prefix("mon_data/mon_L3_");
        let domain = domain.and_then(|r| r.strip_suffix("/mbm_total_bytes"));
        let moved = &mut self.groups.get_mut(&group).unwrap().moved;
        if let Some(moved) = domain.and_then(|d| moved.get_mut(&d.parse().ok()?)) {
            *moved += GROWTH_BYTES;
        }
    }

    fn group_entries(&self, group: &str) -> Vec<(String, bool)> {
        let files: &[&str] = match self.allots_to(group) {
            true => &["schemata", "mode", "tasks", "cpus_list"],
            false => &["tasks", "cpus_list"],
        };
        let mut entries: Vec<_> = files.iter().map(|name| ((*name).to_owned(), false)).collect();
        entries.push(("mon_data".to_owned(), true));
        if group.is_empty() {
            entries.push(("info".to_owned(), true));
            entries.extend(self.monitoring_groups().map(|_| ("mon_groups".to_owned(), true)));
            let names = self.classes().filter(|name| !name.is_empty());
            entries.extend(names.map(|name| (name.clone(), true)));
        }
        entries
    }

    fn split<'p>(&self, path: &'p str) -> Option<(String, &'p str)> {
        if let Some(inner) = path.strip_prefix("mon_groups/") {
            let (name, rest) = inner.split_once('/').unwrap_or((inner, ""));
            let group = monitoring::key(name);
            return self.groups.contains_key(&group).then_some((group, rest));
        }
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if !first.is_empty() && self.groups.contains_key(first) {
            return Some((first.to_owned(), rest));
        }
        Some((String::new(), path))
    }

    fn schemata(&self, group: &str) -> String {
        let mut text = String::new();
        for resource in &self.resources {
            let one = |domain: &u32| {
                let value = self.groups[group].values[&(resource.name.clone(), *domain)];
                match (&resource.values, self.padded) {
                    (Values::Mask { .. }, true) => format!("{domain}={value:03x}"),
                    (Values::Mask { .. }, false) => format!("{domain}={value:x}"),
                    (Values::Amount { .. }, true) => format!("{domain}={value:3}"),
                    (Values::Amount { .. }, false) => format!("{domain}={value}"),
                }
            };
            let values: Vec<String> = resource.domains.iter().map(one).collect();
            let width = if self.padded { 6 } else { 0 };
            text += &format!("{:>width$}:{}\n", resource.name, values.join(";"));
        }
        text
    }

    pub(super) fn say(&mut self, why: impl Into<String>, errno: i32) -> Refusal {
        self.status = why.into();
        errno
    }

    /// One `write` call.
    pub(crate) fn write(&mut self, path: &str, text: &str) -> Result<(), Refusal> {
        let Some((group, rest)) = self.split(path) else { return Err(libc::ENOENT) };
        self.status = "ok".into();
        match rest {
            "schemata" => self.write_schemata(&group, text),
            "tasks" => self.write_task(&group, text),
            "cpus_list" => self.write_cpus(&group, text),
            _ => Err(libc::EACCES),
        }
    }

    fn write_schemata(&mut self, group: &str, text: &str) -> Result<(), Refusal> {
        let Some(text) = text.strip_suffix('\n') else { return Err(libc::EINVAL) };
        let mut staged = BTreeMap::new();
        for line in text.split('\n') {
            let Some((name, values)) = line.split_once(':') else {
                return Err(self.say("Missing ':'", libc::EINVAL));
            };
            let name = name.trim();
            let Some(resource) = self.resources.iter().find(|r| r.name == name).cloned() else {
                let why = format!("Unknown or unsupported resource name '{name}'");
                return Err(self.say(why, libc::EINVAL));
            };
            for part in values.split(';') {
                let (domain, value) =
                    resource.accept(part).map_err(|why| self.say(why, libc::EINVAL))?;
                if staged.insert((resource.name.clone(), domain), value).is_some() {
                    return Err(self.say(format!("Duplicate domain {domain}"), libc::EINVAL));
                }
            }
        }
        self.groups.get_mut(group).unwrap().values.extend(staged);
        Ok(())
    }

    fn write_task(&mut self, group: &str, text: &str) -> Result<(), Refusal> {
        let Ok(task) = text.trim().parse::<u32>() else {
            return Err(self.say("Task list parsing error", libc::EINVAL));
        };
        let done = if Path::new(&format!("/proc/{task}")).exists() {
            self.move_task(group, task)
        } else {
            Err(self.say(format!("No task {task}"), libc::ESRCH))
        };
        let more = format!("{}\nError while processing task {task}", self.status);
        done.map_err(|errno| self.say(more, errno))
    }

    fn write_cpus(&mut self, group: &str, text: &str) -> Result<(), Refusal> {
        let Some(wanted) = parse_list(text.trim()) else {
            return Err(self.say("Bad CPU list/mask", libc::EINVAL));
        };
        if !wanted.is_subset(&self.online) {
            return Err(self.say("Can only assign online CPUs", libc::EINVAL));
        }
        let given_up = &self.groups[group].cpus - &wanted;
        for cpu in &wanted {
            self.groups.values_mut().for_each(|g| {
                g.cpus.remove(cpu);
            });
        }
        self.groups.get_mut("").unwrap().cpus.extend(given_up);
        self.groups.get_mut(group).unwrap().cpus = wanted;
        Ok(())
    }

    /// Makes a class of service.
    pub(crate) fn mkdir(&mut self, parent: &str, name: &str) -> Result<(), Refusal> {
        if parent == "mon_groups" {
            return self.make_monitoring(name);
        }
        if !parent.is_empty() {
            return Err(libc::EPERM);
        }
        if self.groups.contains_key(name) || name == "info" {
            return Err(libc::EEXIST);
        }
        self.status = "ok".into();
        // Only machines that allot something have classes at all.
        let Some(classes) = self.resources.iter().map(|r| r.classes).min() else {
            return Err(libc::EPERM);
        };
        if self.classes().count() >= classes {
            return Err(self.say("Out of CLOSIDs", libc::ENOSPC));
        }
        let group = self.fresh(STALE_BYTES);
        self.groups.insert(name.to_owned(), group);
        Ok(())
    }

    /// Removes one; what belonged to it goes back to the default group.
    pub(crate) fn rmdir(&mut self, parent: &str, name: &str) -> Result<(), Refusal> {
        if parent == "mon_groups" {
            self.groups.remove(&monitoring::key(name)).ok_or(libc::EPERM)?;
            self.dirty_rmids += 1;
            return Ok(());
        }
        if !parent.is_empty() || name.is_empty() || !self.groups.contains_key(name) {
            return Err(libc::EPERM);
        }
        let gone = self.groups.remove(name).unwrap();
        let default = self.groups.get_mut("").unwrap();
        default.tasks.extend(gone.tasks);
        default.cpus.extend(gone.cpus);
        Ok(())
    }
}

impl Resource {
    /// Checks `id=value` as the kernel does, in its order and with its words.
    fn accept(&self, part: &str) -> Result<(u32, u64), String> {
        let number = |id: &str| id.parse::<u32>().ok();
        let Some((Some(domain), value)) =
            part.split_once('=').map(|(id, v)| (number(id), v.trim()))
        else {
            return Err("Missing '=' or non-numeric domain".into());
        };
        if !self.domains.contains(&domain) {
            return Err("ok".into());
        }
        let value = match self.values {
            Values::Mask { full, min_bits, sparse } => mask(value, full, min_bits, sparse)?,
            Values::Amount { min, max, step } => amount(value, min, max, step)?,
        };
        Ok((domain, value))
    }
}

fn mask(text: &str, full: u64, min_bits: u32, sparse: bool) -> Result<u64, String> {
    let Ok(mask) = u64::from_str_radix(text, 16) else {
        return Err(format!("Non-hex character in the mask {text}"));
    };
    if (min_bits > 0 && mask == 0) || mask > full {
        return Err("Mask out of range".into());
    }
    let bits: Vec<bool> = (0..64).map(|bit| mask >> bit & 1 == 1).collect();
    let runs: Vec<&[bool]> = bits.split(|bit| !bit).filter(|run| !run.is_empty()).collect();
    if !sparse && runs.len() > 1 {
        return Err(format!("The mask {mask:x} has non-consecutive 1-bits"));
    }
    if runs.first().map_or(0, |run| run.len()) < min_bits as usize {
        return Err(format!("Need at least {min_bits} bits in the mask"));
    }
    Ok(mask)
}

fn amount(text: &str, min: u64, max: u64, step: u64) -> Result<u64, String> {
    let Ok(value) = text.parse::<u64>() else { return Err(format!("Invalid MB value {text}")) };
    if value < min || value > max {
        return Err(format!("MB value {value} out of range [{min},{max}]"));
    }
    Ok(value.div_ceil(step) * step)
}

fn resource(tree: &Path, line: &str) -> Resource {
    let (name, values) = line.split_once(':').unwrap();
    let name = name.trim().to_owned();
    let dir = tree.join("info").join(&name);
    let text = |file: &str| fs::read_to_string(dir.join(file)).map(|t| t.trim().to_owned());
    let number = |file: &str| text(file).unwrap().parse::<u64>().unwrap();
    let amd = fs::read_to_string(tree.join("../../../proc/cpuinfo")).unwrap().contains("AMD");
    let domains = values.split(';').map(|v| v.split('=').next().unwrap().parse().unwrap());
    Resource {
        domains: domains.collect(),
        classes: number("num_closids") as usize,
        values: if name == "MB" {
            let max = if amd { 2048 } else { 100 };
            Values::Amount { min: number("min_bandwidth"), max, step: number("bandwidth_gran") }
        } else {
            Values::Mask {
                full: u64::from_str_radix(&text("cbm_mask").unwrap(), 16).unwrap(),
                min_bits: number("min_cbm_bits") as u32,
                sparse: text("sparse_masks").is_ok_and(|t| t == "1"),
            }
        },
        name,
    }
}

fn collect(dir: &Path, name: &str, into: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{name}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            collect(&entry.path(), &name, into);
        } else {
            into.insert(name, fs::read_to_string(entry.path()).unwrap());
        }
    }
}

fn parse_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(low.parse().ok()?..=high.parse::<u32>().ok()?);
    }
    Some(cpus)
}

fn list(cpus: &BTreeSet<u32>) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    cpus.join(",") + "\n"
}

fn lines(tasks: &BTreeSet<u32>) -> String {
    tasks.iter().map(|task| format!("{task}\n")).collect()
}
