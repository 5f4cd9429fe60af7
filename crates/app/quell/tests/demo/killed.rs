//! SIGKILL lets a demo clean up nothing: the next one, or `quell restore`, does it.

use crate::{ALONE, Demo};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn kill(demo: &mut Demo) {
    kill_process(Pid::from_child(&demo.0), Signal::KILL).unwrap();
    demo.0.wait().unwrap();
}

/// Processes whose command line names something in this folder.
fn with_words(folder: &Path) -> Vec<u32> {
    let words = format!("{}/", folder.display());
    processes().filter(|pid| text(*pid, "cmdline").contains(&words)).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
}

fn text(pid: u32, file: &str) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Network namespaces that a process holds open or works in, but the machine's own.
fn namespaces(pid: u32) -> BTreeSet<PathBuf> {
    let home = Path::new("/proc").join(pid.to_string());
    let open = std::fs::read_dir(home.join("fd")).into_iter().flatten();
    let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let own = std::fs::read_link(home.join("ns/net"));
    let machine = std::fs::read_link("/proc/self/ns/net").unwrap();
    let is_net = |link: &PathBuf| link.to_string_lossy().starts_with("net:[") && *link != machine;
    links.chain(own).filter(is_net).collect()
}

/// What `quell restore` says of dead runs.
fn restore() -> Value {
    let state = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_quell"))
        .args(["restore", "--json", "--state-dir"])
        .arg(state.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether an answer of [`restore`] names a demo.
fn names(told: &Value, demo: &Demo) -> bool {
    told["dead_runs"].as_array().unwrap().iter().any(|run| run["pid"] == demo.0.id())
}

#[test]
fn restore_cleans_up_after_a_killed_demo() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let args = ["--seconds", "60", "--no-network"];
    let mut demo = Demo::of_known_peak("alone,none,quell", folder.path(), &args);
    demo.wait_for_batch("llc");
    assert!(!names(&restore(), &demo), "it lives");
    assert!(demo.0.try_wait().unwrap().is_none() && demo.home("cpu").exists());
    assert!(!with_words(&demo.folder()).is_empty(), "agent and tasks carry the folder's name");
    kill(&mut demo);
    let told = restore();
    assert!(names(&told, &demo), "{told}");
    assert!(demo.is_gone());
    assert_eq!(with_words(&demo.folder()), Vec::<u32>::new());
    assert!(!names(&restore(), &demo), "once is enough");
}

#[test]
fn the_next_demo_cleans_up_after_one_killed_with_its_agent_and_its_network() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let mut dead = Demo::of_known_peak("alone", folder.path(), &["--seconds", "10"]);
    dead.wait_for_batch("network");
    let network = namespaces(dead.0.id());
    assert_eq!(network.len(), 3, "near, middle, far: {network:?}");
    // Stopped, it does not see its agent die.
    kill_process(Pid::from_child(&dead.0), Signal::STOP).unwrap();
    for pid in with_words(&dead.folder().join("guard")) {
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
    kill(&mut dead);
    let args = ["--seconds", "60", "--no-network"];
    let next = Demo::of_known_peak("alone", folder.path(), &args);
    let end = Instant::now() + PATIENCE;
    while !next.home("cpu").join("quell-service").exists() {
        assert!(Instant::now() < end, "the next demo never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(dead.is_gone());
    assert_eq!(with_words(&dead.folder()), Vec::<u32>::new());
    assert!(processes().all(|pid| namespaces(pid).is_disjoint(&network)), "{network:?}");
}
