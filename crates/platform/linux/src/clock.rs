//! The platform's clock: monotonic, the same as the kernel's `CLOCK_MONOTONIC`.

use quell_types::Time;
use rustix::thread::{ClockId, Timespec};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Now.
pub(crate) fn now() -> Time {
    let t = rustix::time::clock_gettime(ClockId::Monotonic);
    Time(t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_nsec.unsigned_abs())
}

/// Nanoseconds since boot, as the kernel counts the starts of processes.
pub(crate) fn boot_ns() -> u64 {
    let t = rustix::time::clock_gettime(ClockId::Boottime);
    t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_nsec.unsigned_abs()
}

/// Milliseconds since 1970, for people.
pub(crate) fn wall_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Sleeps until a moment of the same clock.
pub(crate) fn sleep_until(moment: Time) {
    let wait = moment.since(now());
    if wait > Duration::ZERO {
        let request = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        // A signal ends the sleep early: the caller looks at the clock again.
        let _ = rustix::thread::nanosleep(&request);
    }
}
