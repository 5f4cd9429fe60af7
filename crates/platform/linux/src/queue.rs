//! The batch queue: an SQLite file that the agent and `quell batch` share (T-22, T-23).

use quell_types::{TaskEnd, TaskId, TaskRecord, TaskSpec, TaskState, Tenant};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use thiserror::Error;

/// Why the queue did not do as asked.
#[derive(Debug, Error)]
pub enum QueueError {
    /// The file cannot be used.
    #[error("the batch queue {path}: {why}")]
    File {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// SQLite refused.
    #[error("the batch queue: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// There is no such task.
    #[error("there is no task {0}; `quell batch list` shows them all")]
    NoTask(TaskId),
    /// The task is not in a state for this.
    #[error("task {id} is {state}: {hint}")]
    WrongState {
        /// The task.
        id: TaskId,
        /// Its state.
        state: &'static str,
        /// What to do.
        hint: &'static str,
    },
}

/// A task with what people want to see of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRow {
    /// The task.
    #[serde(flatten)]
    pub record: TaskRecord,
    /// When it was added, in milliseconds since 1970.
    pub added_unix_ms: u64,
    /// When its last run began.
    pub started_unix_ms: Option<u64>,
    /// When its last run ended.
    pub ended_unix_ms: Option<u64>,
}

/// The queue.
#[derive(Debug)]
pub struct Queue {
    db: Connection,
}

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS tasks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  command TEXT NOT NULL, tenant TEXT, directory TEXT, retries INTEGER NOT NULL,
  state TEXT NOT NULL DEFAULT 'ready', attempts INTEGER NOT NULL DEFAULT 0,
  pid INTEGER, start_ns INTEGER, last_end TEXT,
  added_unix_ms INTEGER NOT NULL, started_unix_ms INTEGER, ended_unix_ms INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS by_state ON tasks(state, id);
";

const COLUMNS: &str = "id, command, tenant, directory, retries, state, attempts, pid, last_end, \
     added_unix_ms, started_unix_ms, ended_unix_ms";

fn word(state: TaskState) -> &'static str {
    match state {
        TaskState::Ready => "ready",
        TaskState::Running => "running",
        TaskState::Finished => "finished",
        TaskState::Failed => "failed",
    }
}

fn state_of(word: &str) -> TaskState {
    match word {
        "running" => TaskState::Running,
        "finished" => TaskState::Finished,
        "failed" => TaskState::Failed,
        _ => TaskState::Ready,
    }
}

/// The state and attempts after a run that ended so: a run that the controller stopped goes back
/// to ready and costs no attempt; any other that did not succeed costs one.
pub(crate) fn after_end(end: &TaskEnd, attempts: u32, retries: u32) -> (TaskState, u32) {
    match end {
        TaskEnd::Exited { status: 0 } => (TaskState::Finished, attempts + 1),
        TaskEnd::Stopped => (TaskState::Ready, attempts),
        _ if attempts < retries => (TaskState::Ready, attempts + 1),
        _ => (TaskState::Failed, attempts + 1),
    }
}

impl Queue {
    /// Opens or makes the queue.
    ///
    /// # Errors
    /// The file cannot be made, or is no queue.
    pub fn open(path: &Path) -> Result<Self, QueueError> {
        let file = |why: String| QueueError::File { path: path.display().to_string(), why };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| file(error.to_string()))?;
        }
        let db = Connection::open(path).map_err(|error| file(error.to_string()))?;
        db.busy_timeout(Duration::from_secs(2))?;
        db.pragma_update(None, "journal_mode", "WAL").map_err(|error| file(error.to_string()))?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.execute_batch(SCHEMA).map_err(|error| file(error.to_string()))?;
        Ok(Self { db })
    }

    /// Adds a task.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&self, spec: &TaskSpec, now_unix_ms: u64) -> Result<TaskId, QueueError> {
        let command = serde_json::to_string(&spec.command).unwrap_or_default();
        let tenant = spec.tenant.as_ref().map(Tenant::as_str);
        self.db.execute(
            "INSERT INTO tasks (command, tenant, directory, retries, added_unix_ms)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![command, tenant, spec.directory, spec.retries, as_i64(now_unix_ms)],
        )?;
        Ok(TaskId(self.db.last_insert_rowid()))
    }

    /// All tasks, oldest first.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn list(&self) -> Result<Vec<TaskRow>, QueueError> {
        self.select("ORDER BY id")
    }

    /// Tasks that wait or run.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open_tasks(&self) -> Result<Vec<TaskRow>, QueueError> {
        self.select("WHERE state IN ('ready', 'running') ORDER BY id")
    }

    /// One task.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn get(&self, id: TaskId) -> Result<TaskRow, QueueError> {
        let sql = format!("SELECT {COLUMNS} FROM tasks WHERE id = ?1");
        let row = self.db.query_row(&sql, [id.0], |row| Ok(row_of(row))).optional()?;
        row.transpose()?.ok_or(QueueError::NoTask(id))
    }

    /// Removes a task that does not run.
    ///
    /// # Errors
    /// There is none, or it runs.
    pub fn remove(&self, id: TaskId) -> Result<(), QueueError> {
        let task = self.get(id)?;
        if task.record.state == TaskState::Running {
            let hint = "stop the agent or let it end first";
            return Err(QueueError::WrongState { id, state: "running", hint });
        }
        self.db.execute("DELETE FROM tasks WHERE id = ?1", [id.0])?;
        Ok(())
    }

    /// Removes all that finished or failed; answers how many.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn clean(&self) -> Result<usize, QueueError> {
        let sql = "DELETE FROM tasks WHERE state IN ('finished', 'failed')";
        Ok(self.db.execute(sql, [])?)
    }

    /// Makes a failed or finished task ready again, with its retries anew.
    ///
    /// # Errors
    /// There is none, or it waits or runs already.
    pub fn retry(&self, id: TaskId) -> Result<(), QueueError> {
        let state = self.get(id)?.record.state;
        if matches!(state, TaskState::Ready | TaskState::Running) {
            let hint = "only a failed or finished task can be retried";
            return Err(QueueError::WrongState { id, state: word(state), hint });
        }
        self.db.execute("UPDATE tasks SET state = 'ready', attempts = 0 WHERE id = ?1", [id.0])?;
        Ok(())
    }

    /// Notes that a task runs.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn started(
        &self,
        id: TaskId,
        tenant: &Tenant,
        pid: u32,
        start_ns: u64,
        now_unix_ms: u64,
    ) -> Result<(), QueueError> {
        self.db.execute(
            "UPDATE tasks SET state = 'running', tenant = ?2, pid = ?3, start_ns = ?4,
             started_unix_ms = ?5 WHERE id = ?1",
            params![id.0, tenant.as_str(), pid, as_i64(start_ns), as_i64(now_unix_ms)],
        )?;
        Ok(())
    }

    /// Notes how a run ended.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn ended(
        &self,
        id: TaskId,
        end: &TaskEnd,
        now_unix_ms: u64,
    ) -> Result<(), QueueError> {
        let task = self.get(id)?.record;
        let (state, attempts) = after_end(end, task.attempts, task.spec.retries);
        self.db.execute(
            "UPDATE tasks SET state = ?2, attempts = ?3, pid = NULL, last_end = ?4,
             ended_unix_ms = ?5 WHERE id = ?1",
            params![
                id.0,
                word(state),
                attempts,
                serde_json::to_string(end).unwrap_or_default(),
                as_i64(now_unix_ms)
            ],
        )?;
        Ok(())
    }

    /// Makes tasks ready again that an agent which died has left running and that no longer run.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub(crate) fn recover(
        &self,
        lives: impl Fn(u32, u64) -> bool,
        now_unix_ms: u64,
    ) -> Result<(), QueueError> {
        let sql = "SELECT id, pid, start_ns FROM tasks WHERE state = 'running'";
        let mut statement = self.db.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, Option<u32>>(1)?,
                row.get::<_, Option<i64>>(2)?,
            ))
        })?;
        for row in rows {
            let (id, pid, start_ns) = row?;
            let start_ns = start_ns.and_then(|ns| u64::try_from(ns).ok());
            if !pid.zip(start_ns).is_some_and(|(pid, ns)| lives(pid, ns)) {
                self.ended(TaskId(id), &TaskEnd::Stopped, now_unix_ms)?;
            }
        }
        Ok(())
    }

    fn select(&self, rest: &str) -> Result<Vec<TaskRow>, QueueError> {
        let mut statement =
            self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM tasks {rest}"))?;
        let rows = statement.query_map([], |row| Ok(row_of(row)))?;
        let mut tasks = Vec::new();
        for row in rows {
            tasks.push(row??);
        }
        Ok(tasks)
    }
}

fn as_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn row_of(row: &Row<'_>) -> Result<TaskRow, rusqlite::Error> {
    let command: String = row.get(1)?;
    let tenant: Option<String> = row.get(2)?;
    let state: String = row.get(5)?;
    let last_end: Option<String> = row.get(8)?;
    let ms = |value: Option<i64>| value.and_then(|ms| u64::try_from(ms).ok());
    Ok(TaskRow {
        record: TaskRecord {
            id: TaskId(row.get(0)?),
            spec: TaskSpec {
                command: serde_json::from_str(&command).unwrap_or_default(),
                tenant: tenant.map(Tenant::new),
                directory: row.get(3)?,
                retries: row.get(4)?,
            },
            state: state_of(&state),
            attempts: row.get(6)?,
            pid: row.get(7)?,
            started: None,
            last_end: last_end.and_then(|text| serde_json::from_str(&text).ok()),
        },
        added_unix_ms: ms(row.get(9)?).unwrap_or(0),
        started_unix_ms: ms(row.get(10)?),
        ended_unix_ms: ms(row.get(11)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(command: &str, retries: u32) -> TaskSpec {
        TaskSpec { command: vec![command.into()], tenant: None, directory: None, retries }
    }

    fn queue() -> (tempfile::TempDir, Queue) {
        let folder = tempfile::tempdir().unwrap();
        let queue = Queue::open(&folder.path().join("queue.sqlite")).unwrap();
        (folder, queue)
    }

    fn state(queue: &Queue, id: TaskId) -> (TaskState, u32) {
        let record = queue.get(id).unwrap().record;
        (record.state, record.attempts)
    }

    #[test]
    fn a_failed_task_is_tried_as_often_as_it_may() {
        let (_folder, queue) = queue();
        let id = queue.add(&spec("false", 1), 1).unwrap();
        let failed = TaskEnd::Exited { status: 1 };
        queue.ended(id, &failed, 2).unwrap();
        assert_eq!(state(&queue, id), (TaskState::Ready, 1));
        queue.ended(id, &TaskEnd::Stopped, 3).unwrap();
        assert_eq!(state(&queue, id), (TaskState::Ready, 1), "stopping costs no attempt");
        queue.ended(id, &failed, 4).unwrap();
        assert_eq!(state(&queue, id), (TaskState::Failed, 2));
        queue.retry(id).unwrap();
        assert_eq!(state(&queue, id), (TaskState::Ready, 0));
        assert!(queue.retry(id).is_err());
    }

    #[test]
    fn tasks_of_a_dead_agent_are_ready_again() {
        let (_folder, queue) = queue();
        let (gone, lives) =
            (queue.add(&spec("a", 0), 1).unwrap(), queue.add(&spec("b", 0), 1).unwrap());
        queue.started(gone, &"jobs".into(), 10, 100, 2).unwrap();
        queue.started(lives, &"jobs".into(), 11, 100, 2).unwrap();
        queue.recover(|pid, _| pid == 11, 3).unwrap();
        assert_eq!(state(&queue, gone).0, TaskState::Ready);
        assert_eq!(state(&queue, lives).0, TaskState::Running);
        assert!(queue.remove(lives).is_err(), "it runs");
    }

    #[test]
    fn clean_leaves_what_waits_and_runs() {
        let (_folder, queue) = queue();
        let done = queue.add(&spec("true", 0), 1).unwrap();
        let waits = queue.add(&spec("true", 0), 1).unwrap();
        queue.ended(done, &TaskEnd::Exited { status: 0 }, 2).unwrap();
        assert_eq!(queue.clean().unwrap(), 1);
        assert_eq!(queue.list().unwrap().len(), 1);
        assert!(matches!(queue.get(done), Err(QueueError::NoTask(_))));
        queue.remove(waits).unwrap();
    }

    #[test]
    fn a_file_that_is_no_queue_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.sqlite");
        std::fs::write(&path, "something of somebody's, long enough to be no database header")
            .unwrap();
        assert!(Queue::open(&path).is_err());
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("something"));
    }
}
