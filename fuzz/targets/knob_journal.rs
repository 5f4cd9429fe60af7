//! The knob journal: any file opens, restores what it can and keeps what it cannot.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::text;
use quell_platform::{KnobJournal, MemoryStore, NotUndone, Store, Undo, Undoer};

/// Refuses changes whose text has an odd length, until told otherwise.
struct Moody {
    refuses: bool,
}

impl Undoer for Moody {
    fn undo(&mut self, changes: &[&Undo]) -> Vec<Result<(), NotUndone>> {
        let one = |undo: &&Undo| {
            let odd = format!("{undo:?}").len() % 2 == 1;
            if self.refuses && odd { Err(NotUndone::Failed("not now".to_owned())) } else { Ok(()) }
        };
        changes.iter().map(one).collect()
    }
}

fuzz_target!(|data: &[u8]| {
    let mut store = MemoryStore::default();
    for line in text(data).lines() {
        store.append(line).expect("memory takes it");
    }
    let mut journal = KnobJournal::open(store.clone()).expect("any journal opens");
    journal
        .before_write("fuzz", || vec![Undo::RemoveGroup { path: "/quell".into() }])
        .expect("written");
    assert!(journal.knows("fuzz"));
    let first = journal.restore(&mut Moody { refuses: true }).expect("memory takes it");
    assert_eq!(journal.is_empty(), first.failed.is_empty());
    assert_eq!(first.unreadable.is_some(), !store.aside().is_empty(), "lost without a word");

    let mut reopened = KnobJournal::open(store).expect("what was kept can be read");
    assert_eq!(reopened.is_empty(), first.failed.is_empty());
    let second = reopened.restore(&mut Moody { refuses: false }).expect("memory takes it");
    assert_eq!(second.restored, first.failed.len(), "a change was lost between two restores");
    assert!(second.troubles().is_empty() && reopened.is_empty());
});
