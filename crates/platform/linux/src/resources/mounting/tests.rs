//! On a tree that is mounted where the kernel would mount its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

#[path = "../../../../../sys/resctrl/tests/common/mod.rs"]
mod common;

use super::*;
use crate::undoer::LinuxUndoer;
use common::{Kernel, Tree, fixture};
use fuser::BackgroundSession;
use quell_platform::MemoryStore;
use quell_resctrl::Resctrl;
use std::fs;
use std::time::{Duration, Instant};

/// A machine on which resctrl can be mounted; none without /dev/fuse.
struct Ground {
    tree: Tree,
    journal: KnobJournal<MemoryStore>,
    // Ends when it is unmounted.
    session: Option<BackgroundSession>,
}

impl Ground {
    fn new() -> Option<Self> {
        if !Path::new("/dev/fuse").exists() {
            eprintln!("no /dev/fuse here: mounting is not tested");
            return None;
        }
        let tree = Tree::plain("not-mounted");
        fs::create_dir_all(tree.root().join("sys/fs/resctrl")).unwrap();
        let boot_id = tree.root().join("proc/sys/kernel/random/boot_id");
        fs::create_dir_all(boot_id.parent().unwrap()).unwrap();
        fs::write(boot_id, "this-boot\n").unwrap();
        let journal = KnobJournal::open(MemoryStore::default()).unwrap();
        Some(Self { tree, journal, session: None })
    }

    /// As the kernel would, with its line in the mount table.
    fn mount(&mut self) {
        let Self { tree, journal, session } = self;
        let done = mount_by(journal, tree.root(), |at| {
            let kernel = Kernel::load(&fixture("intel-skx-full").join("sys/fs/resctrl"));
            *session = Some(common::mount(kernel, at));
            let table = tree.root().join("proc/mounts");
            let line = "resctrl /sys/fs/resctrl resctrl rw 0 0\n";
            let mounts = fs::read_to_string(&table).unwrap() + line;
            fs::write(table, mounts).map_err(|_| ResctrlError::Unsupported("no table".into()))
        });
        assert_eq!(done.unwrap(), Ok(()));
    }

    fn point(&self) -> std::path::PathBuf {
        self.tree.root().join("sys/fs/resctrl")
    }

    fn restore(&mut self) -> quell_platform::RestoreReport {
        let root = self.tree.root().to_owned();
        self.journal.restore(&mut LinuxUndoer::new(&root)).unwrap()
    }

    fn is_mounted(&self) -> bool {
        self.point().join("info").is_dir()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = quell_resctrl::unmount(&self.point());
    }
}

#[test]
fn what_was_mounted_is_unmounted_after_our_groups_are_removed() {
    let Some(mut ground) = Ground::new() else { return };
    ground.mount();
    assert!(ground.is_mounted() && ground.journal.knows(KEY));
    let tree = Resctrl::open(ground.tree.root()).unwrap();
    let path = tree.create("quell-jobs").unwrap().dir();
    ground.journal.before_write("group", || vec![Undo::RemoveResctrlGroup { path }]).unwrap();
    let report = ground.restore();
    assert_eq!((report.restored, report.failed), (2, vec![]));
    assert!(!ground.is_mounted() && ground.journal.is_empty());
    assert_eq!(ground.restore().restored, 0);
}

#[test]
fn a_mount_in_use_is_told_and_taken_back_later() {
    let Some(mut ground) = Ground::new() else { return };
    ground.mount();
    let open = fs::File::open(ground.point().join("info/last_cmd_status")).unwrap();
    let report = ground.restore();
    assert!(report.failed[0].contains("end who uses it"), "{report:?}");
    assert!(ground.is_mounted());
    drop(open);
    // A child of another test's has it too, between its fork and its program.
    let begun = Instant::now();
    while !ground.restore().failed.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it stays in use");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(!ground.is_mounted());
}

#[test]
fn a_mount_with_groups_of_somebody_else_stays() {
    for theirs in ["research", "mon_groups/research"] {
        let Some(mut ground) = Ground::new() else { return };
        ground.mount();
        fs::create_dir(ground.point().join(theirs)).unwrap();
        assert!(ground.restore().failed.is_empty(), "{theirs}");
        assert!(ground.is_mounted() && ground.journal.is_empty(), "{theirs}");
    }
}

#[test]
fn a_mount_of_a_later_boot_is_somebody_elses() {
    let Some(mut ground) = Ground::new() else { return };
    ground.mount();
    let boot_id = ground.tree.root().join("proc/sys/kernel/random/boot_id");
    fs::write(boot_id, "the-next-boot\n").unwrap();
    assert!(ground.restore().failed.is_empty());
    assert!(ground.is_mounted() && ground.journal.is_empty());
}

#[test]
fn what_cannot_be_mounted_leaves_nothing_to_take_back() {
    let Some(mut ground) = Ground::new() else { return };
    let refuse = |_: &Path| Err(ResctrlError::Unsupported("no such hardware".into()));
    let done = mount_by(&mut ground.journal, ground.tree.root(), refuse).unwrap();
    assert!(done.unwrap_err().to_string().contains("no such hardware"));
    assert!(ground.journal.is_empty());
}

#[test]
fn what_is_mounted_or_missing_is_not_mounted_again() {
    for name in ["intel-skx-full", "no-support"] {
        let tree = Tree::plain(name);
        let mut journal = KnobJournal::open(MemoryStore::default()).unwrap();
        let done = mount_by(&mut journal, tree.root(), |_| panic!("{name} is not mounted"));
        assert_eq!(done.unwrap(), Ok(()));
        assert!(journal.is_empty(), "{name}");
    }
}

#[test]
fn without_a_journal_nothing_is_mounted() {
    let tree = Tree::plain("not-mounted");
    let mut journal = KnobJournal::open(MemoryStore::with_room(0)).unwrap();
    let done = mount_by(&mut journal, tree.root(), |_| panic!("mounted without a record"));
    assert!(done.is_err());
}
