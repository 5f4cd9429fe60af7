//! Small files of sysfs.

use quell_types::{Gap, Reading};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file and its exact text, as the restore journal keeps it: writing the text back restores
/// the setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawFile {
    /// Where.
    pub path: PathBuf,
    /// What it held.
    pub text: String,
}

/// The gap of a read that failed: a missing file is absent, a forbidden one says so.
pub(crate) fn gap(path: &Path, error: &io::Error) -> Gap {
    match error.kind() {
        io::ErrorKind::NotFound => Gap::absent(format!("no {}", path.display())),
        io::ErrorKind::PermissionDenied => {
            Gap::failed(format!("{} may be read by root only", path.display()))
        }
        _ => Gap::failed(format!("{}: {error}", path.display())),
    }
}

pub(crate) fn text(path: &Path) -> Reading<String> {
    let text = fs::read_to_string(path).map_err(|e| gap(path, &e))?;
    Ok(text.trim().to_owned())
}

pub(crate) fn number(path: &Path) -> Reading<u64> {
    parse(path, &text(path)?)
}

pub(crate) fn signed(path: &Path) -> Reading<i64> {
    parse(path, &text(path)?)
}

fn parse<T: std::str::FromStr>(path: &Path, text: &str) -> Reading<T> {
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(60).collect();
        Gap::failed(format!("{}: not a number: {shown:?}", path.display()))
    })
}

/// Folders below `dir` whose names begin with `prefix`, by the number that follows it.
pub(crate) fn numbered(dir: &Path, prefix: &str) -> Reading<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    for path in entries(dir)? {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix(prefix)).map(str::parse);
        if let Some(Ok(number)) = number {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}

/// Everything in a folder, in no order.
pub(crate) fn entries(dir: &Path) -> Reading<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(|e| gap(dir, &e))?;
    entries.map(|entry| entry.map(|e| e.path()).map_err(|e| gap(dir, &e))).collect()
}
