//! Knob files of groups, compared byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Control files by which somebody could hold a group back.
const CONTROLS: [&str; 6] = ["cpu.", "cpuset.", "freezer.", "memory.", "cgroup.freeze", "io."];
/// Of these, what counts or acts instead of holding a setting.
const COUNTERS: [&str; 9] = [
    "usage",
    "pressure",
    "failcnt",
    "force_empty",
    "stat",
    "reclaim",
    "peak",
    "soft_limit",
    "effective",
];

/// The text of every knob file of some groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, Option<Vec<u8>>>);

/// Reads all knob files in these folders.
pub(crate) fn snapshot<'a>(folders: impl Iterator<Item = &'a PathBuf>) -> Snapshot {
    let files = folders.flat_map(|folder| knob_files(folder));
    Snapshot(files.map(|path| (path.clone(), fs::read(path).ok())).collect())
}

fn knob_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| is_knob(path)).collect()
}

fn is_knob(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let writable =
        || fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o200 != 0);
    CONTROLS.iter().any(|control| name.starts_with(control))
        && !COUNTERS.iter().any(|counter| name.contains(counter))
        && writable()
}

impl Snapshot {
    /// What differs in `later`, in words.
    pub(crate) fn differences(&self, later: &Snapshot) -> Vec<String> {
        let show = |text: Option<&Option<Vec<u8>>>| match text {
            Some(Some(bytes)) => format!("`{}`", String::from_utf8_lossy(bytes).trim()),
            Some(None) => "unreadable".to_owned(),
            None => "not there".to_owned(),
        };
        let paths = self.0.keys().chain(later.0.keys().filter(|p| !self.0.contains_key(*p)));
        let different = paths.filter(|path| self.0.get(*path) != later.0.get(*path));
        different
            .map(|path| {
                let (was, is) = (show(self.0.get(path)), show(later.0.get(path)));
                format!("{}: was {was}, is {is}", path.display())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_knob_is_told_and_a_counter_is_not() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("cpu.shares", "1024"), ("cpu.stat", "1"), ("memory.usage", "5")] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let path = folder.path().to_owned();
        let before = snapshot([&path].into_iter());
        fs::write(path.join("cpu.stat"), "2").unwrap();
        assert!(before.differences(&snapshot([&path].into_iter())).is_empty());
        fs::write(path.join("cpu.shares"), "2").unwrap();
        let told = before.differences(&snapshot([&path].into_iter()));
        assert_eq!(told.len(), 1);
        assert!(told[0].ends_with("cpu.shares: was `1024`, is `2`"), "{told:?}");
    }
}
