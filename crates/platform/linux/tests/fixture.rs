//! The platform on a tree of plain files, as a root directory.
#![allow(clippy::unwrap_used)]

use quell_linux::*;
use quell_platform::{Platform, Scope, conformance};
use quell_types::*;
use std::path::Path;
use std::time::Duration;

/// A cgroup v2 tree with one batch group, one cpufreq policy, and a CPU that can stay awake.
fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n");
    put("proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n");
    put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    put("sys/fs/cgroup/jobs/cgroup.controllers", "cpu memory\n");
    put("sys/fs/cgroup/jobs/cgroup.procs", "");
    put("sys/fs/cgroup/jobs/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/jobs/cpu.weight", "100\n");
    put("sys/fs/cgroup/jobs/cpu.stat", "usage_usec 7\nnr_periods 0\nnr_throttled 0\n");
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    for (name, text) in [
        ("affected_cpus", "0 1\n"),
        ("scaling_driver", "acpi-cpufreq\n"),
        ("scaling_governor", "ondemand\n"),
        ("cpuinfo_min_freq", "1000000\n"),
        ("cpuinfo_max_freq", "3000000\n"),
        ("scaling_max_freq", "3000000\n"),
        ("scaling_cur_freq", "2000000\n"),
    ] {
        put(&format!("{policy}/{name}"), text);
    }
    put("sys/devices/system/cpu/cpuidle/current_driver", "haltpoll\n");
    put("sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us", "0\n");
    root
}

fn open(root: &Path, state: &Path) -> Linux {
    let batch = BatchBinding {
        spec: BatchSpec { name: "jobs".into(), links: vec![], takes_tasks: false, max_tasks: 0 },
        selector: Selector::Cgroup("/jobs".into()),
        adopt: false,
    };
    let options = LinuxOptions {
        root: root.to_owned(),
        batch: vec![batch],
        ..LinuxOptions::new(state.to_owned())
    };
    Linux::open(options).unwrap()
}

#[test]
fn a_tree_of_files_conforms() {
    let mut kept = Vec::new();
    conformance::run(|| {
        let (root, state) = (tree(), tempfile::tempdir().unwrap());
        let linux = open(root.path(), state.path());
        let kinds = linux.setup().knobs.keys();
        let has_frequency = kinds.filter(|k| matches!(k, Knob::FrequencyMax { cpu: 0 })).count();
        assert_eq!(has_frequency, 1, "{:?}", linux.setup().knobs);
        let can = |cpu| linux.setup().knobs.contains_key(&Knob::StayAwake { cpu });
        assert_eq!([0, 1].map(can), [false, true]);
        kept.push((root, state));
        linux
    });
}

#[test]
fn what_a_tree_lacks_is_a_gap_and_nothing_is_attached_to_the_running_machine() {
    let (root, state) = (tree(), tempfile::tempdir().unwrap());
    let mut linux = open(root.path(), state.path());
    let sample = linux.sample(Duration::from_millis(1), Scope::Full).unwrap();
    let jobs = &sample.tenants[&"jobs".into()];
    assert_eq!(jobs.cpu_ns, Ok(7_000));
    let Err(Gap::Absent(why)) = &jobs.run_queue_ns else { panic!("{:?}", jobs.run_queue_ns) };
    assert!(why.contains("not the running machine"), "{why}");
    assert!(matches!(sample.host.power, Err(Gap::Absent(_))), "{:?}", sample.host.power);
    assert_eq!(sample.host.frequency_khz.unwrap()[&1], 2_000_000);
}

#[test]
fn a_group_removed_before_the_write_is_an_outcome() {
    let (root, state) = (tree(), tempfile::tempdir().unwrap());
    let mut linux = open(root.path(), state.path());
    std::fs::remove_dir_all(root.path().join("sys/fs/cgroup/jobs")).unwrap();
    let knob = Knob::CpuWeight { tenant: "jobs".into() };
    linux.apply(&Action::Set { knob, to: Setting::Weight(50) }).unwrap();
    let sample = linux.sample(Duration::from_millis(1), Scope::Full).unwrap();
    assert!(sample.outcomes[0].error.is_some(), "{:?}", sample.outcomes);
    assert!(matches!(sample.tenants[&"jobs".into()].cpu_ns, Err(Gap::Gone(_))));
}

/// A small file system in memory, unmounted at the end.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let args = ["-t", "tmpfs", "-o", "size=1m", "quell-test"];
        let done = std::process::Command::new("mount").args(args).arg(folder.path()).status();
        assert!(done.unwrap().success(), "this test needs root");
        Self(folder)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn without_room_for_the_journal_nothing_is_written() {
    let (root, state) = (tree(), Small::mount());
    let mut linux = open(root.path(), state.0.path());
    let mut filler = std::fs::File::create(state.0.path().join("filler")).unwrap();
    while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
    let knob = Knob::CpuWeight { tenant: "jobs".into() };
    let error = linux.apply(&Action::Set { knob, to: Setting::Weight(50) }).unwrap_err();
    assert!(matches!(error, quell_platform::PlatformError::Journal(_)), "{error}");
    let weight = root.path().join("sys/fs/cgroup/jobs/cpu.weight");
    assert_eq!(std::fs::read_to_string(weight).unwrap(), "100\n");
}
