//! A workload that goes on: its speed is the change of a counter over a window.

use super::source::{Source, moving};
use super::started::Started;
use super::{Counter, Group, Metric, Speed, Subject, repeated};
use crate::ProfileError;
use quell_pressure::{Bound, Stop};
use quell_types::CpuSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Before and after a window it is waited for progress for so many times as long, and so long at least, before the
/// workload counts as stalled.
const PATIENCE: u32 = 20;
const LEAST_PATIENCE: Duration = Duration::from_secs(3);
/// While it is waited it is looked so often in the time of a window, but not more often than every so long.
const LOOKS: u32 = 40;
const LEAST_LOOK: Duration = Duration::from_micros(500);
/// A window is begun anew in so many further runs, where one ended in it each time.
const MOST_RUNS: u32 = 3;

/// A workload that goes on by itself. One that was started for the measurement, and has ended well, is started again: of
/// many runs of a few seconds each window lies in one.
#[derive(Debug)]
pub struct Steady {
    name: String,
    source: Source,
    group: Group,
    /// What was started for the measurement, and may be stopped in it.
    own: Option<Started>,
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
    /// A workload that runs already. Its progress is what the first of `counters` that moves counts;
    /// where none does, the bytes of its system calls. It is never stopped.
    ///
    /// # Errors
    /// It is not there, its counters may not be read, or nothing shows its progress.
    pub fn attach(
        name: impl Into<String>,
        group: Group,
        counters: Vec<Box<dyn Counter>>,
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
        let mut sources: Vec<Source> = counters.into_iter().map(Source::Other).collect();
        sources.push(Source::io());
        let source = moving(&name, &group, sources, stop)?;
        Ok(Steady { name, source, group, own: None, resting: false, stop: stop.clone() })
    }

    pub(super) fn of(own: Started, source: Source, stop: &Stop) -> Steady {
        let (name, group) = (own.start.name().to_owned(), own.group());
        Steady { name, source, group, own: Some(own), resting: false, stop: stop.clone() }
    }

    fn read(&mut self) -> Option<Reading> {
        let cpu = self.group.cpu_time();
        let work = self.source.count(&self.group)?;
        Some(Reading { at: Instant::now(), work, cpu })
    }

    /// Its speed over a window; none if a run ended in it.
    fn within_a_run(&mut self, length: Duration) -> Result<Option<Speed>, ProfileError> {
        let look = (length / LOOKS).max(LEAST_LOOK);
        let patience = (length * PATIENCE).max(LEAST_PATIENCE);
        let Some(from) = self.step(look, patience)? else { return Ok(None) };
        if self.stop.wait(length) {
            return Err(ProfileError::Stopped);
        }
        let to = self.step(look, patience)?;
        Ok(to.and_then(|to| speed(from, to)))
    }

    /// The counters right after the count went on: work that is counted in large pieces is counted in whole ones. None if
    /// the run has ended; another one is begun.
    fn step(
        &mut self,
        look: Duration,
        patience: Duration,
    ) -> Result<Option<Reading>, ProfileError> {
        let (end, mut before) = (Instant::now() + patience, None);
        while Instant::now() < end {
            if self.begin_again()? {
                return Ok(None);
            }
            let now = self.read();
            if now.zip(before).is_some_and(|(now, before): (Reading, u64)| now.work > before) {
                return Ok(now);
            }
            before = before.or(now.map(|now| now.work));
            if self.stop.wait(look) {
                return Err(ProfileError::Stopped);
            }
        }
        Err(ProfileError::Stalled(self.name.clone()))
    }

    /// Starts it again if it has ended well.
    fn begin_again(&mut self) -> Result<bool, ProfileError> {
        let Some(own) = self.own.as_mut() else { return Ok(false) };
        if !own.ends_within(Duration::ZERO)? {
            return Ok(false);
        }
        self.source = own.again(self.source.metric())?;
        self.group = own.group();
        self.resting = false;
        Ok(true)
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
        self.source.metric()
    }

    fn speed(&mut self, length: Duration) -> Result<Speed, ProfileError> {
        self.wake()?;
        for _ in 0..=MOST_RUNS {
            if let Some(speed) = self.within_a_run(length)? {
                return Ok(speed);
            }
        }
        Err(ProfileError::Stalled(self.name.clone()))
    }

    fn cpu_time(&self) -> Option<Duration> {
        self.group.cpu_time()
    }

    fn can_rest(&self) -> bool {
        self.own.is_some()
    }

    fn rest(&mut self) -> Result<(), ProfileError> {
        if let Some(own) = &self.own {
            own.child.pause().map_err(|e| ProfileError::subject(&self.name, e))?;
            self.resting = true;
        }
        Ok(())
    }

    fn wake(&mut self) -> Result<(), ProfileError> {
        if std::mem::take(&mut self.resting)
            && let Some(own) = &self.own
        {
            own.child.resume().map_err(|e| ProfileError::subject(&self.name, e))?;
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
    use super::super::output::Count;
    use super::super::started::{By, Counters, Start};
    use super::*;

    const WINDOW: Duration = Duration::from_millis(20);

    #[test]
    fn a_running_process_is_watched_and_never_stopped() {
        let words = ["cat", "/dev/zero"].map(str::to_owned);
        let child = repeated::start(&words, &CpuSet::new(), Stdio::null()).unwrap();
        let stop = Stop::new().unwrap();
        let mut subject =
            Steady::attach("cat", Group::Process(child.id()), Vec::new(), &stop).unwrap();
        let found = subject.speed(WINDOW).unwrap();
        assert!(found.by_wall > 0.0 && found.by_cpu.is_some_and(|s| s > 0.0), "{found:?}");
        assert!(!subject.can_rest());
        drop(child);
        assert!(matches!(subject.speed(WINDOW), Err(ProfileError::Stalled(_))));
        let nobody = Group::Process(0x7fff_fff0);
        assert!(Steady::attach("none", nobody, Vec::new(), &stop).is_err());
    }

    /// A counter that stands, or moves at each look.
    #[derive(Debug)]
    struct Made(Metric, u64, u64);

    impl Counter for Made {
        fn metric(&self) -> Metric {
            self.0
        }

        fn count(&mut self) -> Option<u64> {
            self.1 += self.2;
            Some(self.1)
        }
    }

    /// A program of this script whose progress is the bytes of its system calls.
    fn started(script: &str, stop: &Stop) -> Steady {
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        let by = By::Counters(Counters::default());
        let (own, mut sources) = Start { words, cpus: CpuSet::new(), by }.begin().unwrap();
        Steady::of(own, sources.pop().unwrap(), stop)
    }

    #[test]
    fn a_program_that_has_ended_well_is_started_again() {
        let stop = Stop::new().unwrap();
        let mut subject = started("for i in $(seq 40); do echo $i; sleep 0.005; done", &stop);
        let pid = |subject: &Steady| subject.own.as_ref().map(|own| own.child.id());
        let (mut pids, begun) = (vec![pid(&subject)], Instant::now());
        while pids.len() < 3 && begun.elapsed() < Duration::from_secs(60) {
            let found = subject.speed(WINDOW).unwrap();
            assert!(found.by_wall > 0.0, "{found:?}");
            pids.push(pid(&subject));
            pids.dedup();
        }
        assert_eq!(pids.len(), 3, "three runs");
        subject.rest().unwrap();
        assert!(subject.speed(WINDOW).is_ok(), "it wakes");
    }

    #[test]
    fn a_program_that_ends_badly_or_at_once_is_told() {
        let stop = Stop::new().unwrap();
        for (script, words) in [
            ("for i in 1 2 3; do echo $i; sleep 0.01; done; exit 5", "status 5"),
            ("exit 0", "made no progress"),
        ] {
            let error = started(script, &stop).speed(Duration::from_secs(1)).unwrap_err();
            assert!(error.to_string().contains(words), "{script}: {error}");
        }
    }

    #[test]
    fn a_line_now_and_then_is_waited_for() {
        let words = ["sh", "-c", "while sleep 0.6; do echo x; done"].map(str::to_owned).to_vec();
        let by = By::Output(Count::Lines(String::new()), Metric::OutputLines);
        let (own, mut sources) = Start { words, cpus: CpuSet::new(), by }.begin().unwrap();
        let mut subject = Steady::of(own, sources.pop().unwrap(), &Stop::new().unwrap());
        let found = subject.speed(Duration::from_millis(5)).unwrap();
        assert!(found.by_wall > 0.0 && found.by_wall < 10.0, "two whole lines: {found:?}");
    }

    /// A counter that moves at each third look.
    #[derive(Debug)]
    struct Pieces(u64);

    impl Counter for Pieces {
        fn metric(&self) -> Metric {
            Metric::OwnCount
        }

        fn count(&mut self) -> Option<u64> {
            self.0 += 1;
            Some(self.0 / 3)
        }
    }

    #[test]
    fn large_pieces_are_counted_whole() {
        let stop = Stop::new().unwrap();
        let mut subject = Steady {
            source: Source::Other(Box::new(Pieces(0))),
            ..started("exec sleep 600", &stop)
        };
        let mut step = || subject.step(LEAST_LOOK, Duration::from_secs(60)).unwrap().unwrap().work;
        assert_eq!((step(), step()), (1, 2));
        let Source::Other(_) = subject.source else { panic!("it is counted otherwise") };
        assert_eq!(subject.source.count(&subject.group), Some(2), "right after it moved");
    }

    #[test]
    fn the_first_counter_that_moves_is_taken() {
        let made = |metric, step| Box::new(Made(metric, 0, step)) as Box<dyn Counter>;
        let words = ["sleep", "600"].map(str::to_owned);
        let child = repeated::start(&words, &CpuSet::new(), Stdio::null()).unwrap();
        let (stop, group) = (Stop::new().unwrap(), Group::Process(child.id()));
        let both = vec![made(Metric::Requests, 0), made(Metric::Instructions, 9)];
        let mut subject = Steady::attach("sleep", group.clone(), both, &stop).unwrap();
        assert_eq!(subject.metric(), Metric::Instructions);
        assert!(subject.speed(WINDOW).unwrap().by_wall > 0.0);
        let none = Steady::attach("sleep", group, vec![made(Metric::Requests, 0)], &stop);
        let error = none.unwrap_err().to_string();
        assert!(error.contains("requests") && error.contains("system calls"), "{error}");
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
