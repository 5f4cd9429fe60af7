//! What works in one group of a trial.

use super::draw::{Kernel, Member, Program, Work};
use crate::service::ENTER;
use anyhow::Context as _;
use quell_cgroup::{CpuUsage, Group};
use quell_pressure::FeedReader;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Work ends by itself after so long, whatever happens to everybody else.
const BOUND_S: u32 = 90;
/// A program that is over is begun anew, and one that fails is not.
const REPEAT: &str = r#"while :; do "$@" || exit; done"#;
/// What is left of a program in its group is gone by then.
const END: Duration = Duration::from_secs(5);
/// Processes that begin while others are stopped are stopped too; so often it is looked for some.
const LOOKS: usize = 20;

/// Somebody at work. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    progress: Progress,
    /// For messages.
    words: String,
}

/// How far it is.
#[derive(Debug)]
enum Progress {
    /// A kernel tells its work.
    Told(FeedReader),
    /// Of a program no more is known than the CPU time of its group, here in ns when it began.
    CpuTime { group: Group, from_ns: u64 },
}

impl Worker {
    /// Starts it in its group.
    pub(super) fn start(
        quell: &Path,
        member: &Member,
        group: &Group,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let feed = folder.join(format!("{}.feed", member.group));
        let _ = std::fs::remove_file(&feed);
        let progress = match &member.work {
            Work::Kernel(_) => Progress::Told(FeedReader::new(feed.clone())),
            Work::Program(_) => {
                let from_ns = CpuUsage::new(group).read()?;
                Progress::CpuTime { group: group.clone(), from_ns }
            }
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", ENTER, "quell-trial"]).args(doors(group)).arg("--");
        match &member.work {
            Work::Kernel(kernel) => press(&mut command, quell, kernel, &feed),
            Work::Program(program) => repeat(&mut command, program),
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let child = command.spawn().context("cannot start /bin/sh")?;
        let words = format!("group {} ({})", member.group, member.in_words());
        Ok(Self { child, progress, words })
    }

    /// What it has done so far, in the unit of its work; 0 before the first.
    pub(super) fn work(&self) -> u64 {
        match &self.progress {
            Progress::Told(feed) => feed.read().map_or(0, |reading| reading.work),
            Progress::CpuTime { group, from_ns } => {
                CpuUsage::new(group).read().map_or(0, |now_ns| now_ns.saturating_sub(*from_ns))
            }
        }
    }

    /// Stops it, or lets it go on.
    pub(super) fn stop(&self, stop: bool) -> anyhow::Result<()> {
        let signal = if stop { Signal::STOP } else { Signal::CONT };
        kill_process_group(Pid::from_child(&self.child), signal)
            .with_context(|| format!("what worked in {} has ended", self.words))?;
        match &self.progress {
            Progress::Told(_) => Ok(()),
            Progress::CpuTime { group, .. } => signal_all(group, signal),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Our own child, not yet waited for: the number is still its group's.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        if let Progress::CpuTime { group, .. } = &self.progress {
            let _ = group.kill(END);
        }
        let _ = self.child.wait();
    }
}

/// A program may have process groups of its own, but nobody leaves its control group.
fn signal_all(group: &Group, signal: Signal) -> anyhow::Result<()> {
    let mut told = BTreeSet::new();
    for _ in 0..LOOKS {
        let all = group.pids().map_err(|gap| anyhow::anyhow!("a group's processes: {gap}"))?;
        let fresh: Vec<u32> = all.into_iter().filter(|pid| told.insert(*pid)).collect();
        if fresh.is_empty() {
            break;
        }
        let pids = fresh.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?));
        // One that has ended meanwhile needs no signal.
        pids.for_each(|pid| _ = kill_process(pid, signal));
    }
    Ok(())
}

/// The files through which processes come into a group.
pub(super) fn doors(group: &Group) -> Vec<PathBuf> {
    group.places().iter().map(|place| place.file("cgroup.procs")).collect()
}

fn press(command: &mut Command, quell: &Path, kernel: &Kernel, feed: &Path) {
    command.arg(quell).args(["pressure", kernel.resource, "--idle", kernel.idle]);
    command.args(["--threads", &kernel.threads.to_string()]);
    command.args(["--intensity", &kernel.intensity.to_string()]);
    if let Some(slice) = kernel.slice {
        command.args(["--slice", &slice.as_secs_f64().to_string()]);
    }
    command.args(["--seconds", &BOUND_S.to_string()]);
    command.arg("--feed").arg(feed);
}

fn repeat(command: &mut Command, program: &Program) {
    command.args(["timeout", "--kill-after=5", &BOUND_S.to_string()]);
    command.args(["/bin/sh", "-c", REPEAT, "quell-trial"]).args(program.words());
}

#[cfg(test)]
mod tests {
    use super::super::crowd::TrialGroups;
    use super::*;
    use std::time::Instant;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn until(what: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !what() {
            assert!(Instant::now() < end, "it never came to that");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn start(groups: &TrialGroups, program: &str) -> Worker {
        let program = Work::Program(program.parse().unwrap());
        let member = Member { group: "a".to_owned(), work: program };
        let nowhere = Path::new("/nowhere");
        Worker::start(nowhere, &member, &groups.batch()[0], nowhere).unwrap()
    }

    #[test]
    fn a_program_works_stands_still_goes_on_and_leaves_nobody() {
        let name = format!("quell-trial-worker-{}", std::process::id());
        let groups = TrialGroups::make(&name, 1).unwrap();
        let group = groups.batch()[0].clone();
        // One whose work is in a session of its own, as daemons have; no signal to a process group is heard
        // there.
        let worker = start(&groups, "setsid --wait sh -c 'while :; do :; done'");
        until(|| worker.work() > 50_000_000 && group.pids().unwrap().len() >= 3);
        worker.stop(true).unwrap();
        let still = worker.work();
        let ticks = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let stopped = |pid: u32| ticks(pid).rsplit(')').next().unwrap().starts_with(" T");
        until(|| group.pids().unwrap().into_iter().all(stopped));
        worker.stop(false).unwrap();
        until(|| worker.work() > still + 20_000_000);
        drop(worker);
        assert_eq!(group.pids().unwrap(), Vec::<u32>::new());
    }

    #[test]
    fn one_that_fails_is_told_by_name_and_one_that_ends_begins_anew() {
        let name = format!("quell-trial-failing-{}", std::process::id());
        let groups = TrialGroups::make(&name, 1).unwrap();
        let file = std::env::temp_dir().join(format!("{name}-count"));
        let counts = format!("sh -c 'echo >> {}'", file.display());
        let worker = start(&groups, &counts);
        until(|| std::fs::read(&file).is_ok_and(|text| text.len() >= 3));
        drop(worker);
        std::fs::remove_file(&file).unwrap();
        let mut worker = start(&groups, "false");
        worker.child.wait().unwrap();
        let error = worker.stop(true).unwrap_err().to_string();
        assert_eq!(error, "what worked in group a (false) has ended");
    }
}
