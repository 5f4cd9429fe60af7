//! `quell who` on this machine. Whether anybody hurts the service here depends on the machine; what
//! is said and left must be right in any case.

use crate::common::{Ground, text, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// Requests to a redis until it is dropped.
pub(crate) struct Requests(Child);

impl Requests {
    pub(crate) fn to(port: u16) -> Self {
        let count = ["-t", "get", "-c", "2", "-n", "100000000", "-q"];
        let child = Command::new("redis-benchmark")
            .args(["-p", &port.to_string()])
            .args(count)
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn who(ground: &Ground, port: u16, args: &[&str]) -> Command {
    let service = format!("name=web,cgroup={},ports={port}", ground.path("service"));
    let batch = format!("name=jobs,cgroup={}", ground.path("batch"));
    let mut command = ground.quell(&["who", "--service", &service, "--batch", &batch]);
    command.args(args);
    command
}

#[test]
fn a_service_is_looked_at_and_nothing_is_changed() {
    let mut ground = Ground::new();
    let port = ground.redis();
    ground.spin();
    let before = ground.texts();
    let _requests = Requests::to(port);
    let output = who(&ground, port, &["--seconds", "6", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["schema"], "quell.who/1");
    let victim = &said["victims"][0];
    assert_eq!(victim["workload"], "web");
    assert!(victim["slowdown"].as_f64().unwrap() >= 1.0, "{said}");
    for culprit in victim["culprits"].as_array().unwrap() {
        assert_eq!(culprit["workload"], "jobs");
        assert!((0.0..=1.0).contains(&culprit["confidence"].as_f64().unwrap()), "{said}");
    }
    assert_eq!(ground.texts(), before);
    let journal = std::fs::read_to_string(ground.state().join("decisions.jsonl")).unwrap();
    assert!(journal.contains("\"look\""), "every look is in the journal: {journal}");
}

#[test]
fn without_requests_nothing_is_said_and_ctrl_c_ends_it_well() {
    let mut ground = Ground::new();
    let port = ground.redis();
    let before = ground.texts();
    let mut child = who(&ground, port, &["--seconds", "600", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("its journal", || ground.state().join("decisions.jsonl").exists().then_some(()));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    until("its end", || child.try_wait().unwrap());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(said["victims"][0]["slowdown"].is_null(), "{said}");
    assert_eq!(ground.texts(), before);
}

/// A service that is busy and five groups: four that use a CPU for a tenth to a quarter of the time
/// and sleep for the rest, and one of four threads that never do. It weighs eight times as much as
/// they: with their weight the service stands mostly behind its own client, which is nobody's fault.
#[test]
fn who_starves_the_service_of_cpu_is_named_and_nobody_else() {
    let mut ground = Ground::new();
    let port = ground.redis();
    let innocents = [("a", "10"), ("b", "15"), ("c", "20"), ("d", "25")];
    for (name, intensity) in innocents {
        ground.make(name);
        ground.press(name, &["--threads", "1", "--intensity", intensity]);
    }
    ground.make("spin");
    let shares = ground.file_of(&ground.path("spin"), "cpu.shares");
    std::fs::write(shares, "8192").unwrap();
    ground.press("spin", &["--threads", "4", "--intensity", "100"]);
    let _requests = Requests::to(port);
    let service = format!("name=web,cgroup={},ports={port}", ground.path("service"));
    let mut command = ground.quell(&["who", "--service", &service, "--json", "--until-named"]);
    command.args(["--seconds", "30"]);
    for name in ["a", "b", "c", "d", "spin"] {
        command.args(["--batch", &format!("name={name},cgroup={}", ground.path(name))]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let victim = &said["victims"][0];
    let culprits = victim["culprits"].as_array().unwrap();
    let named: Vec<&Value> = culprits.iter().filter(|c| c["status"] == "named").collect();
    assert_eq!(named.len(), 1, "{said:#}");
    assert_eq!((&named[0]["workload"], &named[0]["resource"]), (&"spin".into(), &"cpu".into()));
    // Behind it, or behind others while it kept the other CPU.
    let stood: f64 =
        ["stood_frac", "elsewhere_frac"].iter().filter_map(|f| named[0][*f].as_f64()).sum();
    assert!(stood > 0.02, "{said:#}");
    assert_eq!(victim["cause"], "neighbour");
    assert!(victim["evidence"][0].as_str().unwrap().contains("stood"), "{said:#}");
}
