//! Whom to hold next.

use super::Victim;
use quell_model::blame::{Candidate, ChooseParams, choose};
use quell_types::Tenant;
use std::time::Duration;

impl Victim {
    /// Those whom to hold next for so long, so that it shows who makes it slow just now; empty if
    /// that would tell nothing.
    pub(in super::super) fn choose_now(
        &self,
        candidates: &[Candidate],
        held: Duration,
    ) -> Vec<Tenant> {
        let now = self.is_slow() && !self.pulses.is_ending();
        let Some(requests_per_s) = self.requests_per_s.filter(|_| now) else {
            return Vec::new();
        };
        let variance = self.pulses.variance(requests_per_s * held.as_secs_f64());
        choose(self.pulses.guilt(), candidates, variance, &ChooseParams::default())
    }

    /// Those whom to hold next for so long; empty if that would tell nothing. Harm comes first,
    /// then waiting.
    pub(in super::super) fn choose(&self, candidates: &[Candidate], held: Duration) -> Vec<Tenant> {
        let Some(requests_per_s) = self.requests_per_s else { return Vec::new() };
        let candidates = &self.candidates_with_crew(candidates);
        // Only each second look may be at a crew that is sure enough: the others show whether one of it does it alone.
        let accused = |crew_too| self.each_of(self.accused(candidates, crew_too));
        let first = accused(self.looks.is_multiple_of(2));
        if !first.is_empty() {
            return first;
        }
        let by_work = self.each_of(self.work.choose(candidates, held, requests_per_s));
        let by_work = if by_work.is_empty() { accused(true) } else { by_work };
        if by_work.is_empty() {
            return self.latency.choose(candidates, held, requests_per_s);
        }
        by_work
    }
}
