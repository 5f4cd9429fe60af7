//! Trees to test on: copies of the fixtures, plain or served by a pretended kernel.
#![allow(dead_code, unused_imports, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod fuse;
mod kernel;
mod monitoring;

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) use fuse::mount;
pub(crate) use kernel::{GROWTH_BYTES, Kernel, STALE_BYTES};

pub(crate) const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fixtures/resctrl");

/// The fixtures in which something can be allotted by percent or mask.
pub(crate) const ALLOCATING: [&str; 4] = ["intel-skx-full", "amd-milan", "no-mba", "cdp-on"];

pub(crate) fn fixture(name: &str) -> PathBuf {
    let path = Path::new(FIXTURES).join(name);
    assert!(path.is_dir(), "{} is missing", path.display());
    path
}

/// A root directory with proc/ and sys/fs/resctrl.
pub(crate) struct Tree {
    // Unmounted before the folder below it is removed.
    session: Option<fuser::BackgroundSession>,
    dir: TempDir,
    pub(crate) refuses: bool,
}

impl Tree {
    /// A copy on disk: takes every write.
    pub(crate) fn plain(name: &str) -> Self {
        let dir = TempDir::with_prefix("quell-test-resctrl-").unwrap();
        copy(&fixture(name), dir.path());
        Self { session: None, dir, refuses: false }
    }

    /// The same tree behind FUSE: refuses what the kernel refuses. None without /dev/fuse.
    pub(crate) fn kernel(name: &str) -> Option<Self> {
        if !Path::new("/dev/fuse").exists() {
            eprintln!("no /dev/fuse here: the refusing tree is not tested");
            return None;
        }
        let dir = TempDir::with_prefix("quell-test-resctrl-").unwrap();
        copy(&fixture(name).join("proc"), &dir.path().join("proc"));
        let mount = dir.path().join("sys/fs/resctrl");
        fs::create_dir_all(&mount).unwrap();
        let kernel = Kernel::load(&fixture(name).join("sys/fs/resctrl"));
        let session = Some(fuse::mount(kernel, &mount));
        Some(Self { session, dir, refuses: true })
    }

    /// Both kinds.
    pub(crate) fn both(name: &str) -> Vec<Self> {
        [Some(Self::plain(name)), Self::kernel(name)].into_iter().flatten().collect()
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            session.umount_and_join().expect("the test's own mount goes away");
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
