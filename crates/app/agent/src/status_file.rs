//! The status file, written beside the thread that decides.
//!
//! To put a new file in an old one's place may wait for the disk: the old one is still being written back. Where a
//! tenant keeps the disk busy, or starves the kernel's own workers, that takes tens of seconds. Whoever decides must not
//! stand still meanwhile, so a thread of its own writes: always the latest, one that came too late for it is left out.

use crate::status::Status;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Writes a file until it is finished or dropped.
#[derive(Debug)]
pub(crate) struct StatusFile {
    desk: Arc<Desk>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Desk {
    papers: Mutex<Papers>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Papers {
    /// To be written next.
    next: Option<Box<Status>>,
    /// Why the last one was not.
    failure: Option<io::Error>,
    ends: bool,
}

impl Desk {
    fn papers(&self) -> MutexGuard<'_, Papers> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next to be written; none once it is over.
    fn next(&self) -> Option<Box<Status>> {
        let idle = |papers: &mut Papers| papers.next.is_none() && !papers.ends;
        let waited = self.changed.wait_while(self.papers(), idle);
        waited.unwrap_or_else(PoisonError::into_inner).next.take()
    }

    fn write(&self, path: &Path) {
        while let Some(status) = self.next() {
            let failure = status.write(path).err();
            self.papers().failure = failure;
        }
    }
}

impl StatusFile {
    /// Of this path; nothing is written yet.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn new(path: PathBuf) -> io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let theirs = Arc::clone(&desk);
        let writer = std::thread::Builder::new()
            .name("quell-status".to_owned())
            .spawn(move || theirs.write(&path))?;
        Ok(Self { desk, writer: Some(writer) })
    }

    /// It will be written soon, in the place of one that is not yet.
    ///
    /// # Errors
    /// One before it could not be written.
    pub(crate) fn publish(&self, status: Status) -> io::Result<()> {
        let mut papers = self.desk.papers();
        papers.next = Some(Box::new(status));
        self.desk.changed.notify_all();
        papers.failure.take().map_or(Ok(()), Err)
    }

    /// Waits until the latest is written.
    ///
    /// # Errors
    /// It could not be.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.end();
        self.desk.papers().failure.take().map_or(Ok(()), Err)
    }

    fn end(&mut self) {
        self.desk.papers().ends = true;
        self.desk.changed.notify_all();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(samples: u64) -> Status {
        Status { samples, ..crate::session::testing::status() }
    }

    fn samples_in(path: &Path) -> u64 {
        let text = std::fs::read(path).unwrap();
        serde_json::from_slice::<Status>(&text).unwrap().samples
    }

    #[test]
    fn the_latest_is_there_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.json");
        let file = StatusFile::new(path.clone()).unwrap();
        for samples in 1..=50 {
            file.publish(status(samples)).unwrap();
        }
        file.finish().unwrap();
        assert_eq!(samples_in(&path), 50);
    }

    #[test]
    fn what_could_not_be_written_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = StatusFile::new(folder.path().join("none/status.json")).unwrap();
        file.publish(status(1)).unwrap();
        assert_eq!(file.finish().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn who_publishes_does_not_wait_for_a_disk_that_takes_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.json");
        // Whoever opens a pipe that nobody reads stands still.
        let pipe = folder.path().join("status.json.new");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let file = StatusFile::new(path.clone()).unwrap();
        file.publish(status(1)).unwrap();
        file.publish(status(2)).unwrap();
        let taken = std::fs::read_to_string(&pipe).unwrap();
        assert!(taken.contains("\"samples\""), "only now anything was taken: {taken}");
        file.publish(status(3)).unwrap();
        file.finish().unwrap();
        assert_eq!(samples_in(&path), 3);
    }
}
