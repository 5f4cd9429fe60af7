//! Trees of a pretended kernel that refuses what the real one refuses, mounted by FUSE in a
//! temporary folder.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on must fail")]

#[path = "../../../resctrl/tests/common/fuse.rs"]
mod fuse;
mod kernel;

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) use kernel::{Kernel, Version};

/// A root directory with cgroup hierarchies, unmounted and removed at the end, also of a test that
/// failed.
pub(crate) struct Tree {
    // Unmounted before the folder below is removed.
    sessions: Vec<(PathBuf, fuser::BackgroundSession)>,
    dir: TempDir,
}

/// Hierarchies of a machine: where each is mounted, its controllers.
const V1: [(&str, &[&str]); 3] =
    [("cpu,cpuacct", &["cpu", "cpuacct"]), ("cpuset", &["cpuset"]), ("freezer", &["freezer"])];
const V2: [&str; 2] = ["cpu", "cpuset"];

impl Tree {
    /// A machine with so many CPUs; `procs` are at the top of each hierarchy. None without
    /// /dev/fuse.
    pub(crate) fn mount(version: Version, cpus: u32, procs: &[u32]) -> Option<Self> {
        if !Path::new("/dev/fuse").exists() {
            eprintln!("no /dev/fuse here: the refusing tree is not tested");
            return None;
        }
        let dir = TempDir::with_prefix("quell-test-cgroup-").unwrap();
        let mut tree = Self { sessions: Vec::new(), dir };
        let mut mounts = String::new();
        match version {
            Version::V1 => {
                for (name, controllers) in V1 {
                    let point = format!("/sys/fs/cgroup/{name}");
                    mounts += &format!("cgroup {point} cgroup rw,{} 0 0\n", controllers.join(","));
                    tree.add(&point, Kernel::new(version, controllers, cpus, procs));
                }
            }
            Version::V2 => {
                mounts += "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
                tree.add("/sys/fs/cgroup", Kernel::new(version, &V2, cpus, procs));
            }
        }
        tree.put("proc/mounts", &mounts);
        let online = if cpus > 1 { format!("0-{}\n", cpus - 1) } else { "0\n".into() };
        tree.put("sys/devices/system/cpu/online", &online);
        let info: String = (0..cpus).map(|cpu| format!("processor\t: {cpu}\n\n")).collect();
        tree.put("proc/cpuinfo", &info);
        Some(tree)
    }

    fn add(&mut self, point: &str, kernel: Kernel) {
        let at = self.root().join(point.trim_start_matches('/'));
        fs::create_dir_all(&at).unwrap();
        let session = fuse::mount(kernel, &at);
        self.sessions.push((at, session));
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// The hierarchy that serves a controller.
    pub(crate) fn hierarchy(&self, controller: &str) -> PathBuf {
        let base = self.root().join("sys/fs/cgroup");
        let serves = |(_, controllers): &&(&str, &[&str])| controllers.contains(&controller);
        match V1.iter().find(serves).map(|(name, _)| base.join(name)) {
            Some(v1) if v1.is_dir() => v1,
            _ => base,
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Must not panic while a failed test unwinds.
        for (at, session) in self.sessions.drain(..) {
            // A process that another test is just starting may hold a file of it for a moment.
            if session.umount_and_join().is_err() {
                let _ = std::process::Command::new("umount").arg("-l").arg(&at).status();
            }
        }
    }
}
