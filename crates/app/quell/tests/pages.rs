//! Checked-in pages are what the program prints.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const QUELL: &str = env!("CARGO_BIN_EXE_quell");
const MEND: &str = "cargo run -p xtask -- pages";

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
    let names = |folder: &Path| -> BTreeSet<OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    let kept = root().join("docs/schemas");
    let fresh = names(folder.path());
    assert!(fresh.len() >= 6);
    assert_eq!(names(&kept), fresh, "{MEND}");
    for name in fresh {
        let text = |folder: &Path| fs::read_to_string(folder.join(&name)).unwrap();
        assert!(text(&kept) == text(folder.path()), "{name:?} is not current: {MEND}");
    }
}

#[test]
fn the_page_of_all_keys_is_current() {
    let kept = fs::read_to_string(root().join("docs/config.md")).unwrap_or_default();
    let fresh = printed(&["config", "keys"]);
    assert!(kept == fresh, "not current: {MEND}");
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

/// All subcommands that `--help` lists.
fn subcommands() -> Vec<String> {
    let help = printed(&["--help"]);
    let list = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    // Whatever goes on from the line above is indented further.
    let own = |line: &&str| !line.starts_with("   ");
    let name = |line: &str| Some(line.split_whitespace().next()?.to_owned());
    list.lines().filter(own).filter_map(name).collect()
}

#[test]
fn each_subcommand_has_a_manual_page_with_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    printed(&["man", "--dir", pages.to_str().unwrap()]);
    let page = |name: &str| fs::read_to_string(pages.join(name)).unwrap();
    assert!(page("quell.1").starts_with(".ie"), "{}", page("quell.1"));
    let subcommands = subcommands();
    assert!(subcommands.contains(&"guard".to_owned()) && subcommands.len() > 10);
    for name in subcommands.iter().filter(|name| *name != "help") {
        let text = page(&format!("quell-{name}.1"));
        assert!(text.contains(".SH SYNOPSIS") && text.contains(".SH OPTIONS"), "{name}: {text}");
    }
    let guard = page("quell-guard.1");
    // What an `Args` says at length reaches its page.
    assert!(guard.contains("Needs root"), "{guard}");
    assert!(guard.contains("state\\-dir") && guard.contains("Examples:"), "{guard}");
    assert!(page("quell-bench-guard.1").contains("rounds"));
}

#[test]
fn shells_can_complete_each_subcommand() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        for name in subcommands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        assert!(script.contains("state-dir"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("quell.bash");
    fs::write(&script, printed(&["completions", "bash"])).unwrap();
    let ask = format!(
        "source {}; COMP_WORDS=(quell expl); COMP_CWORD=1; _quell quell expl quell; \
         echo ${{COMPREPLY[@]}}",
        script.display()
    );
    let answer = Command::new("bash").args(["-c", &ask]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "explain");
}
