//! Beside whom a service gets less done ([`quell_model::blame::Company`]), and who is looked at for it.

use super::Victim;
use quell_model::blame::{Candidate, Finding, Resource, Told};
use quell_types::{Observation, ServiceObservation, Tenant};

/// Company accuses whose guilt it makes so many times as likely, in ln.
const ACCUSED_LN: f64 = core::f64::consts::LN_10;

impl Victim {
    /// Learns beside whom it got how much done. Who is held now and then is the same company in between.
    /// What is told is weighed by how the cost of requests scattered in looks.
    pub(in super::super) fn accompany(&mut self, seen: &Observation, service: &ServiceObservation) {
        if let Ok(company) = &service.company {
            self.company.see(company, seen.interval_s);
            let variance = self.work.measurer.request_variance();
            self.told = self.company.told(variance);
            self.crew.follow(&self.company, variance);
            self.told.extend(self.crew.name().zip(self.crew.told()));
        }
        self.work.guilt.accompany(&self.told);
    }

    /// ln of how many times as likely its company makes the guilt of the one of these whom it accuses
    /// most; 0 if it accuses none.
    pub(in super::super) fn company_ln(&self, suspects: &[Tenant]) -> f64 {
        let each = suspects.iter().map(|suspect| self.work.guilt.company_ln(suspect));
        each.fold(0.0, f64::max)
    }

    /// The one to look at though hardly anything of it is in doubt, so that looks at what is would pass it
    /// over: who would be named if it had been held often enough, who is named and may or may not do serious
    /// harm, and who is probably guilty by its company; of several the one in the worst. Of the latter those who
    /// are held back by their quota are left alone: they do little harm now, and what may be held of them is
    /// wanted when they are free again.
    /// None, or one, which is a crew only if that is asked for.
    pub(super) fn accused(&self, candidates: &[Candidate], crew_too: bool) -> Vec<Tenant> {
        let (guilt, params) = (&self.work.guilt, self.params());
        let accused = |c: &&Candidate| {
            if self.is_crew(&c.suspect) && !crew_too {
                return false;
            }
            let held = guilt.experiments(&c.suspect);
            let in_bad_company = guilt.company_ln(&c.suspect) >= ACCUSED_LN;
            // Nothing else can have made it likely; the rest costs more the more suspects there are, harm more
            // than guilt, which is never less likely.
            let least = if in_bad_company { params.suspected_frac } else { params.named_frac };
            let may_be = in_bad_company || held > 0;
            if !may_be || guilt.guilt(&c.suspect) < least.min(params.named_frac) {
                return false;
            }
            let harmful = guilt.harmful(&c.suspect, c.cpus, params.least_ln);
            let sure = harmful >= params.named_frac;
            let told = in_bad_company
                && harmful >= params.suspected_frac
                && !self.held_back.contains(&c.suspect);
            let proved = || guilt.is_shown_by_looks(&c.suspect, &params);
            if sure { !proved() || self.may_be_serious(c) } else { told }
        };
        let worse = |a: &&Candidate, b: &&Candidate| {
            let of = |c: &Candidate| guilt.company_ln(&c.suspect);
            of(a).total_cmp(&of(b))
        };
        let worst = candidates.iter().filter(accused).max_by(worse);
        worst.map(|candidate| candidate.suspect.clone()).into_iter().collect()
    }

    /// Whether looks have made it likely that somebody who uses so many CPUs is guilty, and it is open whether he
    /// is to be named, or does serious harm.
    pub(in super::super) fn may_be_guilty(&self, suspect: &Tenant, cpus: f64) -> bool {
        let crew = self.crew.name().filter(|_| self.crew.members().contains(suspect));
        self.is_probably_guilty(suspect, cpus)
            || crew.is_some_and(|crew| self.is_probably_guilty(&crew, self.crew_cpus))
    }

    fn is_probably_guilty(&self, suspect: &Tenant, cpus: f64) -> bool {
        let (guilt, params) = (&self.work.guilt, self.params());
        let looks = guilt.experiments(suspect);
        if looks == 0 || guilt.guilt(suspect) < params.suspected_frac {
            return false;
        }
        let harmful = guilt.harmful(suspect, cpus, params.least_ln);
        let named = harmful >= params.named_frac && guilt.is_shown_by_looks(suspect, &params);
        let open = || self.may_be_serious(&Candidate { suspect: suspect.clone(), cpus });
        harmful >= params.suspected_frac && (!named || open())
    }

    /// Whether it is open that somebody who is named does serious harm.
    fn may_be_serious(&self, named: &Candidate) -> bool {
        let params = self.looked_params();
        let guilt = &self.work.guilt;
        let more = |least_ln| guilt.harmful(&named.suspect, named.cpus, least_ln);
        let shown_ln = params.serious_ln_after(guilt.experiments(&named.suspect));
        let open = more(params.serious_ln) > 1.0 - params.serious_frac
            && more(shown_ln) < params.serious_frac;
        open && !self.held_back.contains(&named.suspect)
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
