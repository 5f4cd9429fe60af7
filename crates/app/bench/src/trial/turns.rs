//! Turns under the guarding law: what it gives back to the service, and what innocents keep.
//!
//! Three kinds of turns alternate in the order G A W W A G, so that what drifts steadily cancels
//! out: *guarded* (everybody runs, the law limits whom it will), *alone* (all batch is stopped) and
//! *without* (only the culprit is stopped). Each is a run of the generator of its own, with the same
//! arrivals, from an empty queue. Guarded against guarded and alone against alone are the control:
//! what they differ by is chance.

use crate::machine::quartiles;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who runs in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnKind {
    /// Everybody, under the law.
    Guarded,
    /// The service alone: all batch is stopped.
    Alone,
    /// Everybody but the culprit.
    Without,
    /// The same, once the law has ended.
    Off,
}

/// So many kinds there are under the law; the first turns are one of each.
pub(super) const KINDS: usize = 3;

/// The turns of one trial.
pub(super) const ORDER: [TurnKind; 6] = {
    use TurnKind::{Alone, Guarded, Without};
    [Guarded, Alone, Without, Without, Alone, Guarded]
};

/// What was seen in one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// Who ran.
    pub kind: TurnKind,
    /// Requests that were due in it; those that were never answered count in the percentiles with
    /// their age.
    pub requests: u64,
    /// 95 % of sojourns, from the scheduled arrival.
    pub p95_ms: f64,
    /// 99 % of the same.
    pub p99_ms: f64,
    /// Work a second of each group, in the order of the groups, each in its own unit.
    pub work_per_s: Vec<f64>,
    /// CPUs that each group might use at the end of the turn; null where nothing limited it.
    pub limit_cpus: Vec<Option<f64>>,
}

/// A ratio over many pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratios {
    /// How many pairs.
    pub pairs: u32,
    /// Half of them lie below: what is told. One turn in which a queue ran over moves a mean by much.
    pub median: f64,
    /// Their geometric mean.
    pub mean: f64,
    /// A quarter lies below.
    pub low: f64,
    /// A quarter lies above.
    pub high: f64,
}

impl Ratios {
    /// Of these ratios; none if there is none that is a positive number.
    pub(super) fn of(ratios: impl IntoIterator<Item = f64>) -> Option<Self> {
        let fits = |ratio: &f64| ratio.is_finite() && *ratio > 0.0;
        let all: Vec<f64> = ratios.into_iter().filter(fits).collect();
        let pairs = all.len() as u32;
        let ln: f64 = all.iter().map(|ratio| ratio.ln()).sum();
        let [low, median, high] = quartiles(all)?;
        Some(Self { pairs, median, mean: (ln / f64::from(pairs)).exp(), low, high })
    }

    /// As `1.10 (1.05–1.20, mean 1.11, 8 pairs)`.
    pub(super) fn in_words(self) -> String {
        let Self { pairs, median, mean, low, high } = self;
        format!("{median:.2} ({low:.2}–{high:.2}, mean {mean:.2}, {pairs} pairs)")
    }
}

/// What the law did in all trials together. Each ratio is one of two turns of the same trial; told are medians.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throttling {
    /// Trials whose turns were played; in the others nobody was named, or too late.
    pub trials: u32,
    /// The service's p95 guarded over alone.
    pub p95_against_alone: Option<Ratios>,
    /// The same of its p99.
    pub p99_against_alone: Option<Ratios>,
    /// The service's p95 guarded over that beside the same innocents with the culprit stopped.
    pub p95_against_without: Option<Ratios>,
    /// The same of its p99.
    pub p99_against_without: Option<Ratios>,
    /// Control: the p95 of one turn over that of another of the same kind.
    pub p95_control: Option<Ratios>,
    /// The same of its p99.
    pub p99_control: Option<Ratios>,
    /// Work of each innocent guarded over that with the culprit stopped.
    pub innocents_work_kept: Option<Ratios>,
    /// The same over that with the culprit stopped and the law ended.
    #[serde(default)]
    pub innocents_work_against_off: Option<Ratios>,
    /// Control: the same of one turn with the culprit stopped over another.
    pub innocents_work_control: Option<Ratios>,
}

/// The turns of one trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Played<'a> {
    pub(super) turns: &'a [Turn],
    /// The culprit's place in the order of the groups.
    pub(super) culprit: usize,
}

impl Throttling {
    /// Of these trials.
    pub(super) fn of(trials: &[Played<'_>]) -> Self {
        use TurnKind::{Alone, Guarded, Off, Without};
        type Tail = fn(&Turn) -> f64;
        let (p95, p99): (Tail, Tail) = (|turn| turn.p95_ms, |turn| turn.p99_ms);
        let over = |tail: Tail, other| {
            Ratios::of(trials.iter().flat_map(|trial| trial.tails(tail, Guarded, other)))
        };
        let control = |tail: Tail| {
            let kinds = [Guarded, Alone, Without];
            let of = |trial: &Played<'_>| kinds.map(|kind| trial.control(kind, tail));
            Ratios::of(trials.iter().flat_map(of).flatten())
        };
        let kept = |other| Ratios::of(trials.iter().flat_map(|trial| trial.work_against(other)));
        Self {
            trials: trials.len() as u32,
            p95_against_alone: over(p95, Alone),
            p99_against_alone: over(p99, Alone),
            p95_against_without: over(p95, Without),
            p99_against_without: over(p99, Without),
            p95_control: control(p95),
            p99_control: control(p99),
            innocents_work_kept: kept(Without),
            innocents_work_against_off: kept(Off),
            innocents_work_control: Ratios::of(trials.iter().flat_map(Played::work_control)),
        }
    }

    /// A line for each figure.
    pub(super) fn in_words(&self) -> String {
        let lines = [
            ("p95 guarded over alone", self.p95_against_alone),
            ("p99 guarded over alone", self.p99_against_alone),
            ("p95 guarded over without the culprit", self.p95_against_without),
            ("p99 guarded over without the culprit", self.p99_against_without),
            ("control: p95 of like turns", self.p95_control),
            ("control: p99 of like turns", self.p99_control),
            ("work that innocents kept", self.innocents_work_kept),
            ("the same over that with the law ended", self.innocents_work_against_off),
            ("control: work of innocents in like turns", self.innocents_work_control),
        ];
        let line = |(what, ratios): (&str, Option<Ratios>)| {
            format!("  {what}: {}\n", ratios.map_or("-".into(), Ratios::in_words))
        };
        format!("{} trials played in turns\n", self.trials) + &lines.map(line).concat()
    }
}

impl Played<'_> {
    fn of_kind(&self, kind: TurnKind) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(move |turn| turn.kind == kind)
    }

    /// The first of one kind over the first of the other, the second over the second.
    fn tails(&self, tail: fn(&Turn) -> f64, kind: TurnKind, other: TurnKind) -> Vec<f64> {
        let pairs = self.of_kind(kind).zip(self.of_kind(other));
        pairs.map(|(turn, against)| tail(turn) / tail(against)).collect()
    }

    fn control(&self, kind: TurnKind, value: impl Fn(&Turn) -> f64) -> Option<f64> {
        let mut turns = self.of_kind(kind);
        Some(value(turns.next()?) / value(turns.next()?))
    }

    fn innocents(&self) -> impl Iterator<Item = usize> + '_ {
        let groups = self.turns.iter().map(|turn| turn.work_per_s.len()).min().unwrap_or(0);
        (0..groups).filter(|index| *index != self.culprit)
    }

    /// Work of each innocent guarded over that in turns of another kind.
    fn work_against(&self, other: TurnKind) -> Vec<f64> {
        let work = |kind, index: usize| {
            let (turns, sum) = self
                .of_kind(kind)
                .fold((0.0, 0.0), |(turns, sum), turn| (turns + 1.0, sum + turn.work_per_s[index]));
            sum / turns
        };
        let kept = |index| work(TurnKind::Guarded, index) / work(other, index);
        self.innocents().map(kept).collect()
    }

    fn work_control(&self) -> Vec<f64> {
        let one = |index: usize| self.control(TurnKind::Without, |turn| turn.work_per_s[index]);
        self.innocents().filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(kind: TurnKind, p95_ms: f64, work: f64) -> Turn {
        let work_per_s = vec![work, 1000.0, 2.0 * work];
        Turn { kind, requests: 100, p95_ms, p99_ms: 2.0 * p95_ms, work_per_s, limit_cpus: vec![] }
    }

    #[test]
    fn like_turns_are_compared_in_pairs_and_the_culprits_work_does_not_count() {
        use TurnKind::{Alone, Guarded, Off, Without};
        let tails = [(Guarded, 6.0), (Alone, 4.0), (Without, 5.0)];
        let later = [(Without, 5.0), (Alone, 4.0), (Guarded, 8.0)];
        let of = |(kind, p95)| turn(kind, p95, if kind == Guarded { 9.0 } else { 10.0 });
        let turns: Vec<Turn> = tails.into_iter().chain(later).map(of).collect();
        let kinds: Vec<TurnKind> = turns.iter().map(|turn| turn.kind).collect();
        assert_eq!(kinds, ORDER);
        let first = Throttling::of(&[Played { turns: &turns[..KINDS], culprit: 1 }]);
        assert_eq!(first.p95_against_alone.map(|ratios| ratios.pairs), Some(1));
        assert_eq!(first.p95_control, None, "one of a kind has nothing to be compared with");
        assert_eq!(first.innocents_work_against_off, None);
        let all = Throttling::of(&[Played { turns: &turns, culprit: 1 }]);
        let (alone, control) = (all.p95_against_alone.unwrap(), all.p95_control.unwrap());
        assert!((alone.mean - 3.0_f64.sqrt()).abs() < 1e-9 && alone.pairs == 2, "{alone:?}");
        assert_eq!((alone.low, alone.median, alone.high), (1.625, 1.75, 1.875));
        assert_eq!(alone.in_words(), "1.75 (1.62–1.88, mean 1.73, 2 pairs)");
        assert_eq!((control.pairs, control.low), (3, 0.875), "between 6 over 8 and 1");
        assert!((control.mean - 0.75_f64.powf(1.0 / 3.0)).abs() < 1e-9, "{control:?}");
        let kept = all.innocents_work_kept.unwrap();
        assert!((kept.mean - 0.9).abs() < 1e-9 && kept.pairs == 2, "{kept:?}");
        let off = turns.iter().cloned().chain([turn(Off, 5.0, 12.0), turn(Off, 5.0, 18.0)]);
        let off = Throttling::of(&[Played { turns: &off.collect::<Vec<_>>(), culprit: 1 }]);
        let against = off.innocents_work_against_off.unwrap();
        assert!((against.mean - 0.6).abs() < 1e-9, "{against:?}");
        assert_eq!(Throttling { innocents_work_against_off: None, ..off }, all);
        assert!(
            all.in_words()
                .contains("work that innocents kept: 0.90 (0.90–0.90, mean 0.90, 2 pairs)")
        );
    }

    #[test]
    fn nothing_measured_is_nothing_told() {
        assert_eq!(Ratios::of([]), None);
        assert_eq!(Ratios::of([f64::NAN, 0.0, f64::INFINITY]), None);
        assert_eq!(Throttling::of(&[]).p95_against_alone, None);
    }
}
