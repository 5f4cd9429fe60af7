//! Finding, reading, moving, removing.

use crate::common::{self, Bench};
use quell_cgroup::{CgroupError, CpuUsage, Group, GroupReader, Layout, create, home_of, remove};
use quell_types::Gap;
use std::fs;
use std::time::Duration;

#[test]
fn the_layout_is_that_of_the_mount_table() {
    let layout = Layout::discover("/");
    let table = fs::read_to_string("/proc/mounts").unwrap();
    for hierarchy in layout.hierarchies() {
        assert!(hierarchy.dir.join("cgroup.procs").exists(), "{hierarchy:?}");
        assert!(table.contains(&hierarchy.point.display().to_string()));
    }
    assert!(layout.serving("cpu").is_some() && layout.serving("cpuset").is_some());
}

#[test]
fn a_group_removed_between_two_reads_is_gone() {
    let bench = Bench::new("gone", &["cpu", "cpuacct", "memory"]);
    let group = bench.group();
    let mut reader = GroupReader::new(&group);
    let first = reader.read();
    assert!(first.cpu_ns.is_ok() && first.throttling.is_ok() && first.page_faults.is_ok());
    let identity = first.identity.unwrap();
    remove(bench.layout(), bench.path(), Duration::from_secs(5)).unwrap();
    let after = reader.read();
    for gap in [after.identity.unwrap_err(), after.cpu_ns.unwrap_err()] {
        assert!(matches!(gap, Gap::Gone(_)), "{gap:?}");
    }
    assert!(matches!(after.throttling, Err(Gap::Gone(_))));
    assert!(matches!(after.page_faults, Err(Gap::Gone(_))));
    let anew = create(bench.layout(), bench.path(), &["cpu", "cpuacct", "memory"]).unwrap();
    assert!(matches!(reader.read().cpu_ns, Err(Gap::Gone(_))), "another group of the same name");
    assert_ne!(anew.identity().unwrap(), identity);
    assert!(GroupReader::new(&anew).read().cpu_ns.is_ok());
}

#[test]
fn processes_move_in_and_home_again() {
    let bench = Bench::new("move", &["cpu", "cpuacct", "cpuset", "freezer"]);
    let group = bench.group();
    let spinner = bench.outside();
    let pid = spinner.pid();
    let home = home_of(bench.layout(), pid).unwrap();
    group.add_process(pid).unwrap();
    assert_eq!(group.pids().unwrap(), [pid]);
    assert_eq!(group.tids().unwrap(), [pid]);
    let found = Group::of_pid(bench.layout(), pid).unwrap();
    for place in group.places() {
        assert!(found.places().contains(place), "{place:?}");
    }
    assert!(remove(bench.layout(), bench.path(), Duration::ZERO).is_err(), "it is in use");
    for procs in &home {
        quell_cgroup::move_process(procs, pid).unwrap();
    }
    assert_eq!(home_of(bench.layout(), pid).unwrap(), home);
    assert!(group.pids().unwrap().is_empty());
    let ended = group.add_process(4_000_000);
    let Err(CgroupError::Write { hint, .. }) = &ended else { panic!("{ended:?}") };
    assert!(hint.contains("ended"), "{hint}");
}

/// What the cost is on a machine is for the benches to say; here only that keeping files open pays.
#[test]
fn reading_a_kept_file_costs_less_than_opening_it() {
    let bench = Bench::new("cost", &["cpu", "cpuacct", "memory"]);
    let group = bench.group();
    let path = match group.v1("cpuacct") {
        Some(place) => place.file("cpuacct.usage"),
        None => group.v2().unwrap().file("cpu.stat"),
    };
    let mut usage = CpuUsage::new(&Group::find(bench.layout(), bench.path()).unwrap());
    let mut reader = GroupReader::new(&group);
    let cost = |work: &mut dyn FnMut()| {
        let start = common::cpu_time();
        (0..200).for_each(|_| work());
        common::cpu_time() - start
    };
    let mut least = [Duration::MAX; 3];
    for _ in 0..15 {
        let costs = [
            cost(&mut || assert!(usage.read().is_ok())),
            cost(&mut || assert!(fs::read_to_string(&path).is_ok())),
            cost(&mut || assert!(reader.read().cpu_ns.is_ok())),
        ];
        least = std::array::from_fn(|at| least[at].min(costs[at]));
    }
    println!(
        "CPU time of 200: kept {:?}, opened anew {:?}; all of a group {:?}",
        least[0], least[1], least[2]
    );
    assert!(least[0] < least[1], "{least:?}");
}
