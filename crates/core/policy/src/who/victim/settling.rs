//! How much of a harm looks see, learnt from those at whoever is probably guilty.

use super::Victim;
use quell_model::blame::{Finding, Measurement, Resource, Settling};
use quell_types::ExperimentTrace;

impl Victim {
    /// Learns it from a look at one alone. Of a victim that is slow by turns nothing is learnt: one chip differs from
    /// the other because a turn begins or ends between them.
    pub(super) fn settle(&mut self, trace: &ExperimentTrace, look: &Measurement) {
        if self.has_moments() || self.has_short_moments() {
            self.settling = Settling::default();
            self.work.guilt.settle(1.0, 1.0);
            return;
        }
        let mut held = look.doses_cpus.keys();
        let (Some(suspect), None) = (held.next(), held.next()) else { return };
        if self.work.guilt.guilt(suspect) < self.params().suspected_frac {
            return;
        }
        if let Some(steps) = self.work.measurer.steps(trace) {
            self.settling.look(suspect, &steps);
            self.work.guilt.settle(self.settling.seen_frac(), self.settling.most_seen_frac());
        }
    }

    /// Tells that looks see a part of the harm, if they do.
    pub(super) fn tell_settling(&self, finding: &mut Finding) {
        let seen_frac = self.work.guilt.seen_frac();
        if seen_frac < 1.0 && finding.culprits.iter().any(|c| c.resource != Resource::Cpu) {
            finding.evidence.push(format!(
                "the harm takes its time to go while they are held: looks see {:.0} % of it",
                100.0 * seen_frac
            ));
        }
    }
}
