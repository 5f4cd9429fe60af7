//! Requests that cannot be told apart are a gap with its reason.

use crate::common::{LineServer, PING, Process, Redis, eventually, probes};
use quell_ebpf::ServiceKey;
use quell_types::Gap;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

fn benchmark(redis: &Redis, options: &[&str]) -> Process {
    let port = redis.port.to_string();
    let own = ["-p", &port, "-q", "-t", "ping,set,get", "-n", "20000", "-c", "4"];
    Process::start(Command::new("redis-benchmark").args(own).args(options))
}

#[test]
fn pipelined_requests_are_a_gap_and_single_ones_again_a_number() {
    let redis = Redis::start(&[]);
    let mut probes = probes();
    probes.set_service(0, ServiceKey::ports(&[redis.port])).unwrap();
    for options in [&["-P", "16"][..], &["-P", "2"], &["-P", "16", "-d", "1500"]] {
        assert!(benchmark(&redis, options).0.wait().unwrap().success());
        let counters = probes.read_counters(0).unwrap();
        let gap = probes.read_requests(0).unwrap().latency_ns.unwrap_err();
        println!("{options:?}: {gap}");
        assert!(matches!(&gap, Gap::Ambiguous(why) if why.starts_with("pipelined")), "{gap}");
        assert!(counters.untold * 10 > counters.requests * 8, "{options:?} {counters:?}");
    }
    let before = probes.read_counters(0).unwrap();
    assert!(benchmark(&redis, &["-d", "1500"]).0.wait().unwrap().success());
    let after = probes.read_counters(0).unwrap();
    assert!(probes.read_requests(0).unwrap().latency_ns.is_ok());
    // Four tests of 20,000, and what redis-benchmark asks about the configuration.
    let requests = after.requests - before.requests;
    assert!((80_000..80_010).contains(&requests), "{requests}");
}

/// What is sent at once, and whether it is more than one request. Servers answer once a line.
#[test]
fn segments_with_several_requests_are_recognised() {
    let value = "v".repeat(5000);
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000\r\n{value}\r\n");
    let binary = |requests: usize| {
        let mut one = vec![0x80, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4];
        one.extend([0; 12]);
        one.extend(b"key\n");
        one.repeat(requests)
    };
    let http = "GET /index HTTP/1.1\r\nHost: a\r\n\r\n";
    let cases: [(&str, Vec<u8>, bool); 13] = [
        ("one RESP", PING.into(), false),
        ("two RESP", PING.repeat(2), true),
        ("mixed RESP", [PING, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"].concat(), true),
        ("large RESP", set.clone().into(), false),
        ("two large RESP", set.repeat(2).into(), true),
        (
            "RESP that holds RESP",
            b"*2\r\n$4\r\nECHO\r\n$14\r\n*1\r\n$4\r\nPING\r\n\r\n".into(),
            false,
        ),
        ("one line", b"get key\r\n".into(), false),
        ("two lines", b"get key\r\nget yek\r\n".into(), true),
        ("a memcached set", b"set key 0 0 3\r\nabc\r\n".into(), false),
        ("one binary", binary(1), false),
        ("two binary", binary(2), true),
        ("one HTTP", http.into(), false),
        ("two HTTP", http.repeat(2).into(), true),
    ];
    let server = LineServer::start("127.0.0.1:0");
    let mut probes = probes();
    probes.set_service(0, ServiceKey::ports(&[server.port()])).unwrap();
    for (what, request, several) in cases {
        let before = probes.read_counters(0).unwrap();
        let lines = request.iter().filter(|&&byte| byte == b'\n').count();
        server.client().ask(&request, 3 * lines);
        let after = probes.read_counters(0).unwrap();
        assert_eq!(after.batches - before.batches, u64::from(several), "{what}");
        assert_eq!(after.requests - before.requests, 1, "{what}");
        assert_eq!(after.untold - before.untold, u64::from(several), "{what}");
    }
}

#[test]
fn requests_sent_without_waiting_are_recognised() {
    let server = LineServer::start_with("127.0.0.1:0", || {
        // Slow enough for the next request to arrive while this one waits.
        std::thread::sleep(Duration::from_millis(5));
    });
    let mut probes = probes();
    probes.set_service(0, ServiceKey::ports(&[server.port()])).unwrap();
    let mut client = server.client();
    const REQUEST: &[u8] = b"get some key\n";
    (0..10).for_each(|_| drop(client.ask(REQUEST, 3)));
    assert!(probes.read_requests(0).unwrap().latency_ns.is_ok());
    let gap = eventually("an overlap", || {
        (0..3).for_each(|_| client.0.write_all(REQUEST).unwrap());
        client.answer(9);
        probes.read_requests(0).unwrap().latency_ns.err().ok_or_else(|| "no gap".into())
    });
    assert!(matches!(&gap, Gap::Ambiguous(why) if why.starts_with("pipelined")), "{gap}");
    let counters = probes.read_counters(0).unwrap();
    assert!(counters.overlaps > 0 && counters.untold > 0, "{counters:?}");
    (0..100).for_each(|_| drop(client.ask(REQUEST, 3)));
    drop(probes.read_requests(0));
    (0..10).for_each(|_| drop(client.ask(REQUEST, 3)));
    assert!(probes.read_requests(0).unwrap().latency_ns.is_ok(), "it has ceased");
}

#[test]
fn http2_is_known_by_its_preface() {
    let server = LineServer::start("127.0.0.1:0");
    let mut probes = probes();
    probes.set_service(0, ServiceKey::ports(&[server.port()])).unwrap();
    let mut client = server.client();
    client.ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 12);
    for _ in 0..10 {
        client.ask(b"frames\n", 3);
    }
    let reading = probes.read_requests(0).unwrap();
    let gap = reading.latency_ns.unwrap_err();
    assert!(matches!(&gap, Gap::Ambiguous(why) if why.starts_with("multiplexed")), "{gap}");
    assert_eq!((reading.requests, reading.bytes_in), (0, 24 + 70));
}

#[test]
fn one_way_traffic_is_a_gap() {
    let server = LineServer::start("127.0.0.1:0");
    let mut probes = probes();
    probes.set_service(0, ServiceKey::ports(&[server.port()])).unwrap();
    let mut client = server.client();
    // No line end, so no answer.
    let gap = eventually("enough segments", || {
        client.0.write_all(b"telemetry;").unwrap();
        probes.read_requests(0).unwrap().latency_ns.err().ok_or_else(|| "no gap".into())
    });
    assert!(matches!(&gap, Gap::Ambiguous(why) if why.starts_with("one-way")), "{gap}");
}

#[test]
fn what_a_server_says_unasked_is_no_answer() {
    let redis = Redis::start(&[]);
    let mut probes = probes();
    probes.set_service(0, ServiceKey::ports(&[redis.port])).unwrap();
    let mut listener = redis.client("127.0.0.1");
    listener.ask(b"SUBSCRIBE c\r\n", 30);
    let mut speaker = redis.client("127.0.0.1");
    for _ in 0..100 {
        speaker.ask(b"PUBLISH c hello\r\n", 4);
        listener.answer("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n".len());
    }
    let counters = probes.read_counters(0).unwrap();
    assert_eq!((counters.requests, counters.more_out), (101, 100), "{counters:?}");
}
