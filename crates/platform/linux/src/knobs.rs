//! All knobs of all groups: read back, journalled before the first write, written.

use crate::hardware::CpuKnob;
use crate::undoer::file_undo;
use crate::vms::{Part, Vm, VmKnob, is_libvirts};
use quell_cgroup::{
    BandwidthKnob, CgroupError, CpusKnob, Exclusivity, FreezerKnob, Group, GroupKnob, IdleKnob,
    Owner, Systemctl, SystemdProperty, SystemdUnit, WeightKnob, owner_of,
};
use quell_platform::{KnobJournal, Store, StoreError, Undo};
use quell_types::{Gap, Knob, KnobRange, Reading, Setting, Tenant};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Knobs that were never written are read again once in so many full samples, an equal part of them
/// in each, so that no sample costs more than the others.
const UNOWNED_EVERY: u64 = 10;

/// How a knob is set.
enum Backend {
    /// By its kernel files.
    Files(Box<dyn GroupKnob>),
    /// By systemd, which owns the group; read from the kernel's files all the same.
    Unit { unit: SystemdUnit, name: String, files: Box<dyn GroupKnob> },
    /// By libvirt, which owns the machine.
    Vm(VmKnob),
    /// What is set of a CPU.
    Cpu(CpuKnob),
}

/// Who sets limits of groups on this machine, besides whoever writes their files.
#[derive(Clone, Copy)]
pub(crate) struct Managers<'a> {
    /// systemd, where it runs.
    pub(crate) systemctl: Option<&'a Systemctl>,
    /// libvirt, of a tenant that is a machine of its own, and where processes are told of.
    pub(crate) vm: Option<(&'a Arc<Vm>, &'a Path)>,
}

/// One knob with what it was made for.
struct Entry {
    backend: Backend,
    /// The group's identity: a group made anew is journalled anew.
    identity: u64,
}

/// Knobs by name.
#[derive(Default)]
pub(crate) struct KnobTable {
    entries: BTreeMap<Knob, Entry>,
    owned: BTreeSet<Knob>,
    seen: BTreeMap<Knob, Reading<Setting>>,
    samples: u64,
}

impl KnobTable {
    /// Puts the knobs of a group in, in place of those that its tenant had. Answers with the
    /// ranges of those that this machine has.
    pub(crate) fn install(
        &mut self,
        tenant: &Tenant,
        group: &Group,
        is_service: bool,
        managers: Managers<'_>,
    ) -> Vec<(Knob, KnobRange)> {
        self.entries.retain(|knob, _| knob.tenant() != Some(tenant));
        self.seen.retain(|knob, _| knob.tenant() != Some(tenant));
        let Ok(identity) = group.identity() else { return Vec::new() };
        let mut ranges = Vec::new();
        for (knob, files) in knobs_of(tenant, group, is_service) {
            let Ok(range) = files.range() else { continue };
            ranges.push((knob.clone(), range));
            let backend = backend(&knob, files, group, managers);
            self.entries.insert(knob, Entry { backend, identity });
        }
        ranges
    }

    /// Puts the knobs of CPUs in; answers with their ranges.
    pub(crate) fn install_cpus(&mut self, knobs: Vec<(Knob, CpuKnob)>) -> Vec<(Knob, KnobRange)> {
        let mut ranges = Vec::new();
        for (knob, files) in knobs {
            let Ok(range) = files.range() else { continue };
            ranges.push((knob.clone(), range));
            let entry = Entry { backend: Backend::Cpu(files), identity: 0 };
            self.entries.insert(knob, entry);
        }
        ranges
    }

    /// How every knob stands.
    pub(crate) fn read(&mut self) -> BTreeMap<Knob, Reading<Setting>> {
        self.samples += 1;
        for (turn, (knob, entry)) in (self.samples..).zip(&self.entries) {
            match self.seen.get_mut(knob) {
                None => drop(self.seen.insert(knob.clone(), entry.backend.read())),
                Some(seen) if turn % UNOWNED_EVERY == 0 || self.owned.contains(knob) => {
                    *seen = entry.backend.read();
                }
                Some(_) => {}
            }
        }
        self.seen.clone()
    }

    /// How every knob stood when it was last read or written.
    pub(crate) fn last(&self) -> BTreeMap<Knob, Reading<Setting>> {
        self.seen.clone()
    }

    /// Sets a knob; its old texts are on disk before.
    ///
    /// # Errors
    /// The journal cannot be written: nothing was changed.
    pub(crate) fn set<S: Store>(
        &mut self,
        journal: &mut KnobJournal<S>,
        knob: &Knob,
        to: &Setting,
    ) -> Result<Result<(), String>, StoreError> {
        let Some(entry) = self.entries.get(knob) else {
            return Ok(Err(format!("{knob} is not to be set on this machine")));
        };
        let key = key(knob, entry.identity);
        if !journal.knows(&key) {
            let undo = match entry.backend.undo(knob) {
                Ok(undo) => undo,
                Err(error) => return Ok(Err(format!("not changed, {error}"))),
            };
            journal.before_write(&key, || undo)?;
        }
        self.owned.insert(knob.clone());
        let done = entry.backend.write(to);
        self.seen.insert(knob.clone(), entry.backend.read());
        Ok(done)
    }

    /// Puts on record what came to machines since their knobs were first written, and drops the
    /// records of what has left.
    ///
    /// # Errors
    /// The journal cannot be written: what came is not set.
    pub(crate) fn follow<S: Store>(&self, journal: &mut KnobJournal<S>) -> Result<(), StoreError> {
        for knob in &self.owned {
            let Some(Entry { backend: Backend::Vm(vm), identity }) = self.entries.get(knob) else {
                continue;
            };
            let key = key(knob, *identity);
            if !journal.knows(&key) {
                continue;
            }
            let of = |part: Part| format!("{key}, {part}");
            for part in vm.left() {
                journal.forget(&of(part))?;
                vm.note_record(part, false);
            }
            for (part, undo) in vm.came() {
                if !undo.is_empty() {
                    journal.before_write(&of(part), || undo)?;
                }
                vm.note_record(part, true);
            }
        }
        Ok(())
    }

    /// The freezer of a group, for experiments.
    pub(crate) fn freezer(&self, group: &Group) -> Reading<FreezerKnob> {
        FreezerKnob::new(group)
    }

    /// Journals the freezer of a tenant, so that an experiment may use it.
    pub(crate) fn journal_freezer<S: Store>(
        &mut self,
        journal: &mut KnobJournal<S>,
        tenant: &Tenant,
    ) -> Result<Reading<()>, StoreError> {
        let knob = Knob::Frozen { tenant: tenant.clone() };
        let Some(entry) = self.entries.get(&knob) else {
            return Ok(Err(Gap::absent(format!("{tenant} cannot be frozen here"))));
        };
        let key = key(&knob, entry.identity);
        if !journal.knows(&key) {
            match entry.backend.undo(&knob) {
                Ok(undo) => journal.before_write(&key, || undo)?,
                Err(error) => return Ok(Err(Gap::failed(error))),
            }
        }
        self.owned.insert(knob);
        Ok(Ok(()))
    }

    /// Forgets that knobs were written (after a restore).
    pub(crate) fn forget_owned(&mut self) {
        self.owned.clear();
        self.seen.clear();
    }
}

/// The journal's key of a knob of one group of all that may ever have its path.
fn key(knob: &Knob, identity: u64) -> String {
    format!("{knob}{OF}{identity}")
}

/// Between a knob and its group's identity.
const OF: &str = " of group ";

/// Whether that is the journal's key of this knob, of whichever group.
pub(crate) fn is_of(key: &str, knob: &Knob) -> bool {
    key.rsplit_once(OF).is_some_and(|(known, _)| known == knob.to_string())
}

/// Whether to set the knob is to set this property of a unit.
fn sets(knob: &Knob, property: &str) -> bool {
    match knob {
        Knob::CpuBandwidth { .. } => property.starts_with("CPUQuota"),
        Knob::CpuWeight { .. } | Knob::CpuIdle { .. } => property == "CPUWeight",
        Knob::Cpus { .. } => property == "AllowedCPUs",
        _ => false,
    }
}

impl Backend {
    fn read(&self) -> Reading<Setting> {
        match self {
            Backend::Files(files) | Backend::Unit { files, .. } => files.read(),
            Backend::Vm(knob) => knob.read(),
            Backend::Cpu(knob) => knob.read(),
        }
    }

    /// How a write to this knob is taken back.
    fn undo(&self, knob: &Knob) -> Result<Vec<Undo>, String> {
        let told = |error: CgroupError| error.to_string();
        match self {
            Backend::Vm(knob) => knob.undo(),
            Backend::Cpu(knob) => knob.undo(),
            Backend::Files(files) => {
                let raw = files.raw_files().map_err(told)?;
                Ok(raw.into_iter().map(|(path, text)| file_undo(path, text)).collect())
            }
            Backend::Unit { unit, name, .. } => {
                let saved = unit.save().map_err(told)?;
                let undo = |line: String| {
                    let (property, value) = line.split_once('=').unwrap_or((&line, ""));
                    // Others may be changed by their owner, or by Quell's other knobs, until then.
                    let (unit, property) = (name.clone(), property.to_owned());
                    let value = value.to_owned();
                    sets(knob, &property).then_some(Undo::UnitProperty { unit, property, value })
                };
                Ok(saved.into_iter().filter_map(undo).collect())
            }
        }
    }

    fn write(&self, to: &Setting) -> Result<(), String> {
        let told = |error: CgroupError| error.to_string();
        match self {
            Backend::Vm(knob) => knob.write(to),
            Backend::Cpu(knob) => knob.write(to),
            Backend::Files(files) => files.write(to).map_err(told),
            Backend::Unit { unit, files, .. } => match property_of(&files.round(to)) {
                Some(property) => unit.set(&[property]).map_err(told),
                None => files.write(to).map_err(told),
            },
        }
    }
}

/// The systemd property that stands for a setting; the freezer has none and is written directly.
fn property_of(setting: &Setting) -> Option<SystemdProperty> {
    match setting {
        Setting::Cpus(cpus) => Some(SystemdProperty::Cpus(cpus.clone())),
        Setting::Bandwidth(bandwidth) => Some(SystemdProperty::Bandwidth(*bandwidth)),
        Setting::Weight(weight) => Some(SystemdProperty::Weight(Some(*weight))),
        _ => None,
    }
}

fn backend(
    knob: &Knob,
    files: Box<dyn GroupKnob>,
    group: &Group,
    managers: Managers<'_>,
) -> Backend {
    if let Some((vm, proc)) = managers.vm.filter(|_| is_libvirts(knob)) {
        return Backend::Vm(VmKnob::new(vm, of_limits(knob, files, group), group, proc.to_owned()));
    }
    let systemctl = managers.systemctl;
    let by_files = matches!(knob, Knob::Frozen { .. } | Knob::CpuIdle { .. });
    let Some(systemctl) = systemctl.filter(|_| !by_files) else { return Backend::Files(files) };
    let Some(place) = group.v2() else { return Backend::Files(files) };
    let path = place.dir.strip_prefix(&place.top).unwrap_or(&place.dir).to_string_lossy();
    match owner_of(&path, |unit| systemctl.delegates(unit).unwrap_or(false)) {
        Owner::Systemd { unit } => Backend::Unit {
            unit: SystemdUnit::new(unit.clone(), systemctl.clone()),
            name: unit,
            files,
        },
        Owner::Free | Owner::Delegated { .. } => Backend::Files(files),
    }
}

/// The files that libvirt writes for this knob.
fn of_limits(knob: &Knob, files: Box<dyn GroupKnob>, group: &Group) -> Box<dyn GroupKnob> {
    match (knob, BandwidthKnob::new(&group.limits_of_vm())) {
        (Knob::CpuBandwidth { .. }, Ok(limits)) => Box::new(limits),
        _ => files,
    }
}

/// What may be set of a group: a service is never throttled, idled or frozen.
fn knobs_of(tenant: &Tenant, group: &Group, is_service: bool) -> Vec<(Knob, Box<dyn GroupKnob>)> {
    fn add<K: GroupKnob + 'static>(
        all: &mut Vec<(Knob, Box<dyn GroupKnob>)>,
        name: Knob,
        knob: Reading<K>,
    ) {
        if let Ok(knob) = knob {
            all.push((name, Box::new(knob)));
        }
    }
    let tenant = || tenant.clone();
    let mut all: Vec<(Knob, Box<dyn GroupKnob>)> = Vec::new();
    let cpus = CpusKnob::new(group, Exclusivity::Shared);
    add(&mut all, Knob::Cpus { tenant: tenant() }, cpus);
    add(&mut all, Knob::CpuWeight { tenant: tenant() }, WeightKnob::new(group));
    if !is_service {
        add(&mut all, Knob::CpuBandwidth { tenant: tenant() }, BandwidthKnob::new(group));
        add(&mut all, Knob::CpuIdle { tenant: tenant() }, IdleKnob::new(group));
        add(&mut all, Knob::Frozen { tenant: tenant() }, FreezerKnob::new(group));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_knob_whatever_the_group() {
        let weight = |tenant: &str| Knob::CpuWeight { tenant: tenant.into() };
        for identity in [0, 1, u64::MAX] {
            assert!(is_of(&key(&weight("jobs"), identity), &weight("jobs")));
            assert!(!is_of(&key(&weight("jobs"), identity), &weight("job")));
            let idle = Knob::CpuIdle { tenant: "jobs".into() };
            assert!(!is_of(&key(&weight("jobs"), identity), &idle));
            let of_part = format!("{}, {}", key(&weight("jobs"), identity), Part::Vcpu(2));
            assert!(is_of(&of_part, &weight("jobs")) && !is_of(&of_part, &idle));
        }
        assert!(!is_of("group /quell-jobs", &weight("jobs")));
    }

    #[test]
    fn a_knob_of_a_unit_brings_back_what_it_sets_and_nothing_else() {
        let tenant = || Tenant::from("jobs");
        let all = ["CPUQuota", "CPUQuotaPeriodSec", "CPUWeight", "AllowedCPUs"];
        let of = |knob: Knob| all.into_iter().filter(|p| sets(&knob, p)).collect::<Vec<_>>();
        assert_eq!(of(Knob::CpuBandwidth { tenant: tenant() }), all[..2]);
        assert_eq!(of(Knob::CpuWeight { tenant: tenant() }), all[2..3]);
        assert_eq!(of(Knob::Cpus { tenant: tenant() }), all[3..]);
        assert!(of(Knob::Frozen { tenant: tenant() }).is_empty());
    }
}
