//! What a look in a slow moment shows.

use super::{Measurement, Pulses};
use crate::inflation::{Side, sides};
use quell_types::{ExperimentTrace, Gap, Reading};

impl Pulses {
    /// Learns from a look in a slow moment, over with this probability ([`Pulses::when`]), before
    /// the sample that it came with is felt.
    ///
    /// # Errors
    /// A gap that says why it tells nothing of slow moments.
    pub fn take(&mut self, trace: &ExperimentTrace, over_frac: f64) -> Reading<()> {
        let mut measurement = self.measured(trace)?;
        measurement.void_frac = over_frac;
        self.guilt.measure(&measurement);
        Ok(())
    }

    fn measured(&mut self, trace: &ExperimentTrace) -> Reading<Measurement> {
        let (running, held) = sides(&self.victim, trace)?;
        if !self.is_alike(trace)? {
            return Err(Gap::Ambiguous("a slow moment began or ended in it".into()));
        }
        let mut measurement = self.measurer.trace(trace)?;
        let rates = libm::log(held.rate() / running.rate().max(f64::MIN_POSITIVE));
        let doubt = self.params.rate_elasticity * rates;
        measurement.variance += doubt * doubt;
        Ok(measurement)
    }

    /// Whether the first and the last chip in which everybody ran cost the same, but for chance.
    pub(super) fn is_alike(&self, trace: &ExperimentTrace) -> Reading<bool> {
        let mut running = trace.chips.iter().filter(|chip| chip.running);
        let ends = [running.next(), running.next_back()];
        let [Some(first), Some(last)] = ends else {
            return Err(Gap::not_yet("it has no two ends with everybody at work"));
        };
        let [first, last] = [Side::of(&self.victim, first)?, Side::of(&self.victim, last)?];
        let fewest = first.requests.min(last.requests);
        if fewest == 0 {
            return Err(Gap::not_yet("no request at one end"));
        }
        let apart = libm::log(first.cpu_per_request() / last.cpu_per_request()).abs();
        let chance = self.measurer.variance(first.requests as f64, last.requests as f64);
        let most = self.params.alike_ln.max(self.params.alike_sd * libm::sqrt(chance));
        Ok(apart <= most)
    }
}
