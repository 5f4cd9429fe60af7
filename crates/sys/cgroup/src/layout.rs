//! Which hierarchies are mounted, and where.

use crate::mounts::{self, Mount};
use std::fmt;
use std::path::{Path, PathBuf};

/// Version of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// cgroup v1: one hierarchy for one or a few controllers.
    V1,
    /// cgroup v2: the unified hierarchy.
    V2,
}

/// What is mounted as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutKind {
    /// No hierarchy at all.
    None,
    /// v1 only.
    V1,
    /// v2, and no controller in v1.
    V2,
    /// Controllers in v1, and a v2 tree beside.
    Hybrid,
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LayoutKind::None => "none",
            LayoutKind::V1 => "v1",
            LayoutKind::V2 => "v2",
            LayoutKind::Hybrid => "hybrid",
        })
    }
}

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its version.
    pub version: Version,
    /// Where it is mounted, as the mount table says.
    pub point: PathBuf,
    /// The same below the root directory: where to read and write.
    pub dir: PathBuf,
    /// Its controllers, in the kernel's words; for v2 those of the root's `cgroup.controllers`.
    pub controllers: Vec<String>,
    /// Name of a v1 hierarchy without controllers, as `systemd`.
    pub name: Option<String>,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// The part of the hierarchy that the mount shows: `/` but in some containers.
    pub part: String,
}

impl Hierarchy {
    /// Whether it has this controller.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|c| c == controller)
    }

    /// How `/proc/PID/cgroup` names it: its controllers, `name=…`, or nothing for v2.
    pub(crate) fn is_named_by(&self, words: &[&str]) -> bool {
        match (self.version, &self.name) {
            (Version::V2, _) => words.is_empty(),
            (Version::V1, Some(name)) => words.contains(&format!("name={name}").as_str()),
            (Version::V1, None) => words.iter().any(|word| self.has(word)),
        }
    }
}

/// All mounted hierarchies, from the mount table: never from what kind of file system
/// `/sys/fs/cgroup` is, which says nothing about hybrid machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
    hierarchies: Vec<Hierarchy>,
}

/// Mount options that are no controllers.
const PLAIN_OPTIONS: &[&str] = &[
    "rw",
    "ro",
    "relatime",
    "noatime",
    "nodiratime",
    "strictatime",
    "nosuid",
    "nodev",
    "noexec",
    "sync",
    "dirsync",
    "lazytime",
    "xattr",
    "clone_children",
    "noprefix",
    "none",
    "all",
    "seclabel",
    "cpuset_v2_mode",
    "favordynmods",
    "mand",
];

impl Layout {
    /// Reads `ROOT/proc/mounts`. A machine without the file, or without cgroups, has an empty
    /// layout: then each knob and sensor says that it is absent.
    #[must_use]
    pub fn discover(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let text = |path: &str| {
            let bytes = std::fs::read(root.join(path)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let parts = mounts::mounted_parts(&text("proc/self/mountinfo"));
        let mut hierarchies: Vec<Hierarchy> = Vec::new();
        for mount in mounts::parse(&text("proc/mounts")) {
            let Some(mut new) = hierarchy(&root, &mount) else { continue };
            let part = parts.iter().rev().find(|(point, _)| *point == mount.point);
            new.part = part.map_or_else(|| "/".to_owned(), |(_, part)| part.clone());
            add(&mut hierarchies, new);
        }
        Self { root, hierarchies }
    }

    /// The directory that stands for `/`.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What is mounted as a whole.
    #[must_use]
    pub fn kind(&self) -> LayoutKind {
        let v1 = self.hierarchies.iter().any(|h| h.version == Version::V1 && h.name.is_none());
        match (v1, self.v2().is_some()) {
            (false, false) => LayoutKind::None,
            (true, false) => LayoutKind::V1,
            (false, true) => LayoutKind::V2,
            (true, true) => LayoutKind::Hybrid,
        }
    }

    /// All hierarchies in the order of the mount table, each once.
    #[must_use]
    pub fn hierarchies(&self) -> &[Hierarchy] {
        &self.hierarchies
    }

    /// The v2 tree.
    #[must_use]
    pub fn v2(&self) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|h| h.version == Version::V2)
    }

    /// The v1 hierarchy of a controller.
    #[must_use]
    pub fn v1(&self, controller: &str) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|h| h.version == Version::V1 && h.has(controller))
    }

    /// The hierarchy that serves a controller, of either version: a controller is in one only.
    #[must_use]
    pub fn serving(&self, controller: &str) -> Option<&Hierarchy> {
        self.v1(controller).or_else(|| self.v2().filter(|v2| v2.has(controller)))
    }

    /// The mount points, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        let points = self.hierarchies.iter().map(|h| h.point.display().to_string());
        let all = points.collect::<Vec<_>>().join(", ");
        if all.is_empty() { "(no cgroup hierarchy is mounted)".into() } else { all }
    }
}

fn hierarchy(root: &Path, mount: &Mount) -> Option<Hierarchy> {
    let version = match mount.kind.as_str() {
        "cgroup" => Version::V1,
        "cgroup2" => Version::V2,
        _ => return None,
    };
    let point = PathBuf::from(&mount.point);
    let dir = root.join(mount.point.trim_start_matches('/'));
    let controllers = match version {
        Version::V1 => v1_controllers(&mount.options),
        Version::V2 => v2_controllers(&dir),
    };
    let name = mount.options.iter().find_map(|option| option.strip_prefix("name="));
    let name = name.filter(|_| controllers.is_empty()).map(str::to_owned);
    let read_only = mount.options.iter().any(|option| option == "ro");
    Some(Hierarchy { version, point, dir, controllers, name, read_only, part: "/".into() })
}

/// What is left of a v1 mount's options once the plain ones are taken away.
fn v1_controllers(options: &[String]) -> Vec<String> {
    let plain = |option: &&String| PLAIN_OPTIONS.contains(&option.as_str()) || option.contains('=');
    options.iter().filter(|option| !plain(option)).cloned().collect()
}

fn v2_controllers(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// A hierarchy may be mounted several times: the writable, whole one is kept, else the first.
fn add(hierarchies: &mut Vec<Hierarchy>, new: Hierarchy) {
    let same = |old: &&mut Hierarchy| {
        let key = |h: &Hierarchy| (h.version, h.name.clone(), h.controllers.clone());
        key(old) == key(&new)
    };
    let worth = |h: &Hierarchy| (!h.read_only, h.part == "/");
    match hierarchies.iter_mut().find(same) {
        Some(old) if worth(old) < worth(&new) => *old = new,
        Some(_) => {}
        None => hierarchies.push(new),
    }
}
