//! A limit that holds nobody: CPU bandwidth is for the usual classes, and this culprit is in a real-time one.

use crate::common::{Ground, free_port, read, text, until};
use crate::who::Requests;
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

/// All of it shares this CPU: so its culprit leaves the other one to whoever tests meanwhile.
const CPU: &str = "1";
/// Works until it is killed, or for so long, whatever becomes of this test.
const SPIN: &str = "end=$(( $(date +%s) + 90 )); while [ $(date +%s) -lt $end ]; do i=0; \
                    while [ $i -lt 200000 ]; do i=$((i+1)); done; done";

/// Groups of v1 have no real-time threads unless they are given time for them, as those above them are.
fn allow_real_time(ground: &Ground, group: &str) {
    let own = ground.file_of(&ground.path(group), "cpu.shares");
    let file = |folder: &Path| folder.join("cpu.rt_runtime_us");
    let (own, above) = (own.parent().unwrap(), own.ancestors().nth(2).unwrap());
    for folder in [above, own] {
        if file(folder).exists() {
            fs::write(file(folder), "900000").unwrap();
        }
    }
}

fn redis(ground: &mut Ground) -> u16 {
    let port = free_port();
    let text = port.to_string();
    let redis =
        ["redis-server", "--port", &text, "--save", "", "--bind", "127.0.0.1", "--dir", "/"];
    ground.run("service", true, &[&["taskset", "-c", CPU][..], &redis].concat());
    until("redis", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
    port
}

#[test]
fn who_is_limited_and_runs_on_in_a_real_time_class_is_held_by_its_freezer() {
    let mut ground = Ground::new();
    let port = redis(&mut ground);
    allow_real_time(&ground, "batch");
    let spin = ["taskset", "-c", CPU, "chrt", "--fifo", "1", "sh", "-c", SPIN];
    ground.run("batch", false, &spin);
    let before = ground.texts();
    let _requests = Requests::to(port);
    let batch = format!("name=jobs,cgroup={}", ground.path("batch"));
    let mut guard = ground.guard_batch(&batch, &["--law", "culprit"]);
    guard.ready();
    let is_limited = |status: &Value| status["batch"]["jobs"]["budget_cpus"].is_f64();
    let is_frozen = |status: &Value| status["batch"]["jobs"]["frozen"] == true;
    guard.until("its being limited and frozen", |now| is_limited(now) && is_frozen(now));
    guard.until("its turn", |now| is_limited(now) && !is_frozen(now));
    let journal = read(&ground.state().join("decisions.jsonl"));
    for rule in ["\"convicted\"", "\"unheld\""] {
        assert!(
            journal.contains(rule),
            "{rule}: {}",
            text(&ground.quell(&["explain", "jobs"]).output().unwrap())
        );
    }
    assert_eq!(guard.stop(), Some(0), "{}", guard.log());
    assert_eq!(ground.texts(), before, "free, and at no limit");
}
