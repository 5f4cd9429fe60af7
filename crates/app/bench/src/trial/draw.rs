//! What runs in which group, drawn from a seed.

mod duty;
mod work;

pub(crate) use duty::Duty;
pub use work::Program;
pub(crate) use work::{Kernel, Work};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use work::{LEAST_PERCENT, STEP_PERCENT};

/// Little harm is known well enough if its interval ends at less than so many times its begin.
const WIDEST: f64 = 1.5;
/// Much harm is shown if its interval begins above that. It never begins below 1, since answers in time, of which
/// none is lost, are 1 exactly; and of a thousand of them some are late by chance.
const SHOWN: f64 = 1.01;

/// How much the culprit of a trial hurts, as a factor on the service's mean latency, on its CPU time
/// per answer, or on what it answers in time, whichever is greatest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum Harm {
    /// There is no culprit.
    #[serde(rename = "none")]
    None,
    /// A little: 1.05 to 1.2.
    #[serde(rename = "1.05..1.2")]
    Little,
    /// Much: 1.2 and more.
    #[serde(rename = "1.2..")]
    Much,
}

impl Harm {
    /// All of them, with their names.
    const ALL: [(Harm, &'static str); 3] =
        [(Harm::None, "none"), (Harm::Little, "1.05..1.2"), (Harm::Much, "1.2..")];

    /// Factors that are of this class; none if there is no culprit.
    pub(super) fn bounds(self) -> Option<Range<f64>> {
        match self {
            Harm::None => None,
            Harm::Little => Some(1.05..1.2),
            Harm::Much => Some(1.2..f64::INFINITY),
        }
    }

    /// Why a trial with this harm does not count.
    pub(crate) fn refuses(self, harm: Option<f64>) -> Option<&'static str> {
        match (self.bounds(), harm) {
            (None, None) => None,
            (Some(_), None) => Some("the harm could not be measured in its time"),
            (Some(bounds), Some(harm)) if bounds.contains(&harm) => None,
            _ => Some("the harm was of another class"),
        }
    }

    /// Why a harm of which this interval is known is not known well enough, if it is not.
    pub(super) fn is_unknown(self, (low, high): (f64, f64)) -> Option<&'static str> {
        match self {
            Harm::Little if high >= WIDEST * low => Some("the harm was not known well enough"),
            Harm::Much if low < SHOWN => Some("it was not sure that there was harm"),
            _ => None,
        }
    }

    /// Whether a harm of which this interval is known is surely of another class.
    pub(super) fn excludes(self, (low, high): (f64, f64)) -> bool {
        self.bounds().is_none_or(|bounds| high < bounds.start || low >= bounds.end)
    }

    /// Whether it is surely of this class, or surely of another.
    pub(super) fn is_decided(self, interval: (f64, f64)) -> bool {
        let within =
            |bounds: Range<f64>| bounds.contains(&interval.0) && bounds.contains(&interval.1);
        self.excludes(interval) || self.bounds().is_some_and(within)
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(harm, _)| harm == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Harm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text).map(|(harm, _)| *harm);
        found.ok_or_else(|| {
            format!("`{text}` is no class of harm; there are none, 1.05..1.2, 1.2..")
        })
    }
}

/// What the culprit of a trial takes from the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// Caches and memory bandwidth: a thread for each second CPU, as one of them hurts nobody on a large machine.
    #[default]
    Memory,
    /// CPUs: one to two threads for each, of arithmetic, that never sleep or, where little harm is wanted, work
    /// in short turns.
    Cpu,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Taken::Memory => "memory",
            Taken::Cpu => "cpu",
        })
    }
}

impl FromStr for Taken {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "memory" => Ok(Taken::Memory),
            "cpu" => Ok(Taken::Cpu),
            _ => Err(format!("`{text}` is nothing that can be taken; there are memory, cpu")),
        }
    }
}

/// Work of one group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    /// Its group's name.
    pub(crate) group: String,
    pub(crate) work: Work,
}

impl Member {
    /// As `integer 100 x 2`, or the program's words.
    pub(super) fn in_words(&self) -> String {
        match &self.work {
            Work::Kernel(kernel) => kernel.in_words(),
            Work::Program(program) => program.to_string(),
        }
    }

    /// None if it is somebody's program.
    pub(super) fn kernel(&self) -> Option<&Kernel> {
        match &self.work {
            Work::Kernel(kernel) => Some(kernel),
            Work::Program(_) => None,
        }
    }

    fn kernel_mut(&mut self) -> Option<&mut Kernel> {
        match &mut self.work {
            Work::Kernel(kernel) => Some(kernel),
            Work::Program(_) => None,
        }
    }
}

/// What runs in one trial.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Composition {
    /// All groups.
    pub(crate) members: Vec<Member>,
    /// Which of them hurts, if any.
    pub(crate) culprit: Option<usize>,
}

/// How many groups there are, unless something else is wanted.
pub const USUAL_GROUPS: usize = 5;
/// At most: each has a letter for a name.
pub(crate) const MOST_GROUPS: usize = 26;

/// The names of so many groups.
pub(crate) fn names(groups: usize) -> Vec<String> {
    ('a'..='z').take(groups).map(String::from).collect()
}

/// Who may come on in trials.
#[derive(Clone, Debug)]
pub(crate) struct Cast {
    /// How much the culprit is to hurt; there may be none.
    pub(crate) harm: Harm,
    pub(crate) taken: Taken,
    pub(crate) groups: usize,
    /// How many CPUs there are: what the culprit takes grows with them.
    pub(crate) cpus: u32,
    /// What the culprit may run; empty: kernels.
    pub(crate) polluters: Vec<Program>,
    /// What these kernels may press on; not empty.
    pub(crate) kernels: Vec<&'static str>,
    /// What all others may run; empty: kernels that stay within a core.
    pub(crate) innocents: Vec<Program>,
}

impl Cast {
    /// All kernels that take what is wanted, in as many groups as usual, on two CPUs.
    pub(crate) fn of_kernels(harm: Harm, taken: Taken) -> Self {
        Self {
            harm,
            taken,
            groups: USUAL_GROUPS,
            cpus: 2,
            polluters: Vec::new(),
            kernels: work::guilty(taken).to_vec(),
            innocents: Vec::new(),
        }
    }

    /// The same with one polluter, for each that there is.
    pub(crate) fn each_polluter(&self) -> Vec<Self> {
        let kernel = |kernel: &&'static str| Self { kernels: vec![*kernel], ..self.clone() };
        let program = |program: &Program| Self { polluters: vec![program.clone()], ..self.clone() };
        match self.polluters.is_empty() {
            true => self.kernels.iter().map(kernel).collect(),
            false => self.polluters.iter().map(program).collect(),
        }
    }

    /// With the polluters of these casts in place of its own.
    pub(crate) fn of_polluters(self, casts: Vec<Self>) -> Self {
        let polluters = casts.iter().flat_map(|cast| cast.polluters.clone()).collect();
        match self.polluters.is_empty() {
            true => Self { kernels: casts.into_iter().flat_map(|c| c.kernels).collect(), ..self },
            false => Self { polluters, ..self },
        }
    }
}

impl Composition {
    /// The composition of this number. Kernels of innocents together want at most so many CPUs: the most
    /// that one wants is less by 5 % of one until they do. What programs want is theirs.
    pub(crate) fn draw(seed: u64, number: u32, cast: &Cast, room_cpus: f64) -> Self {
        let mut dice = Dice::new(seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let culprit = (cast.harm != Harm::None).then(|| dice.below(cast.groups as u64) as usize);
        let member = |(index, group): (usize, String)| {
            let guilty = Some(index) == culprit;
            let programs = if guilty { &cast.polluters } else { &cast.innocents };
            let work = match &programs[..] {
                [] => Work::Kernel(Kernel::draw(&mut dice, guilty, cast)),
                some => Work::Program(some[dice.below(some.len() as u64) as usize].clone()),
            };
            Member { group, work }
        };
        let members = names(cast.groups).into_iter().enumerate().map(member).collect();
        let mut drawn = Self { members, culprit };
        while drawn.shrink(room_cpus) {}
        drawn
    }

    /// Makes the innocent that wants most want less, unless all together want at most so many CPUs;
    /// false if nothing is left to do.
    fn shrink(&mut self, room_cpus: f64) -> bool {
        let culprit = self.culprit;
        let innocents = self.members.iter_mut().enumerate();
        let innocents = innocents.filter(|(index, _)| Some(*index) != culprit).map(|(_, m)| m);
        let innocents: Vec<&mut Kernel> = innocents.filter_map(Member::kernel_mut).collect();
        let wanted_cpus = innocents.iter().map(|m| m.intensity / 100.0).sum::<f64>();
        let more = |a: &&mut Kernel, b: &&mut Kernel| a.intensity.total_cmp(&b.intensity);
        let most = innocents.into_iter().max_by(more);
        let Some(most) = most.filter(|most| most.intensity > LEAST_PERCENT) else { return false };
        let crowded = wanted_cpus > room_cpus + 1e-9;
        if crowded {
            most.intensity -= STEP_PERCENT;
        }
        crowded
    }

    /// The culprit works as hard as this from now on; a program works as it does.
    pub(crate) fn turn_to(&mut self, duty: Duty) {
        let culprit = self.culprit.and_then(|index| self.members[index].kernel_mut());
        if let Some(kernel) = culprit {
            kernel.intensity = duty.percent();
            kernel.slice = duty.slice();
        }
    }

    /// The culprit's kernel; none if there is no culprit, or it is somebody's program.
    pub(crate) fn pressing(&self) -> Option<&Kernel> {
        self.culprit.and_then(|index| self.members[index].kernel())
    }

    /// The culprit's name.
    pub(crate) fn culprit(&self) -> Option<&str> {
        self.culprit.map(|index| self.members[index].group.as_str())
    }
}

/// SplitMix64.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 0 to 1.
    #[cfg(test)]
    pub(super) fn share(&mut self) -> f64 {
        self.below(1 << 32) as f64 / (1_u64 << 32) as f64
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

#[cfg(test)]
mod tests;
