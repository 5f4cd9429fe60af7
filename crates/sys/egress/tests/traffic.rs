//! What the shaper does to real traffic on the 100 Mbit/s link of T-E3.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[allow(dead_code)]
mod common;

use common::{PAYLOAD_SHARE, eventually, installed, lab, mbit, near, near_to, rate_of, tenant};
use quell_egress::lab::{Bulk, Echo, EchoLoad, FAR, LINK, Lab, NEAR, Sink};
use quell_egress::{class_of, service_class};
use std::net::SocketAddr;
use std::time::Duration;

fn sink(lab: &Lab) -> Sink {
    Sink::start(lab.far(), SocketAddr::from((FAR, 0))).unwrap()
}

#[test]
fn a_ceiling_limits_and_a_change_takes_one_call() {
    let lab = lab();
    let mut shaper = installed(&lab);
    let sink = sink(&lab);
    shaper.set_ceiling(&tenant("a"), Some(mbit(20.0))).unwrap();
    let _bulk = Bulk::start(lab.near(), sink.address(), 2, Some(class_of(0))).unwrap();
    let mut sent = 0;
    for megabits in [20.0, 60.0, 10.0] {
        shaper.set_ceiling(&tenant("a"), Some(mbit(megabits))).unwrap();
        let wanted = mbit(megabits).0 * PAYLOAD_SHARE;
        eventually(
            &format!("bytes/s arriving under a ceiling of {wanted}"),
            || rate_of(|| sink.bytes()),
            |&rate| near_to(rate, wanted, 0.10),
        );
        let now = shaper.read().link;
        let by_tenant = now.by_tenant_bytes[&tenant("a")].clone().unwrap();
        assert!(by_tenant > sent && now.sent_bytes.unwrap() >= by_tenant);
        sent = by_tenant;
    }
    assert!(shaper.read().link.backlog_bytes.unwrap() > 0, "the senders are held back");
}

#[test]
fn counters_only_grow_though_their_class_is_made_anew() {
    let lab = lab();
    let mut shaper = installed(&lab);
    let sink = sink(&lab);
    let _bulk = Bulk::start(lab.near(), sink.address(), 1, Some(class_of(0))).unwrap();
    let a = tenant("a");
    let mut bytes = || shaper.read().link.by_tenant_bytes[&a].clone().unwrap();
    let before = eventually("bytes of a", &mut bytes, |&bytes| bytes > 1_000_000);
    let (mut route, index) = near(lab.near());
    route.delete_class(index, quell_egress::route::Handle(class_of(0))).unwrap();
    shaper.set_ceiling(&a, None).unwrap();
    let after = shaper.read().link.by_tenant_bytes[&a].clone().unwrap();
    assert!(after >= before, "{before} then {after}");
}

#[test]
fn services_keep_their_rate_while_batch_is_capped() {
    let lab = lab();
    let mut shaper = installed(&lab);
    let (served, batch) = (sink(&lab), sink(&lab));
    shaper.set_ceiling(&tenant("a"), Some(mbit(20.0))).unwrap();
    let _bulk = Bulk::start(lab.near(), batch.address(), 4, Some(class_of(0))).unwrap();
    let _service = Bulk::start(lab.near(), served.address(), 1, None).unwrap();
    eventually(
        "bytes/s of the service beside batch capped at a fifth of the link",
        || (rate_of(|| served.bytes()), rate_of(|| batch.bytes())),
        |&(service, batch)| service > 0.75 * mbit(100.0).0 && batch < 0.25 * mbit(100.0).0,
    );
    // Even without a ceiling, batch only borrows what services leave.
    shaper.set_ceiling(&tenant("a"), None).unwrap();
    eventually(
        "bytes/s of a service that fills the link beside unlimited batch",
        || (rate_of(|| served.bytes()), rate_of(|| batch.bytes())),
        |&(service, batch)| service > 0.85 * mbit(100.0).0 && batch < 0.1 * service,
    );
}

/// TCP learns the packet size of a link when it connects: open connections must learn the new one.
#[test]
fn packets_of_open_connections_become_small() {
    let lab = lab();
    let sink = sink(&lab);
    let _bulk = Bulk::start(lab.near(), sink.address(), 4, Some(class_of(0))).unwrap();
    eventually("bytes that arrived", || sink.bytes(), |&bytes| bytes > 1_000_000);
    let mut shaper = installed(&lab);
    shaper.set_ceiling(&tenant("a"), Some(mbit(50.0))).unwrap();
    let (mut route, index) = near(lab.near());
    let most = route.link(LINK).unwrap().unwrap().gso_bytes.unwrap();
    // The largest mean size of what waits, over a fifth of a second.
    let mut largest = || {
        let mut largest = 0;
        for _ in 0..20 {
            let classes = route.classes(index).unwrap();
            let stats = classes.iter().find(|c| c.handle == class_of(0)).unwrap().stats.unwrap();
            largest = largest.max(stats.backlog_bytes / stats.queued_packets.max(1));
            std::thread::sleep(Duration::from_millis(10));
        }
        largest
    };
    let fits = |&size: &u32| size > 0 && size <= most;
    eventually("bytes of a packet that waits", &mut largest, fits);
}

#[test]
fn an_echo_is_slow_beside_bulk_and_quick_again_under_the_shaper() {
    let lab = lab();
    let sink = sink(&lab);
    let echo = Echo::start(lab.near(), SocketAddr::from((NEAR, 0))).unwrap();
    let load = EchoLoad {
        duration: Duration::from_millis(500),
        every: Duration::from_millis(2),
        bytes: 100,
    };
    let median = || {
        let mut trips = load.measure(lab.far(), echo.address()).unwrap();
        trips.sort();
        trips[trips.len() / 2].as_secs_f64()
    };
    let alone = median();
    let _bulk = Bulk::start(lab.near(), sink.address(), 4, Some(class_of(0))).unwrap();
    let none = eventually("median trip beside bulk", median, |&trip| trip >= 10.0 * alone);

    let mut shaper = installed(&lab);
    shaper.set_ceiling(&tenant("a"), Some(mbit(90.0))).unwrap();
    let bytes = || lab.wire_bytes().unwrap();
    eventually(
        "median trip and bytes/s under the shaper",
        || (rate_of(bytes), median()),
        |&(rate, trip)| rate >= 0.85 * mbit(100.0).0 && trip - alone < (none - alone) / 20.0,
    );
    let limits = near(lab.near()).0.link(LINK).unwrap().unwrap();
    assert!(limits.gso_bytes.unwrap() < 10_000 && service_class() != class_of(0));
}
