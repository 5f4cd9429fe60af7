//! What a guard does while it lives.

use crate::common::{Ground, QUELL, file_in, read, text, until};
use serde_json::Value;
use std::process::{Command, Stdio};

fn qps(status: &Value) -> f64 {
    status["services"]["web"]["qps"].as_f64().unwrap_or(0.0)
}

#[test]
fn it_sees_load_limits_batch_explains_and_puts_everything_back() {
    let mut ground = Ground::new();
    let port = ground.redis();
    ground.spin();
    let before = ground.texts();
    let mut guard = ground.guard(&["--law", "quell", "--bpf-stats"]);
    guard.ready();
    let mut load = Command::new("redis-benchmark")
        .args(["-p", &port.to_string(), "-t", "get", "-c", "4", "-n", "300000", "-q"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let status = guard.until("load", |status| {
        qps(status) > 100.0 && status["services"]["web"]["p99_ms"].is_f64()
    });
    let _ = load.kill();
    load.wait().unwrap();
    assert_eq!(status["schema"], "quell.status/1");
    assert!(status["agent"]["rss_bytes"].is_u64(), "{status:#}");
    assert!(status["agent"]["bpf_cpu_frac"].is_f64(), "{status:#}");
    let idle = file_in(&ground, "cpu.idle");
    until("the idle class", || (read(&idle) == "1").then_some(()));
    let explained = text(&ground.quell(&["explain", "jobs"]).output().unwrap());
    assert!(explained.contains("idle class") && explained.contains("rule"), "{explained}");
    let json = ground.quell(&["explain", "jobs", "--json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["agent"]["state"], "running");
    assert_eq!(guard.stop(), Some(0), "{}", guard.log());
    assert_eq!(ground.texts(), before);
    assert_eq!(guard.status().unwrap()["state"], "stopped");
    let after = text(&ground.quell(&["explain", "jobs"]).output().unwrap());
    assert!(after.contains("not limited"), "{after}");
}

#[test]
fn a_service_that_dies_and_comes_back_elsewhere_is_found_again() {
    let mut ground = Ground::new();
    let port = ground.redis();
    let mut guard = ground.guard(&[
        "--law",
        "os-only",
        "--set",
        "agent.fast_interval_s=0.2",
        "--set",
        "agent.interval_s=0.2",
    ]);
    guard.ready();
    ground.remove("service");
    guard.until("the gap", |status| status["services"]["web"]["cpu_cpus"]["gap"].is_string());
    ground.make("service");
    ground.redis_at(port);
    let mut load = Command::new("redis-benchmark")
        .args(["-p", &port.to_string(), "-t", "get", "-c", "2", "-n", "200000", "-q"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    guard.until("its requests", |status| qps(status) > 100.0);
    let _ = load.kill();
    load.wait().unwrap();
    let before = ground.texts();
    assert_eq!(guard.stop(), Some(0), "{}", guard.log());
    let changed: Vec<_> = ground.texts().into_iter().filter(|(p, t)| before[p] != *t).collect();
    assert!(
        changed.iter().all(|(p, _)| p.starts_with("/sys/fs/cgroup") && !p.ends_with("cpuset.cpus")),
        "{changed:?}"
    );
}

#[test]
fn a_reload_takes_a_good_configuration_and_leaves_a_bad_one() {
    let ground = Ground::new();
    let file = ground.folder.path().join("quell.toml");
    let write = |law: &str| {
        let (service, batch) = (ground.path("service"), ground.path("batch"));
        let text = format!(
            "[agent]\nlaw = \"{law}\"\nmetrics = \"{}\"\ninterval_s = 0.2\n\
             fast_interval_s = 0.1\n\
             [[service]]\nname = \"web\"\ncgroup = \"{service}\"\np99 = \"20ms\"\n\
             [[batch]]\nname = \"jobs\"\ncgroup = \"{batch}\"\ntasks = true\n",
            ground.folder.path().join("metrics.sock").display()
        );
        std::fs::write(&file, text).unwrap();
    };
    write("none");
    let added = ground.quell(&["batch"]).args(["add", "--", "sleep", "60"]).output().unwrap();
    assert!(added.status.success(), "{}", text(&added));
    let task = || {
        let listed = ground.quell(&["batch"]).args(["list", "--json"]).output().unwrap();
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        listed["tasks"][0].clone()
    };
    let before = ground.texts();
    let mut command = ground.quell(&["guard"]);
    command.arg("--config").arg(&file).arg("--status-json").arg(ground.status_file());
    let mut guard = crate::common::Guard::start(&mut command, &ground);
    assert_eq!(guard.ready()["law"], "none");
    let running = until("its task", || Some(task()).filter(|task| task["state"] == "running"));
    write("nonsense");
    guard.signal("-HUP");
    until("the refusal", || guard.log().contains("not reloaded").then_some(()));
    assert!(guard.log().contains("nonsense"), "{}", guard.log());
    write("os-only");
    guard.signal("-HUP");
    guard.until("the new law", |status| status["law"] == "os-only");
    let idle = file_in(&ground, "cpu.idle");
    until("the idle class", || (read(&idle) == "1").then_some(()));
    assert_eq!(task()["pid"], running["pid"], "it runs on: {}", task());
    let socket = ground.folder.path().join("metrics.sock");
    let ask = |args: &[&str]| Command::new(QUELL).args(args).arg(&socket).output().unwrap();
    let asked = ask(&["who", "--json", "--agent"]);
    let who: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert_eq!(who["victims"][0]["workload"], "web", "{}", text(&asked));
    let refused = ask(&["who", "--until-named", "--agent"]);
    assert!(text(&refused).contains("are for looking"), "{}", text(&refused));
    let scraped = Command::new("curl")
        .args(["-s", "--unix-socket"])
        .arg(ground.folder.path().join("metrics.sock"))
        .arg("http://quell/metrics")
        .output();
    if let Ok(scraped) = scraped {
        assert!(text(&scraped).contains("quell_batch_frozen{batch=\"jobs\"} 0"));
    }
    assert_eq!(guard.stop(), Some(0), "{}", guard.log());
    assert_eq!(ground.texts(), before);
    assert_eq!(task()["state"], "ready", "stopped with the agent");
    assert!(!ground.folder.path().join("metrics.sock").exists());
}
