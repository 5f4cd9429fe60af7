//! What a look says. Pure.

use crate::stats::median;

/// Where the host runs two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On two cores.
    Apart,
    /// On two cores that share no last-level cache, though the machine is told that they do.
    Distant,
    /// On two threads of one core.
    Together,
    /// It could not be told: others wanted the CPUs, or the core's speed was not steady.
    Unknown,
}

impl Placement {
    /// Whether it is another one than the machine is told, so that what is measured there says little of it.
    #[must_use]
    pub fn disturbs(self) -> bool {
        matches!(self, Self::Together | Self::Distant)
    }
}

/// One round on one CPU: what an operation took, in ns; none where the CPU was not to be had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Turn {
    pub(super) alone_ns: Option<f64>,
    pub(super) beside_ns: Option<f64>,
}

/// A loss below this is no other thread of the core: that takes a third and more.
const LEAST: f64 = 0.08;
/// Nor is one that is not so many times what the CPU differs from itself.
const TIMES: f64 = 3.0;
/// With a threshold above this nothing can be told.
const MOST: f64 = 0.25;
/// Rounds that a CPU needs.
const ROUNDS: usize = 2;

/// A line that takes longer each way, in ns, may come from another cache...
const FAR_NS: f64 = 90.0;
/// ... if that is so many times what it took before...
const FAR_TIMES: f64 = 2.5;
/// ... or so large a part of a read from memory, nearer than which any cache is that both could share.
const FAR_OF_MEMORY: f64 = 0.9;

/// The shortest way of a line between two CPUs that was seen so far, and what is far for sure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nearest {
    shortest_ns: f64,
    surely_far_ns: f64,
}

impl Default for Nearest {
    fn default() -> Self {
        Self::where_memory_takes(None)
    }
}

impl Nearest {
    /// With what a read from memory takes here, in ns, if that is known.
    pub(super) fn where_memory_takes(memory_ns: Option<f64>) -> Self {
        let surely_far_ns = memory_ns.map_or(f64::INFINITY, |ns| FAR_OF_MEMORY * ns);
        Self { shortest_ns: f64::INFINITY, surely_far_ns }
    }

    /// Whether a line that takes so long each way comes from another cache.
    pub(super) fn is_farther(&mut self, passes_ns: Option<f64>) -> bool {
        let Some(ns) = passes_ns else { return false };
        self.shortest_ns = self.shortest_ns.min(ns);
        ns > FAR_NS && (ns > FAR_TIMES * self.shortest_ns || ns > self.surely_far_ns)
    }
}

/// The verdict on the rounds of two CPUs.
pub(super) fn judge(rounds: &[[Turn; 2]]) -> Placement {
    let side = |cpu: usize| side(rounds.iter().map(|round| round[cpu]));
    let (Some(first), Some(second)) = (side(0), side(1)) else { return Placement::Unknown };
    let threshold = LEAST.max(TIMES * first.noise.max(second.noise));
    if threshold > MOST {
        Placement::Unknown
    } else if first.lost.min(second.lost) > threshold {
        Placement::Together
    } else {
        Placement::Apart
    }
}

/// One CPU's rounds.
struct Side {
    lost: f64,
    noise: f64,
}

fn side(turns: impl Iterator<Item = Turn>) -> Option<Side> {
    let whole: Vec<(f64, f64)> =
        turns.filter_map(|turn| turn.alone_ns.zip(turn.beside_ns)).collect();
    if whole.len() < ROUNDS {
        return None;
    }
    let alone: Vec<f64> = whole.iter().map(|(alone, _)| *alone).collect();
    let kept: Vec<f64> = whole.iter().map(|(alone, beside)| alone / beside).collect();
    let least = alone.iter().copied().fold(f64::INFINITY, f64::min);
    let most = alone.iter().copied().fold(0.0, f64::max);
    Some(Side { lost: 1.0 - median(&kept)?, noise: (most - least) / median(&alone)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three rounds: what each CPU takes alone, and how much of its speed it keeps beside the other.
    fn rounds(first: [(f64, f64); 3], second: [(f64, f64); 3]) -> Vec<[Turn; 2]> {
        let turn = |(alone, kept): (f64, f64)| Turn {
            alone_ns: Some(alone),
            beside_ns: Some(alone / kept),
        };
        first.into_iter().zip(second).map(|(a, b)| [turn(a), turn(b)]).collect()
    }

    #[test]
    fn verdicts() {
        let steady = |kept: f64| [(0.10, kept); 3];
        for (what, first, second, placement) in [
            ("two cores", steady(1.0), steady(0.99), Placement::Apart),
            ("threads of one core", steady(0.6), steady(0.65), Placement::Together),
            ("as little as it may be", steady(0.91), steady(0.91), Placement::Together),
            ("less than that", steady(0.93), steady(0.93), Placement::Apart),
            ("one alone loses: somebody else's doing", steady(0.6), steady(1.0), Placement::Apart),
            ("faster together", steady(1.3), steady(1.1), Placement::Apart),
            (
                "one round in three is spoilt",
                [(0.1, 1.0), (0.1, 0.5), (0.1, 1.0)],
                steady(1.0),
                Placement::Apart,
            ),
            (
                "a loss within the noise",
                [(0.100, 0.9), (0.105, 0.9), (0.1, 0.9)],
                steady(0.9),
                Placement::Apart,
            ),
            (
                "the same noise, a plain loss",
                [(0.100, 0.6), (0.105, 0.6), (0.1, 0.6)],
                steady(0.6),
                Placement::Together,
            ),
            (
                "a core that changes its speed",
                [(0.10, 0.6), (0.15, 0.6), (0.12, 0.6)],
                steady(0.6),
                Placement::Unknown,
            ),
        ] {
            assert_eq!(judge(&rounds(first, second)), placement, "{what}");
        }
    }

    #[test]
    fn a_line_that_comes_from_farther_than_before_is_told() {
        let mut nearest = Nearest::default();
        let told = [(160.0, false), (27.0, false), (158.0, true), (31.0, false), (80.0, false)];
        for (ns, farther) in told {
            assert_eq!(nearest.is_farther(Some(ns)), farther, "{ns}");
        }
        assert!(!nearest.is_farther(None));
        let mut slow = Nearest::default();
        assert!([300.0, 500.0, 700.0].iter().all(|ns| !slow.is_farther(Some(*ns))), "all are far");
        let mut known = Nearest::where_memory_takes(Some(139.0));
        let told = [160.0, 120.0, 40.0, 120.0, 60.0].map(|ns| known.is_farther(Some(ns)));
        assert_eq!(told, [true, false, false, true, false], "nothing nearer has to be seen before");
        assert!(Placement::Distant.disturbs() && Placement::Together.disturbs());
        assert!(!Placement::Apart.disturbs() && !Placement::Unknown.disturbs());
    }

    #[test]
    fn who_had_no_cpu_says_nothing() {
        let mut found = rounds([(0.1, 0.6); 3], [(0.1, 0.6); 3]);
        assert_eq!(judge(&found), Placement::Together);
        found[0][1].beside_ns = None;
        assert_eq!(judge(&found), Placement::Together, "two rounds are enough");
        found[2][1].alone_ns = None;
        assert_eq!(judge(&found), Placement::Unknown);
        assert_eq!(judge(&[]), Placement::Unknown);
    }
}
