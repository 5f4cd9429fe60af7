//! What `quell restore` reads, and what it says.

use crate::common::{Ground, QUELL, text, until};
use std::fs;
use std::io::Write;
use std::process::{Command, Output};

/// An agent that was killed with knobs changed.
fn killed(ground: &Ground) {
    let before = ground.texts();
    let fast = ["--set", "agent.interval_s=0.1", "--set", "agent.fast_interval_s=0.05"];
    let mut guard = ground.guard(&fast);
    until("a changed knob", || (ground.texts() != before).then_some(()));
    guard.signal("-KILL");
    guard.exit_code();
    assert_ne!(ground.texts(), before);
}

#[test]
fn the_state_folder_is_that_of_the_configuration() {
    let mut ground = Ground::new();
    ground.spin();
    let before = ground.texts();
    killed(&ground);
    let file = ground.folder.path().join("quell.toml");
    let restore = |text: &str| -> Output {
        fs::write(&file, text).unwrap();
        Command::new(QUELL).args(["restore", "--config"]).arg(&file).output().unwrap()
    };
    let state = ground.state();
    let misspelt = restore(&format!("[agent]\nstate_dirs = \"{}\"\n", state.display()));
    assert_eq!(misspelt.status.code(), Some(2), "{}", text(&misspelt));
    assert!(text(&misspelt).contains("quell.toml:2"), "{}", text(&misspelt));
    assert_ne!(ground.texts(), before);
    // Somebody has just made another mistake in it.
    let told = format!("[agent]\nlaw = \"quel\"\nstate_dir = \"{}\"\n", state.display());
    let done = restore(&told);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done));
    assert_eq!(ground.texts(), before);
}

#[test]
fn a_record_that_cannot_be_read_is_kept_and_told_and_the_rest_is_put_back() {
    let mut ground = Ground::new();
    ground.spin();
    let before = ground.texts();
    killed(&ground);
    let journal = ground.state().join("knobs.journal");
    let rotten = b"{\"key\":\"rot\",\"undo\":[{\"un\n";
    fs::OpenOptions::new().append(true).open(&journal).unwrap().write_all(rotten).unwrap();
    let restored = ground.quell(&["restore"]).output().unwrap();
    assert_eq!(restored.status.code(), Some(1), "{}", text(&restored));
    let kept = ground.state().join("quell-unreadable-1.journal");
    assert!(text(&restored).contains(kept.to_str().unwrap()), "{}", text(&restored));
    assert!(fs::read(&kept).unwrap().ends_with(rotten));
    assert_eq!(ground.texts(), before);
    let again = ground.quell(&["restore"]).output().unwrap();
    assert!(again.status.success(), "told once: {}", text(&again));
}
