//! The groups of a trial and what works in them.

use super::draw::{Composition, names};
use super::turns::TurnKind;
use super::worker::{Worker, doors};
use crate::ui::Interrupt;
use anyhow::Context as _;
use quell_cgroup::{CpusKnob, Exclusivity, Group, GroupKnob as _, Layout, create, remove};
use quell_pressure::allowed_cpus;
use quell_types::{CpuSet, Setting};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "freezer"];
const END: Duration = Duration::from_secs(5);
/// The culprit has begun by then.
const ARMED: Duration = Duration::from_secs(10);

/// A group for the service and some for batch. Dropping them ends what runs in them.
#[derive(Debug)]
pub(super) struct TrialGroups {
    layout: Layout,
    home: String,
    service: Group,
    batch: Vec<Group>,
}

impl TrialGroups {
    /// Makes them, so many for batch, under the group `name`; what was made before a failure goes with
    /// the run's clean-up.
    pub(super) fn make(name: &str, batch: usize) -> anyhow::Result<Self> {
        let home = format!("/{name}");
        let layout = Layout::discover("/");
        let make = |name: &str| {
            let path = format!("{home}/{name}");
            create(&layout, &path, &CONTROLLERS).with_context(|| format!("cannot make {path}"))
        };
        let service = make("quell-service")?;
        let batch = names(batch).into_iter().map(|group| make(&format!("quell-batch-{group}")));
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

    /// The group that holds all of these.
    pub(super) fn home(&self) -> anyhow::Result<Group> {
        Group::find(&self.layout, &self.home).context("the groups of this run are gone")
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

/// What works in the groups. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Crowd {
    workers: Vec<Worker>,
    culprit: Option<usize>,
}

impl Crowd {
    /// Starts everybody.
    pub(super) fn start(
        program: &Path,
        groups: &TrialGroups,
        drawn: &Composition,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let mut crowd = Self { workers: Vec::new(), culprit: drawn.culprit };
        for (member, group) in drawn.members.iter().zip(&groups.batch) {
            crowd.workers.push(Worker::start(program, member, group, folder)?);
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
        self.workers[culprit] = Worker::start(program, member, group, folder)?;
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
        self.workers.iter().map(Worker::work).collect()
    }

    /// Whether the culprit has begun to work; true if there is none.
    pub(super) fn works(&self, interrupt: &Interrupt) -> anyhow::Result<bool> {
        let end = Instant::now() + ARMED;
        while self.culprit.is_some_and(|culprit| self.workers[culprit].work() == 0) {
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
        self.workers[culprit].stop(stop)?;
        Ok(true)
    }

    /// Stops all who do not run in this kind of turn, and lets the others go on.
    pub(super) fn let_run(&self, kind: TurnKind) -> anyhow::Result<()> {
        self.workers.iter().enumerate().try_for_each(|(index, worker)| {
            worker.stop(match kind {
                TurnKind::Guarded => false,
                TurnKind::Alone => true,
                TurnKind::Without | TurnKind::Off => Some(index) == self.culprit,
            })
        })
    }

    /// Lets everybody go on.
    pub(super) fn go_on(&self) -> anyhow::Result<()> {
        self.let_run(TurnKind::Guarded)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_and_batch_get_cpus_of_their_own() {
        let all = allowed_cpus().unwrap();
        let name = format!("quell-trial-parted-{}", std::process::id());
        let groups = TrialGroups::make(&name, 3).unwrap();
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
