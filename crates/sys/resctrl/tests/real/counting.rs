//! Counters that are set outside of the machine are what the readers say inside.

use crate::lab::{Lab, WIDTH, caches, made};
use quell_resctrl::{Group, Monitor, MonitorReading, Resctrl, capabilities};
use quell_types::{Capability, CapabilityKind, Gap};
use std::path::Path;

/// A group of whatever kind the machine has, with its RMID.
fn group(lab: &Lab, tree: &Resctrl) -> (Group, u64) {
    let group = made(|| match tree.classes() {
        Ok(_) => tree.create("quell-a"),
        Err(_) => tree.create_monitoring("quell-a"),
    });
    let (_, rmid) = lab.ids(&group);
    (group, rmid)
}

fn traffic(reading: &MonitorReading) -> u64 {
    reading.bandwidth.clone().unwrap().bytes
}

#[test]
fn a_monitor_says_what_the_hardware_counted_since_it_began() {
    let Some((lab, tree)) = Lab::mounted("") else { return };
    let scale = lab.offers()["scale"];
    let (group, rmid) = group(&lab, &tree);
    for domain in caches() {
        lab.more(domain, rmid, "total", 1000 + u64::from(domain));
    }
    let mut monitor = Monitor::new(group.clone());
    let first = monitor.read();
    assert_eq!((traffic(&first), first.local_bytes, first.llc_bytes), (0, Ok(0), Ok(0)));
    let mut sums = [0; 3];
    for domain in caches() {
        let units = u64::from(domain) + 1;
        lab.more(domain, rmid, "total", 7 * units);
        lab.more(domain, rmid, "local", 3 * units);
        lab.count(domain, rmid, "occupancy", units);
        sums = [sums[0] + 7 * units, sums[1] + 3 * units, sums[2] + units];
    }
    let second = monitor.read();
    let [total, local, held] = sums.map(|units| units * scale);
    assert_eq!((traffic(&second), second.total_bytes), (total, Ok(total)));
    assert_eq!((second.local_bytes, second.llc_bytes), (Ok(local), Ok(held)));
    let raw = group.counters().unwrap();
    assert_eq!(raw.keys().copied().collect::<Vec<_>>(), caches());
    assert_eq!(raw[&0].llc_bytes, Ok(scale));
}

#[test]
fn a_counter_that_wraps_goes_on() {
    let Some((lab, tree)) = Lab::mounted("") else { return };
    let (scale, rmids) = (lab.offers()["scale"], lab.offers()["rmids"]);
    // Whichever RMID the group gets: its counter is near its end already.
    for rmid in 1..rmids {
        lab.count(0, rmid, "total", (1 << WIDTH) - 5);
    }
    let (group, rmid) = group(&lab, &tree);
    assert_eq!(group.counters().unwrap()[&0].total_bytes, Ok(0), "a fresh group's");
    let mut monitor = Monitor::new(group);
    lab.more(0, rmid, "total", 4);
    assert_eq!(traffic(&monitor.read()), 4 * scale);
    lab.more(0, rmid, "total", 10);
    assert_eq!(lab.raw(0, rmid, "total"), 9);
    assert_eq!(traffic(&monitor.read()), 14 * scale);
}

#[test]
fn what_the_hardware_cannot_tell_is_a_gap_and_does_not_reset_the_sum() {
    let Some((lab, tree)) = Lab::mounted("") else { return };
    let scale = lab.offers()["scale"];
    let (group, rmid) = group(&lab, &tree);
    let mut monitor = Monitor::new(group);
    lab.more(0, rmid, "total", 5);
    assert_eq!(traffic(&monitor.read()), 5 * scale);
    lab.count(0, rmid, "total", 1 << 62);
    let reading = monitor.read();
    assert!(matches!(reading.total_bytes, Err(Gap::NotYet(_))), "{reading:?}");
    assert!(reading.local_bytes.is_ok());
    lab.count(0, rmid, "total", 1 << 63);
    let reading = monitor.read();
    assert!(matches!(reading.total_bytes, Err(Gap::Failed(_))), "{reading:?}");
    // Hardware that lost count begins anew, and the kernel knows.
    lab.count(0, rmid, "total", 10);
    assert_eq!(traffic(&monitor.read()), 15 * scale);
}

#[test]
fn a_group_made_again_brings_no_old_traffic() {
    let Some((lab, tree)) = Lab::mounted("") else { return };
    let scale = lab.offers()["scale"];
    let (first, rmid) = group(&lab, &tree);
    let mut monitor = Monitor::new(first.clone());
    lab.more(0, rmid, "total", 40);
    assert_eq!(traffic(&monitor.read()), 40 * scale);
    let name = first.name().unwrap();
    if first.monitors_only() { tree.remove_monitoring(name) } else { tree.remove(name) }.unwrap();
    assert!(matches!(monitor.read().total_bytes, Err(Gap::Gone(_))));
    let (_, rmid) = group(&lab, &tree);
    assert_eq!(traffic(&monitor.read()), 40 * scale, "the new group's counter begins anew");
    lab.more(0, rmid, "total", 2);
    assert_eq!(traffic(&monitor.read()), 42 * scale);
}

#[test]
fn the_doctor_says_what_was_counted() {
    let Some((lab, tree)) = Lab::mounted("") else { return };
    let scale = lab.offers()["scale"];
    let said = || {
        let reports = capabilities(Path::new("/"));
        let kind = CapabilityKind::ResctrlMonitoring;
        match reports.into_iter().find(|report| report.kind == kind).unwrap().capability {
            Capability::Native(detail) => detail,
            other => panic!("{other:?}"),
        }
    };
    let moved = || -> u64 {
        let counters = tree.default_group().counters().unwrap();
        counters.values().map(|domain| domain.total_bytes.clone().unwrap()).sum()
    };
    let before = moved();
    lab.more(0, 0, "total", (3 << 30) / scale);
    assert_eq!(moved() - before, 3 << 30);
    let expected = format!("{} MiB moved so far", moved() >> 20);
    assert!(said().contains(&expected), "{}", said());
    let raw = lab.raw(0, 0, "total");
    lab.count(0, 0, "total", 1 << 62);
    assert!(said().contains("not yet"), "{}", said());
    lab.count(0, 0, "total", raw);
}
