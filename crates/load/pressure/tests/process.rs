//! A polluter as a process of its own: signals, the feed seen from outside, the dead man's handle.
//!
//! This program plays both sides: with `QUELL_TEST_ROLE` set it is the polluter, else it runs the
//! tests. So it has its own `main` in place of the test harness.

// Clippy allows it in test functions only, not in what they call.
#![allow(clippy::unwrap_used)]

use quell_pressure::{
    FeedReader, Intensity, Options, Plan, Progress, Report, Resource, Stop, bound_process,
    die_with_parent, run,
};
use quell_topology::Machine;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

fn main() {
    match std::env::var("QUELL_TEST_ROLE").as_deref() {
        Ok("parent") => parent(),
        Ok(role) => polluter(role),
        Err(_) => tests(),
    }
}

/// Presses for ten minutes, unless told to stop: lines of progress, then the report.
fn polluter(role: &str) {
    if role == "orphan" {
        die_with_parent().unwrap();
    }
    if role == "bounded" {
        bound_process(Duration::from_secs(1));
    }
    let resource: Resource = std::env::var("QUELL_TEST_RESOURCE").unwrap().parse().unwrap();
    let mut options = Options::new(resource);
    options.seconds = 600.0;
    options.interval = Duration::from_millis(20);
    options.llc_bytes = Some(4 << 20);
    options.region_bytes = Some(16 << 20);
    options.feed = std::env::var_os("QUELL_TEST_FEED").map(Into::into);
    if role == "asleep" {
        options.plan = Plan::Hold(Intensity::ZERO);
        options.idle = quell_pressure::Idle::Sleep;
    }
    let stop = Stop::new().unwrap();
    stop.on_signals().unwrap();
    let mut out = std::io::stdout();
    let mut print = |line: String| {
        let _ = writeln!(out, "{line}");
    };
    let topology = Machine::new("/").topology();
    let mut each = |progress: &Progress| print(serde_json::to_string(progress).unwrap());
    let report = run(&options, &topology, &stop, &mut each).unwrap();
    print(serde_json::to_string(&report).unwrap());
}

/// Starts a polluter that should not outlive it, tells its pid, and ends.
fn parent() {
    let mut orphan = Polluter::start("orphan", "cpu", None);
    orphan.progress();
    println!("{}", orphan.child.id());
    std::process::exit(0);
}

/// A polluter process that does not outlive the test.
struct Polluter {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Polluter {
    fn start(role: &str, resource: &str, feed: Option<&std::path::Path>) -> Polluter {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("QUELL_TEST_ROLE", role).env("QUELL_TEST_RESOURCE", resource);
        feed.iter().for_each(|path| {
            command.env("QUELL_TEST_FEED", path);
        });
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Polluter { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    fn progress(&mut self) -> Progress {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The last line, once the process has ended.
    fn last_line(&mut self) -> String {
        let mut last = String::new();
        loop {
            match self.line() {
                line if line.is_empty() => return last,
                line => last = line,
            }
        }
    }
}

impl Drop for Polluter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tests() {
    let tests: [(&str, fn()); 5] = [
        ("a_signal_leaves_a_report", a_signal_leaves_a_report),
        ("a_sleeping_polluter_hears_a_signal", a_sleeping_polluter_hears_a_signal),
        ("the_feed_outlives_a_kill", the_feed_outlives_a_kill),
        ("the_dead_mans_handle_ends_the_process", the_dead_mans_handle_ends_the_process),
        ("a_polluter_does_not_outlive_its_parent", a_polluter_does_not_outlive_its_parent),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
}

fn a_signal_leaves_a_report() {
    use rustix::process::Signal;
    for (resource, signal, end) in [
        ("llc", Signal::TERM, "SIGTERM"),
        ("membw", Signal::TERM, "SIGTERM"),
        ("cpu", Signal::INT, "SIGINT"),
        ("network", Signal::HUP, "SIGHUP"),
    ] {
        let mut polluter = Polluter::start("busy", resource, None);
        let (first, second) = (polluter.progress(), polluter.progress());
        assert!(second.t_s > first.t_s && second.work >= first.work, "{first:?} {second:?}");
        polluter.signal(signal);
        let last = polluter.last_line();
        let report: Report = serde_json::from_str(&last).unwrap_or_else(|e| panic!("{e}: {last}"));
        assert_eq!(serde_json::to_value(report.ended_by).unwrap(), end);
        assert!(report.work >= second.work && report.seconds < 600.0, "{report:?}");
        assert_eq!(report.schema, "quell.pressure/1");
        assert!(polluter.child.wait().unwrap().success());
    }
}

fn a_sleeping_polluter_hears_a_signal() {
    let mut polluter = Polluter::start("asleep", "cpu", None);
    polluter.progress();
    polluter.signal(rustix::process::Signal::TERM);
    let report: Report = serde_json::from_str(&polluter.last_line()).unwrap();
    assert_eq!(report.work, 0);
}

fn the_feed_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feed");
    let mut polluter = Polluter::start("busy", "cpu", Some(&path));
    let told = (polluter.progress(), polluter.progress()).1.work;
    polluter.signal(rustix::process::Signal::KILL);
    assert_eq!(polluter.child.wait().unwrap().signal(), Some(9));
    let seen = FeedReader::new(&path).read().unwrap();
    assert!(seen.work >= told && seen.work > 0, "{seen:?}, told {told}");
    assert_eq!((seen.pid, seen.resource), (polluter.child.id(), Resource::Integer));
}

fn the_dead_mans_handle_ends_the_process() {
    let mut polluter = Polluter::start("bounded", "cpu", None);
    polluter.last_line();
    let status = polluter.child.wait().unwrap();
    assert_eq!(status.signal(), Some(14), "SIGALRM, not {status}");
}

fn a_polluter_does_not_outlive_its_parent() {
    let mut parent = Polluter::start("parent", "cpu", None);
    let pid: u32 = parent.line().trim().parse().unwrap();
    parent.child.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while runs(pid) && Instant::now() < end {
        std::thread::yield_now();
    }
    assert!(!runs(pid), "polluter {pid} goes on without its parent");
}

/// Whether a process is there and no zombie: whoever inherits it may not care to reap it.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
