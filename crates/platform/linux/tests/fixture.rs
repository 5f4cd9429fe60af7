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

/// The same with clock modulation in sixteen parts, and a temperature for each of two cores.
fn tree_with_clocks() -> tempfile::TempDir {
    let root = tree();
    let put = |path: &str, bytes: &[u8]| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let cpu = |id: u32| {
        format!("processor\t: {id}\nphysical id\t: 0\ncore id\t\t: {id}\nflags\t\t: acpi\n\n")
    };
    put("proc/cpuinfo", (cpu(0) + &cpu(1)).as_bytes());
    put("proc/stat", b"cpu  8 0 0 2 0 0 0 0\ncpu0 5 0 0 0 0 0 0 0\ncpu1 3 0 0 2 0 0 0 0\n");
    for id in 0..2 {
        put(&format!("dev/cpu/{id}/msr"), &[0; 0x200]);
        let mut leaf = [0; 32];
        leaf[6] = 0x20;
        put(&format!("dev/cpu/{id}/cpuid"), &leaf);
        let topology = format!("sys/devices/system/cpu/cpu{id}/topology");
        put(&format!("{topology}/physical_package_id"), b"0\n");
        put(&format!("{topology}/core_id"), format!("{id}\n").as_bytes());
        let sensor = format!("sys/class/hwmon/hwmon0/temp{}", id + 2);
        put(&format!("{sensor}_label"), format!("Core {id}\n").as_bytes());
        put(&format!("{sensor}_input"), format!("{}000\n", 50 + 10 * id).as_bytes());
    }
    put("sys/class/hwmon/hwmon0/name", b"coretemp\n");
    put("sys/class/hwmon/hwmon0/temp1_label", b"Package id 0\n");
    put("sys/class/hwmon/hwmon0/temp1_input", b"61000\n");
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

/// The register of clock modulation of a CPU.
fn clock(root: &Path, cpu: u32) -> u64 {
    let bytes = std::fs::read(root.join(format!("dev/cpu/{cpu}/msr"))).unwrap();
    u64::from_le_bytes(bytes[0x19a..0x1a2].try_into().unwrap())
}

#[test]
fn clocks_are_set_read_back_and_put_back_also_by_whoever_comes_after_a_death() {
    let (root, state) = (tree_with_clocks(), tempfile::tempdir().unwrap());
    let knob = |cpu| Knob::DutyCycle { cpu };
    let mut linux = open(root.path(), state.path());
    assert_eq!(linux.setup().knobs[&knob(0)], KnobRange::Duty { parts: 16 });
    linux.apply(&Action::Set { knob: knob(1), to: Setting::Duty(3) }).unwrap();
    assert_eq!([0, 1].map(|cpu| clock(root.path(), cpu)), [0, 0x13]);
    let sample = linux.sample(Duration::from_millis(1), Scope::Full).unwrap();
    assert_eq!(sample.knobs[&knob(1)], Ok(Setting::Duty(3)));
    assert_eq!(sample.knobs[&knob(0)], Ok(Setting::Duty(16)));
    assert!(sample.outcomes.iter().all(|o| o.error.is_none()), "{:?}", sample.outcomes);
    // As SIGKILL would leave it: the journal is there, nobody puts anything back.
    let left = tempfile::tempdir().unwrap();
    let journal = |dir: &Path| StateDir(dir.to_owned()).knob_journal();
    std::fs::copy(journal(state.path()), journal(left.path())).unwrap();
    linux.restore().unwrap();
    assert_eq!(clock(root.path(), 1), 0);
    drop(linux);
    let mut linux = open(root.path(), state.path());
    linux.apply(&Action::Set { knob: knob(1), to: Setting::Duty(5) }).unwrap();
    let report = restore_state(root.path(), &StateDir(left.path().to_owned())).unwrap();
    assert_eq!((report.restored, report.failed.len()), (1, 0), "{:?}", report.failed);
    assert_eq!(clock(root.path(), 1), 0);
}

#[test]
fn temperature_and_use_of_each_cpu_are_read_where_a_law_asks_for_them() {
    let (root, state) = (tree_with_clocks(), tempfile::tempdir().unwrap());
    let options = LinuxOptions {
        root: root.path().to_owned(),
        read_temperatures: true,
        count_bus_locks: true,
        ..LinuxOptions::new(state.path().to_owned())
    };
    let mut linux = Linux::open(options).unwrap();
    let host = linux.sample(Duration::from_millis(1), Scope::Full).unwrap().host;
    assert_eq!(host.temperature.unwrap(), [(0, Celsius(50.0)), (1, Celsius(60.0))].into());
    assert_eq!(host.cpu_busy_ns.unwrap(), [(0, 50_000_000), (1, 30_000_000)].into());
    let Err(Gap::Absent(why)) = host.bus_locks else { panic!("counted on a tree of files") };
    assert!(why.contains("not the running machine"), "{why}");
    let (root, state) = (tree_with_clocks(), tempfile::tempdir().unwrap());
    let host = open(root.path(), state.path()).sample(Duration::from_millis(1), Scope::Full);
    assert!(matches!(host.unwrap().host.temperature, Err(Gap::Absent(_))), "nobody asked");
}

#[test]
fn a_tree_of_files_conforms() {
    let mut kept = Vec::new();
    conformance::run(|| {
        let (root, state) = (tree_with_clocks(), tempfile::tempdir().unwrap());
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

#[test]
fn whoever_watches_hears_of_it_while_it_waits_for_a_sample() {
    let (root, state) = (tree(), tempfile::tempdir().unwrap());
    let mut linux = open(root.path(), state.path());
    let heard = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = heard.clone();
    linux.while_waiting(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let _ = linux.sample(Duration::from_millis(1), Scope::Fast).unwrap();
    let before = heard.load(std::sync::atomic::Ordering::Relaxed);
    let _ = linux.sample(Duration::from_millis(1500), Scope::Fast).unwrap();
    let during = heard.load(std::sync::atomic::Ordering::Relaxed) - before;
    assert!(during >= 5, "heard {during} times in one and a half seconds");
}
