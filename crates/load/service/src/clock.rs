//! Time and priority of the calling thread.

use rustix::thread::{ClockId as SleepClock, clock_nanosleep_absolute};
use rustix::time::{ClockId, Timespec, clock_gettime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// A low real-time priority is enough: it stands above every normal thread, and below what the
/// administrator may have put higher on purpose.
const REALTIME_PRIORITY: u8 = 10;

fn nanoseconds(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * SECOND_NS + u64::try_from(time.tv_nsec).unwrap_or(0)
}

pub(crate) fn timespec(ns: u64) -> Timespec {
    let seconds = i64::try_from(ns / SECOND_NS).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: (ns % SECOND_NS) as _ }
}

/// `CLOCK_MONOTONIC` in nanoseconds; the same in all processes and namespaces of a machine.
#[must_use]
pub fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// CPU time of the calling thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// Sleeps until the monotonic clock shows `deadline_ns`, or a signal comes.
pub(crate) fn sleep_until(deadline_ns: u64) {
    // An interrupted sleep is harmless: callers look at the clock again.
    let _ = clock_nanosleep_absolute(SleepClock::Monotonic, &timespec(deadline_ns));
}

/// Lets sleeps of this thread end at once instead of up to 50 µs late.
pub(crate) fn sharpen_timers() {
    // A kernel that refuses leaves us with the lateness that the report shows anyway.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Whether the generator ran with real-time priority (L-6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", content = "why", rename_all = "snake_case")]
pub enum Realtime {
    /// `SCHED_FIFO`.
    On,
    /// Not asked for.
    Off,
    /// Asked for, but the kernel refused.
    Refused(String),
}

/// Gives the calling thread `SCHED_FIFO` if wanted.
pub(crate) fn make_realtime(wanted: bool) -> Realtime {
    if !wanted {
        return Realtime::Off;
    }
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let Ok(priority) = REALTIME_PRIORITY.try_into() else {
        return Realtime::Refused("no such priority".into());
    };
    let outcome = set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Crossplatform(priority),
        fifo,
    );
    match outcome {
        Ok(()) => Realtime::On,
        Err(thread_priority::Error::OS(errno)) => {
            Realtime::Refused(std::io::Error::from_raw_os_error(errno).to_string())
        }
        Err(other) => Realtime::Refused(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_end_after_their_deadline() {
        let deadline = now_ns() + 2_000_000;
        while now_ns() < deadline {
            sleep_until(deadline);
        }
        assert!(now_ns() >= deadline);
    }

    #[test]
    fn thread_cpu_time_does_not_count_sleep() {
        let (cpu, wall) = (thread_cpu_ns(), now_ns());
        sleep_until(wall + 50_000_000);
        assert!(thread_cpu_ns() - cpu < now_ns() - wall);
    }

    #[test]
    fn real_time_is_an_answer_not_a_failure() {
        let outcome = std::thread::spawn(|| make_realtime(true)).join().unwrap();
        assert!(matches!(outcome, Realtime::On | Realtime::Refused(_)), "{outcome:?}");
        assert_eq!(make_realtime(false), Realtime::Off);
    }
}
