//! Tests of a machine's knobs against made-up layouts.

use super::*;
use quell_libvirt::{Domain, Uuid};
use quell_types::Cpus;

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn known(vcpus: &[&str], emulator: &str) -> Known {
    let vcpus = vcpus.iter().map(|list| cpus(list));
    let mut parts: BTreeMap<Part, CpuSet> = (0..).map(Part::Vcpu).zip(vcpus).collect();
    parts.insert(Part::Iothread(1), cpus("0-3"));
    let before = Before {
        domain: Domain { name: "g1".into(), uuid: Uuid([1; 16]), id: Some(3) },
        pid: 41,
        start_ns: 7,
        bandwidth: Some((100_000, -1)),
        parts: parts.clone(),
        emulator: cpus(emulator),
    };
    Known { before, parts }
}

fn thread(tid: u32, role: Role, list: &str) -> Thread {
    Thread { tid, role, cpus: cpus(list) }
}

#[test]
fn pins_from_before_are_kept_as_far_as_they_go() {
    for (pins, set, wanted) in
        [("0-7", "2-3", "2-3"), ("2", "2-3", "2"), ("0", "2-3", "2-3"), ("1-2", "2-3", "2")]
    {
        assert_eq!(narrowed(&cpus(pins), &cpus(set)), cpus(wanted), "{pins} in {set}");
    }
}

#[test]
fn a_set_stands_if_every_thread_runs_where_it_is_put() {
    let known = known(&["0-3", "1"], "0-3");
    let all = |first: &str, second: &str, main: &str| {
        vec![
            thread(41, Role::Other, main),
            thread(42, Role::Other, "0-3"),
            thread(43, Role::Vcpu(0), first),
            thread(44, Role::Vcpu(1), second),
        ]
    };
    for (threads, last, wanted) in [
        (all("0-3", "1", "0-3"), None, "0-3"),
        (all("0-1", "1", "0-1"), Some("0-1"), "0-1"),
        // The second one was pinned elsewhere; so it got the whole set.
        (all("2-3", "2-3", "2-3"), Some("2-3"), "2-3"),
        // Somebody moved the first CPU, or the emulator, back.
        (all("0-3", "2-3", "2-3"), Some("2-3"), "0-3"),
        (all("2-3", "2-3", "0-3"), Some("2-3"), "0-3"),
        (all("2-3", "2", "2-3"), Some("2-3"), "2-3"),
    ] {
        let last = last.map(cpus);
        assert_eq!(known.seen(&threads, last.as_ref()), cpus(wanted), "{threads:?}");
    }
    let moved = all("2", "2-3", "0-3");
    assert_eq!(known.seen(&moved, Some(&cpus("2"))), cpus("0-3"));
    let mut stray = all("2-3", "2-3", "2-3");
    // A CPU and an I/O thread of which nothing was known when the machine was taken.
    stray.push(thread(45, Role::Vcpu(2), "2"));
    assert_eq!(known.seen(&stray, Some(&cpus("2-3"))), cpus("2-3"), "within is well enough");
    stray.push(thread(46, Role::Iothread(2), "1"));
    assert_eq!(known.seen(&stray, Some(&cpus("2-3"))), cpus("1-3"));
    stray.push(thread(47, Role::Iothread(1), "0"));
    assert_eq!(known.seen(&stray, Some(&cpus("2-3"))), cpus("0-3"));
    let one = [thread(43, Role::AllVcpus, "2")];
    assert_eq!(known.seen(&one, Some(&cpus("2-3"))), cpus("2-3"));
}

#[test]
fn a_limit_becomes_a_quota_and_none_is_what_libvirt_called_none() {
    let half = CpuBandwidth { limit_cpus: Some(Cpus(0.5)), period_us: 10_000 };
    assert_eq!(quota(half, (100_000, -1)), (10_000, 5_000));
    let none = CpuBandwidth { limit_cpus: None, period_us: 100_000 };
    assert_eq!(quota(none, (100_000, -1)), (100_000, -1));
    assert_eq!(quota(none, (100_000, 50_000)), (100_000, -1));
    let v2 = 17_592_186_044_415;
    assert_eq!(quota(none, (100_000, v2)), (100_000, v2));
}

#[test]
fn a_job_that_is_dropped_is_no_longer_on_its_way() {
    let progress = Arc::new(Mutex::new(Progress { on_its_way: true, ..Progress::default() }));
    drop(OnItsWay(progress.clone()));
    assert!(!progress.lock().unwrap().on_its_way);
    let way = OnItsWay(progress.clone());
    way.arrive(&Setting::Cpus(cpus("1")), &Err("no".into()));
    assert_eq!(progress.lock().unwrap().cpus, None);
    assert_eq!(progress.lock().unwrap().failed.as_deref(), Some("no"));
    way.arrive(&Setting::Cpus(cpus("1")), &Ok(()));
    assert_eq!(progress.lock().unwrap().cpus, Some(cpus("1")));
}
