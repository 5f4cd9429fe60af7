//! The loop on a table.

use super::testing::{Disk, STARTED, frozen, idle, knob, session, table};
use super::*;
use crate::decisions::{DecisionLog, read_entries};
use quell_linux::StateDir;
use std::path::Path;

fn entries(folder: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    read_entries(&StateDir(folder.to_owned()), |entry| entries.push(entry)).unwrap();
    entries
}

#[test]
fn what_is_decided_is_written_down_done_and_taken_back() {
    let (folder, mut session) = session(table(), "os-only");
    for _ in 0..5 {
        session.step().unwrap();
    }
    assert_eq!(knob(&mut session.platform, &idle()), Setting::Flag(true));
    assert!(session.actions_total.values().sum::<u64>() >= 1, "{:?}", session.actions_total);
    session.end("stopped").unwrap();
    assert_eq!(knob(&mut session.platform, &idle()), Setting::Flag(false));
    let written = entries(folder.path());
    let is_set = written
        .iter()
        .flat_map(|e| &e.proposals)
        .any(|j| matches!(&j.proposal.wish, Wish::Set { knob, .. } if *knob == idle()));
    assert!(is_set, "{written:?}");
    let last = written.last().unwrap();
    assert!(matches!(&last.notes[..], [Note::Agent { what }] if what.starts_with("stopped")));
}

#[test]
fn a_full_disk_holds_batch_until_there_is_room_again() {
    let (disk, full) = Disk::new();
    let (_folder, mut session) = session(disk, "os-only");
    full.set(true);
    for _ in 0..3 {
        session.step();
    }
    assert!(session.held.as_ref().unwrap().contains("knobs.journal"), "{:?}", session.held);
    assert_eq!(knob(&mut session.platform.table, &frozen()), Setting::Flag(true));
    assert_eq!(knob(&mut session.platform.table, &idle()), Setting::Flag(false), "not journalled");
    full.set(false);
    for _ in 0..5 {
        session.step();
    }
    assert_eq!(session.held, None);
    assert_eq!(knob(&mut session.platform.table, &frozen()), Setting::Flag(false));
    assert_eq!(knob(&mut session.platform.table, &idle()), Setting::Flag(true), "goes on");
}

#[test]
fn a_disk_that_is_full_from_the_start_is_refused() {
    let (disk, full) = Disk::new();
    full.set(true);
    let folder = tempfile::tempdir().unwrap();
    let log = DecisionLog::open(&StateDir(folder.path().to_owned())).unwrap();
    let config = super::testing::config("quell");
    let (error, _) = Session::begin(disk, &config, log, STARTED).err().unwrap();
    assert!(matches!(error, SessionError::Platform(PlatformError::Journal(_))), "{error}");
}

#[test]
fn what_others_insist_on_is_left_to_them_also_by_a_restore() {
    let (disk, _) = Disk::new();
    let (_folder, mut session) = session(disk, "os-only");
    for _ in 0..30 {
        session.step();
        session.platform.table.change_behind(idle(), Setting::Flag(false));
        session.step();
    }
    assert_eq!(session.platform.disowned, [idle()]);
}
