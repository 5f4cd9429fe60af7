//! What a trial found, and two trials of the same together.

use crate::curve::{Level, Posterior};
use crate::stats::Estimate;

/// What is caused is known well if its interval is no wider.
const CLEAR_PERCENT: f64 = 5.0;

/// What was found of one resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The workload's speed, level by level.
    pub levels: Vec<Level>,
    /// The reporter's rate beside the workload over its rate beside nothing; empty where the
    /// workload must not be stopped.
    pub reporter: Vec<f64>,
    /// Whether the search ended before its end.
    pub cut_short: bool,
    /// Whether the host disturbed something that counts.
    pub disturbed: bool,
    /// Why there is no reporter, if it was tried.
    pub no_reporter: Option<String>,
}

impl Found {
    /// The highest intensity at which `threshold` of the speed was kept. With the CPUs elsewhere than the machine is told
    /// it may be all.
    #[must_use]
    pub fn tolerated(&self, threshold: f64) -> Estimate {
        let found = Posterior::of(&self.levels).reaches(threshold);
        Estimate { high: if self.disturbed { 100.0 } else { found.high }, ..found }
    }

    /// The workload's loss under full pressure, in percent.
    #[must_use]
    pub fn loses_percent(&self) -> Estimate {
        Posterior::of(&self.levels).loss().map(|share| 100.0 * share)
    }

    /// The reporter's own loss beside the workload, in percent; none without a ratio.
    #[must_use]
    pub fn causes_percent(&self) -> Option<Estimate> {
        causes_percent(&self.reporter)
    }

    /// More ratios at a level, which may be new.
    pub(super) fn take(&mut self, level: Level) {
        let same = self.levels.iter_mut().find(|l| (l.percent - level.percent).abs() < 1e-9);
        match same {
            Some(same) => same.ratios.extend(level.ratios),
            None => self.levels.push(level),
        }
    }

    /// Whether what it causes is known well.
    pub(super) fn is_cause_clear(&self) -> bool {
        is_clear(&self.reporter)
    }

    /// What came after this was known, of which it is the begin.
    #[must_use]
    pub(crate) fn beyond(self, known: &Found) -> Found {
        let level = |level: Level| {
            let before = known.levels.iter().find(|l| (l.percent - level.percent).abs() < 1e-9);
            let new = level.ratios.get(before.map_or(0, |before| before.ratios.len())..)?.to_vec();
            (!new.is_empty()).then_some(Level { percent: level.percent, ratios: new })
        };
        let reporter = self.reporter.get(known.reporter.len()..).unwrap_or_default().to_vec();
        Found { levels: self.levels.into_iter().filter_map(level).collect(), reporter, ..self }
    }

    /// Both together; of two one of which was disturbed the other.
    #[must_use]
    pub fn and(mut self, other: Found) -> Found {
        match (self.disturbed, other.disturbed) {
            (true, false) => return other,
            (false, true) => return self,
            _ => {}
        }
        other.levels.into_iter().for_each(|level| self.take(level));
        self.reporter.extend(other.reporter);
        self.cut_short &= other.cut_short;
        self.no_reporter = self.no_reporter.or(other.no_reporter);
        self
    }
}

/// What a reporter loses by these ratios of its rate, in percent; none without a ratio.
fn causes_percent(reporter: &[f64]) -> Option<Estimate> {
    let beside = Level { percent: 100.0, ratios: reporter.to_vec() };
    let heard = reporter.iter().any(|ratio| ratio.is_finite());
    heard.then(|| Posterior::of(&[beside]).loss().map(|share| 100.0 * share))
}

/// Whether that is known well.
pub(super) fn is_clear(reporter: &[f64]) -> bool {
    causes_percent(reporter).is_some_and(|caused| caused.width() <= CLEAR_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_clear_if_its_interval_is_narrow() {
        for (ratios, clear) in [
            (&[0.90, 0.91, 0.92, 0.91, 0.90, 0.91][..], true),
            (&[0.90, 1.00, 0.92, 0.91], false),
            (&[0.9], false),
            (&[], false),
        ] {
            assert_eq!(is_clear(ratios), clear, "{ratios:?}");
        }
    }

    fn found(levels: &[(f64, f64)], disturbed: bool) -> Found {
        let level =
            |(percent, ratio): &(f64, f64)| Level { percent: *percent, ratios: vec![*ratio; 2] };
        Found {
            levels: levels.iter().map(level).collect(),
            reporter: vec![0.9],
            cut_short: true,
            disturbed,
            no_reporter: None,
        }
    }

    #[test]
    fn two_of_a_kind_are_put_together() {
        let (first, second) =
            (found(&[(100.0, 0.9)], false), found(&[(50.0, 1.0), (100.0, 1.0)], false));
        let both = first.and(Found { cut_short: false, ..second });
        assert_eq!(both.levels[0].ratios, [0.9, 0.9, 1.0, 1.0]);
        assert_eq!((both.levels.len(), both.reporter.len(), both.cut_short), (2, 2, false));
        assert_eq!(both.tolerated(0.95).value, 100.0, "most say so");
    }

    #[test]
    fn what_came_after_is_told_apart() {
        let known = found(&[(100.0, 0.9), (50.0, 1.0)], false);
        let mut more = known.clone();
        more.levels[1].ratios.push(0.97);
        more.levels.push(Level { percent: 25.0, ratios: vec![1.0] });
        more.reporter.push(0.8);
        let beyond = more.clone().beyond(&known);
        let told: Vec<_> = beyond.levels.iter().map(|l| (l.percent, l.ratios.clone())).collect();
        assert_eq!(told, [(50.0, vec![0.97]), (25.0, vec![1.0])]);
        assert_eq!(beyond.reporter, [0.8]);
        assert_eq!(known.clone().and(beyond), more);
        assert_eq!(known.clone().beyond(&known).levels, []);
    }

    #[test]
    fn what_is_lost_and_caused_is_told_if_it_was_heard() {
        let one = Found { reporter: vec![0.7, 0.71, 0.69], ..found(&[(100.0, 0.8)], false) };
        let (loses, causes) = (one.loses_percent().value, one.causes_percent().map(|c| c.value));
        assert!((loses - 20.0).abs() < 3.0, "{loses}");
        assert!(causes.is_some_and(|causes| (causes - 30.0).abs() < 3.0), "{causes:?}");
        for reporter in [vec![], vec![f64::NAN]] {
            assert_eq!(Found { reporter, ..Found::default() }.causes_percent(), None);
        }
    }

    #[test]
    fn what_was_not_disturbed_counts_alone() {
        let (calm, rough) = (found(&[(100.0, 1.0)], false), found(&[(100.0, 0.6)], true));
        assert_eq!(rough.clone().and(calm.clone()), calm);
        assert_eq!(calm.clone().and(rough.clone()), calm);
        let twice = rough.clone().and(rough);
        assert_eq!(twice.levels[0].ratios, [0.6; 4], "better than nothing");
        let tolerated = twice.tolerated(0.95);
        assert!(tolerated.value < 100.0 && tolerated.high == 100.0, "elsewhere it may be all");
    }
}
