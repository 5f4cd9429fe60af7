//! What is turned on and off.

use super::Cause;
use crate::service::ENTER;
use anyhow::Context as _;
use quell_service::Controls;
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Work ends by itself after so long, whatever happens to everybody else.
const BOUND_S: u32 = 180;
/// A burst of bus locks does so after this many seconds, whoever dies.
const BURST_BOUND_S: &str = "0.4";
/// A polluter has mapped its memory by then.
pub(super) const ARMED: Duration = Duration::from_secs(3);

/// A process in a group. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
}

impl Worker {
    /// Starts `quell pressure WORDS…` in the group with these doors.
    pub(crate) fn start(program: &Path, doors: &[PathBuf], words: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", ENTER, "quell-signal"]).args(doors).arg("--").arg(program);
        command.arg("pressure").args(words);
        if !words.contains(&"--seconds") {
            command.args(["--seconds", &BOUND_S.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(Self { child: command.spawn().context("cannot start /bin/sh")? })
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process_group(Pid::from_child(&self.child), signal).context("the cause has ended")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Our own child, not yet waited for: the number is still its group's.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A cause that can be turned on and off.
pub(super) enum Source<'a> {
    /// Its load is set.
    Rate { controls: &'a Controls, low_qps: f64, high_qps: f64 },
    /// A process that is stopped and continued.
    Held(Worker),
    /// A new process each time, which bounds itself.
    Bursts { program: &'a Path, doors: Vec<PathBuf>, now: Option<Worker> },
}

impl<'a> Source<'a> {
    /// Prepares a cause; it is off.
    pub(super) fn arm(
        cause: Cause,
        program: &'a Path,
        doors: &[PathBuf],
        cpus: u32,
        (controls, (low_qps, high_qps)): (&'a Controls, (f64, f64)),
    ) -> anyhow::Result<Self> {
        Ok(match cause {
            Cause::Load => Source::Rate { controls, low_qps, high_qps },
            Cause::BusLock => Source::Bursts { program, doors: doors.to_vec(), now: None },
            Cause::Cpu | Cause::Llc | Cause::Membw => {
                let words = [cause.name(), "--threads", &cpus.to_string()];
                let worker = Worker::start(program, doors, &words)?;
                std::thread::sleep(ARMED);
                worker.signal(Signal::STOP)?;
                Source::Held(worker)
            }
        })
    }

    pub(super) fn turn(&mut self, on: bool) -> anyhow::Result<()> {
        match self {
            Source::Rate { controls, low_qps, high_qps } => {
                controls.set_rate(if on { *high_qps } else { *low_qps });
            }
            Source::Held(worker) => worker.signal(if on { Signal::CONT } else { Signal::STOP })?,
            Source::Bursts { program, doors, now } => {
                let words =
                    ["bus-lock", "--i-know-this-hurts-everyone", "--seconds", BURST_BOUND_S];
                *now = if on { Some(Worker::start(program, doors, &words)?) } else { None };
            }
        }
        Ok(())
    }
}
