//! Files below a root directory.

use quell_types::{CpuSet, Gap, Reading};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A directory that stands for `/`.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A file's text; bytes that are no UTF-8 (a process may name itself anything) are replaced.
    pub(crate) fn read(&self, path: &str) -> Reading<String> {
        match std::fs::read(self.root.join(path)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Gap::absent(format!("no file /{path}")))
            }
            Err(error) => Err(Gap::failed(format!("/{path}: {error}"))),
        }
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.read(path).ok()
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.trim().parse().ok()
    }

    pub(crate) fn cpu_list(&self, path: &str) -> Option<CpuSet> {
        self.text(path)?.parse().ok()
    }

    /// The numbers N of all entries `<prefix>N` of a directory, rising.
    pub(crate) fn numbered(&self, dir: &str, prefix: &str) -> Vec<u32> {
        let Ok(entries) = std::fs::read_dir(self.root.join(dir)) else { return Vec::new() };
        let number = |name: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
        let mut numbers: Vec<u32> =
            entries.filter_map(|entry| number(entry.ok()?.file_name().to_str()?)).collect();
        numbers.sort_unstable();
        numbers
    }
}
