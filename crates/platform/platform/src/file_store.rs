//! Records as lines of a file.
//!
//! What is written outlives the process: it lies in the kernel's page cache, whence whoever comes after reads it. It is
//! not forced to the disk. All that a record takes back (settings of groups, of links, of resctrl, of machines that run)
//! ends with the kernel that holds it, so after a power failure nothing is owed; and to wait for a disk that a tenant
//! keeps busy, or whose workers somebody starves, would put off by tens of seconds the very limit that ends that.

use crate::platform::{Store, StoreError};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// One file, readable by root alone. A record is whole when its line break is there; a torn last
/// line is left out on reading and cut off before the next record.
#[derive(Debug)]
pub struct FileStore {
    path: PathBuf,
    file: File,
}

impl FileStore {
    /// Opens or makes the file; its folder is made too.
    ///
    /// # Errors
    /// If the folder or file cannot be made or opened.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let fail = |source| StoreError { doing: "open", name: path.display().to_string(), source };
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(fail)?;
        let mut file = open(path).map_err(fail)?;
        cut_torn_end(&mut file).map_err(fail)?;
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// Writes a file beside it and lets that take its name.
    fn write_new(&mut self, new: &Path, records: &[String]) -> io::Result<()> {
        let _ = std::fs::remove_file(new);
        let mut file = open(new)?;
        let text: String = records.iter().flat_map(|record| [record.as_str(), "\n"]).collect();
        file.write_all(text.as_bytes())?;
        std::fs::rename(new, &self.path)?;
        self.file = file;
        Ok(())
    }

    fn fail(&self, doing: &'static str) -> impl Fn(io::Error) -> StoreError + use<> {
        let name = self.path.display().to_string();
        move |source| StoreError { doing, name: name.clone(), source }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

/// Cuts what follows the last line break: the rest of a write in whose middle the writer died.
fn cut_torn_end(file: &mut File) -> io::Result<()> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() {
        file.set_len(whole as u64)?;
    }
    Ok(())
}

impl Store for FileStore {
    fn append(&mut self, record: &str) -> Result<(), StoreError> {
        debug_assert!(!record.contains('\n'), "a record is one line");
        let before = self.file.metadata().map_err(self.fail("append to"))?.len();
        let line = format!("{record}\n");
        self.file.write_all(line.as_bytes()).map_err(|error| {
            // A full disk may have taken half a line: leave whole records only.
            let _ = self.file.set_len(before);
            self.fail("append to")(error)
        })
    }

    /// What was appended outlives this process already.
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<String>, StoreError> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0)).map_err(self.fail("read"))?;
        self.file.read_to_end(&mut bytes).map_err(self.fail("read"))?;
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let text = String::from_utf8_lossy(&bytes[..whole]);
        Ok(text.lines().map(str::to_owned).collect())
    }

    fn replace(&mut self, records: &[String]) -> Result<(), StoreError> {
        if records.is_empty() {
            return self.file.set_len(0).map_err(self.fail("clear"));
        }
        let new = self.path.with_extension("new");
        self.write_new(&new, records).map_err(|error| {
            let _ = std::fs::remove_file(&new);
            self.fail("replace")(error)
        })
    }

    fn keep_aside(&mut self) -> Result<String, StoreError> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0)).map_err(self.fail("read"))?;
        self.file.read_to_end(&mut bytes).map_err(self.fail("read"))?;
        let (path, mut copy) = new_beside(&self.path).map_err(self.fail("copy"))?;
        copy.write_all(&bytes).map_err(|error| {
            let _ = std::fs::remove_file(&path);
            self.fail("copy")(error)
        })?;
        Ok(path.display().to_string())
    }
}

/// A file of a name that nothing has yet.
fn new_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 1;
    loop {
        let new = path.with_file_name(format!("quell-unreadable-{number}.journal"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|file| (new, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_a_torn_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/journal");
        let mut store = FileStore::open(&path).unwrap();
        store.append("one").unwrap();
        store.append("two").unwrap();
        store.sync().unwrap();
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"tor").unwrap();
        assert_eq!(store.read().unwrap(), ["one", "two"]);
        let mut again = FileStore::open(&path).unwrap();
        again.append("three").unwrap();
        assert_eq!(again.read().unwrap(), ["one", "two", "three"]);
        again.replace(&["two".into(), "four".into()]).unwrap();
        again.append("five").unwrap();
        assert_eq!(FileStore::open(&path).unwrap().read().unwrap(), ["two", "four", "five"]);
        again.replace(&[]).unwrap();
        assert!(again.read().unwrap().is_empty());
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_copy_is_kept_under_a_name_that_nothing_has() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mut store = FileStore::open(&folder.path().join("journal")).unwrap();
        for text in ["one", "two"] {
            store.append(text).unwrap();
            let copy = store.keep_aside().unwrap();
            assert!(copy.contains("/quell-unreadable-"), "{copy}");
            assert!(std::fs::read_to_string(&copy).unwrap().ends_with(&format!("{text}\n")));
            assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(store.read().unwrap(), ["one", "two"], "itself it is as before");
    }

    /// A disk of 16 KiB; unmounted when dropped.
    struct SmallDisk(tempfile::TempDir);

    impl SmallDisk {
        fn mount() -> Self {
            let folder = tempfile::Builder::new().prefix("quell-disk-").tempdir().unwrap();
            let done = std::process::Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=16k", "quell-small-disk"])
                .arg(folder.path())
                .status();
            assert!(done.unwrap().success(), "the test mounts a small disk: it needs root");
            Self(folder)
        }
    }

    impl Drop for SmallDisk {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg(self.0.path()).status();
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_leaves_whole_records() {
        let disk = SmallDisk::mount();
        let mut store = FileStore::open(&disk.0.path().join("journal")).unwrap();
        let record = "x".repeat(1000);
        let written = (0..100).take_while(|_| store.append(&record).is_ok()).count();
        assert!((1..100).contains(&written), "{written} records on 16 KiB");
        assert_eq!(store.read().unwrap(), vec![record.clone(); written]);
        let more = vec![record.clone(); written];
        assert!(store.replace(&more).is_err(), "there is no room for both");
        assert_eq!(store.read().unwrap(), more, "the old ones are there");
        store.replace(&[]).unwrap();
    }

    #[test]
    fn only_root_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        FileStore::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
