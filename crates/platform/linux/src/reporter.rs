//! A process that plays bursts of timed accesses: it sleeps until it is told to, in a group of
//! Quell's, in the idle class.
//!
//! It keeps its memory from burst to burst, so that a burst costs milliseconds and not the mapping
//! of memory. It is told by a line and answers by one; the thread that samples looks for the answer
//! when it must be there. The process ends with its input, with its parent, and by the journal.

use crate::clock;
use crate::tasks::{ENTER, kill_process_group};
use quell_types::{Burst, BurstReport, BurstTrace, Gap, Time};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How often it is looked for an answer that is late.
const LOOK: Duration = Duration::from_millis(2);
/// A burst that is not over so long after it should be is lost: the first maps its memory.
const LATE: Duration = Duration::from_secs(1);
/// More than an answer has.
const LONGEST_LINE: usize = 4096;

/// A burst on its way.
#[derive(Debug)]
struct Playing {
    burst: Burst,
    cpu: u32,
    told: bool,
    next: Time,
    bound: Time,
}

/// The process, and what it plays.
#[derive(Debug)]
pub(crate) struct Reporter {
    child: Child,
    input: ChildStdin,
    out: ChildStdout,
    heard: Vec<u8>,
    playing: Option<Playing>,
}

impl Reporter {
    /// Starts the process in a group; it sleeps.
    pub(crate) fn start(program: &[String], procs: &[PathBuf]) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", ENTER, "quell-reporter"]).args(procs).arg("--").args(program);
        command.args(["--with-parent", &std::process::id().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.process_group(0).spawn()?;
        let (Some(input), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ErrorKind::BrokenPipe.into());
        };
        let reporter = Self { child, input, out, heard: Vec::new(), playing: None };
        fcntl_setfl(&reporter.out, fcntl_getfl(&reporter.out)? | OFlags::NONBLOCK)?;
        Ok(reporter)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether a burst is on its way.
    pub(crate) fn is_playing(&self) -> bool {
        self.playing.is_some()
    }

    /// When it wants to be stepped next.
    pub(crate) fn next_edge(&self) -> Option<Time> {
        self.playing.as_ref().map(|playing| playing.next)
    }

    /// Sends a burst on its way.
    pub(crate) fn play(&mut self, burst: &Burst, cpu: u32) {
        let next = clock::now() + Duration::from_micros(burst.delay_us);
        let bound = next + burst.duration() + LATE;
        self.playing = Some(Playing { burst: burst.clone(), cpu, told: false, next, bound });
    }

    /// Tells it to begin, or looks for its answer: the trace when that is there, and whether the
    /// process is still of use.
    pub(crate) fn step(&mut self) -> Option<(BurstTrace, bool)> {
        let mut playing = self.playing.take_if(|playing| playing.next <= clock::now())?;
        let report = match playing.told {
            false => self.tell(&mut playing).map(|()| None),
            true => self.hear(),
        };
        let late = || clock::now() >= playing.bound;
        let (report, well) = match report {
            Ok(Some(report)) => (report, true),
            Ok(None) if !late() => {
                self.playing = Some(playing);
                return None;
            }
            Ok(None) => (nothing("the reporter did not answer"), false),
            Err(why) => (nothing(&why), false),
        };
        let cpu = well.then_some(playing.cpu);
        let trace = BurstTrace { id: playing.burst.id, cpu, time: clock::now(), report };
        Some((trace, well))
    }

    /// Wakes it up. It answers when the burst is over.
    fn tell(&mut self, playing: &mut Playing) -> Result<(), String> {
        let Burst { warm_us, slice_us, rounds, .. } = playing.burst;
        let line = format!("{} {warm_us} {slice_us} {rounds}\n", playing.cpu);
        self.input.write_all(line.as_bytes()).map_err(|e| format!("the reporter: {e}"))?;
        playing.told = true;
        playing.next = clock::now() + playing.burst.duration();
        Ok(())
    }

    /// Its answer, if it is there.
    fn hear(&mut self) -> Result<Option<BurstReport>, String> {
        let mut bytes = [0u8; LONGEST_LINE];
        match self.out.read(&mut bytes) {
            Ok(0) => return Err("the reporter has ended: no caches are known, or no memory".into()),
            Ok(count) => self.heard.extend_from_slice(&bytes[..count]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => return Err(format!("the reporter: {e}")),
        }
        let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') else {
            return match self.heard.len() {
                0..=LONGEST_LINE => Ok(None),
                _ => Err("the reporter says what nobody understands".into()),
            };
        };
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        let report = serde_json::from_slice(&line);
        report.map(Some).map_err(|error| format!("the reporter said: {error}"))
    }

    /// Looks again a little later.
    pub(crate) fn wait(&mut self) {
        if let Some(playing) = self.playing.as_mut().filter(|p| p.told && p.next <= clock::now()) {
            playing.next = clock::now() + LOOK;
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        kill_process_group(self.child.id());
        let _ = self.child.wait();
    }
}

fn nothing(why: &str) -> BurstReport {
    BurstReport { cpu_ns: 0, times: Err(Gap::Failed(why.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::CpuSet;

    fn burst(id: u64) -> Burst {
        Burst { id, delay_us: 0, warm_us: 0, slice_us: 10, rounds: 1, not_on: CpuSet::new() }
    }

    /// A reporter that is a shell script; it gets `--with-parent PID` as arguments of its own.
    fn script(text: &str) -> Reporter {
        let program = ["/bin/sh", "-c", text, "script"].map(str::to_owned);
        Reporter::start(&program, &[]).unwrap()
    }

    fn played(reporter: &mut Reporter) -> (BurstTrace, bool) {
        let end = std::time::Instant::now() + Duration::from_secs(30);
        while std::time::Instant::now() < end {
            if let Some(done) = reporter.step() {
                return done;
            }
            reporter.wait();
            clock::sleep_until(reporter.next_edge().unwrap());
        }
        panic!("no trace came");
    }

    #[test]
    fn it_is_told_by_a_line_and_answers_by_one() {
        let mut reporter = script(
            r#"while read cpu warm slice rounds; do
                echo "{\"cpu_ns\":$cpu$slice,\"times\":{\"Err\":{\"gap\":\"not_yet\",\"why\":\"x\"}}}"
            done"#,
        );
        assert!(!reporter.is_playing() && reporter.next_edge().is_none());
        for id in 1..=3 {
            reporter.play(&burst(id), 7);
            assert!(reporter.is_playing());
            let (trace, well) = played(&mut reporter);
            assert!(well && !reporter.is_playing());
            assert_eq!((trace.id, trace.cpu, trace.report.cpu_ns), (id, Some(7), 710));
            assert_eq!(trace.report.times, Err(Gap::not_yet("x")));
        }
    }

    #[test]
    fn one_that_ends_says_nonsense_or_nothing_is_of_no_use() {
        for (text, why) in [
            ("read line; exit 1", "has ended"),
            ("read line; echo nonsense; read line", "said"),
            ("read line; read line", "did not answer"),
        ] {
            let mut reporter = script(text);
            reporter.play(&burst(1), 0);
            let (trace, well) = played(&mut reporter);
            assert!(!well && trace.cpu.is_none(), "{text}");
            let told = trace.report.times.unwrap_err().to_string();
            assert!(told.contains(why), "{text}: {told}");
        }
    }

    #[test]
    fn it_is_gone_when_it_is_dropped() {
        let reporter = script("read line");
        let stat = format!("/proc/{}/stat", reporter.pid());
        assert!(std::fs::exists(&stat).unwrap());
        drop(reporter);
        assert!(!std::fs::exists(&stat).unwrap());
    }
}
