//! The CPUs that a group may run on: `cpuset.cpus` in v1 and v2.

use super::GroupKnob;
use crate::group::{Group, Place};
use crate::layout::Version;
use crate::raw::{self, RawFile};
use crate::{CgroupError, file, parse, search};
use quell_types::{CpuSet, Gap, KnobRange, Reading, Setting};
use std::path::{Path, PathBuf};

/// Whether siblings may have the same CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusivity {
    /// They may.
    Shared,
    /// They may not: `cpuset.cpu_exclusive` in v1, a partition root in v2 (T-16).
    Exclusive,
}

/// The CPUs of a group.
///
/// In v1 a set is refused that the parent does not have; in v2 it is cut to what the parent has.
/// A v1 group without memory nodes cannot hold tasks, so the first write gives it its parent's.
#[derive(Clone, Debug)]
pub struct CpusKnob {
    place: Place,
    exclusivity: Exclusivity,
}

impl CpusKnob {
    /// The CPUs of this group.
    ///
    /// # Errors
    /// A gap if the group is in no hierarchy with the cpuset controller.
    pub fn new(group: &Group, exclusivity: Exclusivity) -> Reading<Self> {
        Ok(Self { place: group.place("cpuset")?.clone(), exclusivity })
    }

    fn is_v1(&self) -> bool {
        self.place.version == Version::V1
    }

    /// The CPUs that count: in v2 those left over after the parent's.
    fn read_cpus(&self) -> Result<CpuSet, CgroupError> {
        let name = if self.is_v1() { "cpuset.cpus" } else { "cpuset.cpus.effective" };
        read_list(&self.place.file(name))
    }

    fn parent(&self) -> &Path {
        self.place.parent().unwrap_or(&self.place.top)
    }

    /// The CPUs that the parent can give to all its children together.
    fn within(&self) -> Result<CpuSet, CgroupError> {
        if self.is_v1() {
            return read_list(&self.parent().join("cpuset.cpus"));
        }
        // The CPUs of partitions have left their parent's effective set.
        let left = read_list(&self.parent().join("cpuset.cpus.effective"))?;
        Ok(partitions(self.parent()).into_iter().fold(left, |all, (_, cpus)| all.union(&cpus)))
    }

    /// A v2 kernel may take CPUs of a sibling's partition, and then make that partition invalid:
    /// so it is not asked.
    fn refuse_overlap(&self, cpus: &CpuSet) -> Result<(), CgroupError> {
        let others = partitions(self.parent());
        let taken =
            others.iter().find(|(dir, own)| *dir != self.place.dir && !own.is_disjoint(cpus));
        let Some((dir, own)) = taken else { return Ok(()) };
        let why = format!("CPUs {own} are kept by the exclusive sibling {}", dir.display());
        Err(CgroupError::Refused { path: self.place.file("cpuset.cpus"), why })
    }

    /// The partition's state; none on kernels without partitions.
    fn partition(&self) -> Result<Option<String>, CgroupError> {
        match file::read(&self.place.file("cpuset.cpus.partition")) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(CgroupError::Unsupported { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_partition(&self) -> bool {
        matches!(self.partition(), Ok(Some(state)) if is_valid(&state))
    }

    fn write_v1(&self, cpus: &CpuSet) -> Result<(), CgroupError> {
        let mems = self.place.file("cpuset.mems");
        if read_list(&mems)?.is_empty() {
            file::write(&mems, &file::read(&self.parent().join("cpuset.mems"))?)?;
        }
        if self.read_cpus()? != *cpus {
            file::write(&self.place.file("cpuset.cpus"), &cpus.to_string())?;
        }
        Ok(())
    }

    fn write_v2(&self, cpus: &CpuSet) -> Result<(), CgroupError> {
        self.refuse_overlap(cpus)?;
        let path = self.place.file("cpuset.cpus");
        if read_list(&path)? != *cpus {
            file::write(&path, &cpus.to_string())?;
        }
        Ok(())
    }

    /// Whether its CPUs are kept from its siblings now.
    ///
    /// # Errors
    /// A gap if the group is gone.
    pub fn is_exclusive(&self) -> Reading<bool> {
        if !self.is_v1() {
            return Ok(self.partition().map_err(Gap::from)?.is_some_and(|state| is_valid(&state)));
        }
        let path = self.place.file("cpuset.cpu_exclusive");
        let text = file::read(&path).map_err(Gap::from)?;
        parse::flag(&text).ok_or_else(|| raw::malformed(&path, &text).into())
    }

    /// Keeps the CPUs from the siblings, where the knob is an exclusive one. A write does so too,
    /// but the kernel refuses as long as any sibling has some of these CPUs: call it again once all
    /// groups of a step are written.
    ///
    /// # Errors
    /// A sibling has some of the CPUs, or the parent is not exclusive.
    pub fn claim(&self) -> Result<(), CgroupError> {
        match self.exclusivity {
            Exclusivity::Shared => Ok(()),
            Exclusivity::Exclusive if self.is_v1() => {
                let path = self.place.file("cpuset.cpu_exclusive");
                if file::read(&path)?.trim() == "1" { Ok(()) } else { file::write(&path, "1") }
            }
            Exclusivity::Exclusive => self.claim_partition(),
        }
    }

    fn claim_partition(&self) -> Result<(), CgroupError> {
        if self.is_partition() {
            return Ok(());
        }
        let path = self.place.file("cpuset.cpus.partition");
        if self.partition()?.is_some_and(|state| state != "member") {
            // An invalid one is only looked at anew after it was a plain member again.
            file::write(&path, "member")?;
        }
        file::write(&path, "root")?;
        let state = self.partition()?.unwrap_or_default();
        if is_valid(&state) {
            return Ok(());
        }
        // An invalid partition isolates nothing and only looks as if it did.
        file::write(&path, "member")?;
        Err(CgroupError::Refused { path, why: format!("no partition can be made: {state}") })
    }
}

/// The valid partitions right below a v2 group, with their CPUs.
fn partitions(parent: &Path) -> Vec<(PathBuf, CpuSet)> {
    let one = |name: String| {
        let dir = parent.join(name);
        let state = file::read(&dir.join("cpuset.cpus.partition")).ok()?;
        let cpus = read_list(&dir.join("cpuset.cpus.effective")).ok()?;
        is_valid(state.trim()).then_some((dir, cpus))
    };
    search::subdirs(parent).into_iter().filter_map(one).collect()
}

fn is_valid(partition: &str) -> bool {
    partition == "root" || partition == "isolated"
}

fn read_list(path: &Path) -> Result<CpuSet, CgroupError> {
    let text = file::read(path)?;
    text.parse().map_err(|_| raw::malformed(path, &text))
}

impl GroupKnob for CpusKnob {
    fn read(&self) -> Reading<Setting> {
        self.read_cpus().map(Setting::Cpus).map_err(Gap::from)
    }

    fn range(&self) -> Reading<KnobRange> {
        let exclusive = self.exclusivity == Exclusivity::Exclusive;
        self.read_cpus().map_err(Gap::from)?;
        if exclusive && !self.is_v1() && self.partition().map_err(Gap::from)?.is_none() {
            let why = "this kernel has no cpuset partitions, so no exclusive CPUs in cgroup v2";
            return Err(Gap::absent(why));
        }
        Ok(KnobRange::Cpus { within: self.within().map_err(Gap::from)?, exclusive })
    }

    /// Leaves out what the parent does not have. If nothing is left, v2 falls back to all of the
    /// parent's CPUs; v1 refuses, so the set stays as it is and the write says why.
    fn round(&self, wanted: &Setting) -> Setting {
        let (Setting::Cpus(cpus), Ok(within)) = (wanted, self.within()) else {
            return wanted.clone();
        };
        let rest = cpus.intersection(&within);
        match (rest.is_empty(), self.place.version) {
            (false, _) => Setting::Cpus(rest),
            (true, Version::V1) => wanted.clone(),
            (true, Version::V2) => Setting::Cpus(within),
        }
    }

    fn write(&self, wanted: &Setting) -> Result<(), CgroupError> {
        let Setting::Cpus(cpus) = self.round(wanted) else {
            return Err(CgroupError::WrongSetting { knob: "a CPU set", setting: wanted.clone() });
        };
        if cpus.is_empty() {
            let why = "a group needs at least one CPU";
            return Err(CgroupError::Refused { path: self.place.dir.clone(), why: why.into() });
        }
        match self.place.version {
            Version::V1 => self.write_v1(&cpus)?,
            Version::V2 => self.write_v2(&cpus)?,
        }
        match self.claim() {
            Err(gone) if gone.is_gone() => return Err(gone),
            // Refused until the siblings are written too.
            _ => {}
        }
        raw::verify(&self.place.file("cpuset.cpus"), &cpus, &self.read_cpus()?)
    }

    fn raw_files(&self) -> Result<Vec<RawFile>, CgroupError> {
        let names: &[&str] = match (self.place.version, self.exclusivity) {
            (Version::V1, Exclusivity::Shared) => &["cpuset.mems", "cpuset.cpus"],
            (Version::V1, Exclusivity::Exclusive) => {
                &["cpuset.mems", "cpuset.cpus", "cpuset.cpu_exclusive"]
            }
            (Version::V2, Exclusivity::Shared) => &["cpuset.cpus"],
            (Version::V2, Exclusivity::Exclusive) => &["cpuset.cpus", "cpuset.cpus.partition"],
        };
        raw::save(names.iter().map(|name| self.place.file(name)))
    }
}
