//! Starting a workload, and finding out how its progress can be seen.

use super::output::{self, Count};
use super::steady::Source;
use super::{Metric, Repeated, Steady, Subject, repeated};
use crate::ProfileError;
use crate::stats::quantile;
use quell_pressure::{Bound, Stop};
use quell_types::CpuSet;
use std::process::Stdio;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Which progress counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Whole runs if the command ends soon, else the bytes of its system calls if they come steadily.
    #[default]
    Auto,
    /// Lines that it prints.
    Lines,
    /// Bytes that it prints.
    Bytes,
    /// Lines that it prints and that hold this text.
    Pattern(String),
    /// Whole runs.
    Runs,
}

impl FromStr for Progress {
    type Err = ProfileError;

    /// `auto`, `lines`, `bytes`, `runs`; anything else is a text to look for.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "auto" => Progress::Auto,
            "lines" => Progress::Lines,
            "bytes" => Progress::Bytes,
            "runs" => Progress::Runs,
            "" => {
                let allowed = "give lines, bytes, runs, or a text that lines hold";
                let (option, value) = ("--progress", "empty".to_owned());
                return Err(ProfileError::Option { option, value, allowed });
            }
            text => Progress::Pattern(text.to_owned()),
        })
    }
}

/// The words of a command, parted by spaces and quoted as in a shell. No shell runs: nothing is
/// expanded; who wants that writes `sh -c '…'`.
///
/// # Errors
/// A quote that is not closed.
pub fn words(command: &str) -> Result<Vec<String>, ProfileError> {
    shlex::split(command).ok_or_else(|| ProfileError::Option {
        option: "a command",
        value: command.chars().take(60).collect(),
        allowed: "close each quote",
    })
}

/// How to start it.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it runs; empty: anywhere.
    pub cpus: CpuSet,
    /// What counts as progress.
    pub progress: Progress,
    /// For how long it is watched before the measurement.
    pub settle: Duration,
    /// The longest run that is repeated.
    pub longest_run: Duration,
}

/// Windows in which a counter has to move, of the time that a workload is watched.
const WINDOWS: u32 = 10;
/// A counter is steady if the middle half of its windows differ by no more than this share of
/// their middle.
const STEADY: f64 = 0.5;

/// Starts a workload and waits until its progress is seen.
///
/// # Errors
/// It cannot be started, fails, or shows no progress; somebody asked to stop.
pub fn launch(options: &LaunchOptions, stop: &Stop) -> Result<Box<dyn Subject>, ProfileError> {
    match &options.progress {
        Progress::Lines => printed(options, Count::Lines(String::new()), Metric::OutputLines, stop),
        Progress::Pattern(text) => {
            printed(options, Count::Lines(text.clone()), Metric::OutputLines, stop)
        }
        Progress::Bytes => printed(options, Count::Bytes, Metric::OutputBytes, stop),
        Progress::Runs => runs(options, stop),
        Progress::Auto => automatic(options, stop),
    }
}

fn name(options: &LaunchOptions) -> &str {
    options.command.first().map_or("", String::as_str)
}

fn runs(options: &LaunchOptions, stop: &Stop) -> Result<Box<dyn Subject>, ProfileError> {
    let repeated = Repeated::new(&options.command, &options.cpus, stop, options.longest_run * 20);
    repeated.run()?;
    Ok(Box::new(repeated))
}

fn printed(
    options: &LaunchOptions,
    count: Count,
    metric: Metric,
    stop: &Stop,
) -> Result<Box<dyn Subject>, ProfileError> {
    let mut child = repeated::start(&options.command, &options.cpus, Stdio::piped())?;
    let failed = |e| ProfileError::subject(name(options), e);
    let out = child.take_stdout().ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))?;
    let counter = output::count(out, count).map_err(failed)?;
    let mut steady = Steady::of(name(options), child, Source::Output(counter, metric), stop);
    let begun = Instant::now();
    match steady.speed(options.settle.max(Duration::from_millis(50)) / 4) {
        Ok(_) => Ok(Box::new(steady)),
        Err(ProfileError::Stalled(_)) => {
            ended_badly(options, steady.into_child(), begun)?;
            Err(no_progress(options, begun.elapsed(), "no output that counts"))
        }
        Err(e) => Err(e),
    }
}

/// An error of its own if the child has ended.
fn ended_badly(
    options: &LaunchOptions,
    child: Option<Bound>,
    begun: Instant,
) -> Result<(), ProfileError> {
    let ended = child.and_then(|child| child.wait(Duration::ZERO).ok().flatten());
    match ended {
        Some(ended) => repeated::success(&options.command, ended, begun.elapsed()),
        None => Ok(()),
    }
}

fn no_progress(options: &LaunchOptions, watched: Duration, tried: &str) -> ProfileError {
    ProfileError::NoProgress {
        program: name(options).to_owned(),
        seconds: watched.as_secs_f64(),
        tried: tried.to_owned(),
        longest_s: options.longest_run.as_secs_f64(),
    }
}

/// Watches it: if it ends, it is repeated; if it goes on and reads or writes steadily, that counts.
fn automatic(options: &LaunchOptions, stop: &Stop) -> Result<Box<dyn Subject>, ProfileError> {
    let begun = Instant::now();
    let child = repeated::start(&options.command, &options.cpus, Stdio::null())?;
    let group = super::Group::Process(child.id());
    let (mut steps, mut before) = (Vec::new(), group.io_bytes().unwrap_or(0));
    let window = options.settle / WINDOWS;
    while begun.elapsed() < options.longest_run {
        if stop.requested() {
            return Err(ProfileError::Stopped);
        }
        if let Some(ended) =
            child.wait(window).map_err(|e| ProfileError::subject(name(options), e))?
        {
            repeated::success(&options.command, ended, begun.elapsed())?;
            let longest = options.longest_run * 20;
            return Ok(Box::new(Repeated::new(&options.command, &options.cpus, stop, longest)));
        }
        let now = group.io_bytes().unwrap_or(before);
        steps.push(now.saturating_sub(before) as f64);
        before = now;
        if begun.elapsed() >= options.settle && steady(&steps) {
            return Ok(Box::new(Steady::of(name(options), child, Source::io(), stop)));
        }
    }
    Err(no_progress(options, begun.elapsed(), "its end, and the bytes that it reads and writes"))
}

/// Whether the last windows all moved, and much alike.
fn steady(steps: &[f64]) -> bool {
    let last = &steps[steps.len().saturating_sub(WINDOWS as usize - 2)..];
    let at = |share| quantile(last, share).unwrap_or(0.0);
    last.len() >= 4 && at(0.0) > 0.0 && at(0.75) - at(0.25) <= STEADY * at(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(script: &str, progress: Progress) -> LaunchOptions {
        LaunchOptions {
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            cpus: CpuSet::new(),
            progress,
            settle: Duration::from_millis(300),
            longest_run: Duration::from_secs(1),
        }
    }

    fn metric(script: &str, progress: Progress) -> Result<Metric, String> {
        let stop = Stop::new().unwrap();
        let subject = launch(&options(script, progress), &stop);
        subject.map(|subject| subject.metric()).map_err(|e| e.to_string())
    }

    #[test]
    fn each_kind_of_progress_is_found() {
        assert_eq!(metric("sleep 0.01", Progress::Auto), Ok(Metric::Runs));
        assert_eq!(metric("exec cat /dev/zero", Progress::Auto), Ok(Metric::IoBytes));
        assert_eq!(metric("exec yes", Progress::Lines), Ok(Metric::OutputLines));
        assert_eq!(metric("exec yes", Progress::Bytes), Ok(Metric::OutputBytes));
        assert_eq!(
            metric("exec yes tick", Progress::Pattern("ick".into())),
            Ok(Metric::OutputLines)
        );
    }

    #[test]
    fn what_cannot_be_measured_says_why() {
        for (script, progress, words) in [
            ("exit 7", Progress::Auto, "status 7"),
            ("exec sleep 600", Progress::Auto, "no steady progress"),
            ("exec yes tick", Progress::Pattern("never".into()), "no output that counts"),
            ("echo once; exit 3", Progress::Pattern("never".into()), "status 3"),
        ] {
            let error = metric(script, progress.clone()).unwrap_err();
            assert!(error.contains(words), "{script}, {progress:?}: {error}");
        }
        assert!("".parse::<Progress>().is_err());
        assert_eq!("op/s".parse::<Progress>().unwrap(), Progress::Pattern("op/s".to_owned()));
    }

    #[test]
    fn steady_means_moving_and_alike() {
        assert!(steady(&[9.0, 10.0, 11.0, 10.0, 10.0]));
        assert!(!steady(&[10.0, 10.0, 0.0, 10.0, 10.0]));
        assert!(!steady(&[1.0, 9.0, 1.0, 9.0, 1.0]));
        assert!(!steady(&[10.0]));
    }
}
