//! A store without a disk, with room that can run out.

use crate::platform::{Store, StoreError};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Records in memory; clones share them, so a test can read what another owner wrote.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    records: Arc<Mutex<Vec<String>>>,
    aside: Arc<Mutex<Vec<Vec<String>>>>,
    room: Option<usize>,
}

impl MemoryStore {
    /// A store that takes `records` records and then is full.
    #[must_use]
    pub fn with_room(records: usize) -> Self {
        Self { room: Some(records), ..Self::default() }
    }

    /// What was kept aside.
    #[must_use]
    pub fn aside(&self) -> Vec<Vec<String>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn append(&mut self, record: &str) -> Result<(), StoreError> {
        let mut records = self.lock();
        if self.room.is_some_and(|room| records.len() >= room) {
            let source = io::Error::from(io::ErrorKind::StorageFull);
            return Err(StoreError { doing: "append to", name: "memory".into(), source });
        }
        records.push(record.to_owned());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(self.lock().clone())
    }

    fn replace(&mut self, new: &[String]) -> Result<(), StoreError> {
        let mut records = self.lock();
        if self.room.is_some_and(|room| new.len() > room) {
            let source = io::Error::from(io::ErrorKind::StorageFull);
            return Err(StoreError { doing: "replace", name: "memory".into(), source });
        }
        *records = new.to_vec();
        Ok(())
    }

    fn keep_aside(&mut self) -> Result<String, StoreError> {
        let records = self.lock().clone();
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        aside.push(records);
        Ok(format!("memory-{}", aside.len()))
    }
}
