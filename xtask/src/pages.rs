//! Pages that the program prints itself: the schemas of its JSON, and the keys of its configuration.
//! Written anew, or with `--check` compared with those that are checked in.

use crate::Findings;
use crate::workspace::{self, Scratch};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const SCHEMAS: &str = "docs/schemas";
const KEYS: &str = "docs/config.md";

pub(crate) fn run(root: &Path) -> Result<Findings> {
    let check = std::env::args().any(|arg| arg == "--check");
    let fresh = Scratch::new("schemas")?;
    fs::create_dir_all(fresh.path().join(SCHEMAS))?;
    let schemas = fresh.path().join(SCHEMAS);
    quell(root, &["schemas", "--dir", &schemas.to_string_lossy()])?;
    fs::write(fresh.path().join(KEYS), quell(root, &["config", "keys"])?)?;
    let names = names(root, fresh.path())?;
    if check { compare(root, fresh.path(), &names) } else { write(root, fresh.path(), &names) }
}

/// What the program prints, built from the sources as they are now.
fn quell(root: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--package", "quell", "--"])
        .args(args)
        .current_dir(root)
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("quell {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// Paths of all pages, those that are no longer printed too.
fn names(root: &Path, fresh: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::from([KEYS.to_owned()]);
    for top in [root, fresh] {
        for path in workspace::files(&top.join(SCHEMAS), &[".json"])? {
            names.insert(workspace::relative(top, &path).into_owned());
        }
    }
    Ok(names)
}

fn compare(root: &Path, fresh: &Path, names: &BTreeSet<String>) -> Result<Findings> {
    let mut findings = Vec::new();
    for name in names {
        let (kept, new) = (fs::read(root.join(name)).ok(), fs::read(fresh.join(name)).ok());
        let what = match (&kept, &new) {
            (None, None) => continue,
            (Some(_), None) => "is no longer printed",
            (None, Some(_)) => "is not checked in",
            (Some(kept), Some(new)) if kept != new => "is not current",
            _ => continue,
        };
        findings.push(format!("{name}: {what}; cargo run -p xtask -- schemas"));
    }
    Ok(findings)
}

/// Writes what differs. Nothing is found wrong then.
fn write(root: &Path, fresh: &Path, names: &BTreeSet<String>) -> Result<Findings> {
    for name in names {
        let (path, new) = (root.join(name), fs::read(fresh.join(name)).ok());
        if fs::read(&path).ok() == new {
            continue;
        }
        let done = match new {
            Some(text) => fs::write(&path, text),
            None => fs::remove_file(&path),
        };
        done.with_context(|| format!("cannot change {name}"))?;
        println!("{name}: changed");
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_new_and_changed_pages_are_found_and_then_mended() {
        let scratch = Scratch::new("schemas-test").unwrap();
        let (root, fresh) = (scratch.path().join("root"), scratch.path().join("fresh"));
        for (top, files) in [
            (&root, [("a.json", "1"), ("b.json", "2"), ("old.json", "3")]),
            (&fresh, [("a.json", "1"), ("b.json", "X"), ("new.json", "4")]),
        ] {
            fs::create_dir_all(top.join(SCHEMAS)).unwrap();
            fs::write(top.join(KEYS), "same").unwrap();
            for (name, text) in files {
                fs::write(top.join(SCHEMAS).join(name), text).unwrap();
            }
        }
        let names = names(&root, &fresh).unwrap();
        let findings = compare(&root, &fresh, &names).unwrap();
        let said = ["b.json: is not current", "new.json: is not checked", "old.json: is no longer"];
        assert_eq!(findings.len(), said.len(), "{findings:?}");
        for (finding, said) in findings.iter().zip(said) {
            assert!(finding.contains(said), "{finding}");
        }
        assert!(write(&root, &fresh, &names).unwrap().is_empty());
        assert!(compare(&root, &fresh, &names).unwrap().is_empty());
        assert!(!root.join(SCHEMAS).join("old.json").exists());
    }
}
