//! `quell bench signal`, small: turns are turned, nothing stays, bus locks are asked for twice.

use super::{ALONE, PoisonError};
use std::process::{Command, Output};

fn signal(args: &[&str]) -> (Output, u32) {
    let child = Command::new(env!("CARGO_BIN_EXE_quell"))
        .args(["bench", "signal", "--service", "store", "--pairs", "3"])
        .args(args)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    (child.wait_with_output().unwrap(), pid)
}

#[test]
fn causes_are_turned_on_and_off_and_nothing_stays() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("signal.json");
    let (output, pid) = signal(&["--causes", "load,cpu", "--json", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(&file).unwrap();
    let report: quell_bench::SignalReport = serde_json::from_str(&text).unwrap();
    let [load, cpu] = report.rows.as_slice() else { panic!("{text}") };
    assert_eq!((load.pairs, cpu.pairs), (3, 3), "{text}");
    // The rate was doubled in one and left in the other.
    assert!(load.rate_ratio.unwrap().median > 1.5, "{text}");
    assert!(cpu.rate_ratio.unwrap().median < 1.5, "{text}");
    // Integer loops at its own weight on every CPU cannot but make it wait for one. What clients see
    // of that hangs on the host, too: where requests cost milliseconds, its own changes hide it.
    assert!(cpu.wait_per_request_ratio.unwrap().median > 1.0, "{text}");
    let name = format!("quell-demo-{pid}");
    assert!(!std::path::Path::new("/run").join(&name).exists());
    assert!(!std::path::Path::new("/sys/fs/cgroup/cpu").join(&name).exists());
}

#[test]
fn bus_locks_must_be_asked_for_twice() {
    let (output, _) = signal(&["--causes", "bus-lock"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--i-know-this-hurts-everyone"), "{said}");
}
