//! What may work in a group: a kernel of `quell pressure`, or any program.

use super::{Cast, Dice, Taken};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What an innocent uses of a CPU: so much and some steps more, up to 60 %.
pub(super) const LEAST_PERCENT: f64 = 10.0;
pub(super) const STEP_PERCENT: f64 = 5.0;
/// Work that stays within a core.
pub(super) const INNOCENT: [&str; 3] = ["integer", "floating-point", "vector"];
/// Work that leaves it.
const GUILTY: [&str; 3] = ["llc-capacity", "memory-bandwidth", "llc-bandwidth"];

/// What a culprit may press on that takes this.
pub(super) const fn guilty(taken: Taken) -> [&'static str; 3] {
    match taken {
        Taken::Memory => GUILTY,
        Taken::Cpu => INNOCENT,
    }
}

/// What works in a group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    Kernel(Kernel),
    Program(Program),
}

/// A kernel of `quell pressure`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kernel {
    /// What it presses on.
    pub(crate) resource: &'static str,
    /// How much, in percent.
    pub(crate) intensity: f64,
    /// By how many threads.
    pub(crate) threads: u32,
    /// What it does between its turns. Innocents keep their pace, so each uses its share of a CPU as
    /// long as there is one; a culprit is lessened with its share of the time.
    pub(crate) idle: &'static str,
    /// Length of a slice of its duty cycle; none: as short as a sleep allows.
    pub(crate) slice: Option<Duration>,
}

impl Kernel {
    /// Work that stays within a core, as little as any innocent does.
    pub(in super::super) fn innocent(dice: &mut Dice) -> Self {
        let resource = INNOCENT[dice.below(INNOCENT.len() as u64) as usize];
        Self { resource, intensity: LEAST_PERCENT, threads: 1, idle: "pace", slice: None }
    }

    /// Of one who is guilty, or innocent.
    pub(super) fn draw(dice: &mut Dice, guilty: bool, cast: &Cast) -> Self {
        let kinds = if guilty { &cast.kernels[..] } else { &INNOCENT };
        let resource = kinds[dice.below(kinds.len() as u64) as usize];
        let intensity = match guilty {
            false => LEAST_PERCENT + STEP_PERCENT * dice.below(11) as f64,
            true => 100.0,
        };
        let pairs = (cast.cpus / 2).max(1);
        let threads = match (guilty, cast.taken) {
            (true, Taken::Cpu) => (2 + dice.below(3) as u32) * pairs,
            (true, Taken::Memory) => pairs,
            (false, _) => 1,
        };
        let idle = if guilty { "sleep" } else { "pace" };
        Self { resource, intensity, threads, idle, slice: None }
    }

    /// As `integer 100 x 2`.
    pub(super) fn in_words(&self) -> String {
        let times = if self.threads == 1 { String::new() } else { format!(" x {}", self.threads) };
        format!("{} {}{times}", self.resource, self.intensity)
    }
}

/// Somebody's program with its arguments, as a shell would take the words apart; nothing else of a shell
/// is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Vec<String>);

impl Program {
    /// The program, and its arguments.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.0
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match shlex::split(text) {
            Some(words) if words.first().is_some_and(|word| !word.is_empty()) => Ok(Self(words)),
            Some(_) => Err("give a program, as 'stress-ng --stream 1'".to_owned()),
            None => Err(format!("a quote in `{text}` is not closed")),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Words with a zero byte come from no command line.
        let words = self.0.iter().map(String::as_str);
        f.pad(&shlex::try_join(words).unwrap_or_else(|_| self.0.join(" ")))
    }
}
