//! Layouts, groups, readings and knobs on fixture trees of several machines.

#![allow(clippy::unwrap_used)] // Helpers of tests may panic as tests do.

use quell_cgroup::{
    BandwidthKnob, CgroupError, CpusKnob, Exclusivity, FreezerKnob, Group, GroupKnob, GroupReader,
    IdleKnob, Layout, LayoutKind, WeightKnob, create, home_of, knobs_of, remove, restore_raw,
};
use quell_types::{CpuBandwidth, Gap, KnobRange, Setting, Throttling};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn root(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures/cgroup").join(name)
}

fn layout(name: &str) -> Layout {
    assert!(root(name).is_dir(), "no fixture {name}");
    Layout::discover(root(name))
}

/// A copy of a fixture that a test may write to.
fn copied(name: &str) -> (tempfile::TempDir, Layout) {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    copy(&root(name), dir.path());
    let layout = Layout::discover(dir.path());
    (dir, layout)
}

fn bandwidth(cpus: f64, period_ms: u64) -> Setting {
    Setting::Bandwidth(CpuBandwidth::limited(cpus, Duration::from_millis(period_ms)))
}

#[test]
fn layouts_come_from_the_mount_table() {
    for (name, kind, hierarchies) in [
        ("v1-docker", LayoutKind::V1, 5),
        ("v2-systemd", LayoutKind::V2, 1),
        ("hybrid-split", LayoutKind::Hybrid, 7),
        ("container", LayoutKind::V1, 1),
        ("none", LayoutKind::None, 0),
        ("no such machine", LayoutKind::None, 0),
    ] {
        let layout = Layout::discover(root(name));
        assert_eq!((layout.kind(), layout.hierarchies().len()), (kind, hierarchies), "{name}");
    }
    let v1 = layout("v1-docker");
    assert_eq!(v1.v1("freezer").unwrap().point, Path::new("/mnt/odd place/freezer"));
    assert!(!v1.v1("cpuset").unwrap().read_only, "the writable mount is kept");
    assert_eq!(v1.v1("cpu").unwrap().controllers, ["cpuacct", "cpu"]);
    assert!(layout("hybrid-split").serving("cpu").is_some());
    assert!(layout("v2-systemd").v1("cpu").is_none());
    assert!(layout("v2-systemd").serving("cpuset").is_some());
}

#[test]
fn groups_are_looked_up_in_every_hierarchy() {
    let v1 = layout("v1-docker");
    let batch = Group::find(&v1, "/batch").unwrap();
    assert_eq!(batch.places().len(), 4);
    assert_eq!(batch.children(), ["inner"]);
    assert_eq!(batch.pids().unwrap(), [99]);
    let whole = Group::find(&v1, "/mnt/odd place/freezer/batch/").unwrap();
    assert_eq!(whole.places(), batch.places());
    assert!(batch.v2_id().is_err_and(|gap| matches!(gap, Gap::Absent(_))));
    assert!(batch.v1_cpu_id().unwrap() > 0);
}

#[test]
fn names_that_are_no_group() {
    let v1 = layout("v1-docker");
    for name in ["/nothing", "nothing/at/all", "/batch/../../proc", ""] {
        let error = Group::find(&v1, name).unwrap_err();
        let known =
            matches!(error, CgroupError::NoSuchGroup { .. } | CgroupError::RootGroup { .. });
        assert!(known, "{name:?}: {error}");
    }
    let at_top = Group::find(&v1, "/sys/fs/cgroup/cpuset");
    assert!(matches!(at_top, Err(CgroupError::RootGroup { .. })));
    let error = Group::find(&layout("none"), "/batch").unwrap_err().to_string();
    assert!(error.contains("no cgroup hierarchy is mounted"), "{error}");
}

#[test]
fn a_process_is_in_groups_of_different_names() {
    let v1 = layout("v1-docker");
    let nginx = Group::of_pid(&v1, 4242).unwrap();
    assert_eq!(nginx.places().len(), 2, "root groups are left out");
    assert_eq!(GroupReader::new(&nginx).cpu_ns(), Ok(73_219_412_345));
    let home = home_of(&v1, 4242).unwrap();
    assert_eq!(home.len(), 5, "{home:?}");
    assert!(home[2].ends_with("sys/fs/cgroup/cpuset/cgroup.procs"));

    let v2 = layout("v2-systemd");
    assert!(Group::of_pid(&v2, 812).unwrap().v2().unwrap().dir.ends_with("redis.service"));
    for pid in [2, 77, 78] {
        let nowhere = Group::of_pid(&v2, pid);
        assert!(matches!(nowhere, Err(CgroupError::RootGroup { .. })), "{pid}");
    }
    assert!(matches!(Group::of_pid(&v2, 5), Err(CgroupError::NoProcess { .. })));
    let inside = layout("container");
    assert_eq!(GroupReader::new(&Group::of_pid(&inside, 12).unwrap()).cpu_ns(), Ok(42));
}

#[test]
fn a_unit_is_searched_where_systemd_cannot_be_asked() {
    let v2 = layout("v2-systemd");
    let redis = Group::of_unit(&v2, "redis").unwrap();
    assert_eq!(redis.name(), "/system.slice/redis.service");
    assert!(matches!(Group::of_unit(&v2, "nginx"), Err(CgroupError::NoUnit { .. })));
    assert!(Group::of_unit(&layout("v1-docker"), "nginx.service").is_ok());
}

#[test]
fn readings_of_v1() {
    let group = Group::find(&layout("v1-docker"), "/batch").unwrap();
    let reading = GroupReader::new(&group).read();
    assert_eq!(reading.cpu_ns, Ok(1000));
    let throttled = Throttling { periods: 120, throttled_periods: 30, throttled_ns: 987_654_321 };
    assert_eq!(reading.throttling, Ok(throttled));
    assert!(matches!(reading.pressure, Err(Gap::Absent(_))));
    assert_eq!(reading.page_faults, Ok(123_456), "those of the groups below are in it");
    assert_eq!(reading.memory_used_bytes, Ok(104_857_600));
}

#[test]
fn quotas_of_the_groups_above_hold_a_group_back_too() {
    let (_dir, layout) = copied("v1-docker");
    let inner = Group::find(&layout, "/batch/inner").unwrap();
    let stat = inner.place("cpu").unwrap().file("cpu.stat");
    fs::write(stat, "nr_periods 10\nnr_throttled 1\nthrottled_time 5\n").unwrap();
    let own = Throttling { periods: 10, throttled_periods: 1, throttled_ns: 5 };
    assert_eq!(GroupReader::new(&inner).read().throttling, Ok(own));
    let all = Throttling { periods: 130, throttled_periods: 31, throttled_ns: 987_654_326 };
    assert_eq!(GroupReader::with_groups_above(&inner).read().throttling, Ok(all));
}

#[test]
fn readings_of_v2() {
    let layout = layout("v2-systemd");
    let mut reader = GroupReader::new(&Group::find(&layout, "/quell-batch").unwrap());
    let reading = reader.read();
    assert_eq!(reading.cpu_ns, Ok(777_000));
    let throttled = Throttling { periods: 10, throttled_periods: 4, throttled_ns: 5_555_000 };
    assert_eq!(reading.throttling, Ok(throttled));
    let pressure = reading.pressure.unwrap();
    assert_eq!((pressure.cpu_some_ns, pressure.memory_some_ns), (1_500_000, 20_000));
    assert_eq!((reading.page_faults, reading.memory_used_bytes), (Ok(4711), Ok(2_097_152)));
}

#[test]
fn readings_of_a_hybrid_group_come_from_where_its_processes_are() {
    let group = Group::find(&layout("hybrid-split"), "/batch").unwrap();
    let reading = GroupReader::new(&group).read();
    assert_eq!(reading.cpu_ns, Ok(5_000_000), "the v2 group of the same name is empty");
    assert!(matches!(reading.page_faults, Err(Gap::Absent(_))));
    assert!(reading.pressure.is_ok());
    assert!(group.is_populated());
}

#[test]
fn a_half_frozen_group_is_pending() {
    let (_dir, layout) = copied("hybrid-split");
    let group = Group::find(&layout, "/batch").unwrap();
    let knob = FreezerKnob::new(&group).unwrap().with_deadline(Duration::from_millis(30));
    assert_eq!(knob.read(), Err(Gap::Pending));
    // A plain file stays at what is written, so it answers like a kernel that is done at once.
    let saved = knob.raw_files().unwrap();
    assert!(saved.contains(&(
        layout.v1("freezer").unwrap().dir.join("batch/freezer.state"),
        "FROZEN\n".into()
    )));
    knob.write(&Setting::Flag(true)).unwrap();
    assert_eq!(knob.read(), Ok(Setting::Flag(true)));
    let stuck = knob.write(&Setting::Flag(false));
    assert!(matches!(stuck, Err(CgroupError::Timeout { .. })), "self_freezing never falls here");
}

#[test]
fn knobs_of_v1() {
    let (_dir, layout) = copied("v1-docker");
    let batch = Group::find(&layout, "/batch").unwrap();
    let limit = BandwidthKnob::new(&batch).unwrap();
    assert_eq!(limit.read(), Ok(bandwidth(0.5, 100)));
    limit.write(&bandwidth(0.25, 4)).unwrap();
    assert_eq!(limit.read(), Ok(bandwidth(0.25, 4)));
    assert_eq!(limit.raw_files().unwrap().len(), 2, "this kernel has no burst");

    let inner = Group::find(&layout, "/batch/inner").unwrap();
    let capped = BandwidthKnob::new(&inner).unwrap().round(&bandwidth(2.0, 100));
    assert_eq!(capped, bandwidth(0.25, 100), "no more than the group above has");

    let weight = WeightKnob::new(&batch).unwrap();
    assert_eq!(weight.read(), Ok(Setting::Weight(200)));
    weight.write(&Setting::Weight(1)).unwrap();
    let shares = weight.raw_files().unwrap();
    assert_eq!(shares[0].1, "10");
    let idle = IdleKnob::new(&batch).unwrap();
    assert!(matches!(idle.range(), Err(Gap::Absent(_))), "an old kernel");
    let names: Vec<_> = knobs_of(&batch, Exclusivity::Shared)
        .into_iter()
        .filter(|(_, knob)| knob.is_ok())
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["cpus", "bandwidth", "weight", "frozen"]);
}

#[test]
fn an_empty_v1_cpuset_gets_memory_nodes_and_comes_back_empty() {
    let (_dir, layout) = copied("v1-docker");
    let knob = CpusKnob::new(&Group::find(&layout, "/batch").unwrap(), Exclusivity::Exclusive);
    let knob = knob.unwrap();
    let within = "0-7".parse().unwrap();
    assert_eq!(knob.range(), Ok(KnobRange::Cpus { within, exclusive: true }));
    let saved = knob.raw_files().unwrap();
    assert_eq!(knob.read(), Ok(Setting::Cpus("".parse().unwrap())));
    knob.write(&Setting::Cpus("2-3,40".parse().unwrap())).unwrap();
    assert_eq!(knob.read(), Ok(Setting::Cpus("2-3".parse().unwrap())));
    let texts: Vec<String> = knob.raw_files().unwrap().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["0-1\n", "2-3", "1"]);
    let nothing = knob.write(&Setting::Cpus("".parse().unwrap()));
    assert!(matches!(nothing, Err(CgroupError::Refused { .. })));
    let report = restore_raw(&saved);
    assert!(report.is_complete() && report.restored.len() == 3, "{report:?}");
    assert_eq!(knob.raw_files().unwrap(), saved);
}

#[test]
fn knobs_of_v2() {
    let (_dir, layout) = copied("v2-systemd");
    let batch = Group::find(&layout, "/quell-batch").unwrap();
    let limit = BandwidthKnob::new(&batch).unwrap();
    let saved = limit.raw_files().unwrap();
    assert_eq!(limit.read(), Ok(bandwidth(0.2, 100)));
    limit.write(&bandwidth(0.5, 2)).unwrap();
    let texts: Vec<String> = limit.raw_files().unwrap().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["1000 2000", "1000"], "the burst is cut to the quota first");
    limit.write(&Setting::Bandwidth(CpuBandwidth::unlimited())).unwrap();
    assert_eq!(limit.read(), Ok(Setting::Bandwidth(CpuBandwidth::unlimited())));
    assert!(restore_raw(&saved).is_complete());
    assert_eq!(limit.raw_files().unwrap(), saved);

    let cpus = CpusKnob::new(&batch, Exclusivity::Exclusive).unwrap();
    assert_eq!(cpus.read(), Ok(Setting::Cpus("0-3".parse().unwrap())), "what counts, not the wish");
    let rounded = cpus.round(&Setting::Cpus("30".parse().unwrap()));
    assert_eq!(rounded, Setting::Cpus("0-15".parse().unwrap()));

    let redis = Group::find(&layout, "/system.slice/redis.service").unwrap();
    let gap = CpusKnob::new(&redis, Exclusivity::Shared).unwrap().range().unwrap_err();
    let Gap::Absent(why) = gap else { panic!("{gap:?}") };
    assert!(
        why.contains("+cpuset") && why.contains("system.slice/cgroup.subtree_control"),
        "{why}"
    );
}

#[test]
fn a_wrong_kind_of_setting_is_refused_by_every_knob() {
    let (_dir, layout) = copied("v2-systemd");
    let batch = Group::find(&layout, "/quell-batch").unwrap();
    for (name, knob) in knobs_of(&batch, Exclusivity::Shared) {
        let error = knob.unwrap().write(&Setting::Percent(3)).unwrap_err();
        assert!(matches!(error, CgroupError::WrongSetting { .. }), "{name}: {error}");
    }
}

#[test]
fn only_names_of_quell_are_made_and_removed() {
    let (_dir, layout) = copied("hybrid-split");
    for path in ["/new", "/batch/new", "/new/quell-x", "/quell-x/new"] {
        let error = create(&layout, path, &["cpu"]).unwrap_err();
        assert!(matches!(error, CgroupError::NotOurs { .. }), "{path}: {error}");
    }
    assert!(!layout.root().join("sys/fs/cgroup/cpu/quell-x").exists(), "nothing is left behind");
    for path in ["/batch", "/nothing"] {
        let removed = remove(&layout, path, Duration::ZERO);
        assert_eq!(removed.is_err(), path == "/batch");
    }
    assert!(Group::find(&layout, "/batch").is_ok());
}

#[test]
fn a_group_that_is_gone_says_so() {
    let (_dir, layout) = copied("v2-systemd");
    let batch = Group::find(&layout, "/quell-batch").unwrap();
    let knob = WeightKnob::new(&batch).unwrap();
    let saved = knob.raw_files().unwrap();
    fs::remove_dir_all(&batch.v2().unwrap().dir).unwrap();
    assert!(matches!(knob.read(), Err(Gap::Gone(_))));
    assert!(knob.write(&Setting::Weight(7)).is_err_and(|error| error.is_gone()));
    assert!(matches!(batch.identity(), Err(Gap::Gone(_))));
    assert!(matches!(batch.pids(), Err(Gap::Gone(_))));
    assert!(matches!(GroupReader::new(&batch).read().cpu_ns, Err(Gap::Gone(_))));
    let report = restore_raw(&saved);
    assert!(report.is_complete() && report.gone.len() == 1, "{report:?}");
}
