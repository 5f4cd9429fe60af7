//! Ways of the last-level cache and memory bandwidth, allotted and counted by resctrl.
//!
//! A tenant gets one resctrl group, `quell-<tenant>`, when a full sample wants its counters or one
//! of its knobs is written for the first time. The group begins with what the default group is
//! allotted, so that making it changes nothing. Its removal is in the journal before it is made: the
//! kernel then returns its threads to the default group.
//!
//! Only threads of the default group are moved: those that somebody else has put into a group of
//! his own stay there, unallotted and uncounted by us.

use crate::adopt::plain_name;
use crate::tenant::TenantState;
use quell_platform::{KnobJournal, Store, StoreError, Undo};
use quell_resctrl::{Group, Monitor, RawFile, Resctrl, ResctrlError, Resource, SchemataKnob};
use quell_types::{BandwidthReading, Gap, Knob, KnobRange, Reading, Setting, Tenant};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a group was last read to hold and to have moved.
#[derive(Clone)]
struct Counted {
    llc_bytes: Reading<u64>,
    traffic: Reading<BandwidthReading>,
}

/// All of resctrl that the platform uses.
pub(crate) struct Resources {
    tree: Reading<Resctrl>,
    /// Why no groups are made for monitoring, if so.
    monitoring: Reading<()>,
    tenants: BTreeMap<Tenant, Reading<Group>>,
    knobs: BTreeSet<Knob>,
    seen: BTreeMap<Knob, Reading<Setting>>,
    monitors: BTreeMap<PathBuf, (Monitor, Counted)>,
    /// Traffic of groups that are gone.
    past_bytes: u64,
}

impl Resources {
    pub(crate) fn discover(root: &Path) -> Self {
        let tree = Resctrl::open(root);
        let monitoring = tree.as_ref().map_err(Gap::clone).and_then(|tree| {
            tree.info().monitoring.as_ref().map_err(Gap::clone)?;
            let why = "the machine monitors, but allots nothing that groups could be made for";
            tree.classes().map(drop).map_err(|gap| Gap::absent(format!("{why}: {gap}")))
        });
        Self {
            tree,
            monitoring,
            tenants: BTreeMap::new(),
            knobs: BTreeSet::new(),
            seen: BTreeMap::new(),
            monitors: BTreeMap::new(),
            past_bytes: 0,
        }
    }

    /// Knobs of a tenant with their ranges. A service's bandwidth is never throttled.
    pub(crate) fn install(&mut self, tenant: &Tenant, is_service: bool) -> Vec<(Knob, KnobRange)> {
        let Ok(tree) = &self.tree else { return Vec::new() };
        let domains = |resource: Option<Resource>| {
            resource.and_then(|r| tree.domains(r).ok()).unwrap_or_default()
        };
        let name = || tenant.clone();
        let ways = domains(tree.info().llc_resources().first().copied());
        let ways = ways.into_iter().map(|domain| Knob::LlcWays { tenant: name(), domain });
        let bandwidth = if is_service { Vec::new() } else { domains(Some(Resource::Mb)) };
        let bandwidth =
            bandwidth.into_iter().map(|domain| Knob::MemoryBandwidth { tenant: name(), domain });
        let ranges: Vec<(Knob, KnobRange)> = ways
            .chain(bandwidth)
            .filter_map(|knob| {
                let range = schemata(tree, &tree.default_group(), &knob)?.range().ok()?;
                Some((knob, range))
            })
            .collect();
        self.knobs.extend(ranges.iter().map(|(knob, _)| knob.clone()));
        ranges
    }

    /// Whether the knob is one of these.
    pub(crate) fn has(&self, knob: &Knob) -> bool {
        self.knobs.contains(knob)
    }

    /// The journal's key of a knob: that of its tenant's group.
    pub(crate) fn key(knob: &Knob) -> Option<String> {
        knob.tenant().map(key)
    }

    /// Sets a knob; the removal of the tenant's group is on disk before.
    ///
    /// # Errors
    /// The journal cannot be written: nothing was changed.
    pub(crate) fn set<S: Store>(
        &mut self,
        journal: &mut KnobJournal<S>,
        knob: &Knob,
        to: &Setting,
        tenant: &TenantState,
    ) -> Result<Result<(), String>, StoreError> {
        let group = match self.group(journal, &tenant.name)? {
            Ok(group) => group,
            Err(gap) => return Ok(Err(gap.to_string())),
        };
        let Ok(tree) = &self.tree else { return Ok(Err(format!("{knob} is not here"))) };
        let Some(files) = schemata(tree, &group, knob) else {
            return Ok(Err(format!("{knob} is not to be set on this machine")));
        };
        let moved = gather(tree, &group, &tenant.group);
        let done = files.write(to).map_err(|error| error.to_string());
        self.seen.insert(knob.clone(), files.read());
        Ok(done.and(moved.map_err(|gap| gap.to_string())))
    }

    /// The tenant's group, made if need be.
    fn group<S: Store>(
        &mut self,
        journal: &mut KnobJournal<S>,
        tenant: &Tenant,
    ) -> Result<Reading<Group>, StoreError> {
        let tree = match &self.tree {
            Ok(tree) => tree,
            Err(gap) => return Ok(Err(gap.clone())),
        };
        let name = group_name(tenant);
        let path = tree.mount().path.join(&name);
        let taken = |other: &Reading<Group>| {
            other.as_ref().is_ok_and(|group| group.name() == Some(name.as_str()))
        };
        let others = self.tenants.iter().filter(|(other, _)| *other != tenant);
        if let Some((other, _)) = others.into_iter().find(|(_, group)| taken(group)) {
            return Ok(Err(Gap::failed(format!("{name} is the resctrl group of {other}"))));
        }
        // Also where the group is there: its record may have been given up.
        journal.before_write(&key(tenant), || vec![Undo::RemoveResctrlGroup { path }])?;
        // One that somebody removed is made anew.
        if let Some(Ok(group)) = self.tenants.get(tenant)
            && group.dir().is_dir()
        {
            return Ok(Ok(group.clone()));
        }
        let made = make(tree, &name).map_err(|error| Gap::from(&error));
        self.tenants.insert(tenant.clone(), made.clone());
        Ok(made)
    }

    /// Before a full sample: groups for monitoring are made, new threads join theirs, all groups
    /// are counted.
    pub(crate) fn prepare<'t, S: Store>(
        &mut self,
        journal: &mut KnobJournal<S>,
        tenants: impl Iterator<Item = &'t TenantState>,
    ) {
        if self.tree.is_err() {
            return;
        }
        for tenant in tenants {
            if self.monitoring.is_ok() && !self.tenants.contains_key(&tenant.name) {
                let made = self.group(journal, &tenant.name);
                if let Err(error) = made {
                    let gap = Gap::failed(format!("no resctrl group is made: {error}"));
                    self.tenants.insert(tenant.name.clone(), Err(gap));
                }
            }
            if let (Ok(tree), Some(Ok(group))) = (&self.tree, self.tenants.get(&tenant.name)) {
                // A tenant that is gone says so by its other readings; who stays outside now
                // is tried again at the next sample.
                let _ = gather(tree, group, &tenant.group);
            }
        }
        self.count();
    }

    /// Reads all groups' counters, whoever made them.
    fn count(&mut self) {
        let Ok(tree) = &self.tree else { return };
        let mut groups = tree.groups().unwrap_or_default();
        groups.push(tree.default_group());
        let here: BTreeSet<PathBuf> = groups.iter().map(Group::dir).collect();
        let mut past = 0;
        self.monitors.retain(|dir, (_, last)| {
            let stays = here.contains(dir);
            if !stays {
                past += last.traffic.as_ref().map_or(0, |traffic| traffic.bytes);
            }
            stays
        });
        self.past_bytes += past;
        for group in groups {
            let none = Counted { llc_bytes: Err(Gap::Pending), traffic: Err(Gap::Pending) };
            let (monitor, last) =
                self.monitors.entry(group.dir()).or_insert_with(|| (Monitor::new(group), none));
            let reading = monitor.read();
            *last = Counted { llc_bytes: reading.llc_bytes, traffic: reading.bandwidth };
        }
    }

    /// What a tenant moved and holds, at the last full sample.
    pub(crate) fn counted(&self, tenant: &Tenant) -> (Reading<BandwidthReading>, Reading<u64>) {
        let group = match (&self.monitoring, self.tenants.get(tenant)) {
            (Err(gap), _) | (_, Some(Err(gap))) => Err(gap.clone()),
            (Ok(()), None) => Err(Gap::not_yet("the tenant has no resctrl group yet")),
            (Ok(()), Some(Ok(group))) => Ok(group.dir()),
        };
        let last = group.and_then(|dir| {
            let gone = || Gap::Gone(format!("{} was removed", dir.display()));
            self.monitors.get(&dir).map(|(_, last)| last.clone()).ok_or_else(gone)
        });
        match last {
            Ok(last) => (last.traffic, last.llc_bytes),
            Err(gap) => (Err(gap.clone()), Err(gap)),
        }
    }

    /// What all groups together have moved.
    pub(crate) fn host(&self) -> Reading<BandwidthReading> {
        let tree = self.tree.as_ref().map_err(Gap::clone)?;
        tree.info().monitoring.as_ref().map_err(Gap::clone)?;
        let mut bytes = self.past_bytes;
        for (_, last) in self.monitors.values() {
            bytes += last.traffic.clone()?.bytes;
        }
        Ok(BandwidthReading { bytes })
    }

    /// How every knob stands; of a tenant without a group, as the default group stands.
    pub(crate) fn read(&mut self) -> BTreeMap<Knob, Reading<Setting>> {
        let Ok(tree) = &self.tree else { return BTreeMap::new() };
        let default = tree.default_group();
        for knob in &self.knobs {
            let own = knob.tenant().and_then(|tenant| self.tenants.get(tenant));
            let group = own.and_then(|group| group.as_ref().ok()).unwrap_or(&default);
            if let Some(files) = schemata(tree, group, knob) {
                self.seen.insert(knob.clone(), files.read());
            }
        }
        self.seen.clone()
    }

    /// How every knob stood when it was last read or written.
    pub(crate) fn last(&self) -> BTreeMap<Knob, Reading<Setting>> {
        self.seen.clone()
    }

    /// After a restore the groups are gone; only a write makes new ones.
    pub(crate) fn forget(&mut self) {
        self.tenants.clear();
        self.seen.clear();
        if self.monitoring.is_ok() {
            self.monitoring = Err(Gap::absent("everything was put back: groups are made no more"));
        }
    }
}

fn group_name(tenant: &Tenant) -> String {
    format!("{}-{}", quell_resctrl::PREFIX, plain_name(tenant))
}

fn key(tenant: &Tenant) -> String {
    format!("resctrl group {}", group_name(tenant))
}

fn schemata(tree: &Resctrl, group: &Group, knob: &Knob) -> Option<SchemataKnob> {
    match knob {
        Knob::LlcWays { domain, .. } => tree.llc_ways(group, *domain).ok(),
        Knob::MemoryBandwidth { domain, .. } => tree.memory_bandwidth(group, *domain).ok(),
        _ => None,
    }
}

/// A group allotted what the default one is. One of the same name is a leftover and made anew.
fn make(tree: &Resctrl, name: &str) -> Result<Group, ResctrlError> {
    tree.remove(name)?;
    let group = tree.create(name)?;
    let like_default = || {
        let (fresh, text) = (group.snapshot()?, tree.default_group().snapshot()?.text);
        group.restore(&RawFile { path: fresh.path, text })
    };
    match like_default() {
        Ok(()) => Ok(group),
        Err(error) => {
            // The first error is the one to tell; what is left here, the journal removes.
            let _ = tree.remove(name);
            Err(error)
        }
    }
}

/// Moves the cgroup's threads that are in the default group into this one.
fn gather(tree: &Resctrl, group: &Group, cgroup: &quell_cgroup::Group) -> Reading<()> {
    let free = tree.default_group().tasks().map_err(|error| Gap::from(&error))?;
    let free: BTreeSet<u32> = free.into_iter().collect();
    for thread in cgroup.tids()? {
        if !free.contains(&thread) {
            continue;
        }
        match group.add_task(thread) {
            // Ended meanwhile.
            Err(error) if error.errno() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            done => done.map_err(|error| Gap::from(&error))?,
        }
    }
    Ok(())
}

/// Removes a resctrl group of ours.
///
/// # Errors
/// It is not ours, or the kernel refuses. One that is gone counts as removed.
pub(crate) fn remove_group(path: &Path) -> Result<(), String> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !quell_resctrl::is_ours(name) {
        return Err(format!("{} is no resctrl group of Quell's", path.display()));
    }
    match std::fs::remove_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{} cannot be removed: {error}", path.display()))
        }
        _ => Ok(()),
    }
}
