//! Plays the golden scenario in a build that may use fused multiply-add instructions and in the usual
//! one, which is for processors that need not have them: journals and figures must be the same to the
//! byte, or they would differ between machines.

use crate::Findings;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is built, and what one of the builds may use.
const EXAMPLE: &str = "journals";
const WITH: &str = "-C target-feature=+avx2,+fma";

pub(crate) fn run(root: &Path) -> Result<Findings> {
    if !has_fma() {
        println!("fma: this CPU has no such instructions: nothing to compare");
        return Ok(Vec::new());
    }
    let built = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let (target, folder) = (host()?, built.join("fma"));
    // With a named target the flags are not those of build scripts and macros.
    let mut with = building(root, &["--package", "quell-simulate"]);
    with.args(["--target", &target, "--target-dir"]).arg(&folder).env("RUSTFLAGS", WITH);
    let with = play(&mut with, &folder.join(target))?;
    // As the tests build it: what they have built is not built again with other features.
    Ok(compare(&with, &play(&mut building(root, &["--workspace"]), &built)?))
}

#[cfg(target_arch = "x86_64")]
fn has_fma() -> bool {
    std::arch::is_x86_feature_detected!("fma") && std::arch::is_x86_feature_detected!("avx2")
}

/// Elsewhere they cannot be told to be absent.
#[cfg(not(target_arch = "x86_64"))]
fn has_fma() -> bool {
    false
}

fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).context("rustc does not tell its host")
}

/// Builds the example, for any processor, with the features that these packages have together.
fn building(root: &Path, of: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .current_dir(root)
        .args(["build", "--quiet", "--example", EXAMPLE])
        .args(of)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo
}

/// What the example prints that comes into this folder.
fn play(building: &mut Command, folder: &Path) -> Result<String> {
    let status = building.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("{building:?} failed");
    }
    let example = folder.join("debug/examples").join(EXAMPLE);
    let output = Command::new(&example)
        .output()
        .with_context(|| format!("cannot run {}", example.display()))?;
    if !output.status.success() {
        bail!("{}: {}", example.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The first line in which two outputs differ.
fn compare(with: &str, without: &str) -> Findings {
    if with.is_empty() {
        return vec![format!("the example {EXAMPLE} prints nothing")];
    }
    if with == without {
        return Vec::new();
    }
    let pairs = with.lines().zip(without.lines());
    let (number, line) = (1..)
        .zip(pairs)
        .find(|(_, (a, b))| a != b)
        .map_or((0, "one ends before the other"), |(number, (a, _))| (number, a));
    let line: String = line.chars().take(160).collect();
    vec![format!("with FMA line {number} of the journals is another one: {line}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_found_and_so_is_silence() {
        assert!(compare("a\nb\n", "a\nb\n").is_empty());
        assert!(compare("a\nb\n", "a\nc\n")[0].contains("line 2"));
        assert!(compare("a\nb\n", "a\n")[0].contains("ends"));
        assert_eq!(compare("", "").len(), 1);
    }
}
