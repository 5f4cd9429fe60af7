//! Checked-in pages are what the program prints.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const QUELL: &str = env!("CARGO_BIN_EXE_quell");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = Command::new(QUELL).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn schemas_are_those_of_the_types() {
    let folder = tempfile::tempdir().unwrap();
    printed(&["schemas", "--dir", folder.path().to_str().unwrap()]);
    let mut seen = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().file_name();
        let kept = fs::read_to_string(root().join("docs/schemas").join(&name)).unwrap_or_default();
        let fresh = fs::read_to_string(folder.path().join(&name)).unwrap();
        assert!(kept == fresh, "{name:?} is not current: quell schemas --dir docs/schemas");
        seen += 1;
    }
    assert!(seen >= 6);
}

#[test]
fn the_page_of_all_keys_is_current() {
    let kept = fs::read_to_string(root().join("docs/config.md")).unwrap_or_default();
    let fresh = printed(&["config", "keys"]);
    assert!(kept == fresh, "not current: quell config keys > docs/config.md");
    assert!(fresh.contains("[law.quell]") && fresh.contains("interval_s"));
}

#[test]
fn the_example_is_a_good_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("quell.toml");
    fs::write(&file, printed(&["config", "example"])).unwrap();
    assert!(printed(&["config", "check", file.to_str().unwrap()]).contains("all is well"));
}

#[test]
fn the_doctor_answers_in_words_and_in_json() {
    let report: serde_json::Value = serde_json::from_str(&printed(&["doctor", "--json"])).unwrap();
    assert_eq!(report["schema"], "quell.doctor/1");
    assert!(report["capabilities"].as_array().unwrap().len() > 25);
    let table = printed(&["doctor"]);
    assert!(table.contains("cgroup layout") && !table.contains('\x1b'), "{table}");
}
