//! Flows to a peer in another network namespace, over a link of 100 Mbit/s.

// Clippy allows it in test functions only, not in what they call.
#![allow(clippy::unwrap_used)]

use quell_pressure::{Intensity, NetworkOptions, Options, Plan, Resource, Sink, Stop, run};
use quell_types::Topology;
use std::path::PathBuf;
use std::process::Command;

/// The rate of the link between the namespaces.
const LINK_BITS_PER_S: f64 = 100e6;

/// Two namespaces with a link between them; removed with everything in them when dropped.
struct Net {
    names: [String; 2],
}

impl Net {
    fn new() -> Net {
        let names =
            ["a", "b"].map(|end| format!("quell-test-pressure-{}-{end}", std::process::id()));
        let net = Net { names };
        let [a, b] = &net.names;
        ip(&format!("netns add {a}"));
        ip(&format!("netns add {b}"));
        ip(&format!("-n {a} link add quell0 type veth peer name quell0 netns {b}"));
        for (name, address) in [(a, "10.91.0.1/24"), (b, "10.91.0.2/24")] {
            ip(&format!("-n {name} addr add {address} dev quell0"));
            ip(&format!("-n {name} link set quell0 up"));
        }
        command(
            "tc",
            &format!("-n {a} qdisc add dev quell0 root tbf rate 100mbit burst 16kb limit 150kb"),
        );
        net
    }

    fn path(&self, end: usize) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.names[end])
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

fn ip(arguments: &str) {
    command("ip", arguments);
}

fn command(program: &str, arguments: &str) {
    let output = Command::new(program).args(arguments.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {said}");
}

#[test]
fn flows_fill_the_link_or_a_share_of_it() {
    let net = Net::new();
    let sink = Sink::start("10.91.0.2:0".parse().unwrap(), Some(&net.path(1))).unwrap();
    let mut options = Options::new(Resource::NetworkBandwidth);
    options.network = NetworkOptions {
        peer: Some(sink.address()),
        netns: Some(net.path(0)),
        ..NetworkOptions::default()
    };
    options.seconds = 1.0;
    let mut seen = Vec::new();
    // (percent, rate given or to be learnt, lowest and highest share of the link)
    for (percent, given, low, high) in
        [(100.0, false, 0.7, 1.02), (50.0, true, 0.35, 0.6), (50.0, false, 0.3, 0.65)]
    {
        options.plan = Plan::Hold(Intensity::new(percent).unwrap());
        options.network.link_bits_per_s = given.then_some(LINK_BITS_PER_S);
        let fits = (0..5).any(|_| {
            let before = sink.bytes();
            let stop = Stop::new().unwrap();
            let report = run(&options, &Topology::default(), &stop, &mut |_| ()).unwrap();
            let arrived = sink.bytes() - before;
            assert!(report.work <= arrived, "more than arrived: {arrived}, {report:?}");
            let share = report.work_per_s * 8.0 / LINK_BITS_PER_S;
            seen.push((percent, given, share));
            (low..high).contains(&share)
        });
        assert!(fits, "{percent} % of the link, given {given}: {seen:?}");
    }
    println!("shares of the link: {seen:?}");
}
