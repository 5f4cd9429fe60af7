//! The real server as a platform.

mod acting;
mod probing;
mod reporting;
mod sampling;
mod set_up;

use crate::experiment::Player;
use crate::hardware::Hardware;
use crate::knobs::{KnobTable, is_of};
use crate::links::Links;
use crate::lock_traps::LockTraps;
use crate::meter::Meter;
use crate::open::OpenError;
use crate::options::LinuxOptions;
use crate::probe::Prober;
use crate::queue::Queue;
use crate::resources::{Locks, Resources, Traffic, mount_resctrl};
use crate::restore::{StateDir, restore_state_except};
use crate::tasks::{KeptTasks, Tasks};
use crate::tenant::TenantState;
use crate::undoer::LinuxUndoer;
use crate::vms::Vms;
use crate::{adopt, clock, doctor};
use quell_cgroup::{Group, Layout, Systemctl, raise_open_files};
use quell_platform::{FileStore, KnobJournal, Platform, PlatformError, Scope};
use quell_topology::Machine;
use quell_types::{
    Action, CapabilityReport, ExperimentTrace, Knob, Outcome, ProbeTrace, Sample, Setup, Tenant,
    Time,
};
use reporting::Reporting;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// With more groups than this their open files may come near the usual limit of 1024.
const MANY_GROUPS: usize = 64;

/// See the crate's documentation.
pub struct Linux {
    options: LinuxOptions,
    state: StateDir,
    layout: Layout,
    machine: Machine,
    systemctl: Option<Systemctl>,
    vms: Vms,
    setup: Setup,
    journal: KnobJournal<FileStore>,
    meter: Meter,
    hardware: Hardware,
    tenants: BTreeMap<Tenant, TenantState>,
    knobs: KnobTable,
    resources: Resources,
    traffic: Traffic,
    locks: Locks,
    lock_traps: LockTraps,
    links: Links,
    queue: Queue,
    tasks: Tasks,
    /// The journal's keys of tasks that were handed over.
    handed_over: BTreeSet<String>,
    player: Option<Player>,
    traces: Vec<ExperimentTrace>,
    /// A probe on its way, and the journal's key of what presses.
    prober: Option<(Prober, String)>,
    probe_group: Option<Group>,
    probed: Vec<ProbeTrace>,
    reporting: Reporting,
    outcomes: Vec<Outcome>,
    last: Time,
    full_samples: u64,
    /// Called while it waits for a sample, so that whoever watches sees that it lives.
    pulse: Box<dyn FnMut() + Send>,
    /// What restores left to others, and what they could not read.
    remarks: Remarks,
}

/// What putting things back left undone although nothing failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// What others use by now.
    pub left: Vec<String>,
    /// Records of the journal that nobody can read, and where they are kept.
    pub unreadable: Option<String>,
}

impl Linux {
    /// Finds all tenants, loads the probes, opens the journal and puts back what an earlier agent
    /// left. Nothing is changed yet, except that tenants which may be adopted are.
    ///
    /// # Errors
    /// Everything that is wrong, at once; then nothing was changed.
    pub fn open(options: LinuxOptions) -> Result<Self, Vec<OpenError>> {
        Self::open_with(options, KeptTasks::default())
    }

    /// As [`Linux::open`], and goes on with tasks that another one handed over. One whose group is
    /// no longer that of its tenant is stopped and goes back to ready.
    ///
    /// # Errors
    /// As [`Linux::open`]; then the tasks were stopped, or are ended by the next one that is
    /// opened, or by `quell restore`.
    pub fn open_with(options: LinuxOptions, kept: KeptTasks) -> Result<Self, Vec<OpenError>> {
        let state = StateDir(options.state_dir.clone());
        if !rustix::process::geteuid().is_root() {
            return Err(vec![OpenError::NotRoot]);
        }
        let left = put_back(&options, &state, &kept)?;
        let one = |error: String| vec![OpenError::State(error)];
        let store = FileStore::open(&state.knob_journal()).map_err(|e| one(e.to_string()))?;
        let mut journal = KnobJournal::open(store).map_err(|e| one(e.to_string()))?;
        let queue = Queue::open(&state.queue()).map_err(|e| one(e.to_string()))?;
        let layout = Layout::discover(&options.root);
        let machine = Machine::new(&options.root);
        let lives = |pid, ns| machine.process(pid).is_ok_and(|p| p.start_ns == ns);
        queue.recover(lives, clock::wall_unix_ms()).map_err(|e| one(e.to_string()))?;
        let groups = options.services.len() + options.batch.len();
        let mounted = match options.mount_resctrl && groups > 0 {
            true => mount_resctrl(&mut journal, &options.root).map_err(|e| one(e.to_string()))?,
            false => Ok(()),
        };
        let resources = Resources::discover(&options.root, mounted);
        let traffic = Traffic::open(&layout, &machine.topology(), resources.counts_bandwidth());
        let online = machine.topology().online();
        let locks = Locks::open(&layout, &online, options.count_bus_locks, traffic.is_used());
        if groups > MANY_GROUPS || traffic.is_used() || locks.is_used() {
            // Where it cannot be raised, files are opened anew at each reading.
            let _ = raise_open_files();
        }
        let loopback = options.count_loopback;
        let mut linux = Self {
            meter: Meter::load(&layout, options.services.len(), groups, loopback),
            systemctl: Systemctl::detect(&options.root),
            vms: Vms::default(),
            hardware: Hardware::discover(&options.root),
            setup: Setup::default(),
            tenants: BTreeMap::new(),
            knobs: KnobTable::default(),
            resources,
            traffic,
            locks,
            lock_traps: LockTraps::open(&options.root),
            links: Links::default(),
            tasks: Tasks::default(),
            handed_over: BTreeSet::new(),
            player: None,
            traces: Vec::new(),
            prober: None,
            probe_group: None,
            probed: Vec::new(),
            reporting: Reporting::default(),
            outcomes: Vec::new(),
            last: clock::now(),
            full_samples: 0,
            pulse: Box::new(|| ()),
            remarks: Remarks { left, unreadable: None },
            options,
            state,
            layout,
            machine,
            journal,
            queue,
        };
        let ready = linux.set_up();
        linux.take_over(kept);
        match ready {
            Ok(()) => Ok(linux),
            Err(errors) => {
                let _ = linux.restore();
                Err(errors)
            }
        }
    }

    /// Gives away the tasks whose groups are there without this agent: they outlive its end. Tasks
    /// in groups that it made are stopped with it.
    pub fn hand_over_tasks(&mut self) -> KeptTasks {
        let theirs = |tenant: &Tenant| {
            let state = self.tenants.get(tenant);
            state.is_some_and(|t| t.group.name() != adopt::adopted_path(tenant))
        };
        let kept = self.tasks.hand_over(theirs);
        self.handed_over = kept.keys();
        kept
    }

    fn take_over(&mut self, kept: KeptTasks) {
        let in_place = |tenant: &Tenant, pid: u32| {
            let pids = self.tenants.get(tenant).and_then(|t| t.group.pids().ok());
            pids.is_some_and(|pids| pids.contains(&pid))
        };
        self.tasks.take_over(kept, in_place);
    }

    /// The state folder.
    #[must_use]
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// Calls this several times a second while it waits for a sample.
    pub fn while_waiting(&mut self, pulse: impl FnMut() + Send + 'static) {
        self.pulse = Box::new(pulse);
    }

    /// What people should be told of the restores so far; once.
    pub fn take_remarks(&mut self) -> Remarks {
        std::mem::take(&mut self.remarks)
    }

    /// What the eBPF programs cost since this was first called: (program, runs, nanoseconds).
    pub fn bpf_stats(&mut self) -> Vec<(String, u64, u64)> {
        self.meter.stats()
    }
}

/// Puts back what an agent that died has left, but for tasks that go on; what was left to others.
fn put_back(
    options: &LinuxOptions,
    state: &StateDir,
    kept: &KeptTasks,
) -> Result<Vec<String>, Vec<OpenError>> {
    let report = restore_state_except(&options.root, state, &kept.keys())
        .map_err(|error| vec![OpenError::State(error.to_string())])?;
    match report.troubles() {
        none if none.is_empty() => Ok(report.left),
        troubles => Err(troubles.into_iter().map(OpenError::Leftovers).collect()),
    }
}

impl Platform for Linux {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        doctor(&self.options.root).capabilities
    }

    fn sample(&mut self, after: Duration, scope: Scope) -> Result<Sample, PlatformError> {
        let due = self.last + after;
        self.wait_until(due);
        // Late by more than a period: no catching up in a burst.
        let now = clock::now();
        self.last = if now.since(due) > after { now } else { due };
        if scope == Scope::Full {
            self.full_samples += 1;
            self.refind()?;
        }
        self.read(scope)
    }

    fn apply(&mut self, action: &Action) -> Result<(), PlatformError> {
        let done = self.carry_out(action)?;
        let outcome = Outcome { action: action.clone(), time: clock::now(), error: done.err() };
        self.outcomes.push(outcome);
        Ok(())
    }

    fn restore(&mut self) -> Result<(), PlatformError> {
        let lost = |error: crate::QueueError| PlatformError::Lost(error.to_string());
        if let Some(mut player) = self.player.take() {
            player.end(Some("the agent ends".into()));
        }
        let _ = self.end_probe(None, "the agent ends");
        self.end_reporter();
        self.probe_group = None;
        let mut undoer = LinuxUndoer::new(&self.options.root);
        self.thaw_tasks();
        // A queue that cannot be written must not keep the knobs from being put back.
        let stopped = self.tasks.stop_all(&self.queue);
        self.vms.settle();
        let report = self.journal.restore_except(&mut undoer, &self.handed_over)?;
        let reaped = self.tasks.reap(&self.queue);
        self.knobs.forget_owned();
        self.resources.forget();
        let troubles = report.troubles();
        self.remarks.left.extend(report.left);
        self.remarks.unreadable =
            report.unreadable.map(|u| u.to_string()).or(self.remarks.unreadable.take());
        stopped.and(reaped).map_err(lost)?;
        if troubles.is_empty() {
            return Ok(());
        }
        Err(PlatformError::Lost(format!("not put back: {}", troubles.join("; "))))
    }

    fn disown(&mut self, knob: &Knob) -> Result<(), PlatformError> {
        // Masks and throttles are those of a group of ours, which is to be removed whatever stands in
        // it: its record stays. Of a group that was made anew there are records of each one.
        Ok(self.journal.forget_if(|key, _| is_of(key, knob))?)
    }
}

impl Drop for Linux {
    /// A clean end puts everything back; what fails stays in the journal for `quell restore`.
    fn drop(&mut self) {
        let _ = self.restore();
    }
}
