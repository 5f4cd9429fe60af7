//! The mounted tree: its groups, knobs and classes of service.

use crate::error::{MAKE_GROUP, ResctrlError};
use crate::group::{Group, MONITORING, is_ours, refused};
use crate::info::Info;
use crate::knob::SchemataKnob;
use crate::mount::{self, CpuSupport, Mount};
use crate::schemata::Resource;
use quell_types::{Gap, Reading};
use std::fs;
use std::io;
use std::path::Path;

/// Folders of the root that are no groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", MONITORING];

/// A mounted resctrl.
#[derive(Clone, Debug)]
pub struct Resctrl {
    mount: Mount,
    info: Info,
}

/// How many classes of service there are, and how many are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassBudget {
    /// In all, the default group's included: the fewest that any resource offers.
    pub total: u32,
    /// Taken by groups, ours or not, and by I/O where it has one.
    pub used: u32,
}

impl ClassBudget {
    /// How many more groups can be made.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.total.saturating_sub(self.used)
    }
}

impl Resctrl {
    /// Finds the mount in `proc/mounts` below `root` and reads what it offers.
    ///
    /// # Errors
    /// Absent if the CPU or kernel has none or it is not mounted, with what to do.
    pub fn open(root: &Path) -> Reading<Self> {
        let cpu = CpuSupport::read(root);
        let mount = mount::find(root, &cpu).map_err(Gap::absent)?;
        if !mount.path.join("info").is_dir() {
            let path = mount.path.display();
            return Err(Gap::failed(format!("{path} is mounted but has no info folder")));
        }
        let info = Info::read(&mount, &cpu);
        Ok(Self { mount, info })
    }

    /// How it is mounted.
    #[must_use]
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// What it offers.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The group of all that belongs to no other.
    #[must_use]
    pub fn default_group(&self) -> Group {
        Group::new(&self.mount.path, None)
    }

    /// All groups but the default one, whoever made them, by name.
    ///
    /// # Errors
    /// If the tree cannot be read.
    pub fn groups(&self) -> Result<Vec<Group>, ResctrlError> {
        let names = folders(&self.mount.path)?;
        let groups = names.iter().filter(|name| !NO_GROUPS.contains(&name.as_str()));
        Ok(groups.map(|name| Group::new(&self.mount.path, Some(name))).collect())
    }

    /// The default group's monitoring groups, whoever made them, by name; none on a machine that
    /// does not monitor.
    ///
    /// # Errors
    /// If the tree cannot be read.
    pub fn monitoring_groups(&self) -> Result<Vec<Group>, ResctrlError> {
        match folders(&self.mount.path.join(MONITORING)) {
            Err(ResctrlError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Vec::new())
            }
            names => Ok(names?.iter().map(|n| Group::monitoring(&self.mount.path, n)).collect()),
        }
    }

    /// Makes a group, or takes the one of this name that is there (after a restart). A fresh one
    /// has all ways and full bandwidth.
    ///
    /// # Errors
    /// If the name does not begin with `quell`; [`ResctrlError::is_exhausted`] if all classes of
    /// service are taken.
    pub fn create(&self, name: &str) -> Result<Group, ResctrlError> {
        self.make(self.ours(name)?)
    }

    /// Makes a monitoring group of the default group, or takes the one of this name that is there.
    /// It takes no class of service, so that machines which allot nothing have it too.
    ///
    /// # Errors
    /// If the name does not begin with `quell`; [`ResctrlError::is_exhausted`] if the hardware
    /// counts no more groups apart (RMIDs).
    pub fn create_monitoring(&self, name: &str) -> Result<Group, ResctrlError> {
        self.ours(name)?;
        self.make(Group::monitoring(&self.mount.path, name))
    }

    fn make(&self, group: Group) -> Result<Group, ResctrlError> {
        let dir = group.dir();
        match fs::create_dir(&dir) {
            Ok(()) => Ok(group),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(group),
            Err(e) => Err(refused(&self.mount.path, MAKE_GROUP.to_owned(), &dir, e)),
        }
    }

    /// Removes a group; its threads and CPUs go back to the default one. One that is not there is
    /// no error.
    ///
    /// # Errors
    /// If the name does not begin with `quell`, or with the kernel's reason.
    pub fn remove(&self, name: &str) -> Result<(), ResctrlError> {
        self.unmake(&self.ours(name)?)
    }

    /// Removes a monitoring group; its threads are counted with the default group again. One that
    /// is not there is no error.
    ///
    /// # Errors
    /// If the name does not begin with `quell`, or with the kernel's reason.
    pub fn remove_monitoring(&self, name: &str) -> Result<(), ResctrlError> {
        self.ours(name)?;
        self.unmake(&Group::monitoring(&self.mount.path, name))
    }

    fn unmake(&self, group: &Group) -> Result<(), ResctrlError> {
        let dir = group.dir();
        match fs::remove_dir(&dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(refused(&self.mount.path, "remove group".to_owned(), &dir, e))
            }
            _ => Ok(()),
        }
    }

    /// Classes of service: all, and those taken now.
    ///
    /// # Errors
    /// Absent if nothing can be allotted; failed if the tree cannot be read.
    pub fn classes(&self) -> Reading<ClassBudget> {
        let total = self.info.classes()?;
        let groups = self.groups().map_err(|e| Gap::from(&e))?.len();
        let io = self.info.caches.values().flatten().any(|cache| cache.io_alloc == Ok(true));
        let used = u32::try_from(1 + groups + usize::from(io)).unwrap_or(u32::MAX);
        Ok(ClassBudget { total, used })
    }

    /// Domains of a resource, as the default group names them.
    ///
    /// # Errors
    /// Absent without that resource.
    pub fn domains(&self, resource: Resource) -> Reading<Vec<u32>> {
        let schemata = self.default_group().schemata().map_err(|e| Gap::from(&e))?;
        let values = schemata.values(resource);
        let values = values.ok_or_else(|| Gap::absent(format!("no {resource} line")))?;
        Ok(values.iter().map(|(domain, _)| *domain).collect())
    }

    /// The knob for a group's ways in one last-level cache.
    ///
    /// # Errors
    /// Absent without L3 CAT.
    pub fn llc_ways(&self, group: &Group, domain: u32) -> Reading<SchemataKnob> {
        SchemataKnob::ways(&self.info, group, domain)
    }

    /// The knob for a group's memory bandwidth in one domain.
    ///
    /// # Errors
    /// Absent without MBA, or if it counts in MB/s.
    pub fn memory_bandwidth(&self, group: &Group, domain: u32) -> Reading<SchemataKnob> {
        SchemataKnob::bandwidth(&self.info, group, domain)
    }

    fn ours(&self, name: &str) -> Result<Group, ResctrlError> {
        if !is_ours(name) {
            return Err(ResctrlError::Name(name.to_owned()));
        }
        Ok(Group::new(&self.mount.path, Some(name)))
    }
}

/// Names of the folders in `dir`, in order.
fn folders(dir: &Path) -> Result<Vec<String>, ResctrlError> {
    let failed = |e| ResctrlError::io("list", dir, e);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
