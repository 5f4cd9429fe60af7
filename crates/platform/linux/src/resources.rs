//! Ways of the last-level cache and memory bandwidth, allotted and counted by resctrl.
//!
//! A tenant gets one resctrl group, `quell-<tenant>`, when a full sample wants its counters or one
//! of its knobs is written for the first time. The group begins with what the default group is
//! allotted, so that making it changes nothing. Where the machine counts but allots nothing, or has
//! no class of service left for the tenant, it is a monitoring group, `mon_groups/quell-<tenant>`.
//! Its removal is in the journal before it is made: the kernel then returns its threads to the
//! default group.
//!
//! Classes are few. Batch groups get theirs first: one without a class fills every way, those of
//! the services too, while a service without one has all ways and takes some of batch's only. A
//! tenant without a class has no knobs here.
//!
//! Only threads of the default group are moved: those that somebody else has put into a group of
//! his own, be it for monitoring only, stay there, unallotted and uncounted by us.

mod groups;
mod locks;
mod mounting;
mod traffic;

pub(crate) use groups::remove_group;
pub(crate) use locks::Locks;
pub(crate) use mounting::{mount_resctrl, unmount};
pub(crate) use traffic::{Traffic, stands_in, why};

use crate::tenant::TenantState;
use groups::{
    Kind, Taken, classes_for, gather, group_name, has_classes_or_none, key, make, schemata,
};
use quell_platform::{KnobJournal, Store, StoreError, Undo};
use quell_resctrl::{Group, Monitor, Resctrl, Resource};
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
    /// Whether groups are made for monitoring, or why none are.
    monitoring: Reading<()>,
    /// Why memory traffic is not counted here, if so.
    bandwidth: Reading<()>,
    tenants: BTreeMap<Tenant, Reading<Group>>,
    /// Tenants for whom there is a class of service.
    classes: BTreeSet<Tenant>,
    knobs: BTreeSet<Knob>,
    seen: BTreeMap<Knob, Reading<Setting>>,
    monitors: BTreeMap<PathBuf, (Monitor, Counted)>,
    /// Traffic of groups that are gone.
    past_bytes: u64,
}

impl Resources {
    /// `mounted` says why resctrl could not be mounted, where it was to be.
    pub(crate) fn discover(root: &Path, mounted: Reading<()>) -> Self {
        let tree = mounted.and_then(|()| Resctrl::open(root));
        let monitoring = tree.as_ref().map_err(Gap::clone).and_then(|tree| {
            tree.info().monitoring.as_ref().map_err(Gap::clone)?;
            has_classes_or_none(tree)
        });
        let bandwidth = monitoring.clone().and_then(|()| counts(tree.as_ref()));
        Self {
            tree,
            monitoring,
            bandwidth,
            tenants: BTreeMap::new(),
            classes: BTreeSet::new(),
            knobs: BTreeSet::new(),
            seen: BTreeMap::new(),
            monitors: BTreeMap::new(),
            past_bytes: 0,
        }
    }

    /// Gives the classes that nobody else has to these tenants, in their order.
    pub(crate) fn share_classes<'t>(&mut self, tenants: impl Iterator<Item = &'t Tenant>) {
        let Ok(tree) = &self.tree else { return };
        let tenants: Vec<&Tenant> = tenants.collect();
        self.classes = tenants.iter().take(classes_for(tree, &tenants)).copied().cloned().collect();
    }

    /// Of which kind the tenant's group is.
    fn kind(&self, tenant: &Tenant) -> Kind {
        if self.classes.contains(tenant) { Kind::Class } else { Kind::Monitoring }
    }

    /// Knobs of a tenant with their ranges; none without a class of its own. A service's bandwidth
    /// is never throttled.
    pub(crate) fn install(&mut self, tenant: &Tenant, is_service: bool) -> Vec<(Knob, KnobRange)> {
        let Ok(tree) = &self.tree else { return Vec::new() };
        if !self.classes.contains(tenant) {
            return Vec::new();
        }
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

    /// Whether memory traffic is counted here, of all tenants and the machine.
    pub(crate) fn counts_bandwidth(&self) -> &Reading<()> {
        &self.bandwidth
    }

    /// Whether the knob is one of these.
    pub(crate) fn has(&self, knob: &Knob) -> bool {
        self.knobs.contains(knob)
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
        let moved = gather(&group, &tenant.group, &Taken::read(tree));
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
        let kind = self.kind(tenant);
        let path = kind.dir(tree).join(&name);
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
        let made = make(tree, &name, kind).map_err(|error| Gap::from(&error));
        self.tenants.insert(tenant.clone(), made.clone());
        // Its counters may hold a former owner's counts, which are in the default group's as well.
        for group in made.iter().chain([&tree.default_group()]) {
            if let Some((monitor, _)) = self.monitors.get_mut(&group.dir()) {
                monitor.rebase();
            }
        }
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
        let taken = self.tree.as_ref().map(Taken::read).unwrap_or_default();
        for tenant in tenants {
            // Also one that somebody removed, and one for which an RMID may be free by now.
            let stands = |group: &Reading<Group>| match group {
                Ok(group) => group.dir().is_dir(),
                Err(gap) => !matches!(gap, Gap::NotYet(_)),
            };
            if self.monitoring.is_ok() && !self.tenants.get(&tenant.name).is_some_and(stands) {
                let made = self.group(journal, &tenant.name);
                if let Err(error) = made {
                    let gap = Gap::failed(format!("no resctrl group is made: {error}"));
                    self.tenants.insert(tenant.name.clone(), Err(gap));
                }
            }
            if let Some(Ok(group)) = self.tenants.get(&tenant.name) {
                // A tenant that is gone says so by its other readings; who stays outside now
                // is tried again at the next sample.
                let _ = gather(group, &tenant.group, &taken);
            }
        }
        self.count();
    }

    /// Reads all classes' counters, whoever made them, and those of our monitoring groups.
    fn count(&mut self) {
        let Ok(tree) = &self.tree else { return };
        let mut groups = tree.groups().unwrap_or_default();
        groups.push(tree.default_group());
        let ours = self.tenants.values().flatten().filter(|group| group.monitors_only());
        groups.extend(ours.filter(|group| group.dir().is_dir()).cloned());
        let here: BTreeSet<PathBuf> = groups.iter().map(Group::dir).collect();
        let mut past = 0;
        self.monitors.retain(|dir, (monitor, last)| {
            let stays = here.contains(dir);
            if !stays && !monitor.group().monitors_only() {
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

    /// What all classes together have moved; the default one's counts include those of its
    /// monitoring groups.
    pub(crate) fn host(&self) -> Reading<BandwidthReading> {
        let tree = self.tree.as_ref().map_err(Gap::clone)?;
        tree.info().monitoring.as_ref().map_err(Gap::clone)?;
        let mut bytes = self.past_bytes;
        let classes = self.monitors.values().filter(|(m, _)| !m.group().monitors_only());
        for (_, last) in classes {
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

/// Whether resctrl counts the memory traffic of tenants on the machine below `root`.
pub(crate) fn counts_bandwidth(root: &Path) -> Reading<()> {
    Resources::discover(root, Ok(())).bandwidth
}

/// Whether a tree counts memory traffic, and not occupancy alone.
fn counts(tree: Result<&Resctrl, &Gap>) -> Reading<()> {
    let monitoring = tree.map_err(Gap::clone)?.info().monitoring.as_ref().map_err(Gap::clone)?;
    if monitoring.has("mbm_total_bytes") || monitoring.has("mbm_local_bytes") {
        return Ok(());
    }
    Err(Gap::absent("resctrl counts no memory traffic here (no MBM), only what the cache holds"))
}
