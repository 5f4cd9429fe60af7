//! Services, senders and pods behind veth pairs.

use crate::common::{Cgroup, Client, Netns, Redis, eventually, free_port, probes};
use quell_ebpf::{Listener, Options, Probes, ServiceKey, listening_sockets};
use std::path::Path;

/// redis within a namespace, and where the finder says that it listens.
fn redis_in(netns: &Netns, group: &Cgroup, port: u16) -> (Redis, Vec<Listener>) {
    let redis = Redis::start_by(&["ip", "netns", "exec", &netns.0], &[group], port);
    let listeners = eventually("redis listens", || {
        let found = listening_sockets(Path::new("/proc"), &[redis.process.pid()]).unwrap();
        let ours: Vec<_> = found.into_iter().filter(|s| s.address.port() == port).collect();
        if ours.len() == 2 { Ok(ours) } else { Err(format!("{ours:?}")) }
    });
    (redis, listeners.into_iter().map(Listener::from).collect())
}

fn client_in(netns: &Netns, address: &str, port: u16) -> Client {
    netns.run(|| Client::connect((address.parse::<std::net::IpAddr>().unwrap(), port).into()))
}

#[test]
fn meters_one_of_two_servers_on_the_same_port() {
    let (server, other, client) = (Netns::new("s"), Netns::new("o"), Netns::new("c"));
    server.link(&client, "va", "vb", "10.71.1");
    other.link(&client, "va", "vc", "10.71.2");
    let group = Cgroup::v1_if_any("netns");
    let port = free_port();
    let (_guarded, listeners) = redis_in(&server, &group, port);
    let (_foreign, foreign) = redis_in(&other, &group, port);
    assert_ne!(listeners[0].netns, foreign[0].netns);
    let mut probes = probes();
    probes.set_service(0, ServiceKey { listeners, cgroup_ids: vec![] }).unwrap();
    let mut near = client_in(&client, "10.71.1.1", port);
    let mut far = client_in(&client, "10.71.2.1", port);
    for round in 0..400 {
        near.ping();
        if round % 2 == 0 {
            far.ping();
        }
    }
    let counters = probes.read_counters(0).unwrap();
    assert_eq!((counters.requests, counters.connections), (400, 1), "{counters:?}");
    probes.set_service(1, ServiceKey { listeners: foreign, cgroup_ids: vec![] }).unwrap();
    far.ping();
    assert_eq!(probes.read_requests(1).unwrap().requests, 1);
}

const VALUE: usize = 1_000_000;
const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
/// `$1000000\r\n`, the value, `\r\n`.
const ANSWER: usize = 10 + VALUE + 2;

fn store_value(client: &mut Client) {
    let mut set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${VALUE}\r\n").into_bytes();
    set.resize(set.len() + VALUE, b'x');
    set.extend(b"\r\n");
    client.ask(&set, 5);
}

/// An HTB qdisc whose classes 1:10 (the default) and 1:20 do not limit here.
fn htb(netns: &Netns, interface: &str) {
    let class = |minor: u32| {
        format!(
            "tc class add dev {interface} parent 1: classid 1:{minor} htb rate 10gbit \
             burst 1m cburst 1m quantum 60000"
        )
    };
    let root = format!("tc qdisc add dev {interface} root handle 1: htb default 10");
    netns.sh(&format!("{root} && {} && {}", class(10), class(20)));
}

/// Bytes that left by a class, from `tc -s class`.
fn class_bytes(netns: &Netns, interface: &str, class: &str) -> u64 {
    let shown = netns.sh(&format!("tc -s class show dev {interface} classid {class}"));
    let words: Vec<&str> = shown.split_whitespace().collect();
    let at = words.iter().position(|&word| word == "Sent").unwrap();
    words[at + 1].parse().unwrap()
}

#[test]
fn bytes_sent_by_a_group_are_counted_and_classified() {
    counted_and_classified(false);
}

/// Sockets of a metered service remember their group: not longer than it is so.
#[test]
fn bytes_sent_by_a_metered_service_are_counted_and_classified() {
    counted_and_classified(true);
}

fn counted_and_classified(metered: bool) {
    let (server, client) = (Netns::new("s"), Netns::new("c"));
    server.link(&client, "va", "vb", "10.72.1");
    htb(&server, "va");
    let above = Cgroup::v2("sender");
    let below = Cgroup::below(&above.0, "below");
    let port = free_port();
    let (_redis, listeners) = redis_in(&server, &below, port);
    let mut probes = probes();
    if metered {
        probes.set_service(0, ServiceKey { listeners, cgroup_ids: vec![] }).unwrap();
    }
    let mut far = client_in(&client, "10.72.1.1", port);
    let mut inside = client_in(&server, "127.0.0.1", port);
    store_value(&mut inside);
    probes.track_egress(above.id(), 7).unwrap();
    probes.set_class(above.id(), Some(0x1_0020)).unwrap();
    let fetch = |client: &mut Client, times| {
        (0..times).for_each(|_| assert_eq!(client.ask(GET, ANSWER).len(), ANSWER));
    };
    let payload = (20 * ANSWER) as f64;
    fetch(&mut inside, 20);
    assert!((probes.read_egress(7).unwrap() as f64) < 0.01 * payload, "loopback is no link");
    fetch(&mut far, 20);
    let counted = probes.read_egress(7).unwrap() as f64;
    let class = class_bytes(&server, "va", "1:20") as f64;
    println!("{payload} bytes of payload: {counted} counted, {class} in the class");
    // The headers of every segment: 52 bytes to 1448 of payload; HTB counts Ethernet's 14 more.
    assert!((1.02..1.06).contains(&(counted / payload)), "{counted} against {payload}");
    assert!((0.97..=1.03).contains(&(class / counted)), "{class} against {counted}");
    probes.set_class(above.id(), None).unwrap();
    probes.untrack_egress(above.id()).unwrap();
    fetch(&mut far, 2);
    let default = class_bytes(&server, "va", "1:10") as f64;
    assert!(default > 1.9 * ANSWER as f64, "unmarked again, by the default class: {default}");
    assert!(probes.read_egress(7).is_err());
    let requests = probes.read_requests(0).map_or(0, |reading| reading.requests);
    assert_eq!(requests, if metered { 43 } else { 0 }, "one to store, 40 while tracked, 2 after");
}

#[test]
fn what_a_pod_sends_is_classified_on_the_node() {
    let (pod, node, outside) = (Netns::new("p"), Netns::new("n"), Netns::new("o"));
    node.link(&pod, "veth1", "eth0", "10.73.1");
    node.link(&outside, "nic", "eth0", "10.73.2");
    pod.sh("ip route add default via 10.73.1.1");
    outside.sh("ip route add default via 10.73.2.1");
    node.sh("echo 1 > /proc/sys/net/ipv4/ip_forward");
    htb(&node, "nic");
    let group = Cgroup::v2("pod");
    let port = free_port();
    let (_redis, _) = redis_in(&pod, &group, port);
    let mut client = client_in(&outside, "10.73.1.2", port);
    store_value(&mut client);
    let before = class_bytes(&node, "nic", "1:20");
    assert_eq!(before, 0);
    let probes = node.run(|| {
        let mut probes = Probes::load(Options::default()).unwrap();
        probes.mark_veth("veth1", 0x1_0020).unwrap();
        probes.attach_nic("nic").unwrap();
        probes
    });
    for _ in 0..5 {
        client.ask(GET, ANSWER);
    }
    let marked = class_bytes(&node, "nic", "1:20") as usize;
    assert!(marked > 5 * ANSWER, "{marked}");
    drop(probes);
    client.ask(GET, ANSWER);
    let after = class_bytes(&node, "nic", "1:20") as usize;
    assert!(after < marked + ANSWER / 2, "detached: {after} after {marked}");
}

/// Loss on the way: requests are counted once, retransmissions apart.
#[test]
fn retransmissions_are_no_requests() {
    let (server, client) = (Netns::new("s"), Netns::new("c"));
    server.link(&client, "va", "vb", "10.74.1");
    // A queue too short for an answer drops parts of it.
    server.sh("tc qdisc add dev va root tbf rate 200mbit burst 10kb limit 30kb");
    server.sh("ip link set va gso_max_size 3000 || true");
    let group = Cgroup::v1_if_any("loss");
    let port = free_port();
    let (_redis, listeners) = redis_in(&server, &group, port);
    let mut local = client_in(&server, "127.0.0.1", port);
    store_value(&mut local);
    let mut probes = probes();
    probes.set_service(0, ServiceKey { listeners, cgroup_ids: vec![] }).unwrap();
    let mut far = client_in(&client, "10.74.1.1", port);
    let mut asked = 0;
    eventually("a retransmission", || {
        far.ask(GET, ANSWER);
        asked += 1;
        let counters = probes.read_counters(0).unwrap();
        if counters.duplicates_out > 0 { Ok(()) } else { Err(format!("{counters:?}")) }
    });
    let counters = probes.read_counters(0).unwrap();
    assert_eq!(counters.requests, asked, "{counters:?}");
    assert_eq!(counters.bytes_out, asked * ANSWER as u64, "{counters:?}");
}
