//! The highest sustained rate.

use crate::LoadError;
use crate::probe::{Probe, ProbeSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rates within this share of each other are near.
const NEAR_FRAC: f64 = 0.9;

/// How to look for the peak: quick probes narrow it down, a long one confirms it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PeakPlan {
    /// The first rate to try.
    pub start_qps: f64,
    /// Length of a quick probe.
    pub probe_s: f64,
    /// How long the peak must be sustained.
    pub confirm_s: f64,
    /// Share of the offered requests that must be answered in that time.
    pub min_answered_frac: f64,
    /// The search ends when the rates that hold and that fail are this near, as a share.
    pub resolution_frac: f64,
    /// Confirming runs before the search is given up; each is a little lower than the last.
    pub max_confirms: u32,
    /// The highest rate to try.
    pub max_qps: f64,
}

impl Default for PeakPlan {
    fn default() -> Self {
        Self {
            start_qps: 200.0,
            probe_s: 1.5,
            confirm_s: 10.0,
            min_answered_frac: 0.99,
            resolution_frac: 0.03,
            max_confirms: 10,
            max_qps: 1e6,
        }
    }
}

/// The peak and how it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeakReport {
    /// The highest rate that the confirming run sustained.
    pub peak_qps: f64,
    /// All probes in order; the last one confirmed.
    pub probes: Vec<Probe>,
}

type Measure<'a> = &'a mut dyn FnMut(ProbeSpec) -> Result<Probe, LoadError>;

/// A rate that holds; one that fails with what was answered then.
type Bracket = (f64, Option<(f64, f64)>);

struct Search<'a> {
    plan: &'a PeakPlan,
    measure: Measure<'a>,
    on_probe: &'a mut dyn FnMut(&Probe),
    probes: Vec<Probe>,
}

/// Looks for the highest rate that `measure` sustains; `on_probe` hears of each probe.
pub fn find_peak(
    plan: &PeakPlan,
    measure: Measure<'_>,
    on_probe: &mut dyn FnMut(&Probe),
) -> Result<PeakReport, LoadError> {
    check(plan)?;
    let mut search = Search { plan, measure, on_probe, probes: Vec::new() };
    let narrowed = search.approach()?;
    let peak_qps = search.confirm(narrowed)?;
    Ok(PeakReport { peak_qps, probes: search.probes })
}

fn check(plan: &PeakPlan) -> Result<(), LoadError> {
    let positive = |x: f64| x.is_finite() && x > 0.0;
    let sound = [plan.start_qps, plan.probe_s, plan.confirm_s, plan.resolution_frac, plan.max_qps]
        .into_iter()
        .all(positive);
    let share = (0.5..=1.0).contains(&plan.min_answered_frac);
    if sound && share && plan.max_confirms > 0 && plan.start_qps <= plan.max_qps {
        return Ok(());
    }
    Err(LoadError::option("peak", "rates and times must be above zero, the share 0.5 to 1"))
}

impl Search<'_> {
    /// Below this a probe holds no request at all.
    const LOWEST_QPS: f64 = 1.0;
    /// The step while nothing is known: what fails tells about where the capacity is, so a few
    /// large steps are cheaper than many small ones.
    const LEAP: f64 = 4.0;
    /// The first step when a failure turns out to have been none.
    const STEP: f64 = 1.3;
    /// A quick probe lasts until so many requests are due: of a few, one more or less decides.
    const LEAST_REQUESTS: f64 = 20.0;
    /// So often the search may find that it was misled.
    const MISLED: u32 = 4;

    /// Whether a rate holds, and how many requests a second were answered. A doubtful failure is
    /// given a second chance.
    fn probe(&mut self, qps: f64, confirms: bool) -> Result<(bool, f64), LoadError> {
        let first = self.measure(qps, confirms)?;
        let (sustained, answered) = first;
        // A target that answers far less than it did before was disturbed (its host took the
        // CPU, a neighbour came and went): that says nothing about its capacity.
        let held = self.probes.iter().filter(|probe| self.holds(probe));
        let best = held.map(|probe| probe.served_qps).fold(0.0, f64::max);
        let disturbed = answered < NEAR_FRAC * best;
        // One that answers nearly all in a short time may just have seen a moment's queue.
        let narrowly = !confirms && answered > NEAR_FRAC * qps;
        let again = !sustained && (disturbed || narrowly);
        if again { self.measure(qps, confirms) } else { Ok(first) }
    }

    fn holds(&self, probe: &Probe) -> bool {
        probe.sustained(self.plan.min_answered_frac)
    }

    fn measure(&mut self, qps: f64, confirms: bool) -> Result<(bool, f64), LoadError> {
        let enough_s = self.plan.probe_s.max(Self::LEAST_REQUESTS / qps);
        let (warmup_s, seconds) = match confirms {
            true => (1.0, self.plan.confirm_s),
            false => (0.3, enough_s.min(self.plan.confirm_s.max(self.plan.probe_s))),
        };
        let number = self.probes.len() as u64;
        let probe = (self.measure)(ProbeSpec { number, qps, warmup_s, seconds, confirms })?;
        (self.on_probe)(&probe);
        let outcome = (self.holds(&probe), probe.served_qps);
        self.probes.push(probe);
        Ok(outcome)
    }

    /// The highest rate that quick probes sustain. Before it is believed, the lowest rate that
    /// failed is tried once more: a disturbance then would have hidden all that lies above.
    fn approach(&mut self) -> Result<f64, LoadError> {
        let (mut known, mut next) = (None, self.plan.start_qps);
        for _ in 0..Self::MISLED {
            let (holds, fails) = self.bracket(known, next)?;
            let (holds, failed) = self.narrow(holds, fails)?;
            known = Some(holds);
            match failed {
                Some(failed) if self.probe(failed, false)?.0 => {
                    known = Some(failed);
                    next = (failed * Self::STEP).min(self.plan.max_qps);
                }
                _ => break,
            }
        }
        known.ok_or(LoadError::NoSustainedRate { lowest_qps: Self::LOWEST_QPS })
    }

    /// A rate that holds and one that fails with what it answered (none below the highest).
    fn bracket(&mut self, known: Option<f64>, first: f64) -> Result<Bracket, LoadError> {
        let (mut holds, mut fails, mut qps) = (known, None, first);
        loop {
            let (sustained, answered) = self.probe(qps, false)?;
            if sustained {
                holds = Some(qps);
            } else {
                fails = Some((qps, answered));
            }
            qps = match (holds, fails) {
                (Some(holds), Some(_)) => return Ok((holds, fails)),
                (Some(holds), None) if qps >= self.plan.max_qps => return Ok((holds, None)),
                (Some(_), None) => (qps * Self::LEAP).min(self.plan.max_qps),
                (None, _) => qps / Self::LEAP,
            };
            if qps < Self::LOWEST_QPS {
                return Err(LoadError::NoSustainedRate { lowest_qps: Self::LOWEST_QPS });
            }
        }
    }

    /// Bisection, led by what an overloaded target still answers: that is about its capacity.
    /// Gives the highest rate that held and the lowest that failed.
    fn narrow(
        &mut self,
        holds: f64,
        fails: Option<(f64, f64)>,
    ) -> Result<(f64, Option<f64>), LoadError> {
        let (mut low, Some((mut high, mut answered))) = (holds, fails) else {
            return Ok((holds, None));
        };
        while high / low > 1.0 + self.plan.resolution_frac {
            let inside = low * 1.02..high / 1.02;
            let middle = (low * high).sqrt();
            let qps = if inside.contains(&answered) { answered } else { middle };
            // Each hint is good for one try.
            answered = 0.0;
            match self.probe(qps, false)? {
                (true, _) => low = qps,
                (false, hint) => (high, answered) = (qps, hint),
            }
        }
        Ok((low, Some(high)))
    }

    fn confirm(&mut self, narrowed: f64) -> Result<f64, LoadError> {
        let mut qps = narrowed;
        let step = 1.0 - self.plan.resolution_frac;
        for _ in 0..self.plan.max_confirms {
            let (sustained, answered) = self.probe(qps, true)?;
            if sustained {
                return Ok(qps);
            }
            // What it did answer is a better guide than a step, but not to be trusted far.
            qps *= (answered / qps).clamp(step.powi(3), step);
        }
        Err(LoadError::NoSustainedRate { lowest_qps: qps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A server that answers up to `capacity` and lets the rest pile up.
    fn fake(capacity: f64) -> impl FnMut(ProbeSpec) -> Result<Probe, LoadError> {
        move |spec| {
            let growth = (spec.qps - capacity).max(0.0);
            let answered = spec.qps.min(capacity) * spec.seconds;
            Ok(Probe {
                qps: spec.qps,
                length_s: spec.seconds,
                confirms: spec.confirms,
                offered: (spec.qps * spec.seconds) as u64,
                answered_in_time: answered as u64,
                served_qps: answered / spec.seconds,
                backlog_first_half: growth * spec.seconds * 0.25,
                backlog_second_half: growth * spec.seconds * 0.75,
            })
        }
    }

    #[test]
    fn a_peak_above_the_highest_rate_is_the_highest_rate() {
        let plan = PeakPlan { max_qps: 5_000.0, ..PeakPlan::default() };
        let report = find_peak(&plan, &mut fake(1e9), &mut |_| ()).unwrap();
        assert!((report.peak_qps - 5_000.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_sustained_is_an_error() {
        let outcome = find_peak(&PeakPlan::default(), &mut fake(0.01), &mut |_| ());
        assert!(matches!(outcome, Err(LoadError::NoSustainedRate { .. })));
    }

    #[test]
    fn a_rate_that_does_not_last_is_lowered() {
        let mut quick = fake(1000.0);
        let mut lasting = fake(900.0);
        let measure = &mut |spec: ProbeSpec| {
            if spec.confirms { lasting(spec) } else { quick(spec) }
        };
        let report = find_peak(&PeakPlan::default(), measure, &mut |_| ()).unwrap();
        assert!((850.0..=910.0).contains(&report.peak_qps), "{}", report.peak_qps);
        assert!(report.probes.iter().filter(|p| p.confirms).count() > 1);
    }

    #[test]
    fn a_disturbance_at_the_start_does_not_hide_the_peak() {
        let mut steady = fake(5000.0);
        let measure = &mut |spec: ProbeSpec| {
            let mut probe = steady(spec)?;
            if spec.number == 0 {
                probe.answered_in_time /= 2;
                probe.served_qps /= 2.0;
            }
            Ok(probe)
        };
        let report = find_peak(&PeakPlan::default(), measure, &mut |_| ()).unwrap();
        assert!((4700.0..=5050.0).contains(&report.peak_qps), "{}", report.peak_qps);
    }

    #[test]
    fn a_disturbed_probe_is_made_again() {
        let mut steady = fake(1000.0);
        let measure = &mut |spec: ProbeSpec| {
            let mut probe = steady(spec)?;
            if spec.number == 3 {
                probe.answered_in_time /= 10;
                probe.served_qps /= 10.0;
            }
            Ok(probe)
        };
        let report = find_peak(&PeakPlan::default(), measure, &mut |_| ()).unwrap();
        assert!((930.0..=1010.0).contains(&report.peak_qps), "{}", report.peak_qps);
        assert!((report.probes[3].qps - report.probes[4].qps).abs() < 1e-9);
    }

    #[test]
    fn a_slow_service_is_given_the_time_for_some_requests() {
        let mut steady = fake(5.0);
        let report = find_peak(&PeakPlan::default(), &mut steady, &mut |_| ()).unwrap();
        let quick = report.probes.iter().filter(|probe| !probe.confirms);
        for probe in quick.filter(|probe| probe.qps < 13.0) {
            assert!(probe.length_s > 1.5 && probe.length_s <= 10.0, "{probe:?}");
        }
        assert!((4.0..=5.5).contains(&report.peak_qps), "{}", report.peak_qps);
    }

    #[test]
    fn a_probe_without_an_answer_fails_and_does_not_end_the_search() {
        let mut steady = fake(1000.0);
        let measure = &mut |spec: ProbeSpec| match spec.number {
            0 => Ok(Probe::unanswered(spec, 2)),
            _ => steady(spec),
        };
        let report = find_peak(&PeakPlan::default(), measure, &mut |_| ()).unwrap();
        assert!(!report.probes[0].sustained(0.99));
        assert!((930.0..=1010.0).contains(&report.peak_qps), "{}", report.peak_qps);
    }

    proptest! {
        #[test]
        fn finds_a_known_capacity_in_few_probes(capacity in 3.0..200_000.0f64) {
            let mut heard = 0;
            let report =
                find_peak(&PeakPlan::default(), &mut fake(capacity), &mut |_| heard += 1).unwrap();
            let ratio = report.peak_qps / capacity;
            // At low rates a few requests more or less cannot be told from noise.
            let tolerance = 0.06 + 20.0 / capacity;
            prop_assert!((ratio - 1.0).abs() < tolerance, "{} of {capacity}", report.peak_qps);
            prop_assert_eq!(heard, report.probes.len());
            prop_assert!(heard <= 30, "{heard} probes");
        }
    }
}
