//! Starting a workload, and finding out how its progress can be seen.

use super::output::Count;
use super::source::Source;
use super::started::{By, Counters, Start, Started};
use super::{Group, Metric, Repeated, Steady, Subject};
use crate::ProfileError;
use crate::stats::quantile;
use quell_pressure::Stop;
use quell_types::CpuSet;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Which progress counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Whole runs if the command ends soon, else what comes steadily of what can be counted from outside: its
    /// instructions, the bytes of its system calls.
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
    /// What can count it from outside, besides the bytes of its system calls.
    pub counters: Counters,
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
    let repeated = repeated(options, stop);
    repeated.run()?;
    Ok(Box::new(repeated))
}

fn repeated(options: &LaunchOptions, stop: &Stop) -> Repeated {
    Repeated::new(&options.command, &options.cpus, stop, options.longest_run * 20)
}

fn printed(
    options: &LaunchOptions,
    count: Count,
    metric: Metric,
    stop: &Stop,
) -> Result<Box<dyn Subject>, ProfileError> {
    let begun = Instant::now();
    let (started, sources) = start(options, By::Output(count, metric))?;
    let nothing = |begun: Instant| no_progress(options, begun.elapsed(), "no output that counts");
    let source = sources.into_iter().next().ok_or_else(|| nothing(begun))?;
    let mut steady = Steady::of(started, source, stop);
    match steady.speed(options.settle.max(Duration::from_millis(50)) / 4) {
        Ok(_) => Ok(Box::new(steady)),
        Err(ProfileError::Stalled(_)) => Err(nothing(begun)),
        Err(e) => Err(e),
    }
}

fn start(options: &LaunchOptions, by: By) -> Result<(Started, Vec<Source>), ProfileError> {
    Start { words: options.command.clone(), cpus: options.cpus.clone(), by }.begin()
}

fn no_progress(options: &LaunchOptions, watched: Duration, tried: &str) -> ProfileError {
    ProfileError::NoProgress {
        program: name(options).to_owned(),
        seconds: watched.as_secs_f64(),
        tried: tried.to_owned(),
        longest_s: options.longest_run.as_secs_f64(),
    }
}

/// Watches it: if it ends soon, it is repeated; if it goes on and something that can be counted moves steadily, that
/// counts. It need not go on for ever: it is started again when it has ended.
fn automatic(options: &LaunchOptions, stop: &Stop) -> Result<Box<dyn Subject>, ProfileError> {
    let begun = Instant::now();
    let (started, sources) = start(options, By::Counters(options.counters.clone()))?;
    let group = started.group();
    let mut watched: Vec<Watched> = sources.into_iter().map(|s| Watched::new(s, &group)).collect();
    while begun.elapsed() < options.longest_run {
        if stop.requested() {
            return Err(ProfileError::Stopped);
        }
        let goes_on = !started.ends_within(options.settle / WINDOWS)?;
        if goes_on {
            watched.iter_mut().for_each(|one| one.look(&group));
        }
        let least = if goes_on { options.settle } else { options.settle / 2 };
        let moves = watched.iter().position(|one| steady(&one.steps));
        if let Some(one) = moves.filter(|_| begun.elapsed() >= least) {
            let source = watched.swap_remove(one).source;
            return Ok(Box::new(Steady::of(started, source, stop)));
        }
        if !goes_on {
            return Ok(Box::new(repeated(options, stop)));
        }
    }
    Err(no_progress(options, begun.elapsed(), &tried(&watched)))
}

/// In words.
fn tried(watched: &[Watched]) -> String {
    let counts = watched.iter().map(|one| one.source.metric().words());
    std::iter::once("its end").chain(counts).collect::<Vec<_>>().join(", ")
}

/// What may count a program's work, while it is seen whether it does.
struct Watched {
    source: Source,
    before: Option<u64>,
    /// By how much it went on from look to look.
    steps: Vec<f64>,
}

impl Watched {
    fn new(mut source: Source, group: &Group) -> Watched {
        Watched { before: source.count(group), source, steps: Vec::new() }
    }

    fn look(&mut self, group: &Group) {
        let now = self.source.count(group);
        if let Some((before, now)) = self.before.zip(now) {
            self.steps.push(now.saturating_sub(before) as f64);
        }
        self.before = now.or(self.before);
    }
}

/// Whether the last windows all moved, and much alike.
fn steady(steps: &[f64]) -> bool {
    let last = &steps[steps.len().saturating_sub(WINDOWS as usize - 2)..];
    let at = |share| quantile(last, share).unwrap_or(0.0);
    last.len() >= 4 && at(0.0) > 0.0 && at(0.75) - at(0.25) <= STEADY * at(0.5)
}

#[cfg(test)]
mod tests {
    use super::super::Counter;
    use super::*;

    fn options(script: &str, progress: Progress) -> LaunchOptions {
        LaunchOptions {
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            cpus: CpuSet::new(),
            progress,
            counters: Counters::default(),
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

    /// A counter that moves at each look.
    #[derive(Debug)]
    struct Made(u64);

    impl Counter for Made {
        fn metric(&self) -> Metric {
            Metric::Instructions
        }

        fn count(&mut self) -> Option<u64> {
            self.0 += 7;
            Some(self.0)
        }
    }

    #[test]
    fn what_counts_from_outside_counts_first() {
        let counters = Counters::new(|_| vec![Box::new(Made(0)) as Box<dyn Counter>]);
        let stop = Stop::new().unwrap();
        let of = |script: &str| {
            let counters = counters.clone();
            let options = LaunchOptions { counters, ..options(script, Progress::Auto) };
            launch(&options, &stop).unwrap().metric()
        };
        assert_eq!(of("exec sleep 600"), Metric::Instructions);
        assert_eq!(of("exec cat /dev/zero"), Metric::Instructions);
        assert_eq!(of("sleep 0.01"), Metric::Runs, "it is over before anything is seen");
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
