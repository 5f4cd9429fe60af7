//! Builds the eBPF objects anew and compares them with those that are checked in: users need no
//! compiler for them, and yet nobody has to trust a binary.

use crate::Findings;
use crate::workspace::{self, Scratch};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = "crates/sys/ebpf/bpf";

pub(crate) fn run(root: &Path) -> Result<Findings> {
    let kept = root.join(SOURCES);
    let fresh = Scratch::new("bpf")?;
    let output = Command::new(kept.join("build.sh"))
        .arg(fresh.path())
        .output()
        .with_context(|| format!("cannot run {SOURCES}/build.sh"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{SOURCES}/build.sh failed (it needs clang-14 and llvm-14: make setup): {said}");
    }
    compare(&kept, fresh.path())
}

fn compare(kept: &Path, fresh: &Path) -> Result<Findings> {
    let (ours, built) = (objects(kept)?, objects(fresh)?);
    if built.is_empty() {
        bail!("{SOURCES}/build.sh built nothing");
    }
    let mut findings = Vec::new();
    for name in ours.iter().filter(|name| !built.contains(name)) {
        findings.push(format!("{SOURCES}/{name}: is checked in, but no source gives it"));
    }
    for name in &built {
        let read = |folder: &Path| std::fs::read(folder.join(name));
        match (read(kept), read(fresh)) {
            (Ok(a), Ok(b)) if a == b => {}
            (Ok(_), Ok(_)) => {
                findings.push(format!("{SOURCES}/{name}: differs from what its source gives"));
            }
            _ => findings.push(format!("{SOURCES}/{name}: is not checked in")),
        }
    }
    Ok(findings)
}

/// The names of objects and their sums in a folder.
fn objects(folder: &Path) -> Result<Vec<String>> {
    let files = workspace::files(folder, &[".bpf.o", ".sha256"])?;
    let name = |path: PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    Ok(files.into_iter().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_new_or_has_no_source_is_found() {
        let scratch = Scratch::new("bpf-test").unwrap();
        let (kept, fresh) = (scratch.path().join("kept"), scratch.path().join("fresh"));
        for (folder, files) in [
            (&kept, [("a.bpf.o", "1"), ("b.bpf.o", "2"), ("c.bpf.o", "3")]),
            (&fresh, [("a.bpf.o", "1"), ("b.bpf.o", "X"), ("d.bpf.o", "4")]),
        ] {
            std::fs::create_dir(folder).unwrap();
            for (name, text) in files {
                std::fs::write(folder.join(name), text).unwrap();
            }
        }
        let findings = compare(&kept, &fresh).unwrap();
        let said = ["c.bpf.o: is checked in", "b.bpf.o: differs", "d.bpf.o: is not checked in"];
        assert_eq!(findings.len(), said.len(), "{findings:?}");
        for (finding, said) in findings.iter().zip(said) {
            assert!(finding.contains(said), "{finding}");
        }
    }
}
