//! On real groups, by page faults where this machine has no PMU: the way of a reading is the same.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

use super::*;
use quell_cgroup::{create, remove};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

static NEXT: AtomicU32 = AtomicU32::new(0);

const FAULTS: Measure = Measure { event: Event::PageFaults, bytes_each: 4096 };

/// A group in all hierarchies, removed at the end.
struct Ground {
    layout: Layout,
    path: String,
}

impl Ground {
    fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = format!("/quell-test-traffic-{}-{number}", std::process::id());
        let ground = Self { layout: Layout::discover("/"), path };
        ground.make();
        ground
    }

    fn make(&self) {
        create(&self.layout, &self.path, &["cpu", "memory", "freezer"]).unwrap();
    }

    fn group(&self) -> Group {
        Group::find(&self.layout, &self.path).unwrap()
    }

    /// Runs a shell script in some of the group's folders, to its end.
    fn run(&self, places: &[Place], script: &str) {
        let enter = |place: &Place| format!("echo $$ > {}; ", place.file("cgroup.procs").display());
        let enter: String = places.iter().map(enter).collect();
        let done = Command::new("sh").arg("-c").arg(format!("{enter}{script}")).status();
        assert!(done.unwrap().success());
    }

    fn traffic(&self, with_host: bool) -> Traffic {
        let online = quell_topology::Machine::new("/").topology().online();
        Traffic::by(Ok(FAULTS), &self.layout, online, with_host)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = remove(&self.layout, &self.path, Duration::from_secs(5));
    }
}

/// Some thousand page faults.
const WORK: &str = "for i in 1 2 3 4 5 6 7 8; do ls / > /dev/null; done";

fn jobs() -> Tenant {
    "jobs".into()
}

#[test]
fn a_group_and_the_machine_are_counted_by_one_measure() {
    let ground = Ground::new();
    let mut traffic = ground.traffic(true);
    traffic.track(&jobs(), &ground.group());
    assert!(matches!(traffic.counted(&jobs()), Err(Gap::NotYet(_))));
    traffic.count();
    assert_eq!(traffic.counted(&jobs()).unwrap().bytes, 0, "nothing ran in it");
    let before = traffic.host().unwrap().bytes;
    ground.run(ground.group().places(), WORK);
    traffic.count();
    let (mine, all) = (traffic.counted(&jobs()).unwrap().bytes, traffic.host().unwrap().bytes);
    assert!(mine > 100 * 4096, "{mine}");
    assert!(all - before >= mine, "{all} - {before} < {mine}");
    assert!(matches!(traffic.counted(&"other".into()), Err(Gap::NotYet(_))));
}

#[test]
fn a_group_made_anew_is_counted_from_nothing() {
    let ground = Ground::new();
    let mut traffic = ground.traffic(false);
    traffic.track(&jobs(), &ground.group());
    ground.run(ground.group().places(), WORK);
    traffic.count();
    assert!(traffic.counted(&jobs()).unwrap().bytes > 0);
    remove(&ground.layout, &ground.path, Duration::from_secs(5)).unwrap();
    traffic.forget(&jobs());
    traffic.count();
    assert!(traffic.counted(&jobs()).is_err());
    ground.make();
    traffic.track(&jobs(), &ground.group());
    traffic.count();
    assert_eq!(traffic.counted(&jobs()).unwrap().bytes, 0);
    ground.run(ground.group().places(), WORK);
    traffic.count();
    assert!(traffic.counted(&jobs()).unwrap().bytes > 0);
}

#[test]
fn processes_that_perf_cannot_see_are_a_gap_and_not_0() {
    let ground = Ground::new();
    let known = |place: &Place| match ground.layout.v1(CONTROLLER) {
        Some(_) => place.controllers.iter().any(|c| c == CONTROLLER),
        None => place.version == quell_cgroup::Version::V2,
    };
    let group = ground.group();
    let others: Vec<Place> = group.places().iter().filter(|p| !known(p)).cloned().collect();
    if others.is_empty() {
        return;
    }
    let mut traffic = ground.traffic(false);
    traffic.track(&jobs(), &group);
    // Waits in v1 groups only, as long as this test holds the other end.
    let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    for place in &others {
        std::fs::write(place.file("cgroup.procs"), child.id().to_string()).unwrap();
    }
    traffic.count();
    let seen = traffic.counted(&jobs());
    child.kill().unwrap();
    child.wait().unwrap();
    let Err(Gap::Absent(why)) = seen else { panic!("{seen:?}") };
    assert!(why.contains("are not in"), "{why}");
    traffic.count();
    assert_eq!(traffic.counted(&jobs()).unwrap().bytes, 0, "nobody is left");
}

#[test]
fn counters_are_bounded_and_tenants_beyond_are_gaps() {
    let ground = Ground::new();
    let mut traffic = ground.traffic(true);
    let cpus = traffic.cpus.len();
    // The machine, one tenant, and not quite another one.
    traffic.most = 3 * cpus - 1;
    for name in ["a", "b"] {
        traffic.track(&name.into(), &ground.group());
    }
    // The first one again: its old counters make room.
    traffic.track(&"a".into(), &ground.group());
    traffic.count();
    assert!(traffic.counted(&"a".into()).is_ok());
    let gap = traffic.counted(&"b".into()).unwrap_err();
    assert!(gap.to_string().contains("are the most"), "{gap}");
}

#[test]
fn one_counter_is_for_the_tenants() {
    let ground = Ground::new();
    let mut traffic = ground.traffic(false);
    traffic.track(&jobs(), &ground.group());
    traffic.count();
    assert!(traffic.counted(&jobs()).is_ok());
    assert!(traffic.host().unwrap_err().to_string().contains("one counter"));
}

#[test]
fn what_is_counted_is_what_doctor_says() {
    let ground = Ground::new();
    let topology = quell_topology::Machine::new("/").topology();
    let resctrl = Err(Gap::absent("none, for this test"));
    let mut traffic = Traffic::open(&ground.layout, &topology, &resctrl);
    assert_eq!(traffic.is_used(), stands_in(&ground.layout).is_ok());
    traffic.track(&jobs(), &ground.group());
    ground.run(ground.group().places(), WORK);
    traffic.count();
    match traffic.counted(&jobs()) {
        Ok(seen) => assert!(traffic.is_used() && seen.bytes > 0, "{seen:?}"),
        Err(gap) => {
            assert!(!traffic.is_used());
            assert!(gap.to_string().contains("none, for this test; perf: "), "{gap}");
        }
    }
    let instead = Traffic::open(&ground.layout, &topology, &Ok(()));
    assert!(!instead.is_used());
}
