//! The process that locks the bus, in its group, from its first pause to its last burst.

use crate::service::ENTER;
use anyhow::Context as _;
use quell_cgroup::Group;
use quell_pressure::{BusBurst, BusBursts};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// It may end so much later than planned, where it has little of the CPU.
const MARGIN: Duration = Duration::from_secs(20);

/// The process. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Locker {
    child: Child,
    lines: Receiver<String>,
    until: Instant,
    bursts: Vec<BusBurst>,
    told: usize,
}

impl Locker {
    /// Starts it from this thread, with which it ends.
    pub(super) fn start(program: &Path, group: &Group, plan: &BusBursts) -> anyhow::Result<Self> {
        let doors: Vec<PathBuf> =
            group.places().iter().map(|place| place.file("cgroup.procs")).collect();
        let mut child = command(program, &doors, plan).spawn().context("cannot start /bin/sh")?;
        let (sender, lines) = channel();
        let output = child.stdout.take().context("the locker has no output")?;
        let read = move |output: ChildStdout| {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        };
        let until = Instant::now() + plan.lasts() + MARGIN;
        let locker = Self { child, lines, until, bursts: Vec::new(), told: 0 };
        std::thread::Builder::new().name("quell-bursts".into()).spawn(move || read(output))?;
        Ok(locker)
    }

    /// Whether it has ended; an error if it should have, or ended badly.
    pub(super) fn ended(&mut self) -> anyhow::Result<bool> {
        if let Some(status) = self.child.try_wait()? {
            anyhow::ensure!(status.success(), "what locks the bus ended early: {status}");
            return Ok(true);
        }
        anyhow::ensure!(Instant::now() < self.until, "what locks the bus does not end");
        Ok(false)
    }

    /// Bursts that are over since the last call.
    pub(super) fn news(&mut self) -> &[BusBurst] {
        let parsed = |line: String| serde_json::from_str::<BusBurst>(&line).ok();
        self.bursts.extend(self.lines.try_iter().filter_map(parsed));
        let from = std::mem::replace(&mut self.told, self.bursts.len());
        &self.bursts[from..]
    }

    /// Ends it, and tells all bursts.
    pub(super) fn finish(mut self) -> anyhow::Result<Vec<BusBurst>> {
        self.end();
        self.news();
        Ok(std::mem::take(&mut self.bursts))
    }

    fn end(&mut self) {
        // Our own child, not yet waited for: the number is still its group's.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        self.end();
    }
}

fn command(program: &Path, doors: &[PathBuf], plan: &BusBursts) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ENTER, "quell-trial"]).args(doors).arg("--").arg(program);
    command.args(["trial", "bus-locker", "--i-know-this-hurts-everyone"]);
    command.args(["--bursts", &plan.bursts.to_string()]);
    command.args(["--burst-ms", &plan.length.as_millis().to_string()]);
    command.args(["--pause-s", &plan.pause.as_secs_f64().to_string()]);
    command.args(["--rest-percent", &plan.rest_percent.to_string()]);
    command.args(["--with-parent", &std::process::id().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).process_group(0);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_written_and_read_as_it_was() {
        let burst = BusBurst { number: 2, from_ns: 7_000_000_000, to_ns: 7_400_000_000, locks: 9 };
        let text = serde_json::to_string(&burst).unwrap();
        assert_eq!(serde_json::from_str::<BusBurst>(&text).unwrap(), burst);
    }

    #[test]
    fn it_is_started_with_its_bounds_and_ends_with_its_parent() {
        let plan = BusBursts {
            bursts: 3,
            length: Duration::from_millis(250),
            pause: Duration::from_millis(2500),
            rest_percent: 20,
        };
        let command = command(Path::new("/bin/quell"), &["/x/cgroup.procs".into()], &plan);
        let args: Vec<String> =
            command.get_args().skip(2).map(|arg| arg.to_string_lossy().into_owned()).collect();
        let line = args.join(" ");
        let wanted = "--bursts 3 --burst-ms 250 --pause-s 2.5 --rest-percent 20 --with-parent";
        assert!(line.contains(wanted), "{line}");
        assert!(line.contains("-- /bin/quell trial bus-locker --i-know"), "{line}");
    }
}
