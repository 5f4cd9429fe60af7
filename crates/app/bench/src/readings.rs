//! A thread that reads something several times a second.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Reads until it is finished or dropped.
#[derive(Debug)]
pub(crate) struct Readings<T> {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Vec<T>>>,
}

impl<T: Send + 'static> Readings<T> {
    /// Reads at once, each `period`, and once more at the end.
    pub(crate) fn start(
        name: &str,
        period: Duration,
        mut read: impl FnMut() -> T + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let all = move || {
            let mut readings = vec![read()];
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                readings.push(read());
            }
            readings.push(read());
            readings
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(all)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Ends it and gives what it read.
    pub(crate) fn finish(mut self) -> anyhow::Result<Vec<T>> {
        drop(self.stop.take());
        let joined = self.thread.take().map(JoinHandle::join);
        joined.and_then(Result::ok).ok_or_else(|| anyhow::anyhow!("a thread that reads panicked"))
    }
}

impl<T> Drop for Readings<T> {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
