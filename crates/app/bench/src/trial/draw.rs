//! What runs in which group, drawn from a seed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

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
        let within = match (self.bounds(), harm) {
            (None, None) => true,
            (Some(bounds), Some(harm)) => bounds.contains(&harm),
            _ => false,
        };
        (!within).then_some("the harm was of another class")
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
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    /// Its group's name.
    pub(crate) group: String,
    /// What `quell pressure` presses on.
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

impl Member {
    /// As `integer 100 x 2`.
    pub(super) fn in_words(&self) -> String {
        let times = if self.threads == 1 { String::new() } else { format!(" x {}", self.threads) };
        format!("{} {}{times}", self.resource, self.intensity)
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

/// Groups of a trial.
pub(crate) const GROUPS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// What an innocent uses of a CPU: so much and some steps more, up to 60 %.
const LEAST_PERCENT: f64 = 10.0;
const STEP_PERCENT: f64 = 5.0;
/// Work that stays within a core.
const INNOCENT: [&str; 3] = ["integer", "floating-point", "vector"];
/// Work that leaves it.
const GUILTY: [&str; 3] = ["llc-capacity", "memory-bandwidth", "llc-bandwidth"];

/// How hard each thread of a culprit works that is to do little harm, in percent of a CPU.
///
/// One who takes the CPU works in turns of half a millisecond and sleeps between two, so that less of
/// it is fewer turns, not shorter ones, and harm goes to nothing with it. (At a low CPU weight turns
/// would be rare, not short, and who comes in one waits for its end. With turns a millisecond apart the
/// wake-ups alone do harm.) One who takes memory, from CPUs that are not the service's, may work all
/// the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Duty {
    percent: f64,
    taken: Taken,
}

impl Duty {
    const TURN_S: f64 = 0.0005;

    /// The least and the most. Who takes the CPU with more than 45 has turns longer than 0.8 ms, since
    /// sleeps are of a millisecond at least.
    pub(super) fn bounds(taken: Taken) -> (f64, f64) {
        match taken {
            Taken::Cpu => (0.5, 45.0),
            Taken::Memory => (5.0, 100.0),
        }
    }

    /// Kept within bounds, to a tenth of a percent.
    pub(super) fn new(taken: Taken, percent: f64) -> Self {
        let (least, most) = Self::bounds(taken);
        Self { percent: (10.0 * percent.clamp(least, most)).round() / 10.0, taken }
    }

    pub(super) fn percent(self) -> f64 {
        self.percent
    }

    /// Length of a slice of its duty cycle; none: as short as a sleep allows.
    fn slice(self) -> Option<Duration> {
        let short = Duration::from_secs_f64(100.0 * Self::TURN_S / self.percent);
        (self.taken == Taken::Cpu).then_some(short)
    }
}

impl Composition {
    /// The composition of this number. Innocents together want at most so many CPUs: the most that
    /// one wants is less by 5 % of one until they do.
    pub(crate) fn draw(
        seed: u64,
        number: u32,
        (harm, taken): (Harm, Taken),
        room_cpus: f64,
    ) -> Self {
        let mut dice = Dice::new(seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let culprit = (harm != Harm::None).then(|| dice.below(GROUPS.len() as u64) as usize);
        let member = |(index, group): (usize, &&str)| {
            let guilty = Some(index) == culprit;
            let kinds = if guilty && taken == Taken::Memory { &GUILTY } else { &INNOCENT };
            let resource = kinds[dice.below(kinds.len() as u64) as usize];
            let intensity = match guilty {
                false => LEAST_PERCENT + STEP_PERCENT * dice.below(11) as f64,
                true => 100.0,
            };
            let threads = match (guilty, taken) {
                (true, Taken::Cpu) => 2 + dice.below(3) as u32,
                _ => 1,
            };
            let group = (*group).to_owned();
            let idle = if guilty { "sleep" } else { "pace" };
            Member { group, resource, intensity, threads, idle, slice: None }
        };
        let members = GROUPS.iter().enumerate().map(member).collect();
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
        let innocents: Vec<&mut Member> = innocents.collect();
        let wanted_cpus = innocents.iter().map(|m| m.intensity / 100.0).sum::<f64>();
        let more = |a: &&mut Member, b: &&mut Member| a.intensity.total_cmp(&b.intensity);
        let most = innocents.into_iter().max_by(more);
        let Some(most) = most.filter(|most| most.intensity > LEAST_PERCENT) else { return false };
        let crowded = wanted_cpus > room_cpus + 1e-9;
        if crowded {
            most.intensity -= STEP_PERCENT;
        }
        crowded
    }

    /// Work that stays within a core.
    pub(super) fn innocent(dice: &mut Dice) -> &'static str {
        INNOCENT[dice.below(INNOCENT.len() as u64) as usize]
    }

    /// The culprit works as hard as this from now on.
    pub(crate) fn turn_to(&mut self, duty: Duty) {
        if let Some(culprit) = self.culprit {
            self.members[culprit].intensity = duty.percent();
            self.members[culprit].slice = duty.slice();
        }
    }

    /// Threads of the culprit; none if there is none.
    pub(crate) fn culprit_threads(&self) -> Option<u32> {
        self.culprit.map(|index| self.members[index].threads)
    }

    /// What the culprit presses on; none if there is none.
    pub(super) fn pressed(&self) -> Option<&'static str> {
        self.culprit.map(|index| self.members[index].resource)
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
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_and_every_group_comes_to_be_the_culprit() {
        let much = (Harm::Much, Taken::Memory);
        let drawn = |seed, number| Composition::draw(seed, number, much, 9.0);
        assert_eq!(drawn(7, 3), drawn(7, 3));
        assert_ne!(drawn(7, 3), drawn(8, 3));
        for group in 0..GROUPS.len() {
            assert!((0..60).any(|number| drawn(1, number).culprit == Some(group)), "{group}");
        }
        let none = (Harm::None, Taken::Cpu);
        for member in (0..60).flat_map(|number| Composition::draw(1, number, none, 9.0).members) {
            assert!(INNOCENT.contains(&member.resource), "{member:?}");
            assert!((10.0..=60.0).contains(&member.intensity), "{member:?}");
        }
    }

    #[test]
    fn who_takes_cpus_has_several_threads_and_everybody_else_one() {
        let drawn = |number| Composition::draw(2, number, (Harm::Much, Taken::Cpu), 9.0);
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
        let much = drawn(0);
        assert_eq!(much.members[much.culprit.unwrap()].intensity, 100.0);
        assert_eq!("cpu".parse::<Taken>().unwrap().to_string(), "cpu");
        assert!("disk".parse::<Taken>().unwrap_err().contains("memory, cpu"));
    }

    #[test]
    fn innocents_leave_room_and_nobody_wants_next_to_nothing() {
        for number in 0..60 {
            let drawn = |room| Composition::draw(4, number, (Harm::Much, Taken::Cpu), room);
            let wants = |drawn: &Composition| -> Vec<f64> {
                let all = drawn.members.iter().enumerate();
                let innocent = all.filter(|(index, _)| Some(*index) != drawn.culprit);
                innocent.map(|(_, member)| member.intensity).collect()
            };
            let (much, little, none) = (drawn(9.0), drawn(1.1), drawn(0.0));
            assert!(wants(&little).iter().sum::<f64>() <= 110.0, "{little:?}");
            assert!(wants(&little).iter().zip(wants(&much)).all(|(less, all)| *less <= all));
            assert_eq!(wants(&none), [10.0; 4], "{none:?}");
            assert_eq!(much.members[much.culprit.unwrap()], none.members[none.culprit.unwrap()]);
        }
    }

    #[test]
    fn a_duty_that_is_found_is_that_of_the_culprit_alone() {
        let before = Composition::draw(2, 0, (Harm::Little, Taken::Cpu), 9.0);
        let mut drawn = before.clone();
        drawn.turn_to(Duty::new(Taken::Cpu, 2.04));
        let culprit = drawn.culprit.unwrap();
        assert!(drawn.members[culprit].in_words().contains(" 2 x "), "{drawn:?}");
        assert_eq!(drawn.members[culprit].slice, Some(Duration::from_millis(25)));
        drawn.members[culprit] = before.members[culprit].clone();
        assert_eq!(drawn, before);
    }

    #[test]
    fn a_duty_stays_where_turns_are_short_and_slices_are_taken() {
        let table =
            [(0.0, 0.5, 100_000), (2.46, 2.5, 20_000), (20.0, 20.0, 2500), (99.0, 45.0, 1111)];
        for (wanted, percent, slice_us) in table {
            let duty = Duty::new(Taken::Cpu, wanted);
            assert_eq!(duty.percent(), percent);
            assert_eq!(duty.slice().map(|slice| slice.as_micros()), Some(slice_us));
        }
        let all = Duty::new(Taken::Memory, 170.0);
        assert_eq!((all.percent(), all.slice()), (100.0, None));
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
