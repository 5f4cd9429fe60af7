//! Plays an experiment: groups held and freed chip by chip, with a dead-man release.
//!
//! The edges are played by the one thread that also samples, while it would only wait for its next
//! sample. Should it get stuck, a second thread frees the groups when the bound has passed.

use crate::clock;
use crate::meter::Meter;
use crate::tenant::TenantState;
use quell_cgroup::{FreezerKnob, GroupKnob};
use quell_types::{
    ChipTrace, Experiment, ExperimentTrace, Gap, Reading, RequestReading, Setting, Tenant, Time,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// So often the dead man tries to free groups, 20 ms apart.
const DEAD_MAN_TRIES: u32 = 50;

/// Counters at an edge.
pub(crate) struct Edge {
    pub(crate) time: Time,
    victim_cpu: BTreeMap<Tenant, Reading<u64>>,
    victim_requests: BTreeMap<Tenant, Reading<RequestReading>>,
    group_cpu: BTreeMap<Tenant, Reading<u64>>,
}

/// An experiment on its way.
pub(crate) struct Player {
    experiment: Experiment,
    freezers: Vec<FreezerKnob>,
    chips: Vec<ChipTrace>,
    last_edge: Edge,
    next_edge: Time,
    /// Set when the groups were freed for good.
    released: Arc<AtomicBool>,
}

impl Player {
    /// Begins: reads the counters, plays the first chip, arms the dead man's release.
    pub(crate) fn begin(
        experiment: Experiment,
        freezers: Vec<FreezerKnob>,
        tenants: &mut BTreeMap<Tenant, TenantState>,
        meter: &mut Meter,
    ) -> Result<Self, String> {
        let released = Arc::new(AtomicBool::new(false));
        arm_dead_man(&experiment, &freezers, &released)?;
        let last_edge = edge(&experiment, tenants, meter);
        let mut player = Self {
            next_edge: last_edge.time,
            chips: Vec::new(),
            experiment,
            freezers,
            last_edge,
            released,
        };
        player.switch()?;
        Ok(player)
    }

    /// When it wants to be stepped next.
    pub(crate) fn next_edge(&self) -> Time {
        self.next_edge
    }

    /// Ends the present chip and begins the next; the trace when that was the last.
    pub(crate) fn step(
        &mut self,
        tenants: &mut BTreeMap<Tenant, TenantState>,
        meter: &mut Meter,
    ) -> Option<ExperimentTrace> {
        let now = edge(&self.experiment, tenants, meter);
        let running = self.experiment.code[self.chips.len()];
        self.chips.push(chip(&self.last_edge, &now, running));
        self.last_edge = now;
        if self.released.load(Ordering::Acquire) {
            return Some(self.end(Some("the bound had passed".into())));
        }
        if self.chips.len() == self.experiment.code.len() {
            return Some(self.end(None));
        }
        match self.switch() {
            Ok(()) => None,
            Err(why) => Some(self.end(Some(why))),
        }
    }

    /// Frees the groups at once, each whatever becomes of the others. If one is not to be had, whoever
    /// drops this tries again, and so does the dead man.
    pub(crate) fn end(&mut self, aborted: Option<String>) -> ExperimentTrace {
        let failed = thaw_all(&self.freezers);
        self.released.store(failed.is_none(), Ordering::Release);
        let aborted = aborted.or(failed);
        ExperimentTrace { id: self.experiment.id, chips: std::mem::take(&mut self.chips), aborted }
    }

    fn switch(&mut self) -> Result<(), String> {
        let index = self.chips.len();
        let held = !self.experiment.code[index];
        let was_held = index > 0 && !self.experiment.code[index - 1];
        if held != was_held {
            for freezer in &self.freezers {
                freezer.write(&Setting::Flag(held)).map_err(|error| error.to_string())?;
            }
        }
        // The dead man may have come while groups were asked again and again to freeze.
        if held && self.released.load(Ordering::Acquire) {
            thaw_all(&self.freezers);
            return Err("the bound had passed".into());
        }
        self.next_edge = self.last_edge.time + Duration::from_micros(self.experiment.chip_us);
        Ok(())
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        if !self.released.load(Ordering::Acquire) {
            self.end(Some("dropped".into()));
        }
    }
}

/// Thaws each, whatever becomes of the others; why the last one that failed did not.
fn thaw_all(freezers: &[FreezerKnob]) -> Option<String> {
    let mut failed = None;
    for freezer in freezers {
        failed = thaw(freezer).err().or(failed);
    }
    failed
}

fn thaw(freezer: &FreezerKnob) -> Result<(), String> {
    match freezer.write(&Setting::Flag(false)) {
        Err(error) if !error.is_gone() => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn arm_dead_man(
    experiment: &Experiment,
    freezers: &[FreezerKnob],
    released: &Arc<AtomicBool>,
) -> Result<(), String> {
    let (freezers, released) = (freezers.to_vec(), Arc::clone(released));
    let end = clock::now() + Duration::from_micros(experiment.bound_us);
    let watch = move || {
        while clock::now() < end {
            if released.load(Ordering::Acquire) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20).min(end.since(clock::now())));
        }
        for _ in 0..DEAD_MAN_TRIES {
            if released.load(Ordering::Acquire) {
                return;
            }
            released.store(thaw_all(&freezers).is_none(), Ordering::Release);
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    std::thread::Builder::new()
        .name("quell-deadman".into())
        .stack_size(64 * 1024)
        .spawn(watch)
        .map(drop)
        .map_err(|error| format!("no thread to release the groups in time: {error}"))
}

pub(crate) fn edge(
    experiment: &Experiment,
    tenants: &mut BTreeMap<Tenant, TenantState>,
    meter: &mut Meter,
) -> Edge {
    let mut edge = Edge {
        time: clock::now(),
        victim_cpu: BTreeMap::new(),
        victim_requests: BTreeMap::new(),
        group_cpu: BTreeMap::new(),
    };
    for victim in &experiment.victims {
        let Some(tenant) = tenants.get_mut(victim) else { continue };
        edge.victim_cpu.insert(victim.clone(), tenant.cpu_ns());
        edge.victim_requests.insert(victim.clone(), tenant.requests(meter));
    }
    for group in &experiment.groups {
        let Some(tenant) = tenants.get_mut(group) else { continue };
        edge.group_cpu.insert(group.clone(), tenant.cpu_ns());
    }
    edge
}

pub(crate) fn chip(from: &Edge, to: &Edge, running: bool) -> ChipTrace {
    ChipTrace {
        from: from.time,
        to: to.time,
        running,
        victim_cpu_ns: grown(&from.victim_cpu, &to.victim_cpu),
        victim_requests: to
            .victim_requests
            .iter()
            .map(|(name, now)| (name.clone(), requests_since(from.victim_requests.get(name), now)))
            .collect(),
        group_cpu_ns: grown(&from.group_cpu, &to.group_cpu),
    }
}

fn grown(
    from: &BTreeMap<Tenant, Reading<u64>>,
    to: &BTreeMap<Tenant, Reading<u64>>,
) -> BTreeMap<Tenant, Reading<u64>> {
    let growth = |name: &Tenant, now: &Reading<u64>| -> Reading<u64> {
        let before = from.get(name).cloned().unwrap_or(Err(Gap::not_yet("no first edge")))?;
        Ok(now.clone()?.saturating_sub(before))
    };
    to.iter().map(|(name, now)| (name.clone(), growth(name, now))).collect()
}

fn requests_since(
    from: Option<&Reading<RequestReading>>,
    to: &Reading<RequestReading>,
) -> Reading<RequestReading> {
    let before = from.cloned().unwrap_or(Err(Gap::not_yet("no first edge")))?;
    let now = to.clone()?;
    Ok(RequestReading {
        requests: now.requests.saturating_sub(before.requests),
        bytes_in: now.bytes_in.saturating_sub(before.bytes_in),
        bytes_out: now.bytes_out.saturating_sub(before.bytes_out),
        latency_ns: match (now.latency_ns, before.latency_ns) {
            (Ok(now), Ok(before)) => Ok(now.since(&before)),
            (Err(gap), _) | (_, Err(gap)) => Err(gap),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_cgroup::{Group, Layout};
    use std::fs;

    #[test]
    fn one_group_that_does_not_thaw_leaves_no_other_frozen() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("sys/fs/cgroup");
        let put = |path: std::path::PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        put(root.path().join("proc/mounts"), mounts);
        put(tree.join("cgroup.controllers"), "cpu\n");
        for name in ["a", "stuck", "b"] {
            put(tree.join(name).join("cgroup.events"), "populated 1\nfrozen 1\n");
        }
        for name in ["a", "b"] {
            put(tree.join(name).join("cgroup.freeze"), "1\n");
        }
        // Neither read nor written, whoever asks.
        fs::create_dir(tree.join("stuck/cgroup.freeze")).unwrap();
        let layout = Layout::discover(root.path());
        let freezer = |name: &str| {
            let group = Group::find(&layout, name).unwrap();
            (name.to_owned(), FreezerKnob::new(&group).unwrap())
        };
        for order in [["a", "stuck", "b"], ["stuck", "a", "b"], ["b", "a", "stuck"]] {
            let freezers = order.map(freezer);
            for (name, freezer) in freezers.iter().filter(|(name, _)| name != "stuck") {
                put(tree.join(name).join("cgroup.freeze"), "1\n");
                assert_eq!(freezer.read(), Ok(Setting::Flag(true)), "{name}");
            }
            let failed = thaw_all(&freezers.clone().map(|(_, freezer)| freezer));
            assert!(failed.is_some_and(|why| why.contains("stuck")), "{order:?}");
            for (name, freezer) in freezers.iter().filter(|(name, _)| name != "stuck") {
                assert_eq!(freezer.read(), Ok(Setting::Flag(false)), "{name} in {order:?}");
            }
        }
    }
}
