//! Signals as flags.

use rustix::thread::Timespec;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest sleep at a stretch: a signal that arrives just before a sleep waits this long.
const SLICE: Duration = Duration::from_millis(250);

/// What was asked of the agent from outside.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Flags that only [`Signals::stop`] and [`Signals::reload`] raise.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Flags raised by SIGTERM and SIGINT (stop) and SIGHUP (reload). A second SIGINT or SIGTERM
    /// ends the process at once; `quell restore` then puts things back.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn of_process() -> io::Result<Self> {
        let signals = Self::default();
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&signals.stop),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&signals.stop))?;
        }
        signal_hook::flag::register(SIGHUP, Arc::clone(&signals.reload))?;
        Ok(signals)
    }

    /// Asks for a stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Asks for a reload.
    pub fn reload(&self) {
        self.reload.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a reload was asked for since this was last called.
    #[must_use]
    pub fn takes_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn any(&self) -> bool {
        self.stops() || self.reload.load(Ordering::Relaxed)
    }

    /// Sleeps, but not longer than until a signal comes; calls `beat` now and then.
    pub(crate) fn sleep(&self, mut span: Duration, mut beat: impl FnMut()) {
        while span > Duration::ZERO && !self.any() {
            beat();
            let slice = span.min(SLICE);
            let request = Timespec { tv_sec: 0, tv_nsec: i64::from(slice.subsec_nanos()) };
            if let rustix::thread::NanosleepRelativeResult::Interrupted(_) =
                rustix::thread::nanosleep(&request)
            {
                continue;
            }
            span = span.saturating_sub(slice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_when_a_stop_is_asked_for() {
        let signals = Signals::new();
        let other = signals.clone();
        let begun = std::time::Instant::now();
        let thread = std::thread::spawn(move || other.stop());
        signals.sleep(Duration::from_secs(3600), || ());
        thread.join().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(600) && signals.stops());
    }

    #[test]
    fn a_reload_is_taken_once() {
        let signals = Signals::new();
        signals.reload();
        assert!(signals.takes_reload() && !signals.takes_reload() && !signals.stops());
    }
}
