//! One signal of a service, and what looks said by it.

use quell_model::blame::{
    Candidate, ChooseParams, Guilt, GuiltParams, MeasureParams, Measurement, Measurer, Signal,
    choose,
};
use quell_types::{ExperimentTrace, Tenant};
use std::time::Duration;

/// What one signal says.
#[derive(Debug)]
pub(super) struct Witness {
    pub(super) guilt: Guilt,
    pub(super) measurer: Measurer,
    /// Looks in a row that were void.
    void: u32,
}

/// After so many looks in a row that were void, none is made for this signal any more.
const BLIND: u32 = 8;

impl Witness {
    pub(super) fn new(name: &Tenant, signal: Signal) -> Self {
        Self {
            guilt: Guilt::new(GuiltParams::default()),
            measurer: Measurer::new(name.clone(), signal, MeasureParams::default()),
            void: 0,
        }
    }

    /// Learns from a look in which with this probability nothing could show, and gives what it says; one that was void
    /// says nothing.
    pub(super) fn take(&mut self, trace: &ExperimentTrace, void_frac: f64) -> Option<Measurement> {
        let Ok(mut measurement) = self.measurer.trace(trace) else {
            self.void = self.void.saturating_add(1);
            return None;
        };
        measurement.void_frac = void_frac;
        self.guilt.measure(&measurement);
        self.void = 0;
        Some(measurement)
    }

    /// Those whom to hold next for so long, where requests come at this rate.
    pub(super) fn choose(
        &self,
        candidates: &[Candidate],
        held: Duration,
        requests_per_s: f64,
    ) -> Vec<Tenant> {
        if self.void >= BLIND {
            return Vec::new();
        }
        let requests = requests_per_s * held.as_secs_f64();
        let variance = self.measurer.variance(requests, requests);
        choose(&self.guilt, candidates, variance, &ChooseParams::default())
    }
}
