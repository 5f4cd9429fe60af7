//! The queue's tasks: programs with an end, started and stopped by actions.

use super::queue::QueueLog;
use crate::workload::{Program, program};
use crate::world::World;
use quell_platform::{Store, StoreError};
use quell_types::{TaskEnd, TaskId, TaskRecord, TaskSpec, TaskState, Tenant, Time};
use std::collections::BTreeMap;

/// All tasks.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    programs: BTreeMap<String, Program>,
    records: BTreeMap<TaskId, TaskRecord>,
    works: BTreeMap<TaskId, usize>,
    last_id: i64,
    log: QueueLog,
}

impl Tasks {
    pub(crate) fn new(programs: &[Program]) -> Self {
        let by_name = programs.iter().map(|p| (p.name.clone(), p.clone()));
        Self { programs: by_name.collect(), ..Self::default() }
    }

    pub(crate) fn submit(&mut self, spec: TaskSpec) -> TaskId {
        self.last_id += 1;
        let id = TaskId(self.last_id);
        let record = TaskRecord {
            id,
            spec,
            state: TaskState::Ready,
            attempts: 0,
            pid: None,
            started: None,
            last_end: None,
        };
        self.log.note(&record);
        self.records.insert(id, record);
        id
    }

    /// Keeps the queue in a store, and takes in what is there. What runs no longer is ready again.
    pub(crate) fn keep_in(&mut self, store: Box<dyn Store>) -> Result<(), StoreError> {
        let stored = self.log.open(store)?;
        if !stored.is_empty() {
            self.records = stored.into_iter().map(|record| (record.id, record)).collect();
        }
        for record in self.records.values_mut() {
            if record.state == TaskState::Running && !self.works.contains_key(&record.id) {
                record.state = TaskState::Ready;
                (record.pid, record.last_end) = (None, Some(TaskEnd::Stopped));
                self.log.note(record);
            }
        }
        let last = self.records.keys().last().map_or(0, |id| id.0);
        self.last_id = self.last_id.max(last);
        self.log.flush()
    }

    /// Writes down what could not be written before.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        self.log.flush()
    }

    /// Whether this work is a task of the queue.
    pub(crate) fn owns(&self, work: usize) -> bool {
        self.works.values().any(|own| *own == work)
    }

    pub(crate) fn start(
        &mut self,
        task: TaskId,
        (group, tenant): (usize, &Tenant),
        time: Time,
        world: &mut World,
    ) -> Result<(), String> {
        let record =
            self.records.get_mut(&task).ok_or_else(|| format!("there is no task {task}"))?;
        if record.state != TaskState::Ready {
            return Err("it runs already, or has ended".into());
        }
        let name = record.spec.command.first().cloned().unwrap_or_default();
        let Some(program) = self.programs.get(&name).cloned().or_else(|| program(&name)) else {
            let why = format!("{name:?}: No such file or directory");
            record.last_end = Some(TaskEnd::NotStarted { why: why.clone() });
            record.attempts += 1;
            let gives_up = record.attempts > record.spec.retries;
            record.state = if gives_up { TaskState::Failed } else { TaskState::Ready };
            self.log.note(record);
            return Err(why);
        };
        let running = TaskRecord {
            spec: TaskSpec { tenant: Some(tenant.clone()), ..record.spec.clone() },
            state: TaskState::Running,
            started: Some(time),
            pid: Some(1_000 + task.0 as u32),
            ..record.clone()
        };
        self.log.write(&running).map_err(|error| error.to_string())?;
        *record = running;
        self.works.insert(task, world.add_work(group, &program, None));
        Ok(())
    }

    /// A program has come to its end.
    pub(crate) fn finished(&mut self, work: usize) {
        let Some((&task, _)) = self.works.iter().find(|(_, w)| **w == work) else { return };
        self.works.remove(&task);
        if let Some(record) = self.records.get_mut(&task) {
            record.state = TaskState::Finished;
            record.attempts += 1;
            record.pid = None;
            record.last_end = Some(TaskEnd::Exited { status: 0 });
            self.log.note(record);
        }
    }

    pub(crate) fn stop(&mut self, task: TaskId, world: &mut World) -> Result<(), String> {
        let work = self.works.remove(&task).ok_or("it does not run")?;
        world.end_work(work);
        if let Some(record) = self.records.get_mut(&task) {
            record.state = TaskState::Ready;
            record.pid = None;
            record.last_end = Some(TaskEnd::Stopped);
            self.log.note(record);
        }
        Ok(())
    }

    pub(crate) fn stop_all(&mut self, world: &mut World) {
        for task in self.works.keys().copied().collect::<Vec<_>>() {
            // It is in the list, so it runs.
            let _ = self.stop(task, world);
        }
    }

    /// The queue as a sample shows it; what has ended is shown once.
    pub(crate) fn records(&mut self) -> Vec<TaskRecord> {
        let all = self.records.values().cloned().collect();
        let open = |r: &TaskRecord| matches!(r.state, TaskState::Ready | TaskState::Running);
        self.records.retain(|_, record| open(record));
        all
    }
}
