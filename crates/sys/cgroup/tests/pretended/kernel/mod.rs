//! A pretended cgroup hierarchy: the state, the checks and the error numbers of the kernel
//! (kernel/cgroup), written apart from the crate under test so that both can be wrong only
//! separately. `refusals.rs` plays the same writes on it and on the real kernel.

mod cpu;
mod cpuset;
mod list;

use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};

/// Version of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// A directory's entries (name, is a directory) or a file's text.
pub(crate) enum Node {
    Dir(Vec<(String, bool)>),
    File(String),
}

/// The error number of a refused write.
pub(super) type Refusal = i32;

pub(super) fn refuse<T>(errno: Errno) -> Result<T, Refusal> {
    Err(errno.raw_os_error())
}

/// One hierarchy. Groups are named by their path, the top is "".
pub(crate) struct Kernel {
    version: Version,
    controllers: Vec<&'static str>,
    cpus: BTreeSet<u32>,
    groups: BTreeMap<String, Group>,
    /// Grows with each opened file, for counters.
    opened: u64,
}

#[derive(Clone, Debug, Default)]
struct Group {
    procs: BTreeSet<u32>,
    subtree: BTreeSet<&'static str>,
    frozen: bool,
    cpu: cpu::Cpu,
    cpuset: cpuset::Cpuset,
}

impl Kernel {
    /// A hierarchy of a machine with so many CPUs, and these processes at its top.
    pub(crate) fn new(
        version: Version,
        controllers: &[&'static str],
        cpus: u32,
        procs: &[u32],
    ) -> Self {
        let cpus: BTreeSet<u32> = (0..cpus).collect();
        let mut top = Group { procs: procs.iter().copied().collect(), ..Group::default() };
        top.cpuset = cpuset::Cpuset::top(&cpus);
        let groups = BTreeMap::from([(String::new(), top)]);
        Self { version, controllers: controllers.to_vec(), cpus, groups, opened: 0 }
    }

    /// What is at `path` (relative to the mount, "" = top).
    pub(crate) fn read(&self, path: &str) -> Option<Node> {
        if self.groups.contains_key(path) {
            return Some(Node::Dir(self.entries(path)));
        }
        let (group, file) = split(path);
        let there = self.groups.contains_key(group) && self.files(group).contains(&file);
        there.then(|| Node::File(self.text(group, file)))
    }

    /// A file is opened.
    pub(crate) fn advance(&mut self, _: &str) {
        self.opened += 1;
    }

    fn entries(&self, group: &str) -> Vec<(String, bool)> {
        let files = self.files(group).into_iter().map(|name| (name.to_owned(), false));
        let children = self.children(group).map(|path| (split(path).1.to_owned(), true));
        files.chain(children).collect()
    }

    fn children<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a String> + 'a {
        self.groups.keys().filter(move |path| !path.is_empty() && split(path).0 == group)
    }

    /// Whether a controller's files are in this group.
    fn has(&self, group: &str, controller: &'static str) -> bool {
        match self.version {
            Version::V1 => self.controllers.contains(&controller),
            Version::V2 if group.is_empty() => self.controllers.contains(&controller),
            Version::V2 => self.groups[split(group).0].subtree.contains(controller),
        }
    }

    fn files(&self, group: &str) -> Vec<&'static str> {
        let top = group.is_empty();
        let mut files = vec!["cgroup.procs"];
        match (self.version, top) {
            (Version::V1, _) => files.push("tasks"),
            (Version::V2, true) => files.extend(["cgroup.controllers", "cgroup.subtree_control"]),
            (Version::V2, false) => files.extend([
                "cgroup.controllers",
                "cgroup.subtree_control",
                "cgroup.threads",
                "cgroup.type",
                "cgroup.events",
                "cgroup.freeze",
                "cpu.stat",
            ]),
        }
        if self.has(group, "cpu") && !top {
            files.extend(cpu::files(self.version));
        }
        if self.has(group, "cpuset") {
            files.extend(cpuset::files(self.version, top));
        }
        if self.version == Version::V1 && self.has(group, "freezer") && !top {
            files.extend(["freezer.state", "freezer.self_freezing"]);
        }
        files
    }

    fn text(&self, group: &str, file: &str) -> String {
        let of = &self.groups[group];
        match file {
            "cgroup.procs" | "cgroup.threads" | "tasks" => {
                of.procs.iter().map(|pid| format!("{pid}\n")).collect()
            }
            "cgroup.controllers" => {
                words(self.controllers.iter().filter(|name| self.has(group, name)))
            }
            "cgroup.subtree_control" => words(of.subtree.iter()),
            "cgroup.type" => "domain\n".into(),
            "cgroup.freeze" => flag(of.frozen),
            "cgroup.events" => {
                let (populated, frozen) = (self.is_populated(group), self.is_frozen(group));
                format!("populated {}\nfrozen {}\n", u8::from(populated), u8::from(frozen))
            }
            "freezer.self_freezing" => flag(of.frozen),
            "freezer.state" if self.is_frozen(group) => "FROZEN\n".into(),
            "freezer.state" => "THAWED\n".into(),
            _ if file.starts_with("cpuset.") => self.cpuset_text(group, file),
            _ => self.cpu_text(group, file),
        }
    }

    fn is_populated(&self, group: &str) -> bool {
        let inside = |path: &&String| *path == group || path.starts_with(&format!("{group}/"));
        self.groups.keys().filter(inside).any(|path| !self.groups[path].procs.is_empty())
    }

    fn is_frozen(&self, group: &str) -> bool {
        above(group).any(|path| self.groups[path].frozen)
    }

    /// Writes a file by one call.
    pub(crate) fn write(&mut self, path: &str, text: &str) -> Result<(), Refusal> {
        let (group, file) = split(path);
        if !self.groups.contains_key(group) {
            // It was removed while the file was open.
            return refuse(Errno::NODEV);
        }
        let text = text.trim();
        match file {
            "cgroup.procs" | "tasks" => self.attach(group, text),
            "cgroup.subtree_control" => self.control(group, text),
            "cgroup.freeze" => self.freeze(group, text),
            "freezer.state" => match text {
                "FROZEN" | "THAWED" => {
                    self.group(group).frozen = text == "FROZEN";
                    Ok(())
                }
                _ => refuse(Errno::INVAL),
            },
            _ if file.starts_with("cpuset.") => self.write_cpuset(group, file, text),
            _ if file.starts_with("cpu.") => self.write_cpu(group, file, text),
            // Nobody takes what is written there.
            _ => refuse(Errno::INVAL),
        }
    }

    fn group(&mut self, group: &str) -> &mut Group {
        self.groups.get_mut(group).expect("looked up before")
    }

    fn freeze(&mut self, group: &str, text: &str) -> Result<(), Refusal> {
        match text.parse::<i32>() {
            Ok(0 | 1) => {
                self.group(group).frozen = text == "1";
                Ok(())
            }
            Ok(_) => refuse(Errno::RANGE),
            Err(_) => refuse(Errno::INVAL),
        }
    }

    /// A process moves in, with all its threads.
    fn attach(&mut self, group: &str, text: &str) -> Result<(), Refusal> {
        let Ok(pid) = text.parse::<u32>() else { return refuse(Errno::INVAL) };
        if !self.groups.values().any(|g| g.procs.contains(&pid)) {
            return refuse(Errno::SRCH);
        }
        let of = &self.groups[group];
        let internal = self.version == Version::V2 && !group.is_empty() && !of.subtree.is_empty();
        if internal {
            return refuse(Errno::BUSY);
        }
        if self.version == Version::V1 && self.has(group, "cpuset") && of.cpuset.is_bare() {
            return refuse(Errno::NOSPC);
        }
        for of in self.groups.values_mut() {
            of.procs.remove(&pid);
        }
        self.group(group).procs.insert(pid);
        Ok(())
    }

    fn control(&mut self, group: &str, text: &str) -> Result<(), Refusal> {
        const KNOWN: [&str; 4] = ["cpu", "cpuset", "io", "memory"];
        for word in text.split_ascii_whitespace() {
            let (on, name) = match (word.strip_prefix('+'), word.strip_prefix('-')) {
                (Some(name), _) => (true, name),
                (_, Some(name)) => (false, name),
                _ => return refuse(Errno::INVAL),
            };
            let Some(name) = KNOWN.into_iter().find(|known| *known == name) else {
                return refuse(Errno::INVAL);
            };
            self.control_one(group, name, on)?;
        }
        Ok(())
    }

    fn control_one(&mut self, group: &str, name: &'static str, on: bool) -> Result<(), Refusal> {
        if !on {
            if self.children(group).any(|child| self.groups[child].subtree.contains(name)) {
                return refuse(Errno::BUSY);
            }
            self.group(group).subtree.remove(name);
            return Ok(());
        }
        if !self.has(group, name) {
            return refuse(Errno::NOENT);
        }
        if !group.is_empty() && !self.groups[group].procs.is_empty() {
            return refuse(Errno::BUSY);
        }
        self.group(group).subtree.insert(name);
        Ok(())
    }

    pub(crate) fn mkdir(&mut self, parent: &str, name: &str) -> Result<(), Refusal> {
        let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") };
        if self.read(&path).is_some() {
            return refuse(Errno::EXIST);
        }
        self.groups.insert(path, Group::default());
        Ok(())
    }

    pub(crate) fn rmdir(&mut self, parent: &str, name: &str) -> Result<(), Refusal> {
        let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") };
        let Some(group) = self.groups.get(&path) else { return refuse(Errno::NOENT) };
        if !group.procs.is_empty() || self.children(&path).next().is_some() {
            return refuse(Errno::BUSY);
        }
        self.groups.remove(&path);
        Ok(())
    }
}

/// The group above and the last name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// A group and all above it but the top.
fn above<'a>(group: &'a str) -> impl Iterator<Item = &'a str> {
    let next = |path: &&'a str| -> Option<&'a str> { Some(split(path).0) };
    std::iter::successors(Some(group), next).take_while(|path| !path.is_empty())
}

fn flag(on: bool) -> String {
    format!("{}\n", u8::from(on))
}

fn words<'a>(words: impl Iterator<Item = &'a &'static str>) -> String {
    let words: Vec<&str> = words.copied().collect();
    words.join(" ") + "\n"
}
