//! A batch task from the command line to its end.

use crate::common::{Ground, text, until};
use serde_json::Value;

#[test]
fn a_task_runs_in_its_group_and_its_output_is_kept() {
    let ground = Ground::new();
    let batch = |args: &[&str]| {
        let output = ground.quell(&["batch"]).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output));
        text(&output)
    };
    let script = "pwd; cat /proc/self/cgroup; exit 4";
    let added = batch(&["add", "--tenant", "jobs", "--dir", "/", "--", "sh", "-c", script]);
    assert!(added.starts_with("task 1 is ready; no agent runs yet"), "{added}");
    assert!(added.contains("tasks = true"), "{added}");
    batch(&["add", "--", "sleep", "60"]);
    let mut guard = ground.guard(&["--law", "os-only"]);
    let tasks = || -> Value {
        let json = batch(&["list", "--json"]);
        serde_json::from_str::<Value>(&json).unwrap()["tasks"].clone()
    };
    until("the first task's end", || (tasks()[0]["state"] == "failed").then_some(()));
    assert_eq!(tasks()[0]["last_end"]["status"], 4);
    let output = batch(&["output", "1"]);
    assert!(output.starts_with("/\n") && output.contains(&ground.path("batch")), "{output}");
    until("the second task", || (tasks()[1]["state"] == "running").then_some(()));
    let refused = ground.quell(&["batch"]).args(["remove", "2"]).output().unwrap();
    assert!(!refused.status.success(), "it runs");
    assert_eq!(guard.stop(), Some(0), "{}", guard.log());
    assert_eq!(tasks()[1]["state"], "ready", "stopped by the agent, not failed");
    assert!(batch(&["show", "1"]).contains("status 4"));
    assert!(batch(&["clean"]).contains("1 tasks"));
    assert!(batch(&["remove", "2"]).contains("removed"));
    assert!(batch(&["list"]).contains("empty"));
}
