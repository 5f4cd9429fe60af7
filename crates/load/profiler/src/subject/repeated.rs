//! A command that ends, repeated: its speed is whole runs by time.

use super::{Metric, Speed, Subject};
use crate::ProfileError;
use quell_pressure::{Bound, Ended, Stop, spawn_bound};
use quell_topology::Machine;
use quell_types::CpuSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often a wait looks whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A command that is run over and over.
#[derive(Debug)]
pub struct Repeated {
    words: Vec<String>,
    cpus: CpuSet,
    stop: Stop,
    longest: Duration,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) wall: Duration,
    /// Of the process, all threads; none where children did part of the work, whose time is told in
    /// hundredths of a second only.
    pub(super) cpu: Option<Duration>,
}

impl Repeated {
    /// This command on these CPUs (none: all), each run of which takes `longest` at most.
    #[must_use]
    pub fn new(words: &[String], cpus: &CpuSet, stop: &Stop, longest: Duration) -> Repeated {
        let (words, cpus, stop) = (words.to_vec(), cpus.clone(), stop.clone());
        Repeated { words, cpus, stop, longest }
    }

    /// Runs it once.
    pub(super) fn run(&self) -> Result<Run, ProfileError> {
        let begun = Instant::now();
        let child = start(&self.words, &self.cpus, Stdio::null())?;
        loop {
            let waited = child.wait(LOOK).map_err(|e| ProfileError::subject(&self.words[0], e))?;
            let wall = begun.elapsed();
            if let Some(ended) = waited {
                success(&self.words, ended, wall)?;
                let alone = !had_children(child.id());
                return Ok(Run { wall, cpu: child.cpu_time().filter(|_| alone) });
            }
            if self.stop.requested() {
                return Err(ProfileError::Stopped);
            }
            if wall > self.longest {
                return Err(ProfileError::Stalled(self.words.join(" ")));
            }
        }
    }
}

/// Whether a process, not reaped yet, has waited for children of its own: whoever ran had page faults.
fn had_children(pid: u32) -> bool {
    Machine::new("/").process(pid).is_ok_and(|process| process.child_faults > 0)
}

/// Starts a command, its input empty and its errors unheard.
pub(super) fn start(words: &[String], cpus: &CpuSet, out: Stdio) -> Result<Bound, ProfileError> {
    let (program, rest) = words.split_first().ok_or(ProfileError::Option {
        option: "COMMAND",
        value: "empty".to_owned(),
        allowed: "give a program and its arguments after --",
    })?;
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
    spawn_bound(&mut command, cpus)
        .map_err(|source| ProfileError::Start { program: program.clone(), source })
}

/// An error unless it ended well.
pub(super) fn success(words: &[String], ended: Ended, after: Duration) -> Result<(), ProfileError> {
    let status = match ended {
        Ended::Status(0) => return Ok(()),
        Ended::Status(code) => format!("status {code}"),
        Ended::Signal(signal) => format!("signal {signal}"),
    };
    let (program, hint) = (words.join(" "), String::new());
    Err(ProfileError::Failed { program, status, after_s: after.as_secs_f64(), hint })
}

impl Subject for Repeated {
    fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    fn metric(&self) -> Metric {
        Metric::Runs
    }

    fn speed(&mut self, length: Duration) -> Result<Speed, ProfileError> {
        let (mut runs, mut wall, mut cpu) = (0.0, Duration::ZERO, Some(Duration::ZERO));
        while wall < length {
            let run = self.run()?;
            runs += 1.0;
            wall += run.wall;
            cpu = cpu.and_then(|sum| Some(sum + run.cpu?));
        }
        let per = |time: Duration| runs / time.as_secs_f64().max(1e-9);
        Ok(Speed { by_wall: per(wall), by_cpu: cpu.filter(|cpu| !cpu.is_zero()).map(per) })
    }

    fn can_rest(&self) -> bool {
        true
    }

    fn rests_between(&self) -> bool {
        true
    }

    fn rest(&mut self) -> Result<(), ProfileError> {
        Ok(())
    }

    fn wake(&mut self) -> Result<(), ProfileError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(script: &str) -> Repeated {
        let words = ["sh", "-c", script].map(str::to_owned);
        Repeated::new(&words, &CpuSet::new(), &Stop::new().unwrap(), Duration::from_secs(60))
    }

    #[test]
    fn speed_is_whole_runs_by_time() {
        let mut sleeper = repeated("sleep 0.05");
        let speed = sleeper.speed(Duration::from_millis(60)).unwrap();
        assert!(speed.by_wall > 0.0 && speed.by_wall < 20.0, "{speed:?}");
    }

    #[test]
    fn cpu_time_is_told_of_who_works_alone() {
        let looped = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done";
        let alone = repeated(looped).speed(Duration::from_millis(1)).unwrap();
        assert!(alone.by_cpu.is_some_and(|by_cpu| by_cpu >= alone.by_wall), "{alone:?}");
        let by_child = repeated(&format!("sh -c '{looped}'; true"));
        assert_eq!(by_child.run().unwrap().cpu, None, "the work was another's");
    }

    /// What one run of a sort of so many lines costs, of which two threads do half each, or one all.
    fn sorted(lines: &std::path::Path, threads: u32) -> Duration {
        let parallel = format!("--parallel={threads}");
        let words = ["sort", &parallel, "-S", "256M", "-o", "/dev/null", lines.to_str().unwrap()];
        let words = words.map(str::to_owned);
        let stop = Stop::new().unwrap();
        let sort = Repeated::new(&words, &CpuSet::new(), &stop, Duration::from_secs(60));
        let mut costs: Vec<Duration> = (0..5).map(|_| sort.run().unwrap().cpu.unwrap()).collect();
        costs.sort();
        costs[2]
    }

    #[test]
    fn threads_that_have_ended_count() {
        let folder = tempfile::tempdir().unwrap();
        let lines = folder.path().join("lines");
        // Enough that `sort` begins a thread for half of them.
        let scattered =
            (0..400_000_u64).map(|i| format!("{}\n", i.wrapping_mul(0x9E37_79B9) % 1_000_003));
        std::fs::write(&lines, scattered.collect::<String>()).unwrap();
        let ratio = sorted(&lines, 2).as_secs_f64() / sorted(&lines, 1).as_secs_f64();
        assert!(ratio > 0.75, "two threads cost {ratio} of what one does");
    }

    #[test]
    fn failures_and_stops_are_told() {
        let failed = repeated("exit 4").speed(Duration::ZERO + Duration::from_millis(1));
        assert!(failed.unwrap_err().to_string().contains("status 4"));
        let mut stopped = repeated("sleep 600");
        stopped.stop.request();
        let end = stopped.speed(Duration::from_millis(1));
        assert!(matches!(end, Err(ProfileError::Stopped)), "{end:?}");
        let words = ["/nowhere/at/all".to_owned()];
        let none = Repeated::new(&words, &CpuSet::new(), &Stop::new().unwrap(), LOOK).run();
        assert!(none.unwrap_err().to_string().contains("/nowhere/at/all"));
    }
}
