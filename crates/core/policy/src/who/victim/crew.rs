//! Those who are taken to hurt together ([`Crew`](quell_model::blame::Crew)), as one of the suspects.

use super::Victim;
use quell_model::blame::{Candidate, Culprit, Finding, Standing};
use quell_types::Tenant;
use std::borrow::Cow;
use std::collections::BTreeMap;

impl Victim {
    /// From now on these are the suspects, and the crew, who use so much.
    pub(super) fn face_crew(&mut self, suspects: &[Tenant], cpus: &BTreeMap<Tenant, f64>) {
        self.crew.keep(suspects);
        let used = self.crew.members().iter().filter_map(|member| cpus.get(member));
        self.crew_cpus = used.sum();
        let name = self.crew.name();
        self.work.guilt.band(name.clone(), self.crew.members());
        match name {
            Some(name) => {
                let all: Vec<Tenant> = suspects.iter().cloned().chain([name]).collect();
                self.work.guilt.keep(&all);
            }
            None => self.work.guilt.keep(suspects),
        }
    }

    /// What each suspect uses, and the crew.
    pub(super) fn with_crew<'a>(
        &self,
        cpus: &'a BTreeMap<Tenant, f64>,
    ) -> Cow<'a, BTreeMap<Tenant, f64>> {
        let mut all = Cow::Borrowed(cpus);
        if let Some(name) = self.crew.name() {
            all.to_mut().insert(name, self.crew_cpus);
        }
        all
    }

    /// The candidates, and the crew if all of it may be held, and none of it is held back by its quota: it does
    /// little harm then.
    pub(super) fn candidates_with_crew<'a>(
        &self,
        candidates: &'a [Candidate],
    ) -> Cow<'a, [Candidate]> {
        let mut all = Cow::Borrowed(candidates);
        let may = |member: &Tenant| {
            !self.held_back.contains(member) && candidates.iter().any(|c| c.suspect == *member)
        };
        if let Some(suspect) = self.crew.name().filter(|_| self.crew.members().iter().all(may)) {
            all.to_mut().push(Candidate { suspect, cpus: self.crew_cpus });
        }
        all
    }

    pub(super) fn is_crew(&self, suspect: &Tenant) -> bool {
        self.crew.name().as_ref() == Some(suspect)
    }

    /// These, with the members of the crew in its place.
    pub(super) fn each_of(&self, chosen: Vec<Tenant>) -> Vec<Tenant> {
        let Some(crew) = self.crew.name().filter(|crew| chosen.contains(crew)) else {
            return chosen;
        };
        let mut all: Vec<Tenant> = chosen.into_iter().filter(|suspect| *suspect != crew).collect();
        all.extend(self.crew.members().iter().cloned());
        all.sort();
        all.dedup();
        all
    }

    /// Whether looks speak for the guilt of a crew to which this suspect belongs.
    pub(super) fn accuses_crew_of(&self, suspect: &Tenant) -> bool {
        let crew = self.crew.name().filter(|_| self.crew.members().contains(suspect));
        crew.is_some_and(|crew| self.work.guilt.evidence_ln(&crew) > 0.0)
    }

    /// Puts its members in the place of the crew, each with its part of the harm. Who is named besides stays so.
    pub(super) fn tell_crew(&self, finding: &mut Finding, cpus: &BTreeMap<Tenant, f64>) {
        let Some(name) = self.crew.name() else { return };
        let Some(at) = finding.culprits.iter().position(|culprit| culprit.workload == name) else {
            return;
        };
        let (crew, members) = (finding.culprits.remove(at), self.crew.members());
        let named = crew.status == Standing::Named;
        if named {
            // Those before it are named, too, and stay.
            let open = |c: &Culprit| c.status != Standing::Named && members.contains(&c.workload);
            finding.culprits.retain(|culprit| !open(culprit));
        }
        let known: Vec<Tenant> = finding.culprits.iter().map(|c| c.workload.clone()).collect();
        let told = members.iter().filter(|member| !known.contains(member)).map(|member| {
            let used_cpus = cpus.get(member).copied().unwrap_or(0.0);
            part(&crew, member, used_cpus, self.crew_cpus)
        });
        finding.culprits.splice(at..at, told);
        let (count, hurt) = (members.len(), if named { "hurt" } else { "may hurt" });
        finding.evidence.push(format!(
            "these {count} {hurt} together, {:.2} times, and each of them alone too little to be found",
            crew.slowdown
        ));
    }
}

/// What one of a crew that uses so much in all does.
fn part(crew: &Culprit, member: &Tenant, used_cpus: f64, whole_cpus: f64) -> Culprit {
    let share = used_cpus / whole_cpus.max(f64::MIN_POSITIVE);
    Culprit {
        workload: member.clone(),
        slowdown: libm::exp(share * libm::log(crew.slowdown)),
        share_frac: share * crew.share_frac,
        ..crew.clone()
    }
}
