//! Pages that the program prints itself: the schemas of its JSON, and the keys of its configuration. Here they are
//! written anew; whether they are current a test of the program asks (`crates/app/quell/tests/pages.rs`), since it is
//! built there anyway.

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
    let fresh = Scratch::new("pages")?;
    fs::create_dir_all(fresh.path().join(SCHEMAS))?;
    let schemas = fresh.path().join(SCHEMAS);
    quell(root, &["schemas", "--dir", &schemas.to_string_lossy()])?;
    fs::write(fresh.path().join(KEYS), quell(root, &["config", "keys"])?)?;
    write(root, fresh.path(), &names(root, fresh.path())?)
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

/// Writes what differs: nothing is found wrong then.
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
    fn old_new_and_changed_pages_are_mended_and_others_left() {
        let scratch = Scratch::new("pages-test").unwrap();
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
        assert!(write(&root, &fresh, &names(&root, &fresh).unwrap()).unwrap().is_empty());
        for (name, text) in [("a.json", "1"), ("b.json", "X"), ("new.json", "4")] {
            assert_eq!(fs::read_to_string(root.join(SCHEMAS).join(name)).unwrap(), text);
        }
        assert!(!root.join(SCHEMAS).join("old.json").exists());
    }
}
