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
    /// CPUs: several threads of arithmetic that never sleep or, where little harm is wanted, work in
    /// short turns.
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
}

impl Member {
    /// As `integer 100 x 2`.
    pub(super) fn in_words(&self) -> String {
        let times = if self.threads == 1 { String::new() } else { format!(" x {}", self.threads) };
        format!("{} {}{times}", self.resource, self.intensity)
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
/// Work that stays within a core.
const INNOCENT: [&str; 3] = ["integer", "floating-point", "vector"];
/// Work that leaves it.
const GUILTY: [&str; 3] = ["llc-capacity", "memory-bandwidth", "llc-bandwidth"];

/// How hard one works who takes the CPU and is to do little harm, in percent of a CPU for each of its
/// threads: it works in turns of less than a millisecond and sleeps a millisecond between two. (At
/// a low CPU weight turns would be rare, not short, and who comes in one waits for its end.) How
/// much harm a duty does is the machine's and the other groups', so it follows the harm
/// that was measured with Quell off: what Quell said of anybody has no part in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LittleDuty(f64);

impl Default for LittleDuty {
    fn default() -> Self {
        Self(15.0)
    }
}

impl LittleDuty {
    /// With more, turns are longer than 0.8 ms.
    const MOST: f64 = 45.0;
    const LEAST: f64 = 1.0;
    /// The harm that is aimed at, less 1: the middle of the class, in ln.
    const WANTED: f64 = 0.12;
    /// Near enough.
    const WITHIN: std::ops::Range<f64> = 1.09..1.16;

    /// Learns how much the last one did. Harm grows about as the square of the duty, so the duty is
    /// turned by the root of what is wanted over what was, by a factor of two at most.
    pub(crate) fn learn(&mut self, harm: Option<f64>) {
        let Some(harm) = harm.filter(|harm| !Self::WITHIN.contains(harm)) else { return };
        // Where no harm was seen it is small, not 0.
        let excess = (harm - 1.0).max(0.25 * Self::WANTED);
        let factor = (Self::WANTED / excess).sqrt().clamp(0.5, 2.0);
        self.0 = (self.0 * factor).clamp(Self::LEAST, Self::MOST);
    }

    /// Whether such a harm is near enough to what is wanted.
    pub(crate) fn fits(harm: Option<f64>) -> bool {
        harm.is_some_and(|harm| Self::WITHIN.contains(&harm))
    }

    /// As an intensity of `quell pressure`.
    pub(crate) fn percent(self) -> u32 {
        self.0.round() as u32
    }
}

impl Composition {
    /// The composition of this number.
    pub(crate) fn draw(
        seed: u64,
        number: u32,
        (harm, taken): (Harm, Taken),
        little: LittleDuty,
    ) -> Self {
        let mut dice = Dice(seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let culprit = (harm != Harm::None).then(|| dice.below(GROUPS.len() as u64) as usize);
        let member = |(index, group): (usize, &&str)| {
            let guilty = Some(index) == culprit;
            let kinds = if guilty && taken == Taken::Memory { &GUILTY } else { &INNOCENT };
            let resource = kinds[dice.below(kinds.len() as u64) as usize];
            let intensity = match (guilty, harm) {
                (false, _) => 10 + 5 * dice.below(11) as u32,
                (true, Harm::Little) => match taken {
                    Taken::Memory => 20 + 10 * dice.below(6) as u32,
                    Taken::Cpu => little.percent(),
                },
                (true, _) => 100,
            };
            let threads = match (guilty, taken) {
                (true, Taken::Cpu) => 2 + dice.below(3) as u32,
                _ => 1,
            };
            Member { group: (*group).to_owned(), resource, intensity, threads }
        };
        Self { members: GROUPS.iter().enumerate().map(member).collect(), culprit }
    }

    /// The culprit works as hard as this from now on.
    pub(crate) fn turn_to(&mut self, duty: LittleDuty) {
        if let Some(culprit) = self.culprit {
            self.members[culprit].intensity = duty.percent();
        }
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
        let usual = LittleDuty::default();
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
        let usual = LittleDuty::default();
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
        assert_eq!(culprit.intensity, 15);
        assert!(culprit.in_words().contains(" 15 x "), "{}", culprit.in_words());
        let much = Composition::draw(2, 0, (Harm::Much, Taken::Cpu), usual);
        assert_eq!(much.members[much.culprit.unwrap()].intensity, 100);
        assert_eq!("cpu".parse::<Taken>().unwrap().to_string(), "cpu");
        assert!("disk".parse::<Taken>().unwrap_err().contains("memory, cpu"));
    }

    #[test]
    fn who_is_to_do_little_harm_works_more_where_it_did_none_and_less_where_it_did_much() {
        let mut duty = LittleDuty::default();
        for near in [Some(1.12), Some(1.1), None] {
            duty.learn(near);
            assert_eq!(duty.percent(), 15, "{near:?}");
        }
        duty.learn(Some(1.0));
        assert_eq!(duty.percent(), 30, "no more than twice as much at a time");
        duty.learn(Some(1.48));
        assert_eq!(duty.percent(), 15, "half for four times as much");
        (0..50).for_each(|_| duty.learn(Some(3.0)));
        assert_eq!(duty.percent(), 1);
        (0..50).for_each(|_| duty.learn(Some(0.9)));
        assert_eq!(duty.percent(), 45, "turns stay below a millisecond");
    }

    /// Harm of a queue that is as long as its load over what is idle, besides what others do.
    fn harm_of(duty: LittleDuty, threads: f64, idle_cpus: f64) -> f64 {
        let taken = threads * f64::from(duty.percent()) / 100.0;
        1.0 + taken * taken / (idle_cpus - taken).max(0.05)
    }

    #[test]
    fn three_looks_find_the_duty_of_little_harm_beside_whatever_groups() {
        for threads in [2.0, 3.0, 4.0] {
            for idle_cpus in [0.2, 0.5, 0.9, 1.3] {
                let mut duty = LittleDuty::default();
                for _ in 0..3 {
                    duty.learn(Some(harm_of(duty, threads, idle_cpus)));
                }
                let harm = harm_of(duty, threads, idle_cpus);
                assert!(
                    Harm::Little.refuses(Some(harm)).is_none(),
                    "{threads} threads, {idle_cpus} CPUs idle: {harm}"
                );
            }
        }
    }

    #[test]
    fn a_duty_that_is_found_is_that_of_the_culprit_alone() {
        let usual = LittleDuty::default();
        let mut drawn = Composition::draw(2, 0, (Harm::Little, Taken::Cpu), usual);
        let before = drawn.clone();
        let mut duty = usual;
        duty.learn(Some(1.0));
        drawn.turn_to(duty);
        let culprit = drawn.culprit.unwrap();
        for (index, (new, old)) in drawn.members.iter().zip(&before.members).enumerate() {
            assert_eq!(new.intensity, if index == culprit { 30 } else { old.intensity });
            assert_eq!((&new.group, new.threads), (&old.group, old.threads));
        }
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
