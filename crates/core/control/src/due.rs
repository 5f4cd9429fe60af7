//! When a policy steps, and what ended meanwhile.
//!
//! Samples come a little early or late: a thread wakes up when the kernel lets it. So a policy is due
//! at the multiples of its period from its first step on, whenever samples came, and a sample that is
//! a little early for one of these moments counts as its. Were the next moment reckoned from the
//! last sample, each that comes less late than the one before would be passed over, which is every
//! third one or so where the period is that of the samples.
//!
//! What ended in samples between two steps is told at the next one. A trace that no policy saw
//! would be a hold for nothing.

use quell_policy::Policy;
use quell_types::{BurstTrace, ExperimentTrace, Observation, ProbeTrace, Proposal, Setup, Time};
use std::time::Duration;

/// A sample may be early by this part of the time since the last one.
const EARLY: u32 = 4;

/// A policy with the time of its next step.
pub(crate) struct Due {
    pub(crate) policy: Box<dyn Policy>,
    /// None before the first.
    next: Option<Time>,
    /// What ended since its last step.
    experiments: Vec<ExperimentTrace>,
    probes: Vec<ProbeTrace>,
    bursts: Vec<BurstTrace>,
}

impl Due {
    /// Due at once.
    pub(crate) fn new(policy: Box<dyn Policy>) -> Self {
        let (experiments, probes, bursts) = (Vec::new(), Vec::new(), Vec::new());
        Self { policy, next: None, experiments, probes, bursts }
    }

    /// What the policy proposes, if it is due.
    pub(crate) fn step(&mut self, setup: &Setup, seen: &Observation) -> Vec<Proposal> {
        if !self.is_due(seen) {
            self.experiments.extend_from_slice(&seen.experiments);
            self.probes.extend_from_slice(&seen.probes);
            self.bursts.extend_from_slice(&seen.bursts);
            return Vec::new();
        }
        if self.experiments.is_empty() && self.probes.is_empty() && self.bursts.is_empty() {
            return self.policy.step(setup, seen);
        }
        let mut all = seen.clone();
        all.experiments.splice(..0, self.experiments.drain(..));
        all.probes.splice(..0, self.probes.drain(..));
        all.bursts.splice(..0, self.bursts.drain(..));
        self.policy.step(setup, &all)
    }

    /// Whether this is the sample for its next step; then the one after that is a period later, or
    /// a period from now if this one is late by more than that.
    fn is_due(&mut self, seen: &Observation) -> bool {
        let period = self.policy.period();
        let early = Duration::try_from_secs_f64(seen.interval_s).unwrap_or_default() / EARLY;
        if self.next.is_some_and(|next| seen.time + early < next) {
            return false;
        }
        let kept = self.next.filter(|next| seen.time.since(*next) <= period);
        self.next = Some(kept.unwrap_or(seen.time) + period);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::{Observer, ObserverParams};
    use quell_types::{Gap, HostReading, Sample};
    use std::collections::BTreeMap;
    use std::sync::mpsc::{Sender, channel};

    /// Writes down when it steps, in milliseconds, and which experiments it is told of.
    struct Diary {
        period: Duration,
        steps: Sender<(u64, Vec<u64>)>,
    }

    impl Policy for Diary {
        fn name(&self) -> &'static str {
            "diary"
        }
        fn period(&self) -> Duration {
            self.period
        }
        fn step(&mut self, _: &Setup, seen: &Observation) -> Vec<Proposal> {
            let ended = seen.experiments.iter().map(|trace| trace.id).collect();
            self.steps.send((seen.time.0 / 1_000_000, ended)).unwrap();
            Vec::new()
        }
    }

    fn sample(ms: u64, ended: &[u64]) -> Sample {
        let trace = |id: &u64| ExperimentTrace { id: *id, chips: vec![], aborted: None };
        Sample {
            time: Time(ms * 1_000_000),
            wall_unix_ms: ms,
            host: HostReading::missing(&Gap::absent("not in this test")),
            tenants: BTreeMap::new(),
            links: BTreeMap::new(),
            knobs: Default::default(),
            tasks: vec![],
            experiments: ended.iter().map(trace).collect(),
            probes: vec![],
            bursts: vec![],
            outcomes: vec![],
            link_capacity: BTreeMap::new(),
        }
    }

    /// The steps of a policy of this period on samples at these milliseconds, each with the end of
    /// the experiment of its number.
    fn steps(period_ms: u64, samples: &[u64]) -> Vec<(u64, Vec<u64>)> {
        let (steps, taken) = channel();
        let period = Duration::from_millis(period_ms);
        let mut due = Due::new(Box::new(Diary { period, steps }));
        let mut observer = Observer::new(Setup::default(), ObserverParams::default());
        for (number, ms) in (0..).zip(samples) {
            let seen = observer.observe(&sample(*ms, &[number]));
            due.step(&Setup::default(), &seen);
        }
        taken.try_iter().collect()
    }

    fn times(period_ms: u64, samples: &[u64]) -> Vec<u64> {
        steps(period_ms, samples).into_iter().map(|(ms, _)| ms).collect()
    }

    #[test]
    fn where_the_period_is_that_of_the_samples_each_is_a_step_however_late() {
        let late = [1_004, 1_251, 1_530, 1_750, 2_001, 2_250, 2_590, 2_750, 3_003];
        assert_eq!(times(250, &late), late);
        let first = [1_020, 1_250, 1_500, 1_750, 2_000];
        assert_eq!(times(250, &first), first, "the first was the latest");
    }

    #[test]
    fn longer_periods_are_kept_on_average() {
        let every_100 = |count: u64| (0..count).map(|k| 100 * k).collect::<Vec<_>>();
        assert_eq!(times(250, &every_100(11)), [0, 300, 500, 800, 1_000]);
        assert_eq!(times(1_000, &every_100(31)), [0, 1_000, 2_000, 3_000]);
    }

    #[test]
    fn after_a_long_gap_nothing_is_caught_up_with() {
        assert_eq!(times(250, &[0, 250, 5_000, 5_100, 5_200, 5_300]), [0, 250, 5_000, 5_300]);
    }

    #[test]
    fn what_ended_between_two_steps_is_told_at_the_next() {
        let told = steps(500, &[0, 250, 500, 750, 1_000]);
        assert_eq!(told, [(0, vec![0]), (500, vec![1, 2]), (1_000, vec![3, 4])]);
    }
}
