//! Starting, watching and stopping batch tasks.

use crate::clock;
use crate::marked::Marked;
use crate::queue::{Queue, QueueError};
use quell_platform::{KnobJournal, Store, StoreError, Undo};
use quell_topology::Machine;
use quell_types::{TaskEnd, TaskId, TaskRecord, TaskState, Tenant, Time};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process as kill_one, kill_process_group as kill_group,
    waitid,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Enters the groups named before `--`, then becomes the command. A task is in its group before
/// its first instruction, so nothing of it ever runs outside.
pub(crate) const ENTER: &str = r#"while [ "$1" != -- ]; do echo $$ > "$1" || exit 125; shift; done
shift; exec "$@""#;
/// The variable by which a restore finds what a task started, if its agent died before it wrote
/// down the process.
pub(crate) const MARK: &str = "QUELL_TASK";
/// A stopped task gets this long to end by itself before it is killed.
const GRACE: Duration = Duration::from_millis(200);

/// A task that runs.
struct Running {
    child: Child,
    /// What all its processes carry in their environment.
    mark: String,
    /// The journal's keys of the records by which a restore would end it.
    keys: [String; 2],
    tenant: Tenant,
    started: Time,
    stopping: bool,
}

/// Tasks that go on while one configuration follows another (a reload). The journal keeps how they
/// are ended, so that a death meanwhile leaves none behind.
#[derive(Default)]
pub struct KeptTasks {
    running: BTreeMap<TaskId, Running>,
}

impl KeptTasks {
    /// The journal's keys of the records by which a restore would end them.
    pub(crate) fn keys(&self) -> BTreeSet<String> {
        self.running.values().flat_map(|running| running.keys.clone()).collect()
    }
}

/// Tasks that this agent runs.
#[derive(Default)]
pub(crate) struct Tasks {
    running: BTreeMap<TaskId, Running>,
    /// Marks of tasks that ended, of which something may still run: with the journal's keys.
    ended: BTreeMap<String, [String; 2]>,
}

impl Tasks {
    /// Starts a task in the group whose `cgroup.procs` files are given. Its output goes to a file.
    ///
    /// Two records: one before there is a process, by the mark that it will carry, so that a death
    /// at any moment leaves nothing that runs; one by its id, since a program may overwrite its
    /// environment.
    pub(crate) fn start<S: Store>(
        &mut self,
        queue: &Queue,
        journal: &mut KnobJournal<S>,
        machine: &Machine,
        task: TaskId,
        (tenant, procs): (&Tenant, &[PathBuf]),
        output: &Path,
    ) -> Result<Result<(), String>, StoreError> {
        let mark = format!("{task}.{}.{}", std::process::id(), clock::now().0);
        let marked = format!("task marked {mark}");
        journal.before_write(&marked, || vec![Undo::EndMarked { mark: mark.clone() }])?;
        let started = (|| -> Result<Child, String> {
            let row = queue.get(task).map_err(|error| error.to_string())?;
            if self.running.contains_key(&task) || row.record.state != TaskState::Ready {
                return Err("it runs already".into());
            }
            spawn(&row.record, procs, output, &mark).map_err(|error| error.to_string())
        })();
        let child = match started {
            Ok(child) => child,
            Err(why) => {
                // Nothing carries the mark.
                journal.forget(&marked)?;
                let end = TaskEnd::NotStarted { why: why.clone() };
                let noted = queue.ended(task, &end, clock::wall_unix_ms());
                return Ok(Err(noted.err().map_or(why, |error| error.to_string())));
            }
        };
        let pid = child.id();
        let start_ns = machine.process(pid).map_or(0, |process| process.start_ns);
        let key = format!("task process {pid} started at {start_ns}");
        if let Err(error) = journal.before_write(&key, || vec![Undo::EndProcess { pid, start_ns }])
        {
            kill_process_group(pid);
            return Err(error);
        }
        let noted = queue.started(task, tenant, pid, start_ns, clock::wall_unix_ms());
        let (keys, started, tenant) = ([marked, key], clock::now(), tenant.clone());
        let running = Running { child, mark, keys, tenant, started, stopping: false };
        self.running.insert(task, running);
        Ok(noted.map_err(|error| error.to_string()))
    }

    /// Stops a task; that it ended shows in a later sample. A frozen group must be thawed first.
    pub(crate) fn stop(&mut self, task: TaskId) -> Result<(), String> {
        let running = self.running.get_mut(&task).ok_or("it does not run")?;
        running.stopping = true;
        kill_process_group(running.child.id());
        Ok(())
    }

    /// Gives those away that run in such groups.
    pub(crate) fn hand_over(&mut self, stays: impl Fn(&Tenant) -> bool) -> KeptTasks {
        let all = std::mem::take(&mut self.running);
        let (kept, left) = all.into_iter().partition(|(_, r)| !r.stopping && stays(&r.tenant));
        self.running = left;
        KeptTasks { running: kept }
    }

    /// Goes on with tasks that were handed over. Those that no longer run where they should are
    /// stopped, and so go back to ready.
    pub(crate) fn take_over(&mut self, kept: KeptTasks, in_place: impl Fn(&Tenant, u32) -> bool) {
        self.running.extend(kept.running);
        for running in self.running.values_mut() {
            if !in_place(&running.tenant, running.child.id()) {
                running.stopping = true;
                kill_process_group(running.child.id());
            }
        }
    }

    /// Notes in the queue what ended. What a task leaves in its process group ends with it.
    pub(crate) fn reap(&mut self, queue: &Queue) -> Result<(), QueueError> {
        let mut ended = Vec::new();
        for (id, running) in &mut self.running {
            end_group_of_ended(running.child.id());
            let end = match running.child.try_wait() {
                Ok(None) => continue,
                Ok(Some(_)) if running.stopping => TaskEnd::Stopped,
                Ok(Some(status)) => end_of(status),
                Err(error) => TaskEnd::NotStarted { why: error.to_string() },
            };
            ended.push((*id, end));
        }
        for (id, end) in ended {
            // What cannot be noted now is noted with the next sample.
            queue.ended(id, &end, clock::wall_unix_ms())?;
            if let Some(running) = self.running.remove(&id) {
                self.ended.insert(running.mark, running.keys);
            }
        }
        Ok(())
    }

    /// Ends what tasks that ended have left running elsewhere than in their process group, and takes
    /// them out of the journal once there is nothing of them any more: a server that works through a
    /// long queue keeps records of what runs, not of all that ever ran.
    ///
    /// One look at all processes for all tasks. What does not end at once is met the next time.
    pub(crate) fn sweep<S: Store>(
        &mut self,
        journal: &mut KnobJournal<S>,
        machine: &Machine,
    ) -> Result<(), StoreError> {
        if self.ended.is_empty() {
            return Ok(());
        }
        let marks: BTreeSet<&str> = self.ended.keys().map(String::as_str).collect();
        let found = Marked::find(machine, &marks);
        found.pids().for_each(kill_process);
        let gone: Vec<String> =
            self.ended.keys().filter(|mark| !found.may_have(mark)).cloned().collect();
        let keys: BTreeSet<&String> = gone.iter().flat_map(|mark| &self.ended[mark]).collect();
        journal.forget_if(|key, _| keys.contains(&key.to_owned()))?;
        self.ended.retain(|mark, _| !gone.contains(mark));
        Ok(())
    }

    /// The queue as the sample shows it.
    pub(crate) fn records(&self, queue: &Queue) -> Result<Vec<TaskRecord>, QueueError> {
        let with_start = |mut record: TaskRecord| {
            let running = self.running.get(&record.id);
            record.started = running.map(|r| r.started);
            record
        };
        Ok(queue.open_tasks()?.into_iter().map(|row| with_start(row.record)).collect())
    }

    /// Stops everything and waits for it: each task gets a moment, then is killed.
    pub(crate) fn stop_all(&mut self, queue: &Queue) -> Result<(), QueueError> {
        for running in self.running.values_mut() {
            running.stopping = true;
            terminate(running.child.id());
        }
        let begun = Instant::now();
        let mut killed = false;
        while !self.running.is_empty() && begun.elapsed() < 10 * GRACE {
            self.reap(queue)?;
            if begun.elapsed() > GRACE && !std::mem::replace(&mut killed, true) {
                self.running.values().for_each(|r| kill_process_group(r.child.id()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Tasks that run in a group.
    pub(crate) fn of(&self, tenant: &Tenant) -> usize {
        self.running.values().filter(|r| &r.tenant == tenant).count()
    }
}

fn spawn(
    record: &TaskRecord,
    procs: &[PathBuf],
    output: &Path,
    mark: &str,
) -> std::io::Result<Child> {
    std::fs::create_dir_all(output)?;
    let out = File::create(output.join(format!("{}.out", record.id)))?;
    let err = out.try_clone()?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ENTER, "quell-task"]).args(procs).arg("--").args(&record.spec.command);
    if let Some(directory) = &record.spec.directory {
        command.current_dir(directory);
    }
    command.env(MARK, mark).stdin(Stdio::null()).stdout(out).stderr(err).process_group(0).spawn()
}

fn end_of(status: ExitStatus) -> TaskEnd {
    match (status.code(), status.signal()) {
        (Some(status), _) => TaskEnd::Exited { status },
        (None, signal) => TaskEnd::Killed { signal: signal.unwrap_or(0) },
    }
}

/// Ends the process group of a child that has ended and was not waited for yet: until then nobody
/// else can have its number.
fn end_group_of_ended(pid: u32) {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if let Some(Ok(Some(_))) = number.map(|pid| waitid(WaitId::Pid(pid), look)) {
        kill_process_group(pid);
    }
}

/// Kills a process group that we started (its id is that of its first process).
pub(crate) fn kill_process_group(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Kills one process that we started.
pub(crate) fn kill_process(pid: u32) {
    let number = i32::try_from(pid).ok().filter(|&n| n > 1);
    if let Some(pid) = number.and_then(Pid::from_raw) {
        // Gone already is as good.
        let _ = kill_one(pid, Signal::KILL);
    }
}

fn terminate(pid: u32) {
    signal(pid, Signal::TERM);
}

fn signal(pid: u32, signal: Signal) {
    let number = i32::try_from(pid).ok().filter(|&n| n > 1);
    if let Some(pid) = number.and_then(Pid::from_raw) {
        // Gone already is as good.
        let _ = kill_group(pid, signal);
    }
}

#[cfg(test)]
mod tests;
