//! The knob journal: before the first write to a knob, its old setting is on disk.
//!
//! # Problem
//! The agent may die at any instruction, also by SIGKILL. Whoever comes after must be able to put
//! everything back, knowing nothing but this file.
//!
//! # Idea
//! Write-ahead undo. A record says how to undo one knob's first change, in the kernel's own words
//! (path and old text), and outlives the agent before the knob is touched. Undoing twice is harmless, so
//! the journal is only emptied after everything was put back and read back, in one step: a death in
//! the middle leaves all records. Records are played in
//! reverse; what fails (exclusive CPU sets, quotas under a parent's) is tried again after the
//! others, until nothing changes any more.

use crate::platform::{Store, StoreError};
use crate::report::{RestoreReport, Unreadable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Which of all files that may ever have a path: a group that was made anew, or that of another start
/// of the machine, owes nothing to what stood in the one before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The kernel's boot_id.
    pub boot_id: String,
    /// Inode of the folder in which it lies.
    pub folder: u64,
}

/// How one change is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "snake_case")]
pub enum Undo {
    /// Write the old text back into a kernel file.
    File {
        /// The file.
        path: PathBuf,
        /// Its old text.
        text: String,
        /// Which file it is; none where that does not matter, or was not written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<FileIdentity>,
    },
    /// Remove a group that Quell made (its name begins with `quell`); its tasks go to the parent.
    RemoveGroup {
        /// The folder.
        path: PathBuf,
    },
    /// Remove a resctrl group that Quell made; the kernel returns its threads to the default group.
    RemoveResctrlGroup {
        /// The folder.
        path: PathBuf,
    },
    /// Unmount the resctrl that Quell mounted.
    UnmountResctrl {
        /// Where.
        path: PathBuf,
        /// The kernel's boot_id then: no mount outlives the machine's start.
        boot_id: String,
    },
    /// Move a process back to where it was.
    MoveProcess {
        /// Its id.
        pid: u32,
        /// Its start time in nanoseconds after boot, so that a reused id is left alone.
        start_ns: u64,
        /// The `cgroup.procs` file of its old group.
        procs: PathBuf,
        /// The group that it is moved into: whom somebody else has moved on since is left there.
        /// None where that was not written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        into: Option<PathBuf>,
    },
    /// End a process that Quell started.
    EndProcess {
        /// Its id.
        pid: u32,
        /// Its start time, so that a reused id is left alone.
        start_ns: u64,
    },
    /// End processes that carry this mark in their environment: what was started just before a
    /// death, when nobody had written down its id yet.
    EndMarked {
        /// The value of the variable `QUELL_TASK`.
        mark: String,
    },
    /// Write the old value back into a processor's register.
    Register {
        /// The device of its CPU.
        path: PathBuf,
        /// Which.
        register: u64,
        /// Its old value.
        value: u64,
    },
    /// Bring a link's queueing discipline back.
    Link {
        /// What the egress crate needs to do so.
        snapshot: serde_json::Value,
    },
    /// Set back what libvirt keeps of a virtual machine.
    Vm {
        /// What the real platform needs to do so.
        snapshot: serde_json::Value,
    },
    /// Set a property of a systemd unit back.
    UnitProperty {
        /// The unit.
        unit: String,
        /// The property.
        property: String,
        /// Its old value.
        value: String,
    },
}

/// Why a change was not taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotUndone {
    /// It could not be, for this reason: it is tried again, and stays on record.
    Failed(String),
    /// Somebody else counts on it by now, so that to take it back would hurt them. It is tried again
    /// after the others, and in the end left to them.
    InUse(String),
}

impl From<String> for NotUndone {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// Knows how to take changes back on a real machine.
pub trait Undoer {
    /// Takes changes back, in this order where it matters, and reads them back: one answer each,
    /// in the same order; an error says why it could not be taken back now. Something that is gone
    /// altogether (a removed group, an ended process) counts as taken back.
    fn undo(&mut self, changes: &[&Undo]) -> Vec<Result<(), NotUndone>>;
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// What was about to be changed, so that it is recorded once.
    key: String,
    undo: Vec<Undo>,
}

/// The write-ahead journal of knobs.
#[derive(Debug)]
pub struct KnobJournal<S> {
    store: S,
    known: BTreeSet<String>,
    /// Whether the store may hold a record of a write that was not made.
    unconfirmed: bool,
}

impl<S: Store> KnobJournal<S> {
    /// Opens the journal on a store; what an earlier agent left in it is kept until
    /// [`KnobJournal::restore`].
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn open(mut store: S) -> Result<Self, StoreError> {
        let known = Found::read(&mut store)?.known();
        Ok(Self { store, known, unconfirmed: false })
    }

    /// Whether nothing needs to be taken back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether `key` is on record already.
    #[must_use]
    pub fn knows(&self, key: &str) -> bool {
        self.known.contains(key)
    }

    /// Writes down how a change is taken back, once for each key. Only then may the change be
    /// made. `undo` is asked for only if the key is new.
    ///
    /// # Errors
    /// If the record cannot be written: then the change must not be made.
    pub fn before_write(
        &mut self,
        key: &str,
        undo: impl FnOnce() -> Vec<Undo>,
    ) -> Result<(), StoreError> {
        if self.known.contains(key) {
            return Ok(());
        }
        let record = Record { key: key.to_owned(), undo: undo() };
        let written = self.drop_unconfirmed();
        let written = written.and_then(|()| self.store.append(&to_line(&record)));
        if let Err(error) = written.and_then(|()| self.store.sync()) {
            // It may be there all the same. A restore must not play it, and a later record must
            // tell how the knob stood then.
            self.unconfirmed = true;
            let _ = self.drop_unconfirmed();
            return Err(error);
        }
        self.known.insert(record.key);
        Ok(())
    }

    /// Takes out records of writes that were never made.
    fn drop_unconfirmed(&mut self) -> Result<(), StoreError> {
        if self.unconfirmed {
            let mut found = Found::read(&mut self.store)?;
            let before = found.records.len();
            found.records.retain(|record| self.known.contains(&record.key));
            if found.records.len() < before {
                self.store.replace(&found.lines())?;
            }
            self.unconfirmed = false;
        }
        Ok(())
    }

    /// Takes everything back, last change first, and empties the journal of what was taken back.
    ///
    /// # Errors
    /// If the store cannot be read or written. Failures of single changes are in the report.
    pub fn restore(&mut self, undoer: &mut dyn Undoer) -> Result<RestoreReport, StoreError> {
        self.restore_except(undoer, &BTreeSet::new())
    }

    /// As [`KnobJournal::restore`], but the changes of these keys stay, and stay on record.
    ///
    /// # Errors
    /// As [`KnobJournal::restore`].
    pub fn restore_except(
        &mut self,
        undoer: &mut dyn Undoer,
        staying: &BTreeSet<String>,
    ) -> Result<RestoreReport, StoreError> {
        let Found { records, unreadable } = Found::read(&mut self.store)?;
        let (staying, mut open): (Vec<_>, Vec<_>) = records
            .into_iter()
            .flat_map(|r| r.undo.into_iter().map(move |undo| (r.key.clone(), undo)))
            .rev()
            .partition(|(key, _)| staying.contains(key));
        let mut report = take_back(&mut open, undoer);
        if !unreadable.is_empty() {
            // Once they are kept elsewhere they no longer stand in the way of every later start.
            let (records, kept_in) = (unreadable.len(), self.store.keep_aside()?);
            report.unreadable = Some(Unreadable { records, kept_in });
        }
        open.extend(staying);
        self.keep_only(open)?;
        self.unconfirmed = false;
        Ok(report)
    }

    /// Forgets how changes of this key are taken back: they are somebody else's business now.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn forget(&mut self, key: &str) -> Result<(), StoreError> {
        match self.known.contains(key) {
            true => self.forget_if(|known, _| known == key),
            false => Ok(()),
        }
    }

    /// The same for all records for which `forgets` says so, by key and changes.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn forget_if(
        &mut self,
        mut forgets: impl FnMut(&str, &[Undo]) -> bool,
    ) -> Result<(), StoreError> {
        let mut found = Found::read(&mut self.store)?;
        let before = found.records.len();
        found.records.retain(|record| !forgets(&record.key, &record.undo));
        if found.records.len() == before { Ok(()) } else { self.replace(&found) }
    }

    /// What is still to be taken back, newest first.
    fn keep_only(&mut self, open: Vec<(String, Undo)>) -> Result<(), StoreError> {
        let one = |(key, undo): (String, Undo)| Record { key, undo: vec![undo] };
        let records = open.into_iter().rev().map(one).collect();
        self.replace(&Found { records, unreadable: Vec::new() })
    }

    fn replace(&mut self, new: &Found) -> Result<(), StoreError> {
        let replaced = self.store.replace(&new.lines());
        if replaced.is_ok() {
            self.known = new.known();
        } else if let Ok(there) = Found::read(&mut self.store) {
            // It may have been replaced all the same: on record is what can be read.
            self.known = there.known();
        }
        replaced
    }
}

/// Asks again and again as long as that helps. What is left open at the end has failed, or was left
/// to others and shares the fate of a failure beside it: that may be why they still seem to need it.
fn take_back(open: &mut Vec<(String, Undo)>, undoer: &mut dyn Undoer) -> RestoreReport {
    let mut report = RestoreReport::default();
    loop {
        let before = open.len();
        let changes: Vec<&Undo> = open.iter().map(|(_, undo)| undo).collect();
        let mut answers = undoer.undo(&changes).into_iter();
        report.failed.clear();
        report.left.clear();
        open.retain(|(key, _)| {
            let why = match answers.next() {
                Some(Ok(())) => return false,
                Some(Err(why)) => why,
                None => NotUndone::Failed("no answer".into()),
            };
            match why {
                NotUndone::Failed(why) => report.failed.push(format!("{key}: {why}")),
                NotUndone::InUse(why) => report.left.push(format!("{key}: {why}")),
            }
            true
        });
        report.restored += before - open.len();
        if open.is_empty() || open.len() == before {
            break;
        }
    }
    if report.failed.is_empty() {
        open.clear();
    }
    report
}

fn to_line(record: &Record) -> String {
    // Only strings, numbers and lists: cannot fail.
    serde_json::to_string(record).unwrap_or_default()
}

/// What a store holds.
struct Found {
    /// Whole records in order.
    records: Vec<Record>,
    /// Lines that are no record (bit rot): undoing the rest is better than undoing nothing, but they
    /// are kept, since each stands for a change.
    unreadable: Vec<String>,
}

impl Found {
    fn read<S: Store>(store: &mut S) -> Result<Self, StoreError> {
        let mut found = Self { records: Vec::new(), unreadable: Vec::new() };
        for line in store.read()? {
            match serde_json::from_str(&line) {
                Ok(record) => found.records.push(record),
                Err(_) => found.unreadable.push(line),
            }
        }
        Ok(found)
    }

    fn known(&self) -> BTreeSet<String> {
        self.records.iter().map(|record| record.key.clone()).collect()
    }

    fn lines(&self) -> Vec<String> {
        self.unreadable.iter().cloned().chain(self.records.iter().map(to_line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use std::collections::BTreeMap;

    fn file(path: &str, text: &str) -> Undo {
        Undo::File { path: path.into(), text: text.into(), of: None }
    }

    /// Files, where `b` refuses to be written before `a` stands at "0".
    #[derive(Default)]
    struct Files(BTreeMap<PathBuf, String>);

    impl Files {
        fn one(&mut self, undo: &Undo) -> Result<(), NotUndone> {
            let failed = |why: &str| Err(NotUndone::Failed(why.into()));
            let Undo::File { path, text, .. } = undo else { return failed("not in this test") };
            let first = self.0.get(&PathBuf::from("a")).map(String::as_str);
            if path.ends_with("b") && first != Some("0") {
                return failed("a first");
            }
            if path.ends_with("stuck") {
                return failed("never");
            }
            if path.ends_with("used") && first != Some("0") {
                return Err(NotUndone::InUse("by somebody".into()));
            }
            self.0.insert(path.clone(), text.clone());
            Ok(())
        }
    }

    impl Undoer for Files {
        fn undo(&mut self, changes: &[&Undo]) -> Vec<Result<(), NotUndone>> {
            changes.iter().map(|undo| self.one(undo)).collect()
        }
    }

    fn restored(count: usize) -> RestoreReport {
        RestoreReport { restored: count, ..RestoreReport::default() }
    }

    #[test]
    fn only_the_first_setting_of_a_knob_is_kept() {
        let store = MemoryStore::default();
        let mut journal = KnobJournal::open(store.clone()).unwrap();
        journal.before_write("k", || vec![file("a", "first")]).unwrap();
        journal.before_write("k", || vec![file("a", "second")]).unwrap();
        assert_eq!(store.clone().read().unwrap().len(), 1);
        let mut files = Files::default();
        let report = KnobJournal::open(store.clone()).unwrap().restore(&mut files).unwrap();
        assert_eq!(report, restored(1));
        assert_eq!(files.0[&PathBuf::from("a")], "first");
        assert!(store.clone().read().unwrap().is_empty());
    }

    #[test]
    fn what_fails_is_tried_again_after_the_others_and_kept_if_it_never_works() {
        let store = MemoryStore::default();
        let mut journal = KnobJournal::open(store.clone()).unwrap();
        for (key, path) in [("1", "a"), ("2", "b"), ("3", "stuck")] {
            journal.before_write(key, || vec![file(path, "0")]).unwrap();
        }
        let report = journal.restore(&mut Files::default()).unwrap();
        assert_eq!(report.restored, 2);
        assert_eq!(report.failed, ["3: never"]);
        assert_eq!(store.clone().read().unwrap().len(), 1);
        assert!(journal.knows("3") && !journal.knows("1"));
    }

    #[test]
    fn what_shall_stay_is_neither_taken_back_nor_forgotten() {
        let store = MemoryStore::default();
        let mut journal = KnobJournal::open(store.clone()).unwrap();
        for (key, path) in [("1", "a"), ("2", "c")] {
            journal.before_write(key, || vec![file(path, "0")]).unwrap();
        }
        let mut files = Files::default();
        let report = journal.restore_except(&mut files, &["2".to_owned()].into()).unwrap();
        assert_eq!(report, restored(1));
        assert!(!files.0.contains_key(&PathBuf::from("c")));
        assert!(journal.knows("2") && !journal.knows("1"));
        let report = KnobJournal::open(store).unwrap().restore(&mut files).unwrap();
        assert_eq!(report.restored, 1);
        assert_eq!(files.0[&PathBuf::from("c")], "0");
    }

    #[test]
    fn without_room_on_disk_nothing_may_be_changed() {
        let mut journal = KnobJournal::open(MemoryStore::with_room(1)).unwrap();
        assert!(journal.before_write("1", Vec::new).is_ok());
        assert!(journal.before_write("2", Vec::new).is_err());
        assert!(!journal.knows("2"));
    }

    #[test]
    fn what_others_use_is_left_to_them_but_not_before_all_else_was_tried() {
        let store = MemoryStore::default();
        let mut journal = KnobJournal::open(store.clone()).unwrap();
        journal.before_write("used", || vec![file("used", "0")]).unwrap();
        journal.before_write("a", || vec![file("a", "0")]).unwrap();
        assert_eq!(journal.restore(&mut Files::default()).unwrap(), restored(2), "free after all");

        journal.before_write("used", || vec![file("used", "0")]).unwrap();
        let report = journal.restore(&mut Files::default()).unwrap();
        assert_eq!((report.restored, report.failed.len()), (0, 0));
        assert_eq!(report.left, ["used: by somebody"]);
        assert!(report.troubles().is_empty() && journal.is_empty(), "said once, and no obstacle");

        journal.before_write("used", || vec![file("used", "0")]).unwrap();
        journal.before_write("stuck", || vec![file("stuck", "0")]).unwrap();
        let report = journal.restore(&mut Files::default()).unwrap();
        assert_eq!((report.failed.len(), report.left.len()), (1, 1));
        assert!(journal.knows("used"), "what failed may be what still uses it");
    }

    #[test]
    fn records_that_nobody_can_read_are_kept_aside_and_told_and_the_rest_is_taken_back() {
        let mut store = MemoryStore::default();
        store.append("rotten").unwrap();
        let mut journal = KnobJournal::open(store.clone()).unwrap();
        journal.before_write("1", || vec![file("a", "0")]).unwrap();
        journal.before_write("2", || vec![file("c", "0")]).unwrap();
        store.append("{\"key\":\"3\",\"undo\":[{\"undo\":\"of a later version\"}]}").unwrap();
        journal.forget("1").unwrap();
        assert_eq!(store.clone().read().unwrap().len(), 3, "another's end loses none");
        let mut files = Files::default();
        let report = journal.restore(&mut files).unwrap();
        assert_eq!((report.restored, report.failed.len()), (1, 0));
        let unreadable = report.unreadable.clone().unwrap();
        assert_eq!(unreadable.records, 2);
        assert!(report.troubles()[0].contains(&unreadable.kept_in), "{:?}", report.troubles());
        assert_eq!(store.aside().len(), 1);
        assert_eq!(store.aside()[0].len(), 3);
        assert!(store.clone().read().unwrap().is_empty());
        assert_eq!(journal.restore(&mut files).unwrap(), RestoreReport::default(), "told once");
    }

    #[test]
    fn an_old_journal_is_read() {
        let old =
            r#"{"key":"k","undo":[{"undo":"move_process","pid":7,"start_ns":1,"procs":"/a"}]}"#;
        let mut store = MemoryStore::default();
        store.append(old).unwrap();
        assert!(KnobJournal::open(store).unwrap().knows("k"));
    }
}
