//! Memory traffic of both sides.

use quell_types::{BytesPerSecond, Input, Observation, Reading};

/// Memory traffic in bytes per second (T-17).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Traffic {
    /// Of the whole machine.
    pub(crate) total: f64,
    /// Of all services.
    pub(crate) service: f64,
    /// Of all batch groups.
    pub(crate) batch: f64,
}

impl Traffic {
    /// From what the observation tells; a side that is not told is what the other leaves of the
    /// total. None if that does not suffice.
    pub(crate) fn of(observation: &Observation) -> Option<Self> {
        let there = |present: &Reading<()>| present.is_ok();
        let service =
            sum(observation.services.values().filter(|s| there(&s.present)).map(|s| &s.memory));
        let batch =
            sum(observation.batch.values().filter(|b| there(&b.present)).map(|b| &b.memory));
        let total = observation.host.memory.as_ref().ok().map(|m| m.0);
        let total = total.or_else(|| Some(service? + batch?))?;
        let service = service.or_else(|| Some((total - batch?).max(0.0)))?;
        let batch = batch.unwrap_or((total - service).max(0.0));
        Some(Traffic { total, service, batch })
    }

    /// The values, for a proposal.
    pub(crate) fn inputs(&self) -> [Input; 3] {
        [
            Input::new("memory_total_bytes_per_s", self.total),
            Input::new("memory_service_bytes_per_s", self.service),
            Input::new("memory_batch_bytes_per_s", self.batch),
        ]
    }
}

fn sum<'a>(readings: impl Iterator<Item = &'a Reading<BytesPerSecond>>) -> Option<f64> {
    let mut readings = readings.peekable();
    readings.peek()?;
    readings.try_fold(0.0, |sum, reading| reading.as_ref().ok().map(|rate| sum + rate.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{observe, setup};

    #[test]
    fn a_side_that_is_not_told_is_the_rest() {
        let setup = setup(4).service("a", 1.0, 1.0).batch("x").batch("y").build();
        let seen = || observe(&setup, 0.0);
        let all = Some(Traffic { total: 10.0, service: 4.0, batch: 6.0 });
        assert_eq!(Traffic::of(&seen().host_memory(10.0).memory("a", 4.0).done()), all);
        let batch = seen().memory("x", 1.0).memory("y", 5.0);
        assert_eq!(Traffic::of(&batch.clone().host_memory(10.0).done()), all);
        assert_eq!(Traffic::of(&batch.clone().memory("a", 4.0).done()), all);
        assert_eq!(Traffic::of(&batch.done()), None);
        assert_eq!(Traffic::of(&seen().host_memory(10.0).done()), None);
    }
}
