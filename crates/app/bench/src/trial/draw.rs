//! What runs in which group, drawn from a seed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How much the culprit of a trial hurts, as a factor on the service's CPU time per request, on the
/// p95 of its latency, or on what it answers, whichever is greatest.
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

    /// Why a trial with this harm does not count.
    pub(crate) fn refuses(self, harm: Option<f64>) -> Option<&'static str> {
        let within = match (self, harm) {
            (Harm::None, None) => true,
            (Harm::Little, Some(harm)) => (1.05..1.2).contains(&harm),
            (Harm::Much, Some(harm)) => harm >= 1.2,
            _ => false,
        };
        (!within).then_some("the harm was of another class")
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
    /// Caches and memory bandwidth: one thread.
    #[default]
    Memory,
    /// CPUs: several threads of arithmetic that never sleep.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its group's name.
    pub(crate) group: String,
    /// What `quell pressure` presses on.
    pub(crate) resource: &'static str,
    /// How much.
    pub(crate) intensity: u32,
    /// By how many threads.
    pub(crate) threads: u32,
    /// CPU weight of its group, 100 being the usual one.
    pub(crate) weight: u32,
}

impl Member {
    /// As `integer 100 x 2, weight 10`.
    pub(super) fn in_words(&self) -> String {
        let times = if self.threads == 1 { String::new() } else { format!(" x {}", self.threads) };
        let weight = match self.weight {
            USUAL_WEIGHT => String::new(),
            weight => format!(", weight {weight}"),
        };
        format!("{} {}{times}{weight}", self.resource, self.intensity)
    }
}

/// What runs in one trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Composition {
    /// All groups.
    pub(crate) members: Vec<Member>,
    /// Which of them hurts, if any.
    pub(crate) culprit: Option<usize>,
}

/// Groups of a trial.
pub(crate) const GROUPS: [&str; 5] = ["a", "b", "c", "d", "e"];
const USUAL_WEIGHT: u32 = 100;
/// Work that stays within a core.
const INNOCENT: [&str; 3] = ["integer", "floating-point", "vector"];
/// Work that leaves it.
const GUILTY: [&str; 3] = ["llc-capacity", "memory-bandwidth", "llc-bandwidth"];

/// The CPU weight of one who never sleeps and yet is to do little harm. How much a weight does is
/// the machine's, so it follows the harm that earlier culprits were measured to do with Quell off:
/// what Quell said of them has no part in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LittleWeight(f64);

impl Default for LittleWeight {
    fn default() -> Self {
        Self(30.0)
    }
}

impl LittleWeight {
    /// Learns how much the last one did.
    pub(crate) fn learn(&mut self, harm: Option<f64>) {
        let factor = match harm {
            Some(harm) if harm < 1.05 => 1.4,
            Some(harm) if harm >= 1.2 => 0.7,
            _ => 1.0,
        };
        self.0 = (self.0 * factor).clamp(2.0, 400.0);
    }

    fn weight(self) -> u32 {
        self.0.round() as u32
    }
}

impl Composition {
    /// The composition of this number.
    pub(crate) fn draw(
        seed: u64,
        number: u32,
        (harm, taken): (Harm, Taken),
        little: LittleWeight,
    ) -> Self {
        let mut dice = Dice(seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let culprit = (harm != Harm::None).then(|| dice.below(GROUPS.len() as u64) as usize);
        let member = |(index, group): (usize, &&str)| {
            let guilty = Some(index) == culprit;
            let kinds = if guilty && taken == Taken::Memory { &GUILTY } else { &INNOCENT };
            let resource = kinds[dice.below(kinds.len() as u64) as usize];
            let intensity = match (guilty, harm) {
                (false, _) => 10 + 5 * dice.below(11) as u32,
                (true, Harm::Little) if taken == Taken::Memory => 20 + 10 * dice.below(6) as u32,
                (true, _) => 100,
            };
            let threads = match (guilty, taken) {
                (true, Taken::Cpu) => 2 + dice.below(3) as u32,
                _ => 1,
            };
            let weight = match (guilty, taken, harm) {
                (true, Taken::Cpu, Harm::Little) => little.weight(),
                _ => USUAL_WEIGHT,
            };
            Member { group: (*group).to_owned(), resource, intensity, threads, weight }
        };
        Self { members: GROUPS.iter().enumerate().map(member).collect(), culprit }
    }

    /// The culprit's name.
    pub(crate) fn culprit(&self) -> Option<&str> {
        self.culprit.map(|index| self.members[index].group.as_str())
    }
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_and_every_group_comes_to_be_the_culprit() {
        let usual = LittleWeight::default();
        let much = (Harm::Much, Taken::Memory);
        let drawn = |seed, number| Composition::draw(seed, number, much, usual);
        assert_eq!(drawn(7, 3), drawn(7, 3));
        assert_ne!(drawn(7, 3), drawn(8, 3));
        for group in 0..GROUPS.len() {
            assert!((0..60).any(|number| drawn(1, number).culprit == Some(group)), "{group}");
        }
        for member in (0..60).flat_map(|number| {
            Composition::draw(1, number, (Harm::None, Taken::Cpu), usual).members
        }) {
            assert!(INNOCENT.contains(&member.resource), "{member:?}");
            assert!((10..=60).contains(&member.intensity), "{member:?}");
        }
    }

    #[test]
    fn who_takes_cpus_has_several_threads_and_everybody_else_one() {
        let usual = LittleWeight::default();
        let drawn = |number| Composition::draw(2, number, (Harm::Much, Taken::Cpu), usual);
        let mut counts = std::collections::BTreeSet::new();
        for composition in (0..60).map(drawn) {
            let culprit = composition.culprit.unwrap();
            for (index, member) in composition.members.iter().enumerate() {
                assert!(INNOCENT.contains(&member.resource), "{member:?}");
                assert!(index == culprit || member.threads == 1, "{member:?}");
            }
            counts.insert(composition.members[culprit].threads);
        }
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [2, 3, 4]);
        let little = Composition::draw(2, 0, (Harm::Little, Taken::Cpu), usual);
        let culprit = &little.members[little.culprit.unwrap()];
        assert_eq!((culprit.weight, culprit.intensity), (30, 100));
        assert!(culprit.in_words().contains(", weight 30"), "{}", culprit.in_words());
        assert_eq!("cpu".parse::<Taken>().unwrap().to_string(), "cpu");
        assert!("disk".parse::<Taken>().unwrap_err().contains("memory, cpu"));
    }

    #[test]
    fn who_is_to_do_little_harm_gets_more_weight_where_it_did_none_and_less_where_it_did_much() {
        let mut little = LittleWeight::default();
        little.learn(Some(1.1));
        little.learn(None);
        assert_eq!(little.weight(), 30);
        little.learn(Some(1.0));
        assert_eq!(little.weight(), 42);
        (0..50).for_each(|_| little.learn(Some(3.0)));
        assert_eq!(little.weight(), 2);
    }

    #[test]
    fn classes_are_read_and_keep_their_bounds() {
        let table = [
            ("none", None, true),
            ("none", Some(1.0), false),
            ("1.05..1.2", Some(1.1), true),
            ("1.05..1.2", Some(1.2), false),
            ("1.2..", Some(1.2), true),
            ("1.2..", Some(1.19), false),
        ];
        for (name, harm, counts) in table {
            let class: Harm = name.parse().unwrap();
            assert_eq!(class.to_string(), name);
            assert_eq!(class.refuses(harm).is_none(), counts, "{name} {harm:?}");
        }
        assert!("1.3..".parse::<Harm>().unwrap_err().contains("1.2.."));
    }
}
