//! The groups of a trial and what works in them.

use super::draw::{Composition, GROUPS, Member};
use super::turns::TurnKind;
use crate::service::ENTER;
use crate::ui::Interrupt;
use anyhow::Context as _;
use quell_cgroup::{CpusKnob, Exclusivity, Group, GroupKnob as _, Layout, create, remove};
use quell_pressure::{FeedReader, allowed_cpus};
use quell_types::{CpuSet, Setting};
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

    /// The service has the first half of the CPUs that this process may use for itself, batch the
    /// others.
    pub(super) fn part(&self) -> anyhow::Result<()> {
        let all = allowed_cpus()?;
        let own = all.first(all.len() / 2);
        let put = |group: &Group, cpus: &CpuSet| {
            let knob = CpusKnob::new(group, Exclusivity::Shared)?;
            knob.write(&Setting::Cpus(cpus.clone())).context("cannot give groups CPUs of their own")
        };
        put(&self.service, &own)?;
        let others = all.difference(&own);
        self.batch.iter().try_for_each(|group| put(group, &others))
    }

    pub(super) fn service(&self) -> &Group {
        &self.service
    }

    /// Those of batch, in their order.
    pub(super) fn batch(&self) -> &[Group] {
        &self.batch
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
    feeds: Vec<FeedReader>,
}

impl Crowd {
    /// Starts everybody.
    pub(super) fn start(
        program: &Path,
        groups: &TrialGroups,
        drawn: &Composition,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let mut crowd = Self { children: Vec::new(), culprit: drawn.culprit, feeds: Vec::new() };
        for (member, group) in drawn.members.iter().zip(&groups.batch) {
            let (child, feed) = spawn(program, member, group, folder)?;
            crowd.children.push(child);
            crowd.feeds.push(feed);
        }
        Ok(crowd)
    }

    /// The culprit begins anew, as it is drawn now. Nothing happens if there is none.
    pub(super) fn restart_culprit(
        &mut self,
        program: &Path,
        groups: &TrialGroups,
        drawn: &Composition,
        folder: &Path,
    ) -> anyhow::Result<()> {
        let Some(culprit) = self.culprit else { return Ok(()) };
        let (member, group) = (&drawn.members[culprit], &groups.batch[culprit]);
        let (child, feed) = spawn(program, member, group, folder)?;
        end(&mut std::mem::replace(&mut self.children[culprit], child));
        self.feeds[culprit] = feed;
        Ok(())
    }

    pub(super) fn has_culprit(&self) -> bool {
        self.culprit.is_some()
    }

    /// Begins to count everybody's work.
    pub(super) fn begin(&self) -> Begun {
        Begun { work: self.work(), at: Instant::now() }
    }

    /// What each group has done so far, in the unit of its work; 0 before the first.
    fn work(&self) -> Vec<u64> {
        self.feeds.iter().map(|feed| feed.read().map_or(0, |reading| reading.work)).collect()
    }

    /// Whether the culprit has begun to work; true if there is none.
    pub(super) fn works(&self, interrupt: &Interrupt) -> anyhow::Result<bool> {
        let end = Instant::now() + ARMED;
        let begun = |feed: &FeedReader| feed.read().is_ok_and(|feed| feed.work > 0);
        while self.culprit.is_some_and(|culprit| !begun(&self.feeds[culprit])) {
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
        self.signal(culprit, stop)?;
        Ok(true)
    }

    /// Stops all who do not run in this kind of turn, and lets the others go on.
    pub(super) fn let_run(&self, kind: TurnKind) -> anyhow::Result<()> {
        (0..self.children.len()).try_for_each(|index| {
            let stop = match kind {
                TurnKind::Guarded => false,
                TurnKind::Alone => true,
                TurnKind::Without | TurnKind::Off => Some(index) == self.culprit,
            };
            self.signal(index, stop)
        })
    }

    /// Lets everybody go on.
    pub(super) fn go_on(&self) -> anyhow::Result<()> {
        self.let_run(TurnKind::Guarded)
    }

    fn signal(&self, index: usize, stop: bool) -> anyhow::Result<()> {
        let signal = if stop { Signal::STOP } else { Signal::CONT };
        kill_process_group(Pid::from_child(&self.children[index]), signal)
            .context("batch work has ended")
    }
}

/// What each group had done at a moment.
#[derive(Debug)]
pub(super) struct Begun {
    work: Vec<u64>,
    at: Instant,
}

impl Begun {
    /// What each has done a second since then, in the unit of its work.
    pub(super) fn per_s(&self, crowd: &Crowd) -> Vec<f64> {
        let (work, seconds) = (crowd.work(), self.at.elapsed().as_secs_f64());
        let rate =
            |(before, after): (&u64, u64)| after.saturating_sub(*before) as f64 / seconds.max(1e-9);
        self.work.iter().zip(work).map(rate).collect()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(end);
    }
}

pub(super) fn end(child: &mut Child) {
    // Our own child, not yet waited for: the number is still its group's.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

/// Work in its group, and where it tells how far it is.
pub(super) fn spawn(
    program: &Path,
    member: &Member,
    group: &Group,
    folder: &Path,
) -> anyhow::Result<(Child, FeedReader)> {
    let feed = folder.join(format!("{}.feed", member.group));
    let _ = std::fs::remove_file(&feed);
    let child = work(program, member, &doors(group), &feed).spawn();
    Ok((child.context("cannot start /bin/sh")?, FeedReader::new(feed)))
}

fn work(program: &Path, member: &Member, doors: &[PathBuf], feed: &Path) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ENTER, "quell-trial"]).args(doors).arg("--").arg(program);
    command.args(["pressure", member.resource, "--idle", member.idle]);
    command.args(["--threads", &member.threads.to_string()]);
    command.args(["--intensity", &member.intensity.to_string()]);
    if let Some(slice) = member.slice {
        command.args(["--slice", &slice.as_secs_f64().to_string()]);
    }
    command.args(["--seconds", &BOUND_S.to_string()]);
    command.arg("--feed").arg(feed);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_and_batch_get_cpus_of_their_own() {
        let all = allowed_cpus().unwrap();
        let name = format!("quell-trial-parted-{}", std::process::id());
        let groups = TrialGroups::make(&name).unwrap();
        if all.len() < 2 {
            return;
        }
        groups.part().unwrap();
        let cpus = |group: &Group| {
            let knob = CpusKnob::new(group, Exclusivity::Shared).unwrap();
            let Setting::Cpus(cpus) = knob.read().unwrap() else { panic!("no CPUs") };
            cpus
        };
        let own = cpus(groups.service());
        assert_eq!(own.len(), all.len() / 2);
        for group in groups.batch() {
            assert_eq!(cpus(group), all.difference(&own));
        }
    }
}
