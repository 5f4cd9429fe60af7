//! What is said of slow moments.

use super::Pulses;
use crate::blame::finding::{Cause, Culprit, Finding, FindingParams, Standing};
use crate::blame::judge::{culprit, rank};
use quell_types::{Tenant, Time};
use std::collections::VecDeque;

/// The lower median of the times from one begin to the next, in seconds; none before the second.
pub(in crate::blame) fn usual_apart_s(begun: &VecDeque<Time>) -> Option<f64> {
    let gaps = begun.iter().zip(begun.iter().skip(1));
    let mut all: Vec<f64> = gaps.map(|(then, next)| next.since(*then).as_secs_f64()).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len().saturating_sub(1) / 2).copied()
}

impl Pulses {
    /// Those who are shown to make the slow moments.
    #[must_use]
    pub fn named(&self, params: &FindingParams) -> Vec<Culprit> {
        if self.begun.len() < self.params.fewest {
            return Vec::new();
        }
        let whole_ln = self.guilt.foretell(&self.height);
        let shown = |(tenant, cpus): (&Tenant, &f64)| {
            let shown = culprit(&self.guilt, tenant, *cpus, &|| whole_ln, params)?;
            let share_frac = (libm::log(shown.slowdown) / whole_ln).clamp(0.0, 1.0);
            // What is slow for a moment was felt to be so by more than that, whatever looks in it measure.
            let felt = self.params.least_ln >= params.serious_ln;
            let serious_frac = if felt { shown.confidence } else { shown.serious_frac };
            let named = shown.status == Standing::Named;
            named.then_some(Culprit { share_frac, serious_frac, ..shown })
        };
        self.height.iter().filter_map(shown).collect()
    }

    /// The usual time from the begin of a slow moment to that of the next, in seconds; none before
    /// the second. The lower median: a moment that has another cause, or a rest, makes no burst rarer.
    #[must_use]
    pub fn apart_s(&self) -> Option<f64> {
        usual_apart_s(&self.begun)
    }

    /// Adds those to a finding. Who is named there for more is left as he is.
    pub fn tell(&self, finding: &mut Finding, params: &FindingParams) {
        for named in self.named(params) {
            let of = |c: &Culprit| c.workload == named.workload;
            let known = finding.culprits.iter().position(of);
            let told = known.map(|at| &finding.culprits[at]);
            let is_more = |c: &Culprit| c.harm_ln_per_cpu >= named.harm_ln_per_cpu;
            if told.is_some_and(|c| c.status == Standing::Named && is_more(c)) {
                continue;
            }
            if let Some(at) = known {
                finding.culprits.remove(at);
            }
            finding.evidence.insert(0, self.in_words(&named));
            finding.slowdown = finding.slowdown.max(named.slowdown);
            finding.culprits.push(named);
            finding.cause = Cause::Neighbour;
        }
        rank(&mut finding.culprits);
    }

    fn in_words(&self, culprit: &Culprit) -> String {
        let apart = self.apart_s().map_or_else(String::new, |s| format!(", {s:.1} s apart"));
        format!(
            "the victim is slow for moments{apart}: held in {} of them, {} made it {:.2} times as \
             slow while it ran (certain to {:.1} %)",
            culprit.experiments,
            culprit.workload,
            culprit.slowdown,
            100.0 * culprit.confidence
        )
    }
}
