//! The groups of a trial and what works in them.

use super::draw::{Composition, GROUPS, Member};
use crate::service::ENTER;
use crate::ui::Interrupt;
use anyhow::Context as _;
use quell_cgroup::{Group, Layout, create, remove};
use quell_pressure::FeedReader;
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "freezer"];
const END: Duration = Duration::from_secs(5);
/// Work ends by itself after so long, whatever happens to everybody else.
const BOUND_S: u32 = 90;
/// The culprit has begun by then.
const ARMED: Duration = Duration::from_secs(10);

/// A group for the service and five for batch. Dropping them ends what runs in them.
#[derive(Debug)]
pub(super) struct TrialGroups {
    layout: Layout,
    home: String,
    service: Group,
    batch: Vec<Group>,
}

impl TrialGroups {
    /// Makes them under the group `name`; what was made before a failure goes with the run's
    /// clean-up.
    pub(super) fn make(name: &str) -> anyhow::Result<Self> {
        let home = format!("/{name}");
        let layout = Layout::discover("/");
        let make = |name: &str| {
            let path = format!("{home}/{name}");
            create(&layout, &path, &CONTROLLERS).with_context(|| format!("cannot make {path}"))
        };
        let service = make("quell-service")?;
        let batch = GROUPS.iter().map(|group| make(&format!("quell-batch-{group}")));
        let batch = batch.collect::<anyhow::Result<_>>()?;
        Ok(Self { layout, home, service, batch })
    }

    pub(super) fn service(&self) -> &Group {
        &self.service
    }

    pub(super) fn service_path(&self) -> String {
        format!("{}/quell-service", self.home)
    }

    pub(super) fn batch_path(&self, group: &str) -> String {
        format!("{}/quell-batch-{group}", self.home)
    }

    pub(super) fn service_doors(&self) -> Vec<PathBuf> {
        doors(&self.service)
    }
}

impl Drop for TrialGroups {
    fn drop(&mut self) {
        for group in self.batch.iter().chain([&self.service]) {
            let _ = group.kill(END);
        }
        if let Err(error) = remove(&self.layout, &self.home, END) {
            eprintln!("quell: the groups of this run remain: {error}");
        }
    }
}

fn doors(group: &Group) -> Vec<PathBuf> {
    group.places().iter().map(|place| place.file("cgroup.procs")).collect()
}

/// What works in the groups. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Crowd {
    children: Vec<Child>,
    culprit: Option<usize>,
    feed: PathBuf,
}

impl Crowd {
    /// Starts everybody.
    pub(super) fn start(
        program: &Path,
        groups: &TrialGroups,
        drawn: &Composition,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let feed = folder.join("culprit.feed");
        let _ = std::fs::remove_file(&feed);
        let mut crowd = Self { children: Vec::new(), culprit: drawn.culprit, feed };
        for (index, (member, group)) in drawn.members.iter().zip(&groups.batch).enumerate() {
            let feed = (Some(index) == drawn.culprit).then_some(crowd.feed.as_path());
            let child = work(program, member, &doors(group), feed).spawn();
            crowd.children.push(child.context("cannot start /bin/sh")?);
        }
        Ok(crowd)
    }

    /// Whether the culprit has begun to work; true if there is none.
    pub(super) fn works(&self, interrupt: &Interrupt) -> anyhow::Result<bool> {
        let end = Instant::now() + ARMED;
        let begun = || FeedReader::new(self.feed.clone()).read().is_ok_and(|feed| feed.work > 0);
        while self.culprit.is_some() && !begun() {
            if Instant::now() >= end {
                return Ok(false);
            }
            interrupt.sleep(Duration::from_millis(20))?;
        }
        Ok(true)
    }

    /// Stops the culprit or lets it go on; false if there is none.
    pub(super) fn stop_culprit(&self, stop: bool) -> anyhow::Result<bool> {
        let Some(culprit) = self.culprit else { return Ok(false) };
        let signal = if stop { Signal::STOP } else { Signal::CONT };
        kill_process_group(Pid::from_child(&self.children[culprit]), signal)
            .context("the culprit has ended")?;
        Ok(true)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Our own child, not yet waited for: the number is still its group's.
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            let _ = child.wait();
        }
    }
}

fn work(program: &Path, member: &Member, doors: &[PathBuf], feed: Option<&Path>) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ENTER, "quell-trial"]).args(doors).arg("--").arg(program);
    command.args(["pressure", member.resource, "--idle", "sleep"]);
    command.args(["--threads", &member.threads.to_string()]);
    command.args(["--intensity", &member.intensity.to_string()]);
    command.args(["--seconds", &BOUND_S.to_string()]);
    if let Some(feed) = feed {
        command.arg("--feed").arg(feed);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command
}
