//! The reporter as one more victim: whose hold relieves it?
//!
//! A burst in a hold is compared with those outside of holds, as a victim's requests are: what the
//! held do to the shared cache is missing there. All looks together tell who it is, by the same
//! arithmetic. It is evidence beside that of the victim, and names nobody by itself: who slows a
//! reporter need not slow a service that has no use for the cache.

use quell_model::blame::{Finding, Guilt, GuiltParams, Measurement, Resource, doses};
use quell_types::{Burst, ChipTrace, ExperimentTrace, Observation, Tenant, Time};
use std::collections::BTreeMap;

/// From this probability on it is told.
const TOLD_FRAC: f64 = 0.9;

/// A burst that ran while suspects were held.
#[derive(Clone, Copy, Debug)]
struct Held {
    experiment: u64,
    from: Time,
    to: Time,
    /// ln of the time that accesses take outside of holds over that in this one, and its variance.
    relief: (f64, f64),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Series {
    guilt: Guilt,
    held: Option<Held>,
}

impl Series {
    pub(super) fn new() -> Self {
        Self { guilt: Guilt::new(GuiltParams::default()), held: None }
    }

    /// From now on these are the suspects, who use so much.
    pub(super) fn face(&mut self, now: Time, cpus: &BTreeMap<Tenant, f64>) {
        let suspects: Vec<Tenant> = cpus.keys().cloned().collect();
        self.guilt.keep(&suspects);
        self.guilt.size(now, cpus);
    }

    /// Begins anew with one of them.
    pub(super) fn forget(&mut self, suspect: &Tenant) {
        self.guilt.forget(suspect);
    }

    /// A burst ended that was meant for the hold of an experiment.
    pub(super) fn hold(&mut self, experiment: u64, burst: &Burst, to: Time, relief: (f64, f64)) {
        let lasted = burst.duration().as_nanos() as u64;
        let from = Time(to.0.saturating_sub(lasted));
        self.held = Some(Held { experiment, from, to, relief });
    }

    /// Takes in the experiment of that burst, if it has ended and the burst lay within its hold.
    pub(super) fn learn(&mut self, seen: &Observation) {
        let Some(held) = self.held else { return };
        let of = |trace: &&ExperimentTrace| trace.id == held.experiment;
        let Some(trace) = seen.experiments.iter().find(of) else { return };
        self.held = None;
        if trace.aborted.is_none() && lies_in_hold(&held, trace) {
            self.guilt.measure(&Measurement {
                time: held.to,
                ln_slowdown: held.relief.0,
                variance: held.relief.1,
                doses_cpus: doses(trace),
                experiment: true,
                void_frac: 0.0,
            });
        }
    }

    /// Says of those who are accused what they do to the reporter.
    pub(super) fn tell(&self, finding: &mut Finding) {
        let accused = finding.culprits.iter().filter(|c| c.resource != Resource::Cpu);
        let told: Vec<String> = accused.filter_map(|c| self.in_words(&c.workload)).collect();
        finding.evidence.extend(told);
    }

    fn in_words(&self, suspect: &Tenant) -> Option<String> {
        let belief = self.guilt.belief(suspect)?;
        (belief.experiments > 0 && belief.guilt >= TOLD_FRAC).then(|| {
            format!(
                "held {} times, {suspect} made accesses from the idle CPU to the shared cache \
                 {:.2} times as long for each CPU that it used (certain to {:.1} %)",
                belief.experiments,
                libm::exp(belief.harm),
                100.0 * belief.guilt
            )
        })
    }
}

/// Whether a burst ran while the groups were held, from begin to end: chips in which they are held
/// follow each other.
fn lies_in_hold(held: &Held, trace: &ExperimentTrace) -> bool {
    let holds: Vec<&ChipTrace> = trace.chips.iter().filter(|chip| !chip.running).collect();
    let (Some(first), Some(last)) = (holds.first(), holds.last()) else { return false };
    first.from <= held.from && held.to <= last.to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, observe, setup};
    use quell_model::blame::{Cause, Culprit, Standing};
    use quell_types::CpuSet;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn burst() -> Burst {
        let not_on = CpuSet::new();
        Burst { id: 1, delay_us: 0, warm_us: 2_000, slice_us: 250, rounds: 5, not_on }
    }

    /// A look in which a group that uses half a CPU is held from 25 to 75 ms.
    fn trace(id: u64, group: &str) -> ExperimentTrace {
        let chip = |number: u32, running: bool| {
            let from = at(1.0) + number * Duration::from_millis(25);
            let used = if running { 12_500_000 } else { 0 };
            ChipTrace {
                from,
                to: from + Duration::from_millis(25),
                running,
                victim_cpu_ns: BTreeMap::new(),
                victim_requests: BTreeMap::new(),
                group_cpu_ns: BTreeMap::from([(group.into(), Ok(used))]),
            }
        };
        let chips = [true, false, false, true].into_iter().zip(0..).map(|(run, n)| chip(n, run));
        ExperimentTrace { id, chips: chips.collect(), aborted: None }
    }

    /// After looks at groups in each of which the reporter was so much relieved, by bursts that were
    /// over at this time of the look, in ms.
    fn after(looks: &[(&str, f64)], over_ms: u64) -> Series {
        let setup = setup(4).service("web", 10.0, 1000.0).batch("jobs").batch("calm").build();
        let mut series = Series::new();
        series.face(at(0.0), &[("calm".into(), 0.5), ("jobs".into(), 0.5)].into());
        for (id, (group, ln)) in (1..).zip(looks) {
            let to = at(1.0) + Duration::from_millis(over_ms);
            series.hold(id, &burst(), to, (*ln, 0.0004));
            let mut seen = observe(&setup, 1.25).done();
            seen.experiments.push(trace(id, group));
            series.learn(&seen);
        }
        series
    }

    fn told(series: &Series, resource: Resource) -> Vec<String> {
        let culprit = |name: &str| Culprit {
            workload: name.into(),
            confidence: 0.995,
            serious_frac: 0.995,
            status: Standing::Named,
            resource,
            slowdown: 1.3,
            share_frac: 1.0,
            harm_ln_per_cpu: 0.5,
            experiments: 3,
            stood_frac: None,
            elsewhere_frac: 0.0,
            held_back_frac: None,
        };
        let culprits = vec![culprit("jobs"), culprit("calm")];
        let mut finding =
            Finding { slowdown: 1.3, cause: Cause::Neighbour, culprits, evidence: vec![] };
        series.tell(&mut finding);
        finding.evidence
    }

    const LOOKS: [(&str, f64); 4] = [("jobs", 0.3), ("calm", 0.0), ("jobs", 0.3), ("calm", 0.01)];

    #[test]
    fn whose_hold_relieves_the_reporter_is_told() {
        let series = after(&LOOKS, 45);
        let said = told(&series, Resource::Memory);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("held 2 times, jobs made") && said[0].contains("1.8"), "{said:?}");
        assert!(told(&series, Resource::Cpu).is_empty(), "waits for a CPU are another matter");
    }

    #[test]
    fn a_burst_that_was_not_wholly_in_the_hold_says_nothing() {
        for over_ms in [20, 30, 80] {
            let said = told(&after(&LOOKS, over_ms), Resource::Memory);
            assert!(said.is_empty(), "{over_ms} ms: {said:?}");
        }
        let mut series = after(&LOOKS, 45);
        series.forget(&"jobs".into());
        assert!(told(&series, Resource::Memory).is_empty());
    }
}
