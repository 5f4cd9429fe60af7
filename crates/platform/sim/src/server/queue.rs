//! The queue's own journal: what became of each task, so that a death loses none.

use quell_platform::{Store, StoreError};
use quell_types::{TaskId, TaskRecord, TaskState};
use std::collections::BTreeMap;
use std::fmt;

/// Records of tasks in a store; in memory alone without one.
#[derive(Default)]
pub(crate) struct QueueLog {
    store: Option<Box<dyn Store>>,
    unwritten: Vec<String>,
}

impl fmt::Debug for QueueLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueueLog({} unwritten)", self.unwritten.len())
    }
}

impl QueueLog {
    /// Keeps records in this store from now on. Answers the tasks that are open by it.
    pub(crate) fn open(
        &mut self,
        mut store: Box<dyn Store>,
    ) -> Result<Vec<TaskRecord>, StoreError> {
        let mut last: BTreeMap<TaskId, TaskRecord> = BTreeMap::new();
        let lines = store.read()?;
        for record in lines.iter().filter_map(|l| serde_json::from_str::<TaskRecord>(l).ok()) {
            last.insert(record.id, record);
        }
        self.store = Some(store);
        self.unwritten.clear();
        last.retain(|_, r| matches!(r.state, TaskState::Ready | TaskState::Running));
        Ok(last.into_values().collect())
    }

    /// Writes a record down before what it says is done.
    pub(crate) fn write(&mut self, record: &TaskRecord) -> Result<(), StoreError> {
        self.flush()?;
        let Some(store) = &mut self.store else { return Ok(()) };
        store.append(&line(record))?;
        store.sync()
    }

    /// Notes what has happened already; it is written with the next flush.
    pub(crate) fn note(&mut self, record: &TaskRecord) {
        if self.store.is_some() {
            self.unwritten.push(line(record));
        }
    }

    /// Writes down all that was noted.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        let Some(store) = &mut self.store else { return Ok(()) };
        while let Some(first) = self.unwritten.first() {
            store.append(first)?;
            self.unwritten.remove(0);
        }
        store.sync()
    }
}

fn line(record: &TaskRecord) -> String {
    // Plain data: cannot fail.
    serde_json::to_string(record).unwrap_or_default()
}
