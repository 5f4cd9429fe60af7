//! Any store with faults thrown at it.

use crate::life::Life;
use crate::platform::{Store, StoreError};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// What goes wrong at the next change of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// It is refused, and nothing is written.
    Refuse,
    /// It is written, but that cannot be confirmed: the medium answers with an error.
    Unconfirmed,
    /// It is written, and making it durable fails.
    NoSync,
    /// The agent dies just before it.
    DieBefore,
    /// The agent dies just after it.
    DieAfter,
}

/// The medium's side of a [`FaultyStore`]: what is wrong with it, and what became of it.
#[derive(Clone, Debug, Default)]
pub struct Medium(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: Option<StoreFault>,
    no_sync: bool,
    full: bool,
    changes: u64,
}

impl Medium {
    /// The next append, replacement or clearing goes wrong like this.
    pub fn throw(&self, fault: StoreFault) {
        self.lock().next = Some(fault);
    }

    /// Nothing is wrong any more, but for a disk that is full.
    pub fn heal(&self) {
        let mut state = self.lock();
        (state.next, state.no_sync) = (None, false);
    }

    /// Whether the disk is full from now on: nothing more fits, clearing still works.
    pub fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// Whether the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lock().full
    }

    /// Changes that reached the medium so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Called at each change, before it: what is being done, so that whoever throws faults can tell
/// the places apart.
pub type OnChange = Arc<dyn Fn(&'static str) + Send + Sync>;

/// A store on a [`Medium`], used by an agent that may die.
pub struct FaultyStore<S> {
    inner: S,
    medium: Medium,
    life: Life,
    on_change: OnChange,
}

impl<S: Store> FaultyStore<S> {
    /// Wraps a store.
    pub fn new(inner: S, medium: Medium, life: Life, on_change: OnChange) -> Self {
        Self { inner, medium, life, on_change }
    }

    fn change(
        &mut self,
        doing: &'static str,
        needs_room: bool,
        change: impl FnOnce(&mut S) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let fail = |kind: io::ErrorKind| {
            Err(StoreError { doing, name: "a faulty medium".into(), source: kind.into() })
        };
        if self.life.is_over() {
            return fail(io::ErrorKind::BrokenPipe);
        }
        (self.on_change)(doing);
        let (fault, full) = {
            let mut state = self.medium.lock();
            (state.next.take(), state.full)
        };
        if full && needs_room {
            return fail(io::ErrorKind::StorageFull);
        }
        match fault {
            Some(StoreFault::Refuse) => return fail(io::ErrorKind::Other),
            Some(StoreFault::DieBefore) => {
                self.life.end();
                return fail(io::ErrorKind::BrokenPipe);
            }
            _ => {}
        }
        change(&mut self.inner)?;
        self.medium.lock().changes += 1;
        match fault {
            Some(StoreFault::Unconfirmed) => fail(io::ErrorKind::Other),
            Some(StoreFault::DieAfter) => {
                self.life.end();
                fail(io::ErrorKind::BrokenPipe)
            }
            Some(StoreFault::NoSync) => {
                self.medium.lock().no_sync = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn append(&mut self, record: &str) -> Result<(), StoreError> {
        self.change("append to", true, |inner| inner.append(record))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let fails = std::mem::take(&mut self.medium.lock().no_sync) || self.life.is_over();
        if fails {
            let source = io::ErrorKind::Other.into();
            return Err(StoreError { doing: "sync", name: "a faulty medium".into(), source });
        }
        self.inner.sync()
    }

    fn read(&mut self) -> Result<Vec<String>, StoreError> {
        self.inner.read()
    }

    fn replace(&mut self, records: &[String]) -> Result<(), StoreError> {
        self.change("replace", !records.is_empty(), |inner| inner.replace(records))
    }

    fn keep_aside(&mut self) -> Result<String, StoreError> {
        let mut kept = String::new();
        self.change("copy", true, |inner| {
            kept = inner.keep_aside()?;
            Ok(())
        })?;
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KnobJournal, MemoryStore, Undo};

    fn store(inner: &MemoryStore) -> (FaultyStore<MemoryStore>, Medium, Life) {
        let (medium, life) = (Medium::default(), Life::default());
        let store = FaultyStore::new(inner.clone(), medium.clone(), life.clone(), Arc::new(|_| ()));
        (store, medium, life)
    }

    #[test]
    fn each_fault_does_what_it_says() {
        for (fault, written, dead) in [
            (StoreFault::Refuse, false, false),
            (StoreFault::Unconfirmed, true, false),
            (StoreFault::DieBefore, false, true),
            (StoreFault::DieAfter, true, true),
        ] {
            let inner = MemoryStore::default();
            let (mut store, medium, life) = store(&inner);
            medium.throw(fault);
            assert!(store.append("a").is_err(), "{fault:?}");
            assert_eq!(inner.clone().read().unwrap().len(), usize::from(written), "{fault:?}");
            assert_eq!(life.is_over(), dead, "{fault:?}");
            assert_eq!(store.append("b").is_err(), dead, "{fault:?}: only the dead stay silent");
        }
    }

    #[test]
    fn a_record_that_is_not_durable_forbids_the_write_and_is_recorded_once() {
        let inner = MemoryStore::default();
        let (store, medium, _) = store(&inner);
        let mut journal = KnobJournal::open(store).unwrap();
        let file = |text: &str| vec![Undo::File { path: "a".into(), text: text.into(), of: None }];
        for fault in [StoreFault::NoSync, StoreFault::Unconfirmed] {
            medium.throw(fault);
            assert!(journal.before_write("k", || file("early")).is_err(), "{fault:?}");
        }
        journal.before_write("k", || file("now")).unwrap();
        let records = inner.clone().read().unwrap();
        assert!(matches!(&records[..], [one] if one.contains("now")), "{records:?}");
    }

    #[test]
    fn a_death_while_one_knob_is_left_to_others_loses_no_other() {
        let file = |text: &str| vec![Undo::File { path: "a".into(), text: text.into(), of: None }];
        for (fault, left) in [(StoreFault::DieBefore, 2), (StoreFault::DieAfter, 1)] {
            let inner = MemoryStore::default();
            let (store, medium, _) = store(&inner);
            let mut journal = KnobJournal::open(store).unwrap();
            journal.before_write("given up", || file("1")).unwrap();
            journal.before_write("kept", || file("2")).unwrap();
            medium.throw(fault);
            assert!(journal.forget("given up").is_err());
            let again = KnobJournal::open(inner.clone()).unwrap();
            assert!(again.knows("kept"), "{fault:?}");
            assert_eq!(inner.clone().read().unwrap().len(), left, "{fault:?}");
        }
    }

    #[test]
    fn a_record_that_went_although_the_medium_denies_it_is_written_anew() {
        let inner = MemoryStore::default();
        let (store, medium, _) = store(&inner);
        let mut journal = KnobJournal::open(store).unwrap();
        let file = |text: &str| vec![Undo::File { path: "a".into(), text: text.into(), of: None }];
        journal.before_write("k", || file("early")).unwrap();
        medium.throw(StoreFault::Unconfirmed);
        assert!(journal.forget("k").is_err());
        journal.before_write("k", || file("now")).unwrap();
        assert_eq!(inner.clone().read().unwrap().len(), 1);
    }

    #[test]
    fn a_full_disk_can_be_cleared() {
        let inner = MemoryStore::default();
        let (mut store, medium, _) = store(&inner);
        store.append("a").unwrap();
        medium.set_full(true);
        assert!(store.append("b").is_err() && store.replace(&["c".into()]).is_err());
        store.replace(&[]).unwrap();
        assert!(inner.clone().read().unwrap().is_empty());
    }
}
