//! Where the host runs this machine's CPUs during a trial: on cores that share a cache, or on some that do not.
//!
//! A host that moves its guest's CPUs about makes harm come and go, though it tells the guest of one shared cache
//! all the time: who fills that cache hurts nobody while there are two. So while a trial runs a line is passed
//! between the first CPU and the last some times in a second, and the share of looks in which it came from another
//! cache is told: of those while the harm was measured, and of those while the law looked. Where the two differ
//! much the harm of a service with CPUs of its own is not what the law had before it, and the trial does not count,
//! whatever the law said; nor does it where harm by memory alone was missing for so much of that time that what was
//! left is of another class.

use crate::readings::Readings;
use quell_pressure::allowed_cpus;
use quell_profiler::{Lines, Ways};
use quell_service::now_ns;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Between two looks, which take both CPUs for half a millisecond.
const PERIOD: Duration = Duration::from_millis(250);
/// Shares that differ by more are not alike. A host that moves its CPUs every second or three has shares of a quarter
/// of a minute that differ by 0.2 from each other anyhow.
const MOVED_FRAC: f64 = 0.5;
/// A harm that was measured while the CPUs shared a cache for less than this share of the time is not known well.
const LEAST_TOGETHER_FRAC: f64 = 0.25;
/// Fewer looks tell no share.
const FEWEST: usize = 8;

/// When a line was passed, and what it took each way, in ns; none where the CPUs were not to be had.
type Look = (u64, Option<f64>);

/// Looks while a trial runs.
pub(super) struct Places(Option<Readings<Look>>);

/// The shares of looks in which the CPUs shared no cache, 0..1; none where too few tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Distant {
    /// While the harm was measured.
    pub(super) harm_frac: Option<f64>,
    /// While the law looked.
    pub(super) law_frac: Option<f64>,
}

impl Distant {
    /// Of a harm that was measured, what was left of it while the law looked, if there is none while the CPUs share no
    /// cache, and all of it while they do; none where it is not known where they were.
    pub(super) fn left_of(self, harm_ratio: f64) -> Option<f64> {
        let (harm, law) = self.harm_frac.zip(self.law_frac)?;
        Some(harm_ratio.powf((1.0 - law) / (1.0 - harm).max(LEAST_TOGETHER_FRAC)))
    }

    /// Whether the law had another machine before it than the harm was measured on.
    pub(super) fn moved(self) -> bool {
        self.harm_frac.zip(self.law_frac).is_some_and(|(a, b)| (a - b).abs() > MOVED_FRAC)
    }
}

impl Places {
    /// Lines that are passed between the first CPU and the last; none where there is one.
    pub(super) fn lines() -> anyhow::Result<Option<Lines>> {
        let cpus = allowed_cpus()?;
        let ends = cpus.iter().next().zip(cpus.last(1).iter().next());
        Ok(ends.and_then(|(first, last)| Lines::between(first, last)))
    }

    /// From now on. Where there is one CPU there is nothing to look at.
    pub(super) fn watch() -> anyhow::Result<Self> {
        let Some(lines) = Self::lines()? else { return Ok(Self(None)) };
        let look = move || (now_ns(), lines.passes_ns());
        Ok(Self(Some(Readings::start("quell-places", PERIOD, look)?)))
    }

    /// What was seen while the harm was measured, and while the law looked.
    pub(super) fn finish(
        self,
        harm: &[Range<u64>],
        law: &Range<u64>,
        ways: &Mutex<Ways>,
    ) -> anyhow::Result<Distant> {
        let looks = self.0.map_or(Ok(Vec::new()), Readings::finish)?;
        let looks: Vec<(u64, f64)> =
            looks.into_iter().filter_map(|(at, ns)| Some((at, ns?))).collect();
        let far = are_far(&looks, ways);
        let in_harm = |at: &u64| harm.iter().any(|span| span.contains(at));
        Ok(Distant {
            harm_frac: share(&far, in_harm),
            law_frac: share(&far, |at| law.contains(at)),
        })
    }
}

/// The share of these ways in which the CPUs shared no cache; none of too few.
pub(super) fn looks_apart(ways_ns: &[f64], ways: &Mutex<Ways>) -> Option<f64> {
    let looks: Vec<(u64, f64)> = ways_ns.iter().map(|ns| (0, *ns)).collect();
    share(&are_far(&looks, ways), |_| true)
}

/// When each look was, and whether the CPUs can have shared no cache then.
fn are_far(looks: &[(u64, f64)], ways: &Mutex<Ways>) -> Vec<(u64, bool)> {
    let (at, ns): (Vec<u64>, Vec<f64>) = looks.iter().copied().unzip();
    let far = ways.lock().unwrap_or_else(PoisonError::into_inner).are_distant(&ns);
    at.into_iter().zip(far).collect()
}

/// The share of those far, of looks at times that are wanted.
fn share(looks: &[(u64, bool)], wanted: impl Fn(&u64) -> bool) -> Option<f64> {
    let looks: Vec<bool> = looks.iter().filter(|(at, _)| wanted(at)).map(|(_, far)| *far).collect();
    let distant = looks.iter().filter(|far| **far).count();
    (looks.len() >= FEWEST).then(|| distant as f64 / looks.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(far: Range<u64>) -> Vec<(u64, bool)> {
        let ways = Mutex::new(Ways::where_memory_takes(None));
        looks_apart(&[28.0; 9], &ways);
        let look = |at| (at, if far.contains(&at) { 155.0 } else { 29.0 });
        are_far(&(0..40).map(look).collect::<Vec<_>>(), &ways)
    }

    #[test]
    fn a_trial_in_which_the_cpus_went_elsewhere_is_told_from_one_in_which_they_stayed() {
        let shares = |far: Range<u64>| {
            let looks = looks(far);
            let harm_frac = share(&looks, |at| !(10..30).contains(at));
            let law_frac = share(&looks, |at| (10..30).contains(at));
            Distant { harm_frac, law_frac }
        };
        let went = shares(10..30);
        assert_eq!((went.harm_frac, went.law_frac), (Some(0.0), Some(1.0)));
        assert!(went.moved());
        assert_eq!(shares(0..40), Distant { harm_frac: Some(1.0), law_frac: Some(1.0) });
        for stayed in [shares(0..40), shares(0..0), shares(5..15), Distant::default()] {
            assert!(!stayed.moved(), "{stayed:?}");
        }
        assert_eq!(share(&looks(0..40)[..7], |_| true), None, "too few");
    }

    #[test]
    fn harm_by_a_cache_is_left_for_the_time_in_which_there_is_a_common_one() {
        let of = |harm: f64, law: f64| {
            Distant { harm_frac: Some(harm), law_frac: Some(law) }.left_of(1.44).unwrap()
        };
        assert!((of(0.0, 0.0) - 1.44).abs() < 1e-12 && (of(0.3, 0.3) - 1.44).abs() < 1e-12);
        assert!((of(0.0, 0.5) - 1.2).abs() < 1e-12 && (of(0.5, 0.0) - 2.0736).abs() < 1e-9);
        assert!(of(0.0, 1.0) == 1.0 && of(1.0, 0.9) < 1.44);
        assert_eq!(Distant::default().left_of(1.3), None);
    }

    #[test]
    fn whether_they_are_apart_now_is_told_by_the_shortest_way_ever_and_by_memory() {
        let known = Mutex::new(Ways::where_memory_takes(None));
        assert_eq!(looks_apart(&[155.0; 10], &known), Some(0.0), "nothing nearer was seen yet");
        assert_eq!(looks_apart(&[29.0; 10], &known), Some(0.0));
        assert_eq!(looks_apart(&[155.0; 10], &known), Some(1.0));
        assert_eq!(looks_apart(&[155.0; 3], &known), None, "too few");
        let known = Mutex::new(Ways::where_memory_takes(Some(140.0)));
        assert_eq!(looks_apart(&[155.0; 10], &known), Some(1.0), "as far as memory");
    }

    #[test]
    fn a_watch_ends_and_gives_a_share_or_none() {
        let (begun, ways) = (now_ns(), Mutex::new(Ways::here()));
        let places = Places::watch().unwrap();
        let harm = [begun..u64::MAX, 0..0];
        let distant = places.finish(&harm, &(0..begun), &ways).unwrap();
        assert_eq!(distant, Distant::default(), "two looks are too few");
    }
}
