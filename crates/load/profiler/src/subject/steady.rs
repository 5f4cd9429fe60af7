//! A workload that goes on: its speed is the change of a counter over a window.

use super::{Group, Metric, Speed, Subject, repeated};
use crate::ProfileError;
use quell_pressure::{Bound, Stop};
use quell_types::CpuSet;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A window without progress is made longer up to so many times before the workload counts as
/// stalled.
const PATIENCE: u32 = 20;

/// What counts its work.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Output(Arc<AtomicU64>, Metric),
    Io,
}

/// A workload that goes on by itself.
#[derive(Debug)]
pub struct Steady {
    name: String,
    source: Source,
    group: Group,
    /// What was started for the measurement, and may be stopped in it.
    own: Option<Bound>,
    resting: bool,
    stop: Stop,
}

/// Counters at a moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    work: u64,
    cpu: Option<Duration>,
}

impl Steady {
    /// A workload that runs already, by the bytes of its system calls. It is never stopped.
    ///
    /// # Errors
    /// It is not there, or its counters may not be read.
    pub fn attach(
        name: impl Into<String>,
        group: Group,
        stop: &Stop,
    ) -> Result<Self, ProfileError> {
        let name = name.into();
        let members = group.processes().map_err(|e| ProfileError::subject(&name, e))?;
        if members.is_empty() {
            return Err(ProfileError::subject(&name, std::io::ErrorKind::NotFound.into()));
        }
        if group.io_bytes().is_none() {
            return Err(ProfileError::subject(&name, std::io::ErrorKind::PermissionDenied.into()));
        }
        Ok(Steady {
            name,
            source: Source::Io,
            group,
            own: None,
            resting: false,
            stop: stop.clone(),
        })
    }

    pub(super) fn of(name: &str, child: Bound, source: Source, stop: &Stop) -> Steady {
        let group = Group::Process(child.id());
        let (name, stop) = (name.to_owned(), stop.clone());
        Steady { name, source, group, own: Some(child), resting: false, stop }
    }

    fn read(&self) -> Option<Reading> {
        let cpu = self.group.cpu_time();
        let work = match &self.source {
            Source::Output(counter, _) => Some(counter.load(Relaxed)),
            Source::Io => self.group.io_bytes(),
        };
        Some(Reading { at: Instant::now(), work: work?, cpu })
    }

    /// The counters after `length` from now.
    fn after(&self, length: Duration) -> Result<Reading, ProfileError> {
        if self.stop.wait(length) {
            return Err(ProfileError::Stopped);
        }
        self.alive()?;
        self.read().ok_or_else(|| ProfileError::Stalled(self.name.clone()))
    }

    fn alive(&self) -> Result<(), ProfileError> {
        let ended = self.own.as_ref().and_then(|own| own.wait(Duration::ZERO).ok().flatten());
        if ended.is_some() { Err(ProfileError::Stalled(self.name.clone())) } else { Ok(()) }
    }

    /// Gives what was started back to the caller.
    pub(super) fn into_child(self) -> Option<Bound> {
        self.own
    }
}

fn speed(from: Reading, to: Reading) -> Option<Speed> {
    let work = to.work.checked_sub(from.work).filter(|work| *work > 0)? as f64;
    let wall = (to.at - from.at).as_secs_f64();
    let cpu = to.cpu.zip(from.cpu).and_then(|(to, from)| to.checked_sub(from));
    let by_cpu = cpu.map(|cpu| cpu.as_secs_f64()).filter(|s| *s > 0.0).map(|s| work / s);
    Some(Speed { by_wall: work / wall.max(1e-9), by_cpu })
}

impl Subject for Steady {
    fn name(&self) -> &str {
        &self.name
    }

    fn metric(&self) -> Metric {
        match &self.source {
            Source::Output(_, metric) => *metric,
            Source::Io => Metric::IoBytes,
        }
    }

    fn speed(&mut self, length: Duration) -> Result<Speed, ProfileError> {
        self.wake()?;
        let stalled = || ProfileError::Stalled(self.name.clone());
        let from = self.read().ok_or_else(stalled)?;
        for _ in 0..PATIENCE {
            if let Some(found) = speed(from, self.after(length)?) {
                return Ok(found);
            }
        }
        Err(stalled())
    }

    fn can_rest(&self) -> bool {
        self.own.is_some()
    }

    fn rest(&mut self) -> Result<(), ProfileError> {
        if let Some(own) = &self.own {
            own.pause().map_err(|e| ProfileError::subject(&self.name, e))?;
            self.resting = true;
        }
        Ok(())
    }

    fn wake(&mut self) -> Result<(), ProfileError> {
        if std::mem::take(&mut self.resting)
            && let Some(own) = &self.own
        {
            own.resume().map_err(|e| ProfileError::subject(&self.name, e))?;
        }
        Ok(())
    }
}

/// A command that is repeated by itself, as a neighbour that goes on: it can be paused and resumed,
/// and is gone when dropped. It ends when a run fails.
///
/// # Errors
/// It cannot be started.
pub fn looped(words: &[String], cpus: &CpuSet) -> Result<Bound, ProfileError> {
    let shell = ["sh", "-c", r#"while "$@"; do :; done"#, "sh"].map(str::to_owned);
    let all: Vec<String> = shell.into_iter().chain(words.iter().cloned()).collect();
    repeated::start(&all, cpus, Stdio::null())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(20);

    #[test]
    fn a_running_process_is_watched_and_never_stopped() {
        let words = ["cat", "/dev/zero"].map(str::to_owned);
        let child = repeated::start(&words, &CpuSet::new(), Stdio::null()).unwrap();
        let stop = Stop::new().unwrap();
        let mut subject = Steady::attach("cat", Group::Process(child.id()), &stop).unwrap();
        let found = subject.speed(WINDOW).unwrap();
        assert!(found.by_wall > 0.0 && found.by_cpu.is_some_and(|s| s > 0.0), "{found:?}");
        assert!(!subject.can_rest());
        drop(child);
        assert!(matches!(subject.speed(WINDOW), Err(ProfileError::Stalled(_))));
        assert!(Steady::attach("none", Group::Process(0x7fff_fff0), &stop).is_err());
    }

    #[test]
    fn a_neighbour_repeats_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = format!("echo x >> {}", log.display());
        let child = looped(&["sh", "-c", &script].map(str::to_owned), &CpuSet::new()).unwrap();
        let size = || std::fs::metadata(&log).map_or(0, |m| m.len());
        let end = Instant::now() + Duration::from_secs(30);
        while size() < 6 && Instant::now() < end {
            std::thread::yield_now();
        }
        assert!(size() >= 6, "several runs");
        assert_eq!(child.wait(Duration::ZERO).unwrap(), None);
    }
}
