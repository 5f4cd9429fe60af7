//! What systemd is told. Without systemd nothing happens.

use sd_notify::NotifyState;
use std::time::{Duration, Instant};

/// Beats often enough for the watchdog.
#[derive(Debug)]
pub(crate) struct Heart {
    every: Option<Duration>,
    last: Instant,
}

impl Heart {
    pub(crate) fn new() -> Self {
        Self { every: sd_notify::watchdog_enabled().map(|limit| limit / 3), last: Instant::now() }
    }

    /// Called at every step and while idle: the agent lives.
    pub(crate) fn beat(&mut self) {
        if self.every.is_some_and(|every| self.last.elapsed() >= every) {
            tell(&[NotifyState::Watchdog]);
            self.last = Instant::now();
        }
    }

    pub(crate) fn ready(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status), NotifyState::Watchdog]);
    }

    pub(crate) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(_) => tell(&[NotifyState::Reloading]),
        }
    }

    pub(crate) fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }
}

/// A manager that cannot be reached is no reason to stop guarding.
fn tell(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
