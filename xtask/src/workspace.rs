//! Where the workspace is, what it is made of, and its files.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", "fixtures", "proptest-regressions"];

/// The workspace's root.
pub(crate) fn root() -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().map(Path::to_path_buf).context("xtask has no parent folder")
}

/// What `cargo metadata` says of the workspace's own packages.
pub(crate) fn metadata(root: &Path) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}

/// All files below `folder` whose name ends in one of `endings`, in order; hidden folders and
/// what is not ours are left out.
pub(crate) fn files(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                folders.push(entry.path());
            } else if kind.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text of a file.
pub(crate) fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A path as it stands in the repository.
pub(crate) fn relative<'a>(root: &Path, path: &'a Path) -> std::borrow::Cow<'a, str> {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy()
}

/// A folder that is gone when this is.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one for a task.
    pub(crate) fn new(task: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("quell-xtask-{task}-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that stays behind in /tmp harms nobody; the next run makes its own.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
