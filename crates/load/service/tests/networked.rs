//! Client and server in two network namespaces (L-2, networked). Needs root.

#![allow(clippy::unwrap_used)]

mod common;

use common::{plan, small_search, this_test_as_server};
use quell_service::{Bench, Controls, LoadError, ServeOptions, Target, serve_command};
use std::process::Command;

/// Not a test: the server process of the test below.
#[test]
#[ignore = "becomes the server process of other tests"]
fn server_process() {
    serve_command(&std::env::args().next_back().unwrap()).unwrap();
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
}

/// Two namespaces joined by a veth pair; removed with all that is in them.
struct Namespaces {
    client: String,
    server: String,
}

impl Namespaces {
    fn new() -> Self {
        let name = |side| format!("quell-test-service-{}-{side}", std::process::id());
        let both = Self { client: name("c"), server: name("s") };
        for name in [&both.client, &both.server] {
            ip(&format!("netns add {name}"));
        }
        let (c, s) = (&both.client, &both.server);
        ip(&format!("-n {c} link add quell0 type veth peer name quell0 netns {s}"));
        for (name, address) in [(c, "10.111.0.1/24"), (s, "10.111.0.2/24")] {
            ip(&format!("-n {name} addr add {address} dev quell0"));
            ip(&format!("-n {name} link set quell0 up"));
        }
        both
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.client, &self.server] {
            // Perhaps it never came to be.
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

#[test]
fn search_between_two_namespaces() {
    let namespaces = Namespaces::new();
    let serve = ServeOptions {
        spec: small_search(),
        listen: "10.111.0.2:0".parse().unwrap(),
        threads: 2,
        netns: Some(namespaces.server.clone()),
    };
    let target = Target::Spawned { launch: this_test_as_server(), serve };
    let bench = Bench::open(&target, Some(&namespaces.client)).unwrap();
    assert_eq!(bench.address().unwrap().ip().to_string(), "10.111.0.2");
    let run = bench.run(&plan(200.0, 1.0), &Controls::default(), &mut |_| ()).unwrap();
    assert!(run.offered > 100);
    assert_eq!((run.answered, run.failed), (run.offered, 0), "{run:?}");
    assert!(run.service.unwrap().mean_ms > 0.0);
    // From here the address does not exist: the client really was in its namespace.
    let outside = Target::Served { address: bench.address().unwrap(), spec: small_search() };
    let bench = Bench::open(&outside, Some("quell-test-service-absent")).unwrap();
    let error = bench.run(&plan(10.0, 0.1), &Controls::default(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Netns { .. }), "{error}");
}
