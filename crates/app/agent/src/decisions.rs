//! The decision journal: one JSON line for each step that has something to say.
//!
//! Two files are kept: `decisions.jsonl`, and `decisions.1.jsonl` with what came before. Whoever
//! rotates writes down again what stands, so that the newer file alone explains the present.

use quell_control::Entry;
use quell_linux::StateDir;
use quell_platform::StoreError;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Size at which a file is put aside, in bytes.
const LIMIT: u64 = 16 << 20;

/// Where decisions are written down.
pub trait Decisions {
    /// Appends an entry. Says true if older entries were put aside: then what stands is to be
    /// written down again.
    ///
    /// # Errors
    /// It cannot be written (disk full): then nothing of it is.
    fn append(&mut self, entry: &Entry) -> Result<bool, StoreError>;
}

/// The journal, open for writing.
#[derive(Debug)]
pub struct DecisionLog {
    path: PathBuf,
    file: File,
    length: u64,
    limit: u64,
}

/// Where the entries before the present file's are.
fn older(path: &Path) -> PathBuf {
    path.with_extension("1.jsonl")
}

impl DecisionLog {
    /// Opens or makes the journal of a state folder.
    ///
    /// # Errors
    /// The folder or file cannot be made or written.
    pub fn open(state: &StateDir) -> Result<Self, StoreError> {
        Self::with_limit(&state.decisions(), LIMIT)
    }

    fn with_limit(path: &Path, limit: u64) -> Result<Self, StoreError> {
        let fail = |source| StoreError { doing: "open", name: path.display().to_string(), source };
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(fail)?;
        let file = open(path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        let mut log = Self { path: path.to_owned(), file, length, limit };
        log.end_torn_line().map_err(fail)?;
        Ok(log)
    }

    fn write(&mut self, entry: &Entry) -> Result<bool, StoreError> {
        let name = self.path.display().to_string();
        let fail = |source| StoreError { doing: "append to", name: name.clone(), source };
        let mut line = serde_json::to_string(entry).map_err(|error| fail(error.into()))?;
        line.push('\n');
        let rotates = self.length > 0 && self.length + line.len() as u64 > self.limit;
        if rotates {
            self.rotate().map_err(fail)?;
        }
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            let _ = self.file.set_len(self.length);
            return Err(fail(error));
        }
        self.length += line.len() as u64;
        Ok(rotates)
    }

    fn rotate(&mut self) -> io::Result<()> {
        std::fs::rename(&self.path, older(&self.path))?;
        self.file = open(&self.path)?;
        self.length = 0;
        Ok(())
    }

    /// A writer that died may have left half a line; the next one begins on a line of its own.
    fn end_torn_line(&mut self) -> io::Result<()> {
        if self.length == 0 {
            return Ok(());
        }
        let mut last = [0];
        self.file.seek(SeekFrom::End(-1))?;
        self.file.read_exact(&mut last)?;
        if last != *b"\n" {
            self.file.write_all(b"\n")?;
            self.length += 1;
        }
        Ok(())
    }
}

impl Decisions for DecisionLog {
    /// Lines of a file; a full disk leaves whole lines only.
    fn append(&mut self, entry: &Entry) -> Result<bool, StoreError> {
        self.write(entry)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o640).open(path)
}

/// Calls `each` with every whole entry of both files, oldest first. A file that is not there, and a
/// line that is no entry (torn by a death), are passed over.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn read_entries(state: &StateDir, mut each: impl FnMut(Entry)) -> io::Result<()> {
    let newer = state.decisions();
    for path in [older(&newer), newer] {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in BufReader::new(file).split(b'\n') {
            if let Ok(entry) = serde_json::from_slice(&line?) {
                each(entry);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_control::Note;

    fn entry(ms: u64) -> Entry {
        let notes = vec![Note::Agent { what: "x".repeat(100) }];
        Entry { wall_unix_ms: ms, notes, ..Entry::default() }
    }

    fn read(folder: &Path) -> Vec<u64> {
        let mut found = Vec::new();
        read_entries(&StateDir(folder.to_owned()), |e| found.push(e.wall_unix_ms)).unwrap();
        found
    }

    #[test]
    fn entries_come_back_in_order_also_over_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        assert!(read(folder.path()).is_empty(), "no journal yet");
        let mut log = DecisionLog::with_limit(&path, 1000).unwrap();
        let rotations: Vec<u64> = (1..=12).filter(|ms| log.append(&entry(*ms)).unwrap()).collect();
        assert!(!rotations.is_empty());
        let seen = read(folder.path());
        assert!(seen.is_sorted() && seen.last() == Some(&12) && seen.len() >= 6, "{seen:?}");
        assert!(std::fs::metadata(&path).unwrap().len() <= 1000);
    }

    #[test]
    fn half_a_line_of_a_dead_writer_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        DecisionLog::with_limit(&path, 1000).unwrap().append(&entry(1)).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"time\":").unwrap();
        DecisionLog::with_limit(&path, 1000).unwrap().append(&entry(2)).unwrap();
        assert_eq!(read(folder.path()), [1, 2]);
    }
}
