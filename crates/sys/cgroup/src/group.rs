//! One group, in every hierarchy that has it.

use crate::layout::{Hierarchy, Layout, Version};
use crate::{CgroupError, parse, search, systemd::Systemctl};
use quell_types::{Gap, Reading};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// A group's directory in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The hierarchy's version.
    pub version: Version,
    /// The hierarchy's controllers.
    pub controllers: Vec<String>,
    /// The group's directory.
    pub dir: PathBuf,
    /// The hierarchy's top directory.
    pub top: PathBuf,
}

impl Place {
    /// A file of the group.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The parent's directory; none if the group lies at the top.
    #[must_use]
    pub fn parent(&self) -> Option<&Path> {
        self.dir.parent().filter(|_| self.dir != self.top)
    }

    /// Whether a process is in this group or below it.
    #[must_use]
    pub fn is_populated(&self) -> bool {
        let events = || std::fs::read_to_string(self.file("cgroup.events")).ok();
        match self.version {
            Version::V2 => events().and_then(|text| parse::field(&text, "populated")) == Some(1),
            Version::V1 => search::any_process(&self.dir),
        }
    }
}

/// A group, looked up in every mounted hierarchy. It keeps paths only: what it answers is read
/// anew each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    name: String,
    places: Vec<Place>,
}

impl Group {
    /// Finds a group by its path below the hierarchies (`/batch`), or by a whole path below any
    /// mount (`/sys/fs/cgroup/cpu/batch`); in both cases all hierarchies are looked at.
    ///
    /// # Errors
    /// No hierarchy has it, or it is the root group.
    pub fn find(layout: &Layout, path: &str) -> Result<Self, CgroupError> {
        let inner = inner_path(layout, path)?;
        let places: Vec<Place> = layout
            .hierarchies()
            .iter()
            .map(|hierarchy| place(hierarchy, &inner))
            .filter(|place| place.dir.is_dir())
            .collect();
        Self::of_places(layout, path, places)
    }

    /// The groups that a process is in, hierarchy by hierarchy (their paths may differ). Those in
    /// which it lies in the root group are left out.
    ///
    /// # Errors
    /// No such process, or it is in no group but the root.
    pub fn of_pid(layout: &Layout, pid: u32) -> Result<Self, CgroupError> {
        Self::above_pid(layout, pid, |path| Some(path))
    }

    /// The same, or groups above those: `part` gives the wanted part of a group's path, or none of a
    /// group that is to be left out.
    pub(crate) fn above_pid(
        layout: &Layout,
        pid: u32,
        part: impl Fn(&str) -> Option<&str>,
    ) -> Result<Self, CgroupError> {
        let path = layout.root().join(format!("proc/{pid}/cgroup"));
        let bytes = std::fs::read(path).map_err(|source| CgroupError::NoProcess { pid, source })?;
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().filter_map(parse::membership);
        let place = |(words, path): (Vec<&str>, &str)| member_place(layout, &words, part(path)?);
        let places: Vec<Place> = lines.filter_map(place).collect();
        if places.is_empty() {
            return Err(CgroupError::RootGroup { what: format!("the group of process {pid}") });
        }
        Ok(Self { name: format!("pid {pid}"), places })
    }

    /// The group of a systemd unit: systemd is asked if it runs, else the trees are searched for a
    /// directory of that name. `redis` means `redis.service`.
    ///
    /// # Errors
    /// The unit has no group.
    pub fn of_unit(layout: &Layout, unit: &str) -> Result<Self, CgroupError> {
        let unit = if unit.contains('.') { unit.to_owned() } else { format!("{unit}.service") };
        let asked = match Systemctl::detect(layout.root()) {
            Some(systemctl) => Some(systemctl.control_group(&unit)?),
            None => search::by_name(layout, &unit),
        };
        let why = || "systemd does not run, and no directory has that name".to_owned();
        let path = asked.ok_or_else(|| CgroupError::NoUnit { unit: unit.clone(), why: why() })?;
        Self::find(layout, &path)
    }

    /// The same name with other directories.
    pub(crate) fn with_places(&self, places: Vec<Place>) -> Self {
        Self { name: self.name.clone(), places }
    }

    fn of_places(layout: &Layout, path: &str, places: Vec<Place>) -> Result<Self, CgroupError> {
        if places.is_empty() {
            let searched = layout.describe();
            return Err(CgroupError::NoSuchGroup { name: path.to_owned(), searched });
        }
        Ok(Self { name: path.to_owned(), places })
    }

    /// As it was asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directories.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Its directory in the v2 tree.
    #[must_use]
    pub fn v2(&self) -> Option<&Place> {
        self.places.iter().find(|place| place.version == Version::V2)
    }

    /// Its directory in the v1 hierarchy of a controller.
    #[must_use]
    pub fn v1(&self, controller: &str) -> Option<&Place> {
        let has = |place: &&Place| {
            place.version == Version::V1 && place.controllers.iter().any(|c| c == controller)
        };
        self.places.iter().find(has)
    }

    /// Its directory in the hierarchy that serves a controller.
    ///
    /// # Errors
    /// A gap if the group is not in that hierarchy, or nothing serves the controller.
    pub fn place(&self, controller: &str) -> Reading<&Place> {
        let v2 = || self.v2().filter(|place| place.controllers.iter().any(|c| c == controller));
        self.v1(controller).or_else(v2).ok_or_else(|| {
            Gap::absent(format!(
                "{} is in no hierarchy with the {controller} controller",
                self.name
            ))
        })
    }

    /// The number by which eBPF knows the group in the v2 tree: its directory's inode.
    ///
    /// # Errors
    /// A gap if the group is not in the v2 tree, or gone.
    pub fn v2_id(&self) -> Reading<u64> {
        let place = self.v2();
        let none = || Gap::absent(format!("{} is not in a cgroup v2 tree", self.name));
        inode(&place.ok_or_else(none)?.dir)
    }

    /// The number by which eBPF knows the group in the v1 `cpu` hierarchy.
    ///
    /// # Errors
    /// A gap if the group is not in that hierarchy, or gone.
    pub fn v1_cpu_id(&self) -> Reading<u64> {
        let none = || Gap::absent(format!("{} is not in a v1 cpu hierarchy", self.name));
        inode(&self.v1("cpu").ok_or_else(none)?.dir)
    }

    /// A number that changes when the group is removed and made anew.
    ///
    /// # Errors
    /// A gap if it is gone.
    pub fn identity(&self) -> Reading<u64> {
        let first = || self.places.first();
        let main = self.v2().or_else(|| self.v1("cpu")).or_else(first);
        inode(&main.ok_or_else(|| Gap::Gone(self.name.clone()))?.dir)
    }

    /// Whether a process is in it or below it, in any hierarchy.
    #[must_use]
    pub fn is_populated(&self) -> bool {
        self.places.iter().any(Place::is_populated)
    }

    /// Processes in the group and below it, over all hierarchies, rising.
    ///
    /// # Errors
    /// A gap if the group is gone from all hierarchies.
    pub fn pids(&self) -> Reading<Vec<u32>> {
        self.members("cgroup.procs")
    }

    /// Threads in the group and below it, over all hierarchies, rising.
    ///
    /// # Errors
    /// A gap if the group is gone from all hierarchies.
    pub fn tids(&self) -> Reading<Vec<u32>> {
        self.members("tasks")
    }

    fn members(&self, v1_file: &str) -> Reading<Vec<u32>> {
        if !self.places.iter().any(|place| place.dir.is_dir()) {
            return Err(Gap::Gone(format!("{} is in no hierarchy any more", self.name)));
        }
        let mut members = BTreeSet::new();
        for place in &self.places {
            let name = match (place.version, v1_file) {
                (Version::V2, "tasks") => "cgroup.threads",
                (_, other) => other,
            };
            search::walk(&place.dir, &mut |dir| members.extend(search::numbers(&dir.join(name))));
        }
        Ok(members.into_iter().collect())
    }

    /// Names of the groups right below it, over all hierarchies, rising.
    #[must_use]
    pub fn children(&self) -> Vec<String> {
        let names = self.places.iter().flat_map(|place| search::subdirs(&place.dir));
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The group's path below a hierarchy's top, without the leading `/`.
pub(crate) fn inner_path(layout: &Layout, path: &str) -> Result<PathBuf, CgroupError> {
    let whole = Path::new(path);
    let points = layout.hierarchies().iter().map(|h| h.point.as_path());
    let longest = points.filter(|p| whole.starts_with(p)).max_by_key(|p| p.components().count());
    let below = longest.and_then(|point| whole.strip_prefix(point).ok()).unwrap_or(whole);
    let plain = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    };
    if below.components().any(|part| part == Component::ParentDir) {
        let searched = layout.describe();
        return Err(CgroupError::NoSuchGroup { name: path.to_owned(), searched });
    }
    let inner: PathBuf = below.components().filter_map(plain).collect();
    if inner.as_os_str().is_empty() {
        return Err(CgroupError::RootGroup { what: path.to_owned() });
    }
    Ok(inner)
}

pub(crate) fn place(hierarchy: &Hierarchy, inner: &Path) -> Place {
    Place {
        version: hierarchy.version,
        controllers: hierarchy.controllers.clone(),
        dir: hierarchy.dir.join(inner),
        top: hierarchy.dir.clone(),
    }
}

/// Where a line of `/proc/PID/cgroup` lies below the mounts; none for the root group, and for what
/// no mount here shows.
fn member_place(layout: &Layout, words: &[&str], path: &str) -> Option<Place> {
    let place = any_member_place(layout, words, path)?;
    (place.dir != place.top && place.dir.is_dir()).then_some(place)
}

/// The same with root groups.
pub(crate) fn any_member_place(layout: &Layout, words: &[&str], path: &str) -> Option<Place> {
    let hierarchy = layout.hierarchies().iter().find(|h| h.is_named_by(words))?;
    let inner = Path::new(path).strip_prefix(&hierarchy.part).ok()?;
    if inner.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    Some(place(hierarchy, inner))
}

fn inode(dir: &Path) -> Reading<u64> {
    let gone = |error| Gap::Gone(format!("{}: {error}", dir.display()));
    std::fs::metadata(dir).map(|meta| meta.ino()).map_err(gone)
}
