//! The tree on a real link: what is set is read back, what vanished comes again, what was there
//! before comes back, and nobody else's work is touched.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[allow(dead_code)]
mod common;

use common::{installed, lab, mbit, near, root, spec, tenant};
use quell_egress::lab::{Echo, EchoLoad, LINK, NEAR};
use quell_egress::route::{Handle, Mode, QdiscKind};
use quell_egress::{
    EgressError, LinkSnapshot, Restored, RootSnapshot, Shaper, ShaperSpec, Takeover, class_of,
    probe, restore, service_class,
};
use quell_types::{Gap, KnobRange, Setting};
use std::net::SocketAddr;
use std::time::Duration;

#[test]
fn this_kernel_shapes() {
    assert!(probe().is_present(), "{:?}", probe());
}

#[test]
fn a_ceiling_is_read_back_as_the_kernel_rounds_it() {
    let lab = lab();
    let mut shaper = installed(&lab);
    let KnobRange::Rate { min } = shaper.range() else { panic!() };
    for rate in [None, Some(mbit(90.0)), Some(mbit(0.123_456)), Some(min), Some(mbit(500.0))] {
        shaper.set_ceiling(&tenant("a"), rate).unwrap();
        let read = shaper.read().ceilings;
        assert_eq!(read[&tenant("a")], Ok(shaper.round(rate)), "{rate:?}");
        assert_eq!(read[&tenant("b")], Ok(Setting::Rate(None)), "another's is left alone");
    }
    let nothing = Some(mbit(0.0));
    shaper.set_ceiling(&tenant("a"), nothing).unwrap();
    assert_eq!(shaper.read().ceilings[&tenant("a")], Ok(Setting::Rate(Some(min))));
}

#[test]
fn rates_beyond_32_bits_are_set_and_read_back() {
    let lab = lab();
    let fast = ShaperSpec { capacity: mbit(100_000.0), ..spec(&lab) };
    let mut shaper = Shaper::open(fast).unwrap();
    shaper.install().unwrap();
    for megabits in [60_000.0, 40_000.0] {
        let rate = mbit(megabits);
        shaper.set_ceiling(&tenant("a"), Some(rate)).unwrap();
        assert_eq!(shaper.read().ceilings[&tenant("a")], Ok(Setting::Rate(Some(rate))));
    }
    let (route, _) = near(lab.near());
    assert_eq!((route.speed_mbit(LINK), route.speed_mbit("lo")), (Some(10_000), None));
}

#[test]
fn unmarked_packets_belong_to_the_services() {
    let lab = lab();
    let mut shaper = installed(&lab);
    assert_eq!(root(lab.near()).htb_default(), Some(Handle(service_class()).minor()));
    assert_eq!(shaper.class(&tenant("b")).unwrap(), class_of(1));
    let echo = Echo::start(lab.near(), SocketAddr::from((NEAR, 0))).unwrap();
    let load = EchoLoad {
        duration: Duration::from_millis(50),
        every: Duration::from_millis(1),
        bytes: 100,
    };
    let trips = load.measure(lab.far(), echo.address()).unwrap();
    let reading = shaper.read();
    assert!(reading.service_bytes.unwrap() > 100 * trips.len() as u64);
    assert_eq!(reading.link.by_tenant_bytes[&tenant("a")], Ok(0));
}

#[test]
fn what_vanished_of_the_tree_comes_again_with_the_next_setting() {
    let lab = lab();
    let mut shaper = installed(&lab);
    shaper.set_ceiling(&tenant("b"), Some(mbit(30.0))).unwrap();
    let (mut route, index) = near(lab.near());

    route.delete_class(index, Handle(class_of(0))).unwrap();
    let read = shaper.read();
    assert!(matches!(read.ceilings[&tenant("a")], Err(Gap::Gone(_))), "{read:?}");
    shaper.set_ceiling(&tenant("a"), Some(mbit(20.0))).unwrap();

    route.delete_root(index, root(lab.near()).handle()).unwrap();
    assert!(matches!(shaper.read().link.sent_bytes, Err(Gap::Gone(_))));
    shaper.set_ceiling(&tenant("a"), Some(mbit(10.0))).unwrap();
    let ceilings = shaper.read().ceilings;
    assert_eq!(ceilings[&tenant("a")], Ok(Setting::Rate(Some(mbit(10.0)))));
    assert_eq!(ceilings[&tenant("b")], Ok(Setting::Rate(Some(mbit(30.0)))), "as it was set");
}

#[test]
fn installing_again_changes_nothing_and_drops_tenants_no_longer_named() {
    let lab = lab();
    let mut shaper = installed(&lab);
    shaper.set_ceiling(&tenant("a"), Some(mbit(10.0))).unwrap();
    let (mut route, index) = near(lab.near());
    let classes = |route: &mut quell_egress::route::Route| {
        let mut all: Vec<_> = route.classes(index).unwrap();
        all.sort_by_key(|class| class.handle);
        all.into_iter().map(|c| (c.handle, c.parent, c.leaf, c.rate, c.ceil)).collect::<Vec<_>>()
    };
    let before = classes(&mut route);
    shaper.install().unwrap();
    assert_eq!(classes(&mut route), before);

    let fewer = ShaperSpec { tenants: vec![tenant("a")], ..spec(&lab) };
    let mut later = Shaper::open(fewer).unwrap();
    later.install().unwrap();
    assert_eq!(later.read().ceilings[&tenant("a")], Ok(Setting::Rate(Some(mbit(10.0)))));
    assert!(route.classes(index).unwrap().iter().all(|class| class.handle != class_of(1)));
}

#[test]
fn a_later_process_restores_from_the_saved_text_alone() {
    let lab = lab();
    let (mut route, index) = near(lab.near());
    let before = (root(lab.near()), route.link(LINK).unwrap());
    let opened = Shaper::open(spec(&lab)).unwrap();
    let saved = serde_json::to_string(opened.snapshot()).unwrap();
    assert_eq!(route.link(LINK).unwrap(), before.1, "opening changes nothing");
    drop(opened);

    let mut shaper = installed(&lab);
    shaper.set_ceiling(&tenant("a"), Some(mbit(10.0))).unwrap();
    drop(shaper);
    let shaped = route.link(LINK).unwrap().unwrap();
    assert_eq!(shaped.qdisc.as_deref(), Some("htb"));
    assert!(shaped.gso_bytes.unwrap() < 10_000, "{shaped:?}");

    let snapshot: LinkSnapshot = serde_json::from_str(&saved).unwrap();
    assert_eq!(restore(&snapshot).unwrap(), Restored::AsBefore);
    assert_eq!((root(lab.near()).kind, route.link(LINK).unwrap()), (before.0.kind, before.1));
    assert_eq!(restore(&snapshot).unwrap(), Restored::AsBefore, "a second time is harmless");
    assert!(route.classes(index).unwrap().is_empty());
}

#[test]
fn an_orphaned_tree_is_adopted_and_the_kernels_defaults_come_back() {
    let lab = lab();
    let (mut route, _) = near(lab.near());
    let before = route.link(LINK).unwrap();
    drop(installed(&lab));
    let orphan = Shaper::open(spec(&lab)).unwrap();
    assert_eq!(orphan.snapshot().root, RootSnapshot::Kernel { kind: None });
    assert_eq!(orphan.restore().unwrap(), Restored::AsBefore);
    assert_eq!(route.link(LINK).unwrap(), before);
}

#[test]
fn a_foreign_qdisc_is_refused_or_put_back() {
    let lab = lab();
    let (mut route, index) = near(lab.near());
    let (theirs, kind) = (Handle::new(7, 0), QdiscKind::Bfifo { bytes: 77_000 });
    route.set_qdisc(index, theirs, Handle::ROOT, &kind, Mode::Create).unwrap();
    let error = Shaper::open(spec(&lab)).unwrap_err();
    assert!(matches!(&error, EgressError::ForeignQdisc { .. }), "{error}");
    assert!(error.to_string().contains("tc qdisc del dev quell0 root"), "{error}");
    assert_eq!(root(lab.near()).handle(), theirs, "refusing leaves it");

    let willing = ShaperSpec { takeover: Takeover::Replace, ..spec(&lab) };
    let mut shaper = Shaper::open(willing).unwrap();
    shaper.install().unwrap();
    assert_eq!(root(lab.near()).kind, "htb");
    assert_eq!(shaper.restore().unwrap(), Restored::AsBefore);
    let back = root(lab.near());
    assert_eq!((back.handle(), back.fifo_limit()), (theirs, Some(77_000)));
}

#[test]
fn a_foreign_tree_of_classes_is_never_replaced() {
    let lab = lab();
    let (mut route, index) = near(lab.near());
    let htb = QdiscKind::Htb { default: 1 };
    route.set_qdisc(index, Handle::new(1, 0), Handle::ROOT, &htb, Mode::Create).unwrap();
    let willing = ShaperSpec { takeover: Takeover::Replace, ..spec(&lab) };
    let error = Shaper::open(willing).unwrap_err();
    assert!(matches!(error, EgressError::ClassfulQdisc { .. }), "{error}");
}

#[test]
fn a_qdisc_that_came_after_us_is_left_when_restoring() {
    let lab = lab();
    let shaper = installed(&lab);
    let (mut route, index) = near(lab.near());
    route.delete_root(index, root(lab.near()).handle()).unwrap();
    let kind = QdiscKind::Pfifo { packets: 10 };
    route.set_qdisc(index, Handle::new(9, 0), Handle::ROOT, &kind, Mode::Create).unwrap();
    assert_eq!(shaper.restore().unwrap(), Restored::Replaced);
    assert_eq!(root(lab.near()).handle(), Handle::new(9, 0));
    let gso = route.link(LINK).unwrap().unwrap().gso_bytes;
    assert_eq!(gso, Some(65_536), "the packet size is ours to put back all the same");
}

#[test]
fn a_link_that_went_away_needs_no_restore_and_reads_as_a_gap() {
    let lab = lab();
    let mut shaper = installed(&lab);
    let (mut route, index) = near(lab.near());
    route.delete_link(index).unwrap();
    assert!(shaper.read().link.sent_bytes.is_err());
    assert!(shaper.read().ceilings.values().all(Result::is_err));
    let error = shaper.set_ceiling(&tenant("a"), None).unwrap_err();
    assert!(matches!(error, EgressError::NoLink { .. }), "{error}");
    let snapshot = shaper.snapshot().clone();
    assert_eq!(restore(&snapshot).unwrap(), Restored::LinkGone);
    for elsewhere in [
        LinkSnapshot { netns: Some("/run/netns/quell-test-none".into()), ..snapshot.clone() },
        LinkSnapshot { netns_inode: Some(1), ..snapshot.clone() },
    ] {
        assert_eq!(restore(&elsewhere).unwrap(), Restored::LinkGone);
    }
}

#[test]
fn bad_requests_are_answered_with_what_to_do() {
    let lab = lab();
    let text = |spec: ShaperSpec| Shaper::open(spec).unwrap_err().to_string();
    for (bad, part) in [
        (ShaperSpec { link: "quellnone".into(), ..spec(&lab) }, "no link \"quellnone\""),
        (ShaperSpec { netns: Some("/run/netns/quell-none".into()), ..spec(&lab) }, "quell-none"),
        (ShaperSpec { capacity: mbit(0.0), ..spec(&lab) }, "positive number"),
        (ShaperSpec { capacity: mbit(f64::NAN), ..spec(&lab) }, "positive number"),
        (ShaperSpec { tenants: vec![tenant("x"); 70_000], ..spec(&lab) }, "70000 tenants"),
    ] {
        let text = text(bad);
        assert!(text.contains(part), "{text}");
    }
    let error = installed(&lab).set_ceiling(&tenant("nobody"), None).unwrap_err().to_string();
    assert!(error.contains("nobody has no class on quell0"), "{error}");
}

#[test]
fn the_kernels_own_words_are_in_the_error() {
    let lab = lab();
    let _shaper = installed(&lab);
    let (mut route, index) = near(lab.near());
    let other = QdiscKind::Htb { default: 2 };
    let ours = root(lab.near()).handle();
    let error = route.set_qdisc(index, ours, Handle::ROOT, &other, Mode::Change).unwrap_err();
    assert!(error.to_string().contains("(kernel: Change operation not supported"), "{error}");
}
