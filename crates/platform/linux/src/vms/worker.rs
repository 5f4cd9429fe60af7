//! The one thread that talks with libvirt while the agent runs.

use super::PATIENCE;
use quell_libvirt::{Access, Connection, LibvirtError};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// After a failure libvirt is left alone for so long.
const REST: Duration = Duration::from_secs(5);
/// Jobs that may wait at the end: a knob has one at a time, and a machine two such knobs.
const SETTLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce(&mut Client) + Send>;

/// Takes jobs and does them one after the other; ends with the last handle.
#[derive(Clone)]
pub(crate) struct Worker {
    jobs: Sender<Job>,
}

impl Worker {
    pub(super) fn start(root: &Path) -> Self {
        let (jobs, waiting) = channel::<Job>();
        let mut client = Client::new(root);
        let run = move || waiting.into_iter().for_each(|job| job(&mut client));
        // Without a thread the jobs are dropped, and whoever waits for one is told so.
        let _ = std::thread::Builder::new().name("quell-libvirt".into()).spawn(run);
        Self { jobs }
    }

    /// Adds a job. One that cannot be done any more is dropped.
    pub(super) fn send(&self, job: impl FnOnce(&mut Client) + Send + 'static) {
        let _ = self.jobs.send(Box::new(job));
    }

    /// Waits for all that was sent before.
    pub(super) fn settle(&self) {
        let (done, wait) = channel();
        self.send(move |_| {
            // Whoever waited may have given up.
            let _ = done.send(());
        });
        let _ = wait.recv_timeout(SETTLE);
    }
}

/// A connection that is opened when it is needed, and again when it broke.
pub(crate) struct Client {
    root: PathBuf,
    connection: Option<Connection>,
    failed: Option<(Instant, String)>,
}

impl Client {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), connection: None, failed: None }
    }

    /// Below which its sockets lie, and where processes are told of.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Talks with libvirt: what came of the talk.
    ///
    /// # Errors
    /// libvirt does not answer, or did not a moment ago: there was no talk.
    pub(super) fn talk<T>(
        &mut self,
        talk: impl FnOnce(&mut Connection) -> Result<T, LibvirtError>,
    ) -> Result<Result<T, LibvirtError>, String> {
        let connection = self.connection()?;
        let done = talk(connection);
        let ended = !connection.is_open();
        if let Some(error) = done.as_ref().err().filter(|_| ended) {
            self.note(error.to_string());
        }
        Ok(done)
    }

    fn connection(&mut self) -> Result<&mut Connection, String> {
        if let Some((when, why)) = &self.failed
            && when.elapsed() < REST
        {
            return Err(why.clone());
        }
        if !self.connection.as_ref().is_some_and(Connection::is_open) {
            let opened = Connection::system(&self.root, Access::Full, PATIENCE);
            self.connection = opened.map_err(|error| self.note(error.to_string())).map(Some)?;
        }
        let none = || "libvirt does not answer".to_owned();
        self.connection.as_mut().ok_or_else(none)
    }

    fn note(&mut self, why: String) -> String {
        self.failed = Some((Instant::now(), why.clone()));
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_in_order_and_a_failure_is_not_repeated_at_once() {
        let root = tempfile::tempdir().unwrap();
        let worker = Worker::start(root.path());
        let (told, seen) = channel();
        for number in 0..3 {
            let told = told.clone();
            worker.send(move |client| {
                let why = client.talk(Connection::version).unwrap_err();
                told.send((number, why, client.failed.as_ref().map(|(when, _)| *when))).unwrap();
            });
        }
        worker.settle();
        let seen: Vec<_> = seen.try_iter().collect();
        assert_eq!(seen.iter().map(|(number, ..)| *number).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(seen[0].1.contains("no libvirt here"), "{}", seen[0].1);
        assert!(seen[0].2.is_some() && seen[0].2 == seen[2].2, "asked again at once");
    }

    #[test]
    fn a_job_that_panics_leaves_nobody_waiting() {
        let root = tempfile::tempdir().unwrap();
        let worker = Worker::start(root.path());
        worker.send(|_| panic!("on purpose"));
        let begun = Instant::now();
        worker.settle();
        assert!(begun.elapsed() < SETTLE);
    }
}
