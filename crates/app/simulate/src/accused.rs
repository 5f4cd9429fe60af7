//! Whom laws accuse of slowing services, the hypervisor too, step by step.

use quell_model::blame::{Cause, Finding, Standing};
use quell_types::Tenant;
use std::collections::BTreeMap;

/// How often each tenant was accused, by any law and of slowing any service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accused {
    steps: u64,
    named: BTreeMap<Tenant, u64>,
    /// Named or suspected.
    accused: BTreeMap<Tenant, u64>,
    /// Services whose slowness is put down to the hypervisor.
    stolen_from: BTreeMap<Tenant, u64>,
}

impl Accused {
    /// Takes in what is found at a step.
    pub(crate) fn see(&mut self, findings: &BTreeMap<Tenant, Finding>) {
        self.steps += 1;
        let mut now: BTreeMap<&Tenant, bool> = BTreeMap::new();
        for culprit in findings.values().flat_map(|finding| &finding.culprits) {
            *now.entry(&culprit.workload).or_default() |= culprit.status == Standing::Named;
        }
        for (victim, _) in findings.iter().filter(|(_, found)| found.cause == Cause::Hypervisor) {
            *self.stolen_from.entry(victim.clone()).or_default() += 1;
        }
        for (tenant, named) in now {
            *self.accused.entry(tenant.clone()).or_default() += 1;
            *self.named.entry(tenant.clone()).or_default() += u64::from(named);
        }
    }

    /// The shares of steps since an earlier moment in which a tenant was named, in which it was named or
    /// suspected, and in which its slowness was put down to the hypervisor.
    pub(crate) fn shares(&self, then: &Self, tenant: &Tenant) -> [f64; 3] {
        let steps = (self.steps - then.steps).max(1) as f64;
        let count = |of: &BTreeMap<Tenant, u64>| of.get(tenant).copied().unwrap_or(0);
        [
            (count(&self.named) - count(&then.named)) as f64 / steps,
            (count(&self.accused) - count(&then.accused)) as f64 / steps,
            (count(&self.stolen_from) - count(&then.stolen_from)) as f64 / steps,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::blame::{Cause, Culprit, Resource};

    fn finding(culprits: &[(&str, Standing)]) -> Finding {
        let culprit = |(name, status): &(&str, Standing)| Culprit {
            workload: (*name).into(),
            confidence: 0.9,
            serious_frac: 0.9,
            status: *status,
            resource: Resource::Memory,
            slowdown: 1.2,
            share_frac: 1.0,
            harm_ln_per_cpu: 0.2,
            experiments: 2,
            stood_frac: None,
            elsewhere_frac: 0.0,
            held_back_frac: None,
        };
        let culprits = culprits.iter().map(culprit).collect();
        Finding { slowdown: 1.2, cause: Cause::Neighbour, culprits, evidence: vec![] }
    }

    #[test]
    fn who_is_accused_by_two_services_at_a_step_counts_once() {
        let (named, suspected) = (Standing::Named, Standing::Suspected);
        let mut seen = Accused::default();
        seen.see(&[("web".into(), finding(&[("a", suspected)]))].into());
        let then = seen.clone();
        let both = [
            ("db".into(), finding(&[("a", suspected), ("b", suspected)])),
            ("web".into(), finding(&[("a", named)])),
        ];
        seen.see(&both.into());
        seen.see(&BTreeMap::new());
        assert_eq!(seen.shares(&then, &"a".into()), [0.5, 0.5, 0.0]);
        assert_eq!(seen.shares(&then, &"b".into()), [0.0, 0.5, 0.0]);
        assert_eq!(seen.shares(&then, &"c".into()), [0.0, 0.0, 0.0]);
        assert_eq!(then.shares(&Accused::default(), &"a".into()), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn what_is_put_down_to_the_hypervisor_counts_for_the_service() {
        let mut seen = Accused::default();
        let stolen = Finding { cause: Cause::Hypervisor, ..finding(&[]) };
        seen.see(&[("web".into(), stolen), ("db".into(), finding(&[]))].into());
        seen.see(&BTreeMap::new());
        assert_eq!(seen.shares(&Accused::default(), &"web".into()), [0.0, 0.0, 0.5]);
        assert_eq!(seen.shares(&Accused::default(), &"db".into()), [0.0, 0.0, 0.0]);
    }
}
