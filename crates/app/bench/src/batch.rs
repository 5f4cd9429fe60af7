//! Batch work: which polluters, as tasks of the queue, and how much of it gets done.

use quell_pressure::FeedReader;
use quell_types::{TaskSpec, Tenant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One kind of batch work, in a group of its own.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Polluter {
    /// Presses on the last-level cache.
    Llc,
    /// Presses on memory bandwidth.
    Membw,
    /// Presses on integer units alone.
    Cpu,
    /// Sends in bulk; in the network part only.
    Network,
}

impl Polluter {
    /// All of them.
    pub const ALL: [Polluter; 4] =
        [Polluter::Llc, Polluter::Membw, Polluter::Cpu, Polluter::Network];
    /// Those of a mix.
    const MIXED: [Polluter; 3] = [Polluter::Llc, Polluter::Membw, Polluter::Cpu];

    /// Its name: of the resource in `quell pressure`, and of the batch group.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Polluter::Llc => "llc",
            Polluter::Membw => "membw",
            Polluter::Cpu => "cpu",
            Polluter::Network => "network",
        }
    }
}

/// The batch of one comparison.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// All three, one thread each.
    Mix,
    /// The cache polluter alone, as many threads as CPUs; so the others.
    Llc,
    /// The bandwidth polluter alone.
    Membw,
    /// The CPU polluter alone.
    Cpu,
}

impl Mix {
    /// All of them.
    pub const ALL: [Mix; 4] = [Mix::Mix, Mix::Llc, Mix::Membw, Mix::Cpu];

    /// Its name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mix::Mix => "mix",
            Mix::Llc => "llc",
            Mix::Membw => "membw",
            Mix::Cpu => "cpu",
        }
    }

    /// The polluters in it.
    #[must_use]
    pub fn parts(self) -> &'static [Polluter] {
        match self {
            Mix::Mix => &Polluter::MIXED,
            Mix::Llc => &[Polluter::Llc],
            Mix::Membw => &[Polluter::Membw],
            Mix::Cpu => &[Polluter::Cpu],
        }
    }

    /// Threads of each polluter.
    #[must_use]
    pub fn threads(self, cpus: usize) -> usize {
        if self == Mix::Mix { 1 } else { cpus.max(1) }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Mix::name).join(", ");
        let found = Self::ALL.into_iter().find(|mix| mix.name() == text);
        found.ok_or_else(|| format!("`{text}` is no polluter; there are {}", known()))
    }
}

/// The file in which a polluter counts its work.
pub(crate) fn feed(folder: &Path, polluter: Polluter) -> PathBuf {
    folder.join(format!("{}.feed", polluter.name()))
}

/// The task of one polluter. `seconds` bounds it even if nobody ends it.
pub(crate) fn task(
    program: &Path,
    polluter: Polluter,
    threads: usize,
    seconds: f64,
    folder: &Path,
) -> TaskSpec {
    let words = [
        program.display().to_string(),
        "pressure".to_owned(),
        polluter.name().to_owned(),
        "--threads".to_owned(),
        threads.to_string(),
        "--seconds".to_owned(),
        format!("{:.0}", seconds.ceil()),
        "--feed".to_owned(),
        feed(folder, polluter).display().to_string(),
        "--json".to_owned(),
    ];
    TaskSpec {
        command: words.to_vec(),
        tenant: Some(Tenant::new(polluter.name())),
        directory: None,
        retries: 0,
    }
}

/// Adds up a polluter's work over the lives of its process: a controller may stop it and start it
/// again, and each life counts from 0.
#[derive(Debug)]
pub(crate) struct WorkMeter {
    feed: FeedReader,
    life: (u32, u64),
    earlier: u64,
}

impl WorkMeter {
    pub(crate) fn new(feed: PathBuf) -> Self {
        Self { feed: FeedReader::new(feed), life: (0, 0), earlier: 0 }
    }

    /// All work so far; 0 before the first life.
    pub(crate) fn read(&mut self) -> u64 {
        if let Ok(reading) = self.feed.read() {
            self.take(reading.pid, reading.work);
        }
        self.earlier + self.life.1
    }

    fn take(&mut self, pid: u32, work: u64) {
        if pid != self.life.0 {
            self.earlier += self.life.1;
        }
        self.life = (pid, work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_several_lives_adds_up() {
        let mut meter = WorkMeter::new("/nonexistent".into());
        assert_eq!(meter.read(), 0);
        for (pid, work) in [(7, 100), (7, 250), (9, 30), (9, 40)] {
            meter.take(pid, work);
        }
        assert_eq!(meter.read(), 290);
    }

    #[test]
    fn a_task_names_its_group_and_bounds_itself() {
        let task = task(Path::new("/bin/quell"), Polluter::Llc, 2, 9.2, Path::new("/tmp/x"));
        assert_eq!(
            task.command.join(" "),
            "/bin/quell pressure llc --threads 2 --seconds 10 --feed /tmp/x/llc.feed --json"
        );
        assert_eq!(task.tenant, Some(Tenant::new("llc")));
    }
}
