//! Stopping early: by the caller, by a signal, or because everything else failed.

use crate::PressureError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Asked by a caller, not by a signal.
const BY_CALLER: u32 = u32::MAX;

/// A request to stop that threads can look at and that wakes whoever waits for it. Clones are the
/// same request.
#[derive(Clone, Debug)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// 0: none; else the signal, or [`BY_CALLER`]. The first one stays.
    asked: AtomicU32,
    event: OwnedFd,
}

impl Shared {
    /// Async-signal-safe: an atomic and one write.
    fn ask(&self, by: u32) {
        let _ = self.asked.compare_exchange(0, by, Relaxed, Relaxed);
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

impl Stop {
    /// Nobody asked yet.
    pub fn new() -> Result<Stop, PressureError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| PressureError::system("cannot make", "an eventfd", e))?;
        Ok(Stop { shared: Arc::new(Shared { asked: AtomicU32::new(0), event }) })
    }

    /// Asks.
    pub fn request(&self) {
        self.shared.ask(BY_CALLER);
    }

    /// Whether anybody asked.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.shared.asked.load(Relaxed) != 0
    }

    /// The signal that asked, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        match self.shared.asked.load(Relaxed) {
            0 | BY_CALLER => None,
            signal => i32::try_from(signal).ok(),
        }
    }

    /// Waits until somebody asks, `timeout` at most. True if asked.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        while !self.requested() {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(left) = Timespec::try_from(left) else { return false };
            let mut event = [PollFd::new(&self.shared.event, PollFlags::IN)];
            match poll(&mut event, Some(&left)) {
                Ok(0) => return self.requested(),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        true
    }

    /// From now on SIGTERM, SIGINT and SIGHUP ask for a stop instead of ending the process.
    pub fn on_signals(&self) -> Result<(), PressureError> {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            let shared = Arc::clone(&self.shared);
            let by = signal.unsigned_abs();
            // SAFETY: the handler only touches an atomic and writes to a file descriptor, both of
            // which are async-signal-safe; it keeps what it needs alive.
            unsafe { signal_hook::low_level::register(signal, move || shared.ask(by)) }.map_err(
                |e| PressureError::system("cannot handle", format!("signal {signal}"), e),
            )?;
        }
        Ok(())
    }
}

/// The dead man's handle of a polluter process: SIGALRM ends it after this time, whatever its
/// threads do. For a command line only: a process has one alarm.
pub fn bound_process(after: Duration) {
    let seconds = u32::try_from(after.as_secs().saturating_add(1)).unwrap_or(u32::MAX);
    // SAFETY: alarm takes a number and touches no memory.
    unsafe { libc::alarm(seconds) };
}

/// Asks the kernel for SIGTERM when the thread that started this process ends, so that pressure
/// does not outlive its experiment.
pub fn die_with_parent() -> Result<(), PressureError> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|e| PressureError::system("cannot bind this process to", "its parent", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_wakes_the_waiter_and_stays() {
        let stop = Stop::new().unwrap();
        assert!(!stop.wait(Duration::from_millis(1)));
        let other = stop.clone();
        let asker = std::thread::spawn(move || other.request());
        assert!(stop.wait(Duration::from_secs(30)));
        assert!(stop.wait(Duration::ZERO), "once asked, asked for good");
        assert_eq!(stop.signal(), None);
        asker.join().unwrap();
    }

    #[test]
    fn the_first_reason_stays() {
        let stop = Stop::new().unwrap();
        stop.shared.ask(15);
        stop.request();
        assert_eq!(stop.signal(), Some(15));
    }
}
