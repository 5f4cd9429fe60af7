//! Counting several events of a task, a CPU or a cgroup.

use super::attr::{self, Scope};
use super::event::Event;
use super::probe::open_error;
use super::scale::{Raw, Tally};
use quell_types::{CpuSet, Gap, Reading};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Whom to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One thread; those that it starts later are not counted. 0 is the calling thread.
    Task(u32),
    /// Everything on these CPUs.
    Cpus(CpuSet),
    /// All threads of a cgroup and its descendants.
    Cgroup {
        /// Its folder in the v2 hierarchy (or in v1's perf_event).
        dir: PathBuf,
        /// The online CPUs; one descriptor is held for each CPU and event.
        cpus: CpuSet,
    },
}

/// A target that cannot be counted at all.
#[derive(Debug, Error)]
pub enum PerfError {
    /// The cgroup's folder cannot be opened.
    #[error("cannot count cgroup {path}: {source}; is it a folder of the cgroup v2 hierarchy?")]
    Cgroup {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No CPUs were named.
    #[error("no CPUs to count on")]
    NoCpus,
}

impl From<&PerfError> for Gap {
    fn from(error: &PerfError) -> Gap {
        match error {
            PerfError::Cgroup { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Gap::Gone(error.to_string())
            }
            _ => Gap::failed(error),
        }
    }
}

/// The most hardware events that one target is counted by. Some hypervisors offer more counters
/// than really count (six offered, five counting was seen, the sixth returning nonsense and
/// spoiling the others), and the kernel cannot tell: it fills the lowest first.
pub const MAX_HARDWARE: usize = 4;

/// Open counters. An event that this machine cannot count is a gap in every reading.
#[derive(Debug)]
pub struct Counters {
    groups: Vec<Group>,
    gaps: BTreeMap<Event, Gap>,
}

/// Events that share the PMU at the same times, on one CPU.
#[derive(Debug)]
struct Group {
    members: Vec<(Event, Tally)>,
    /// The leader first.
    descriptors: Vec<OwnedFd>,
}

impl Counters {
    /// Begins to count. Hardware events share one group as far as they fit into the PMU together,
    /// so that their ratios are right even when the PMU is shared. Of them the first
    /// [`MAX_HARDWARE`] are counted, the rest are gaps: open no second set for a target that runs
    /// at the same time (a cgroup and its parent, a CPU and a cgroup on it).
    ///
    /// # Errors
    /// Only if the target itself cannot be had. Events that cannot be counted are gaps.
    pub fn open(target: &Target, events: &[Event]) -> Result<Self, PerfError> {
        // Kept open until all events are: they hold the group themselves.
        let folder = match target {
            Target::Cgroup { dir, .. } => Some(open_folder(dir)?),
            _ => None,
        };
        let scopes = scopes(target, folder.as_ref());
        if scopes.is_empty() {
            return Err(PerfError::NoCpus);
        }
        let mut counters = Self { groups: Vec::new(), gaps: BTreeMap::new() };
        let (hardware, software): (Vec<Event>, Vec<Event>) =
            events.iter().partition(|event| event.is_hardware());
        let (hardware, beyond) = hardware.split_at(hardware.len().min(MAX_HARDWARE));
        for event in beyond {
            let why =
                format!("{event}: at most {MAX_HARDWARE} hardware events are counted at once");
            counters.gaps.insert(*event, Gap::absent(why));
        }
        counters.add(hardware, &scopes);
        counters.add(&software, &scopes);
        Ok(counters)
    }

    /// Counts since it was opened, summed over CPUs and scaled for the time in which a counter
    /// did not have the PMU. They never go back. A group that did nothing yet has 0.
    pub fn read(&mut self) -> BTreeMap<Event, Reading<u64>> {
        let mut readings: BTreeMap<Event, Reading<u64>> =
            self.gaps.iter().map(|(event, gap)| (*event, Err(gap.clone()))).collect();
        for group in &mut self.groups {
            for (event, count) in group.read() {
                let sum = readings.entry(event).or_insert(Ok(0));
                match (sum.as_mut(), count) {
                    (Ok(sum), Ok(count)) => *sum = sum.saturating_add(count),
                    (Ok(_), Err(gap)) => *sum = Err(gap),
                    (Err(_), _) => {}
                }
            }
        }
        readings
    }

    /// Open files that it holds: one for each event and CPU.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.groups.iter().map(|group| group.descriptors.len()).sum()
    }

    fn add(&mut self, events: &[Event], scopes: &[Scope]) {
        let usable: Vec<Event> =
            events.iter().copied().filter(|event| self.is_usable(*event, scopes[0])).collect();
        if usable.is_empty() {
            return;
        }
        let together: io::Result<Vec<Group>> =
            scopes.iter().map(|scope| Group::open(&usable, *scope)).collect();
        if let Ok(groups) = together {
            self.groups.extend(groups);
            return;
        }
        // More than the PMU holds at once: each by itself, taking turns.
        for event in usable {
            let alone: io::Result<Vec<Group>> =
                scopes.iter().map(|scope| Group::open(&[event], *scope)).collect();
            match alone {
                Ok(groups) => self.groups.extend(groups),
                Err(error) => {
                    self.gaps.insert(event, open_error(event, &error));
                }
            }
        }
    }

    fn is_usable(&mut self, event: Event, scope: Scope) -> bool {
        match attr::open(event, scope, None) {
            Ok(_) => true,
            Err(error) => {
                self.gaps.insert(event, open_error(event, &error));
                false
            }
        }
    }
}

impl Group {
    fn open(events: &[Event], scope: Scope) -> io::Result<Self> {
        let mut descriptors: Vec<OwnedFd> = Vec::with_capacity(events.len());
        for event in events {
            descriptors.push(attr::open(*event, scope, descriptors.first())?);
        }
        if let Some(leader) = descriptors.first() {
            attr::enable(leader)?;
        }
        let members = events.iter().map(|event| (*event, Tally::default())).collect();
        Ok(Self { members, descriptors })
    }

    fn read(&mut self) -> Vec<(Event, Reading<u64>)> {
        let read = attr::read(&self.descriptors[0], self.members.len());
        let (enabled_ns, running_ns, values) = match read {
            Ok(read) => read,
            Err(error) => {
                let gap = Gap::failed(format!("reading perf events: {error}"));
                return self.members.iter().map(|(e, _)| (*e, Err(gap.clone()))).collect();
            }
        };
        let each = self.members.iter_mut().zip(values).map(|((event, tally), value)| {
            (*event, tally.advance(Raw { value, enabled_ns, running_ns }))
        });
        each.collect()
    }
}

fn open_folder(path: &Path) -> Result<File, PerfError> {
    let failed = |source| PerfError::Cgroup { path: path.to_owned(), source };
    let folder = File::open(path).map_err(failed)?;
    if folder.metadata().map_err(failed)?.is_dir() {
        return Ok(folder);
    }
    Err(failed(io::Error::from(io::ErrorKind::NotADirectory)))
}

fn scopes(target: &Target, folder: Option<&File>) -> Vec<Scope> {
    match (target, folder) {
        (Target::Task(task), _) => vec![Scope::Task(*task as i32)],
        (Target::Cgroup { cpus, .. }, Some(folder)) => {
            cpus.iter().map(|cpu| Scope::Cgroup(folder.as_raw_fd(), cpu)).collect()
        }
        (Target::Cpus(cpus) | Target::Cgroup { cpus, .. }, _) => {
            cpus.iter().map(Scope::Cpu).collect()
        }
    }
}
