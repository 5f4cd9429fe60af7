//! What counts a workload's progress.

use super::group::IoTally;
use super::{Group, Metric};
use crate::ProfileError;
use quell_pressure::Stop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a workload that runs already is watched by each counter.
const WATCHED: Duration = Duration::from_millis(400);

/// Counts a workload's progress from outside: hardware counters, its sockets.
pub trait Counter: std::fmt::Debug + Send {
    /// What it counts.
    fn metric(&self) -> Metric;

    /// The count so far; none if it cannot be read now.
    fn count(&mut self) -> Option<u64>;
}

/// What counts its work.
#[derive(Debug)]
pub(super) enum Source {
    Output(Arc<AtomicU64>, Metric),
    Io(IoTally),
    Other(Box<dyn Counter>),
}

impl Source {
    /// By the bytes of system calls.
    pub(super) fn io() -> Source {
        Source::Io(IoTally::default())
    }

    pub(super) fn metric(&self) -> Metric {
        match self {
            Source::Output(_, metric) => *metric,
            Source::Io(_) => Metric::IoBytes,
            Source::Other(counter) => counter.metric(),
        }
    }

    pub(super) fn count(&mut self, group: &Group) -> Option<u64> {
        match self {
            Source::Output(counter, _) => Some(counter.load(Relaxed)),
            Source::Io(tally) => tally.count(group),
            Source::Other(counter) => counter.count(),
        }
    }
}

/// The first of these that moves while the workload is watched.
pub(super) fn moving(
    name: &str,
    group: &Group,
    mut sources: Vec<Source>,
    stop: &Stop,
) -> Result<Source, ProfileError> {
    let before: Vec<Option<u64>> = sources.iter_mut().map(|s| s.count(group)).collect();
    let begun = Instant::now();
    if stop.wait(WATCHED) {
        return Err(ProfileError::Stopped);
    }
    for (i, before) in before.iter().enumerate() {
        let now = sources[i].count(group);
        if before.zip(now).is_some_and(|(before, now)| now > before) {
            return Ok(sources.swap_remove(i));
        }
    }
    let tried: Vec<String> = sources.iter().map(|s| s.metric().words().to_owned()).collect();
    Err(ProfileError::Unseen {
        what: name.to_owned(),
        seconds: begun.elapsed().as_secs_f64(),
        tried: tried.join(", "),
    })
}
