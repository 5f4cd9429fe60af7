//! Control groups: who belongs to a class of service, and what the class is allotted.

use crate::error::MAKE_GROUP;
use crate::file::{self, RawFile};
use crate::schemata::{Resource, Schemata};
use crate::{ResctrlError, monitor};
use quell_types::{CpuSet, Reading};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Groups that Quell makes begin with this.
pub const PREFIX: &str = "quell";

/// Folder of the default group's monitoring groups.
pub(crate) const MONITORING: &str = "mon_groups";

/// One class of service, or a part of the default one that is only counted apart. The default
/// group is the tree's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    mount: PathBuf,
    name: Option<String>,
    monitors_only: bool,
}

/// Whether Quell may make and change a group of this name.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.starts_with(PREFIX) && name.len() <= 128 && name.chars().all(plain)
}

impl Group {
    pub(crate) fn new(mount: &Path, name: Option<&str>) -> Self {
        Self { mount: mount.to_owned(), name: name.map(str::to_owned), monitors_only: false }
    }

    pub(crate) fn monitoring(mount: &Path, name: &str) -> Self {
        Self { mount: mount.to_owned(), name: Some(name.to_owned()), monitors_only: true }
    }

    /// Whether it is a monitoring group: counted apart, but part of the default group, which its
    /// threads still belong to and whose counts include its own. It has no schemata.
    #[must_use]
    pub fn monitors_only(&self) -> bool {
        self.monitors_only
    }

    /// Its name; none for the default group.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Its folder.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        match &self.name {
            None => self.mount.clone(),
            Some(name) if self.monitors_only => self.mount.join(MONITORING).join(name),
            Some(name) => self.mount.join(name),
        }
    }

    /// What it is allotted.
    ///
    /// # Errors
    /// If the group is gone or its schemata is damaged or locked.
    pub fn schemata(&self) -> Result<Schemata, ResctrlError> {
        let path = self.schemata_path();
        file::read(&path)?.parse().map_err(|why| ResctrlError::malformed(&path, why))
    }

    /// Changes one domain of some resources, all of them or none, and leaves the rest as it
    /// stands. What already stands so is not written.
    ///
    /// The whole text is written: the kernel reprograms only what differs.
    ///
    /// # Errors
    /// If a domain is not there, or with the kernel's reason if it refuses.
    pub fn set(&self, resources: &[Resource], domain: u32, value: u64) -> Result<(), ResctrlError> {
        let path = self.schemata_path();
        let old = self.schemata()?;
        let mut new = old.clone();
        for resource in resources {
            if !new.set(*resource, domain, value) {
                let resource = resource.to_string();
                return Err(ResctrlError::NoDomain { path, resource, domain });
            }
        }
        if new == old { Ok(()) } else { self.write(&path, &new.to_string()) }
    }

    /// The schemata as it stands, to be put back later.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn snapshot(&self) -> Result<RawFile, ResctrlError> {
        let path = self.schemata_path();
        Ok(RawFile { text: file::read(&path)?, path })
    }

    /// Puts a snapshot back, whatever stands there now.
    ///
    /// # Errors
    /// If it belongs to another group, or with the kernel's reason if it refuses.
    pub fn restore(&self, snapshot: &RawFile) -> Result<(), ResctrlError> {
        let path = self.schemata_path();
        if snapshot.path != path {
            let why = format!("{} belongs to another group", snapshot.path.display());
            return Err(ResctrlError::malformed(&path, why));
        }
        if file::read(&path)? == snapshot.text {
            return Ok(());
        }
        self.write(&path, &snapshot.text)
    }

    /// Threads that belong to it (not those that are there by their CPU alone). Those of the
    /// default group include those of its monitoring groups; on a machine that allots nothing the
    /// kernel lists none for it.
    ///
    /// # Errors
    /// If the group is gone or its list is damaged.
    pub fn tasks(&self) -> Result<Vec<u32>, ResctrlError> {
        let path = self.dir().join("tasks");
        let text = file::read(&path)?;
        let id = |line: &str| {
            line.trim()
                .parse()
                .map_err(|_| ResctrlError::malformed(&path, "a line is no thread id"))
        };
        text.lines().map(id).collect()
    }

    /// Moves one thread here. Threads that it starts later follow by themselves. A monitoring
    /// group takes those of the default group only.
    ///
    /// # Errors
    /// ESRCH if the thread has ended; else the kernel's reason.
    pub fn add_task(&self, thread: u32) -> Result<(), ResctrlError> {
        self.write(&self.dir().join("tasks"), &format!("{thread}\n"))
    }

    /// CPUs whose threads belong here unless they belong to another group by name.
    ///
    /// # Errors
    /// If the group is gone or its list is damaged.
    pub fn cpus(&self) -> Result<CpuSet, ResctrlError> {
        let path = self.dir().join("cpus_list");
        file::read(&path)?.parse().map_err(|why| ResctrlError::malformed(&path, why))
    }

    /// Takes these CPUs from the other groups; CPUs given up go to the default group.
    ///
    /// # Errors
    /// With the kernel's reason if it refuses (a CPU that is not online).
    pub fn set_cpus(&self, cpus: &CpuSet) -> Result<(), ResctrlError> {
        self.write(&self.dir().join("cpus_list"), &format!("{cpus}\n"))
    }

    /// Whether others may share its ways: `shareable`, `exclusive`, or a pseudo-locking mode.
    ///
    /// # Errors
    /// If the group is gone.
    pub fn mode(&self) -> Result<String, ResctrlError> {
        Ok(file::read(&self.dir().join("mode"))?.trim().to_owned())
    }

    /// Raw counters by L3 domain. They are not those of the group alone: see
    /// [`crate::Monitor`].
    ///
    /// # Errors
    /// Absent without monitoring; gone with the group.
    pub fn counters(&self) -> Reading<BTreeMap<u32, monitor::DomainCounters>> {
        monitor::read_counters(&self.dir())
    }

    fn schemata_path(&self) -> PathBuf {
        self.dir().join("schemata")
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), ResctrlError> {
        if let Some(name) = self.name.as_deref().filter(|name| !is_ours(name)) {
            return Err(ResctrlError::Name(name.to_owned()));
        }
        file::write(path, text).map_err(|source| {
            let shown: String = text.trim_end().chars().take(200).collect();
            refused(&self.mount, format!("write {shown:?} to"), path, source)
        })
    }
}

/// The kernel's reason beside the errno. It is that of the last command of anybody, so it is read
/// at once.
pub(crate) fn refused(mount: &Path, doing: String, path: &Path, source: io::Error) -> ResctrlError {
    let said = fs::read_to_string(mount.join("info/last_cmd_status")).unwrap_or_default();
    let mut lines: Vec<&str> =
        said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // A write begins anew, but in 6.12 the reasons of groups that could not be made pile up.
    if doing == MAKE_GROUP {
        lines.drain(..lines.len().saturating_sub(1));
    }
    let status = match lines.join("; ").as_str() {
        "" | "ok" => "it gave no reason".to_owned(),
        reason => reason.to_owned(),
    };
    ResctrlError::Refused { doing, path: path.to_owned(), status, source }
}
