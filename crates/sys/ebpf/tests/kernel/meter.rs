//! The request meter: what it counts, and what it leaves out.

use crate::common::{Cgroup, Client, LineServer, PING, Redis, eventually, probes};
use quell_ebpf::{EbpfError, Listener, Probes, ServiceKey, listening_sockets};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

fn requests(probes: &mut Probes, service: u32) -> u64 {
    probes.read_requests(service).unwrap().requests
}

#[test]
fn counts_every_request_of_a_server_started_first_in_a_v1_group() {
    let group = Cgroup::v1_if_any("first");
    let redis = Redis::start(&[&group]);
    let mut old = redis.client("127.0.0.1");
    old.ping();
    let mut probes = probes();
    let found = listening_sockets(Path::new("/proc"), &[redis.process.pid()]).unwrap();
    assert!(found.iter().all(|socket| socket.address.port() == redis.port) && found.len() == 2);
    let listeners: Vec<Listener> = found.into_iter().map(Listener::from).collect();
    probes.set_service(0, ServiceKey { listeners, cgroup_ids: vec![] }).unwrap();
    let mut young = redis.client("127.0.0.1");
    for _ in 0..1000 {
        old.ping();
        young.ping();
    }
    let reading = probes.read_requests(0).unwrap();
    assert_eq!(reading.requests, 2000);
    assert_eq!((reading.bytes_in, reading.bytes_out), (2000 * 14, 2000 * 7));
    assert_eq!(reading.latency_ns.unwrap().count(), 2000);
}

#[test]
fn counts_ipv4_and_ipv6_and_one_within_the_other() {
    let redis = Redis::start(&[]);
    let dual = LineServer::start("[::]:0");
    let mut probes = probes();
    let listener = |address: &str| Listener {
        address: Some(address.parse().unwrap()),
        port: redis.port,
        netns: None,
    };
    let only = |address| ServiceKey { listeners: vec![listener(address)], cgroup_ids: vec![] };
    probes.set_service(0, only("127.0.0.1")).unwrap();
    probes.set_service(1, only("::1")).unwrap();
    probes.set_service(2, ServiceKey::ports(&[dual.port()])).unwrap();
    let (mut v4, mut v6) = (redis.client("127.0.0.1"), redis.client("::1"));
    let mut mapped = Client::connect(([127, 0, 0, 1], dual.port()).into());
    let mut direct = Client::connect((std::net::Ipv6Addr::LOCALHOST, dual.port()).into());
    for round in 0..90 {
        v4.ping();
        mapped.ask(b"GET a\n", 3);
        if round % 3 == 0 {
            v6.ping();
            direct.ask(b"GET a\n", 3);
        }
    }
    assert_eq!([0, 1, 2].map(|index| requests(&mut probes, index)), [90, 30, 120]);
}

#[test]
fn large_requests_and_answers_count_once() {
    const VALUE: usize = 3_000_000;
    let redis = Redis::start(&[]);
    let mut probes = probes();
    probes.set_service(0, ServiceKey::ports(&[redis.port])).unwrap();
    let mut client = redis.client("127.0.0.1");
    let mut set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${VALUE}\r\n").into_bytes();
    set.resize(set.len() + VALUE, b'x');
    set.extend(b"\r\n");
    let header = format!("${VALUE}\r\n").len();
    for _ in 0..5 {
        client.ask(&set, 5);
        client.ask(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", header + VALUE + 2);
    }
    let counters = probes.read_counters(0).unwrap();
    assert_eq!(counters.requests, 10, "{counters:?}");
    assert!(counters.pieces > 10 && counters.more_out > 10, "{counters:?}");
    assert_eq!(counters.bytes_in as usize, 5 * (set.len() + 20));
    assert_eq!(counters.bytes_out as usize, 5 * (header + VALUE + 2 + 5));
    assert!(probes.read_requests(0).unwrap().latency_ns.is_ok());
}

#[test]
fn a_slow_client_is_not_blamed_on_the_service() {
    let redis = Redis::start(&[]);
    let mut probes = probes();
    probes.set_service(0, ServiceKey::ports(&[redis.port])).unwrap();
    let mut client = redis.client("127.0.0.1");
    for _ in 0..20 {
        for byte in &PING[..PING.len() - 1] {
            client.0.write_all(std::slice::from_ref(byte)).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        client.ask(b"\n", 7);
    }
    let reading = probes.read_requests(0).unwrap();
    let latency = reading.latency_ns.unwrap();
    assert_eq!((reading.requests, latency.count()), (20, 20));
    let sending_ns = 13.0 * 2e6;
    assert!(latency.quantile(0.5).unwrap() < sending_ns / 4.0, "{:?}", latency.quantile(0.5));
}

#[test]
fn calls_that_the_service_makes_itself_are_not_counted() {
    let group = Cgroup::v2("replica");
    let (master, replica) = (Redis::start(&[]), Redis::start(&[&group]));
    let mut control = replica.client("127.0.0.1");
    let mut probes = probes();
    let key = ServiceKey { listeners: vec![], cgroup_ids: vec![group.id()] };
    probes.set_service(0, key).unwrap();
    // Opened before the meter: of a service known by its cgroup alone it is not counted.
    control.ask(format!("REPLICAOF 127.0.0.1 {}\r\n", master.port).as_bytes(), 5);
    let mut writer = master.client("127.0.0.1");
    let mut reader = replica.client("127.0.0.1");
    let mut asked = 0;
    eventually("replication", || {
        writer.ask(b"SET k v\r\n", 5);
        asked += 1;
        // "$-1" while nothing has arrived, an error while the replica loads, else "$1".
        let mut answer = reader.ask(b"GET k\r\n", 4);
        while !answer.ends_with(b"\r\n") {
            answer.extend(reader.answer(1));
        }
        if answer != b"$1\r\n" {
            return Err(format!("{}", String::from_utf8_lossy(&answer)));
        }
        reader.answer(3);
        Ok(())
    });
    for _ in 0..200 {
        writer.ask(b"SET k v\r\n", 5);
    }
    let counters = probes.read_counters(0).unwrap();
    assert_eq!((counters.requests, counters.connections), (asked, 1), "{counters:?}");
}

#[test]
fn sockets_of_a_cgroup_below_count_for_the_group_above() {
    let above = Cgroup::v2("above");
    let below = Cgroup::below(&above.0, "below");
    let mut probes = probes();
    let key = ServiceKey { listeners: vec![], cgroup_ids: vec![above.id()] };
    probes.set_service(0, key.clone()).unwrap();
    let redis = Redis::start(&[&below]);
    let mut client = redis.client("127.0.0.1");
    for _ in 0..50 {
        client.ping();
    }
    // Redis::start has asked once; another service that comes or goes changes nothing.
    probes.set_service(1, ServiceKey::ports(&[1])).unwrap();
    client.ping();
    probes.remove_service(1).unwrap();
    client.ping();
    assert_eq!(requests(&mut probes, 0), 53);
}

#[test]
fn listening_ports_change_live() {
    let (first, second) = (Redis::start(&[]), Redis::start(&[]));
    let mut probes = probes();
    let ports = |ports: &[u16]| ServiceKey::ports(ports);
    probes.set_service(3, ports(&[first.port])).unwrap();
    let (mut one, mut two) = (first.client("127.0.0.1"), second.client("127.0.0.1"));
    let mut both = |count| {
        for _ in 0..count {
            one.ping();
            two.ping();
        }
    };
    both(10);
    assert_eq!(requests(&mut probes, 3), 10);
    probes.set_service(3, ports(&[first.port, second.port])).unwrap();
    both(10);
    assert_eq!(requests(&mut probes, 3), 30);
    probes.set_service(3, ports(&[second.port])).unwrap();
    both(10);
    assert_eq!(requests(&mut probes, 3), 40);
    let taken = probes.set_service(4, ports(&[second.port])).unwrap_err();
    assert!(matches!(taken, EbpfError::Conflict { first: 3, second: 4, .. }), "{taken}");
    probes.remove_service(3).unwrap();
    assert!(probes.read_requests(3).is_err());
    probes.set_service(3, ports(&[first.port])).unwrap();
    both(5);
    assert_eq!(requests(&mut probes, 3), 5, "a new service counts from zero");
}
