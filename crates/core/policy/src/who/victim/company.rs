//! Beside whom a service gets less done ([`quell_model::blame::Company`]), and who is looked at for it.

use super::Victim;
use quell_model::blame::{Candidate, Finding, Resource, Told};
use quell_types::{Observation, ServiceObservation, Tenant};

impl Victim {
    /// Learns beside whom it got how much done. Who is held now and then is the same company in between.
    /// What is told is weighed by how the cost of requests scattered in looks.
    pub(in super::super) fn accompany(&mut self, seen: &Observation, service: &ServiceObservation) {
        if let Ok(company) = &service.company {
            self.company.see(company, seen.interval_s);
            self.told = self.company.told(self.work.measurer.request_variance());
        }
        self.work.guilt.accompany(&self.told);
    }

    /// ln of how many times as likely its company makes the guilt of the one of these whom it accuses
    /// most; 0 if it accuses none.
    pub(in super::super) fn company_ln(&self, suspects: &[Tenant]) -> f64 {
        let each = suspects.iter().map(|suspect| self.work.guilt.company_ln(suspect));
        each.fold(0.0, f64::max)
    }

    /// The one who would be named if it had been held often enough. Looks at what is in doubt would pass
    /// it over, since nothing of it is.
    pub(super) fn unproved(&self, candidates: &[Candidate]) -> Option<Tenant> {
        let guilt = &self.work.guilt;
        let proved = |c: &Candidate| {
            let held = guilt.belief(&c.suspect).map_or(0, |belief| belief.experiments);
            held >= self.params.named_experiments
        };
        let sure = |c: &&Candidate| {
            let harmful = guilt.harmful(&c.suspect, c.cpus, self.params.least_ln);
            harmful >= self.params.named_frac && !proved(c)
        };
        candidates.iter().find(sure).map(|candidate| candidate.suspect.clone())
    }

    /// Tells of the culprits that are bad company.
    pub(super) fn tell_company(&self, finding: &mut Finding) {
        let told = finding.culprits.iter().filter_map(|culprit| {
            let told = self.told.get(&culprit.workload)?;
            let counts = self.work.guilt.company_ln(&culprit.workload) > 0.0;
            (counts && culprit.resource != Resource::Cpu).then(|| in_words(&culprit.workload, told))
        });
        finding.evidence.extend(told);
    }
}

fn in_words(workload: &Tenant, told: &Told) -> String {
    format!(
        "while {workload} had another CPU, a request cost {:.2} times the CPU time that it cost beside \
         others (over {:.0} answers; give or take {:.0} %)",
        libm::exp(told.harm_ln),
        told.sends,
        100.0 * libm::sqrt(told.variance),
    )
}

#[cfg(test)]
mod tests;
