//! The same writes on the pretended kernel and on the real one: both must answer with the same
//! error number, else tests on the pretended one would prove nothing.
#![allow(clippy::unwrap_used)] // Helpers of tests may panic as tests do.

mod pretended;

use pretended::{Tree, Version};
use quell_cgroup::{Layout, remove};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What is done, and the error number that must come of it.
type Step<'a> = (Do<'a>, Result<(), Errno>);

#[derive(Clone, Copy, Debug)]
enum Do<'a> {
    /// Makes a group.
    Make(&'a str),
    /// Removes one.
    Remove(&'a str),
    /// Writes to a file; `$pid` stands for a process of the test's own.
    Put(&'a str, &'a str),
    /// The file reads so.
    Reads(&'a str, &'a str),
}

use Do::{Make, Put, Reads, Remove};

const CPU_V1: &[Step<'_>] = &[
    (Make("quell-a"), Ok(())),
    (Make("quell-a"), Err(Errno::EXIST)),
    (Put("quell-a/cpu.cfs_quota_us", "999"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.cfs_quota_us", "none"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.cfs_quota_us", "50000"), Ok(())),
    (Put("quell-a/cpu.cfs_period_us", "999"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.cfs_period_us", "1000001"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.cfs_burst_us", "50001"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.cfs_burst_us", "50000"), Ok(())),
    (Put("quell-a/cpu.cfs_quota_us", "40000"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.cfs_burst_us", "0"), Ok(())),
    (Make("quell-a/quell-b"), Ok(())),
    (Put("quell-a/quell-b/cpu.cfs_quota_us", "60000"), Err(Errno::INVAL)),
    (Put("quell-a/quell-b/cpu.cfs_quota_us", "40000"), Ok(())),
    (Put("quell-a/cpu.cfs_quota_us", "30000"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.cfs_period_us", "200000"), Err(Errno::INVAL)),
    (Put("quell-a/quell-b/cpu.cfs_quota_us", "-1"), Ok(())),
    (Put("quell-a/cpu.cfs_quota_us", "30000"), Ok(())),
    (Put("quell-a/cpu.shares", "many"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.shares", "1"), Ok(())),
    (Reads("quell-a/cpu.shares", "2\n"), Ok(())),
    (Put("quell-a/cpu.idle", "2"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.idle", "1"), Ok(())),
    (Reads("quell-a/cpu.shares", "3\n"), Ok(())),
    (Put("quell-a/cpu.shares", "512"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.idle", "0"), Ok(())),
    (Reads("quell-a/cpu.shares", "1024\n"), Ok(())),
    (Put("quell-a/cpu.stat", "0"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.max", "max"), Err(Errno::NOENT)),
    (Put("quell-c/cpu.shares", "2"), Err(Errno::NOENT)),
    (Remove("quell-a"), Err(Errno::BUSY)),
    (Remove("quell-a/quell-b"), Ok(())),
    (Put("quell-a/cgroup.procs", "4194305"), Err(Errno::SRCH)),
    (Put("quell-a/cgroup.procs", "me"), Err(Errno::INVAL)),
    (Put("quell-a/cgroup.procs", "$pid"), Ok(())),
    (Reads("quell-a/cgroup.procs", "$pid\n"), Ok(())),
    (Remove("quell-a"), Err(Errno::BUSY)),
    (Make("quell-z"), Ok(())),
    (Put("quell-z/cgroup.procs", "$pid"), Ok(())),
    (Remove("quell-a"), Ok(())),
    (Remove("quell-a"), Err(Errno::NOENT)),
];

const CPUSET_V1: &[Step<'_>] = &[
    (Put("cpuset.cpus", "0-1"), Ok(())),
    (Put("cpuset.mems", "0"), Ok(())),
    (Make("quell-a"), Ok(())),
    (Reads("quell-a/cpuset.cpus", "\n"), Ok(())),
    (Put("quell-a/cgroup.procs", "$pid"), Err(Errno::NOSPC)),
    (Put("quell-a/cpuset.cpus", "x"), Err(Errno::INVAL)),
    (Put("quell-a/cpuset.cpus", "1-0"), Err(Errno::INVAL)),
    (Put("quell-a/cpuset.cpus", "0"), Ok(())),
    (Put("quell-a/cgroup.procs", "$pid"), Err(Errno::NOSPC)),
    (Put("quell-a/cpuset.mems", "0"), Ok(())),
    (Put("cpuset.cpus", "1"), Err(Errno::BUSY)),
    (Put("cpuset.cpus", "0"), Ok(())),
    (Put("quell-a/cpuset.cpus", "0-1"), Err(Errno::ACCESS)),
    (Put("quell-a/cpuset.cpu_exclusive", "1"), Err(Errno::ACCESS)),
    (Put("quell-a/cpuset.cpu_exclusive", "x"), Err(Errno::INVAL)),
    (Put("quell-a/cgroup.procs", "$pid"), Ok(())),
    (Put("quell-a/cpuset.cpus", "\n"), Err(Errno::NOSPC)),
    (Reads("quell-a/cpuset.cpus", "0\n"), Ok(())),
];

const FREEZER_V1: &[Step<'_>] = &[
    (Make("quell-a"), Ok(())),
    (Put("quell-a/freezer.state", "frozen"), Err(Errno::INVAL)),
    (Put("quell-a/freezer.state", "FREEZING"), Err(Errno::INVAL)),
    (Put("quell-a/freezer.self_freezing", "1"), Err(Errno::INVAL)),
    (Put("quell-a/freezer.state", "FROZEN"), Ok(())),
    (Reads("quell-a/freezer.state", "FROZEN\n"), Ok(())),
    (Make("quell-a/quell-b"), Ok(())),
    (Reads("quell-a/quell-b/freezer.state", "FROZEN\n"), Ok(())),
    (Reads("quell-a/quell-b/freezer.self_freezing", "0\n"), Ok(())),
    (Put("quell-a/freezer.state", "THAWED"), Ok(())),
    (Reads("quell-a/quell-b/freezer.state", "THAWED\n"), Ok(())),
];

/// What a v2 tree without controllers has.
const BARE_V2: &[Step<'_>] = &[
    (Make("quell-a"), Ok(())),
    (Put("quell-a/cgroup.freeze", "2"), Err(Errno::RANGE)),
    (Put("quell-a/cgroup.freeze", "on"), Err(Errno::INVAL)),
    (Put("quell-a/cgroup.freeze", "1"), Ok(())),
    (Reads("quell-a/cgroup.events", "populated 0\nfrozen 1\n"), Ok(())),
    (Put("quell-a/cgroup.freeze", "0"), Ok(())),
    (Put("quell-a/cgroup.events", "1"), Err(Errno::INVAL)),
    (Put("quell-a/cgroup.controllers", "cpu"), Err(Errno::INVAL)),
    (Put("quell-a/cgroup.subtree_control", "+nothing"), Err(Errno::INVAL)),
    (Put("quell-a/cgroup.subtree_control", "cpu"), Err(Errno::INVAL)),
    (Put("quell-a/cgroup.subtree_control", "+cpu"), Err(Errno::NOENT)),
    (Put("quell-a/cpu.max", "max"), Err(Errno::NOENT)),
    (Put("quell-a/cgroup.procs", "$pid"), Ok(())),
    (Remove("quell-a"), Err(Errno::BUSY)),
];

/// What this machine may lack; the pretended kernel alone is asked.
const FULL_V2: &[Step<'_>] = &[
    (Put("cgroup.subtree_control", "+cpu +cpuset"), Ok(())),
    (Make("quell-a"), Ok(())),
    (Put("quell-a/cpu.max", "999 100000"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.max", "50000 999"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.max", "50000 1000001"), Err(Errno::INVAL)),
    (Put("quell-a/cpu.max", "50000"), Ok(())),
    (Reads("quell-a/cpu.max", "50000 100000\n"), Ok(())),
    (Put("quell-a/cpu.weight", "0"), Err(Errno::RANGE)),
    (Put("quell-a/cpu.weight", "10001"), Err(Errno::RANGE)),
    (Put("quell-a/cpu.weight", "10000"), Ok(())),
    (Put("quell-a/cpu.idle", "1"), Ok(())),
    (Put("quell-a/cpu.weight", "100"), Err(Errno::INVAL)),
    (Put("quell-a/cpuset.cpus", "0-9"), Err(Errno::INVAL)),
    (Reads("quell-a/cpuset.cpus", "\n"), Ok(())),
    (Reads("quell-a/cpuset.cpus.effective", "0-3\n"), Ok(())),
    (Put("quell-a/cpuset.cpus", "0-1"), Ok(())),
    (Make("quell-b"), Ok(())),
    (Put("quell-b/cpuset.cpus", "1-2"), Ok(())),
    (Put("quell-b/cpuset.cpus.partition", "half"), Err(Errno::INVAL)),
    (Put("quell-b/cpuset.cpus.partition", "root"), Ok(())),
    (
        Reads(
            "quell-b/cpuset.cpus.partition",
            "root invalid (Cpu list in cpuset.cpus not exclusive)\n",
        ),
        Ok(()),
    ),
    (Put("quell-b/cpuset.cpus", "2"), Ok(())),
    (Reads("quell-b/cpuset.cpus.partition", "root\n"), Ok(())),
    (Reads("cpuset.cpus.effective", "0-1,3\n"), Ok(())),
    (Put("quell-a/cgroup.procs", "$pid"), Ok(())),
    (Put("quell-a/cpuset.cpus", "\n"), Err(Errno::NOSPC)),
    (Put("quell-a/cgroup.subtree_control", "+cpu"), Err(Errno::BUSY)),
    (Put("cgroup.subtree_control", "-cpu"), Ok(())),
    (Put("quell-a/cpu.max", "max"), Err(Errno::NOENT)),
];

/// Plays the steps below a folder.
fn play(base: &Path, pid: u32, steps: &[Step<'_>]) {
    let number = pid.to_string();
    for (number_of_step, (step, expected)) in steps.iter().enumerate() {
        let done = match *step {
            Make(path) => fs::create_dir(base.join(path)),
            Remove(path) => fs::remove_dir(base.join(path)),
            Put(path, text) => put(&base.join(path), &text.replace("$pid", &number)),
            Reads(path, text) => {
                let found = fs::read_to_string(base.join(path)).unwrap();
                assert_eq!(found, text.replace("$pid", &number), "{number_of_step}: {step:?}");
                Ok(())
            }
        };
        let done = done.map_err(|error| error.raw_os_error().map(Errno::from_raw_os_error));
        assert_eq!(
            done,
            expected.map_err(Some),
            "{number_of_step}: {step:?} in {}",
            base.display()
        );
    }
}

fn put(path: &Path, text: &str) -> std::io::Result<()> {
    File::options().write(true).open(path)?.write_all(text.as_bytes())
}

/// Groups of this test in the real hierarchies, removed with the process in them.
struct Real {
    base: PathBuf,
    layout: Layout,
    name: String,
    child: Child,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Real {
    /// None where the machine has no such hierarchy.
    fn new(version: Version, controller: &str) -> Option<Self> {
        let layout = Layout::discover("/");
        let hierarchy = match version {
            Version::V1 => layout.v1(controller)?,
            Version::V2 => layout.v2()?,
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("quell-test-refusals-{}-{number}", std::process::id());
        let base = hierarchy.dir.join(&name);
        fs::create_dir(&base).unwrap();
        let sleep = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn();
        Some(Self { base, name, child: sleep.unwrap(), layout })
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = remove(&self.layout, &format!("/{}", self.name), Duration::from_secs(5));
    }
}

fn on_both(version: Version, controller: &str, steps: &[Step<'_>]) {
    const PID: u32 = 4321;
    if let Some(tree) = Tree::mount(version, 4, &[1, PID]) {
        let top = tree.hierarchy(controller);
        let base = top.join("quell-test");
        fs::create_dir(&base).unwrap();
        play(&base, PID, steps);
    }
    match Real::new(version, controller) {
        Some(real) => play(&real.base, real.child.id(), steps),
        None => eprintln!("{controller} of {version:?} is not here: not compared with the kernel"),
    }
}

#[test]
fn cpu_time_in_v1() {
    on_both(Version::V1, "cpu", CPU_V1);
}

#[test]
fn cpu_sets_in_v1() {
    on_both(Version::V1, "cpuset", CPUSET_V1);
}

#[test]
fn freezers_in_v1() {
    on_both(Version::V1, "freezer", FREEZER_V1);
}

#[test]
fn groups_in_v2() {
    on_both(Version::V2, "none", BARE_V2);
}

#[test]
fn cpu_time_and_cpu_sets_in_v2() {
    let Some(tree) = Tree::mount(Version::V2, 4, &[1, 99]) else { return };
    play(&tree.hierarchy("cpu"), 99, FULL_V2);
}

#[test]
fn a_group_that_is_removed_while_its_file_is_open_has_no_device() {
    let Some(tree) = Tree::mount(Version::V2, 4, &[1]) else { return };
    let group = tree.hierarchy("cpu").join("quell-a");
    fs::create_dir(&group).unwrap();
    let mut file = File::options().write(true).open(group.join("cgroup.freeze")).unwrap();
    fs::remove_dir(&group).unwrap();
    let error = file.write_all(b"1").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::NODEV.raw_os_error()));
}
