//! What runs have left that were killed: groups, processes, knobs, files.
//!
//! # Problem
//! SIGKILL lets nobody clean up. The kernel removes a run's network namespaces with its last
//! process, its service ends with its standard input, its agent by itself ([`crate::guard`]); but
//! groups and files stay, and if the agent was killed too, batch at work and changed knobs.
//!
//! # Idea
//! A run's folder ([`crate::folder`]) bears the name of its groups and says whose it is. If that
//! process is gone, in this order: end its agent, play back its knob journal, end and remove the
//! groups, then the folder. A group without a folder is removed only if it is empty: nobody says
//! whose it is.

use crate::folder::{self, PREFIX, folders_in};
use quell_cgroup::{Group, Layout, remove};
use quell_linux::{AgentLock, LockError, StateDir, restore_state};
use quell_topology::Machine;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time for everything together.
const BUDGET: Duration = Duration::from_secs(15);
/// An agent that is asked to end puts its knobs back first.
const ASKED: Duration = Duration::from_secs(5);
/// For one group.
const END: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);

/// A run that was killed and cleaned up after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeadRun {
    /// The name of its folder and groups.
    pub name: String,
    /// The process that it was.
    pub pid: u32,
    /// What remains, and why; empty if all is gone.
    pub failed: Vec<String>,
}

/// Cleans up after every demo and bench that is dead; living ones are left alone. Takes 20 s at
/// most. Without root there is nothing of ours to find.
#[must_use]
pub fn clean_up() -> Vec<DeadRun> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let cleaner = Cleaner {
        layout: Layout::discover("/"),
        machine: Machine::new("/"),
        end: Instant::now() + BUDGET,
    };
    let folders = folder::all();
    let mut dead: Vec<DeadRun> =
        folders.iter().filter_map(|(name, path)| cleaner.folder(name, path)).collect();
    let known: BTreeSet<&str> = folders.iter().map(|(name, _)| name.as_str()).collect();
    let orphans = cleaner.group_names().into_iter().filter(|name| !known.contains(name.as_str()));
    dead.extend(orphans.filter_map(|name| cleaner.orphan(name)));
    dead
}

struct Cleaner {
    layout: Layout,
    machine: Machine,
    end: Instant,
}

impl Cleaner {
    /// So long, but not beyond the budget.
    fn time(&self, most: Duration) -> Duration {
        self.end.saturating_duration_since(Instant::now()).min(most)
    }

    /// Cleans up after the run of a folder; none if it lives, or somebody else does it just now.
    fn folder(&self, name: &str, path: &Path) -> Option<DeadRun> {
        if folder::is_alive(&self.machine, name, path) {
            return None;
        }
        let lock = File::open(path).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        let failed = match self.dead(name, path) {
            Ok(failed) => failed,
            Err(why) => vec![why],
        };
        Some(DeadRun { name: name.to_owned(), pid: folder::pid_of(name)?, failed })
    }

    fn dead(&self, name: &str, path: &Path) -> Result<Vec<String>, String> {
        let state = StateDir(path.join("guard/state"));
        let guarded = state.0.is_dir();
        // No agent may begin while this one's knobs are put back.
        let _lock = if guarded { Some(self.end_agent(&state)?) } else { None };
        // What fails may be a knob of a group that will be gone: asked again below. What nobody can
        // read is told the first time only.
        let mut failed = if guarded { restored(&state).1 } else { Vec::new() };
        self.remove_groups(name)?;
        if guarded {
            let (again, unreadable) = restored(&state);
            failed.extend(again.into_iter().chain(unreadable));
        }
        folder::put_back_above_of(path);
        if failed.is_empty() {
            fs::remove_dir_all(path).map_err(|e| format!("{} remains: {e}", path.display()))?;
        }
        Ok(failed)
    }

    /// Ends the agent of a dead run, if it still works, and takes its place.
    fn end_agent(&self, state: &StateDir) -> Result<AgentLock, String> {
        let asked_until = Instant::now() + self.time(ASKED);
        let mut asked = false;
        loop {
            let pid = match AgentLock::take(&state.0) {
                Ok(lock) => return Ok(lock),
                Err(LockError::Held { pid, .. }) => pid,
                Err(error) => return Err(error.to_string()),
            };
            let late = Instant::now() >= asked_until;
            if late || !asked {
                let signal = if late { Signal::KILL } else { Signal::TERM };
                asked = signal_holder(state, &pid, signal);
            }
            if self.time(BUDGET).is_zero() {
                return Err(format!("its agent (pid {pid}) does not end"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends what runs in a run's groups, and removes them.
    fn remove_groups(&self, name: &str) -> Result<(), String> {
        let home = format!("/{name}");
        // Frozen groups are thawed one by one.
        for group in self.below(name).into_iter().chain([home.clone()]) {
            if let Ok(group) = Group::find(&self.layout, &group) {
                group.kill(self.time(END)).map_err(|error| error.to_string())?;
            }
        }
        remove(&self.layout, &home, self.time(END)).map_err(|error| error.to_string())
    }

    /// The paths of the groups in a run's group.
    fn below(&self, name: &str) -> BTreeSet<String> {
        let tops = self.layout.hierarchies().iter().map(|hierarchy| hierarchy.dir.join(name));
        tops.flat_map(|top| folders_in(&top)).map(|inner| format!("/{name}/{inner}")).collect()
    }

    /// The groups of all runs.
    fn group_names(&self) -> BTreeSet<String> {
        let tops = self.layout.hierarchies().iter().map(|hierarchy| hierarchy.dir.clone());
        tops.flat_map(|top| folders_in(&top))
            .filter(|name| folder::pid_of(name).is_some())
            .collect()
    }

    /// A group without a folder.
    fn orphan(&self, name: String) -> Option<DeadRun> {
        let pid = folder::pid_of(&name)?;
        if self.machine.process(pid).is_ok() {
            return None;
        }
        let populated =
            Group::find(&self.layout, &format!("/{name}")).is_ok_and(|group| group.is_populated());
        let failed = if populated {
            let why = format!("the group {name} is left alone: it has processes, but no folder");
            vec![format!("{why} {PREFIX}… says whose it is")]
        } else {
            self.remove_groups(&name).err().into_iter().collect()
        };
        Some(DeadRun { name, pid, failed })
    }
}

/// Plays a knob journal back: what failed, and what could not be read.
fn restored(state: &StateDir) -> (Vec<String>, Vec<String>) {
    match restore_state(Path::new("/"), state) {
        Ok(report) => {
            let unreadable = report.unreadable.iter().map(ToString::to_string).collect();
            (report.failed, unreadable)
        }
        Err(error) => (vec![error.to_string()], Vec::new()),
    }
}

/// Signals the holder of an agent's lock, and nobody who got its number since: the handle is taken
/// before the lock is asked once more.
fn signal_holder(state: &StateDir, pid: &str, signal: Signal) -> bool {
    let number = pid.parse().ok().filter(|&n: &i32| n > 1).and_then(Pid::from_raw);
    let Some(handle) = number.and_then(|n| pidfd_open(n, PidfdFlags::empty()).ok()) else {
        return false;
    };
    let holds = matches!(AgentLock::take(&state.0),
        Err(LockError::Held { pid: again, .. }) if again == pid);
    holds && pidfd_send_signal(handle, signal).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::RunFolder;
    use crate::groups::Groups;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// One test at a time: each cleans up what the other has just made for a dead run.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exists(name: &str) -> bool {
        Group::find(&Layout::discover("/"), &format!("/{name}")).is_ok()
    }

    /// A name of a run whose process is gone: that of a child that was waited for.
    fn dead_name() -> String {
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        format!("{PREFIX}{}-{}", child.id(), std::process::id())
    }

    #[test]
    fn a_living_run_is_left_alone() {
        let _alone = alone();
        let folder = RunFolder::make().unwrap();
        let groups = Groups::make(folder.name()).unwrap();
        let told = clean_up();
        assert!(told.iter().all(|run| run.name != folder.name()), "{told:?}");
        assert!(exists(folder.name()) && folder.path().exists());
        let name = folder.name().to_owned();
        drop(groups);
        assert!(!exists(&name));
    }

    #[test]
    fn what_nobody_can_read_in_a_dead_runs_journal_is_told() {
        let _alone = alone();
        let name = dead_name();
        let folder = folder::make(&name).unwrap();
        let state = StateDir(folder.join("guard/state"));
        fs::create_dir_all(&state.0).unwrap();
        fs::write(state.knob_journal(), "rotten\n").unwrap();
        let told = clean_up().into_iter().find(|run| run.name == name).unwrap();
        assert!(told.failed.len() == 1 && told.failed[0].contains("cannot be read"), "{told:?}");
        let kept = fs::read_dir(&state.0).unwrap().flatten().map(|file| file.path());
        let mut texts = kept.filter_map(|path| fs::read_to_string(path).ok());
        assert!(texts.any(|text| text.contains("rotten")), "the evidence is kept");
        let told = clean_up().into_iter().find(|run| run.name == name).unwrap();
        assert!(told.failed.is_empty() && !folder.exists(), "{told:?}");
    }

    #[test]
    fn a_group_that_nobody_owns_goes_only_if_it_is_empty() {
        let _alone = alone();
        let name = dead_name();
        let groups = Groups::make(&name).unwrap();
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        groups.service().add_process(sleeper.id()).unwrap();
        let of = |told: Vec<DeadRun>| told.into_iter().find(|run| run.name == name);
        let told = of(clean_up()).unwrap();
        assert!(told.failed[0].contains("left alone"), "{told:?}");
        assert!(sleeper.try_wait().unwrap().is_none() && exists(&name));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(of(clean_up()).unwrap().failed.is_empty());
        assert!(!exists(&name));
    }
}
