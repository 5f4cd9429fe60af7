//! What is refused, and how it is said.

use crate::common::{Ground, QUELL, free_port, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A user without rights.
const NOBODY: u32 = 65_534;

#[test]
fn a_second_agent_is_refused_whatever_its_state_folder() {
    let ground = Ground::new();
    let before = ground.texts();
    let mut first = ground.guard(&["--law", "none"]);
    first.ready();
    let mut same = ground.guard(&["--law", "none"]);
    assert_eq!(same.exit_code(), Some(1));
    assert!(same.log().contains("another agent (pid"), "{}", same.log());
    let service = format!("name=web,cgroup={},p99=20ms", ground.path("service"));
    let other = Command::new(QUELL)
        .args(["guard", "--service", &service, "--state-dir"])
        .arg(ground.folder.path().join("other"))
        .output()
        .unwrap();
    assert!(text(&other).contains("another agent guards web"), "{}", text(&other));
    let restore = ground.quell(&["restore"]).output().unwrap();
    assert!(!restore.status.success(), "not while the agent runs");
    assert_eq!(first.stop(), Some(0), "{}", first.log());
    assert_eq!(ground.texts(), before);
}

#[test]
fn nobody_keeps_an_agent_from_its_start_by_a_lock() {
    let ground = Ground::new();
    // Everybody may open a group's folder, and lock it then.
    let folders = ground.folders("service").into_iter().chain(ground.folders("batch"));
    let held: Vec<fs::File> = folders.map(|folder| fs::File::open(folder).unwrap()).collect();
    assert!(!held.is_empty() && held.iter().all(|folder| folder.try_lock().is_ok()));
    let mut guard = ground.guard(&["--law", "none"]);
    guard.ready();
    let mode = |name: &str| fs::metadata(ground.state().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("agent.lock") & 0o777, 0o600);
    assert_eq!(guard.stop(), Some(0), "{}", guard.log());
}

#[test]
fn everything_that_cannot_be_found_is_said_at_once() {
    let ground = Ground::new();
    let output = ground
        .quell(&["guard", "--service", "name=a,cgroup=/quell-nowhere,p99=3ms"])
        .args(["--service", "name=b,unit=quell-no-such.service,p99=3ms"])
        .args(["--batch", "name=c,pid=4194303", "--link", "name=quell-nolink,capacity=1Gbit"])
        .output()
        .unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in ["/quell-nowhere", "quell-no-such", "4194303", "quell-nolink", "4 errors"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!ground.state().exists(), "nothing was made");
}

#[test]
fn a_configuration_with_several_errors_shows_them_all_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    fs::write(
        &file,
        "[agent]\nintervall_s = 1\nlaw = \"quel\"\n[[service]]\ncgroup = \"/a\"\np99 = \"3 miles\"\n",
    )
    .unwrap();
    let output = Command::new(QUELL).args(["config", "check"]).arg(&file).output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in ["bad.toml:2", "bad.toml:3", "bad.toml:6", "3 errors"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn without_root_the_refusal_says_so() {
    let folder = tempfile::tempdir().unwrap();
    // Somewhere that this user can reach.
    let public =
        std::env::temp_dir().join(format!("quell-test-{}-{}", std::process::id(), free_port()));
    fs::copy(QUELL, &public).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(&public);
        command.uid(NOBODY).gid(NOBODY).current_dir("/").args(args).output().unwrap()
    };
    let guard = run(&["guard", "--service", "name=a,pid=1,p99=3ms", "--set", "agent.metrics=off"]);
    let doctor = run(&["doctor", "--json"]);
    let batch = run(&["batch", "list", "--state-dir", "/var/lib/quell-test-nobody"]);
    let restore = run(&["restore"]);
    let state = folder.path().join("state");
    fs::create_dir(&state).unwrap();
    for (name, mode) in [("agent.lock", 0o600), ("decisions.jsonl", 0o644)] {
        fs::write(state.join(name), "").unwrap();
        fs::set_permissions(state.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let explain = run(&["explain", "jobs", "--state-dir", state.to_str().unwrap()]);
    fs::remove_file(&public).unwrap();
    assert!(text(&explain).contains("run it as root"), "{}", text(&explain));
    assert!(text(&restore).contains("run it as root"), "{}", text(&restore));
    assert_eq!(restore.status.code(), Some(1));
    assert!(text(&guard).contains("run it as root"), "{}", text(&guard));
    assert_eq!(guard.status.code(), Some(1));
    assert!(doctor.status.success(), "never fails: {}", text(&doctor));
    assert!(text(&batch).contains("as root"), "{}", text(&batch));
    drop(folder);
}
