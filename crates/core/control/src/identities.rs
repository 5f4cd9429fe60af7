//! Which workload each tenant is: one that comes back is another.

use quell_types::{Tenant, TenantReading};
use std::collections::{BTreeMap, BTreeSet};

/// The identity of each tenant when it was last there.
#[derive(Debug, Default)]
pub(crate) struct Identities(BTreeMap<Tenant, u64>);

impl Identities {
    /// Tenants that are another workload than when they were last there: restarted, or made anew.
    pub(crate) fn changed(&mut self, seen: &BTreeMap<Tenant, TenantReading>) -> BTreeSet<Tenant> {
        let mut changed = BTreeSet::new();
        if self.is_as_known(seen) {
            return changed;
        }
        for (tenant, reading) in seen {
            let Ok(identity) = reading.identity else { continue };
            match self.0.get_mut(tenant) {
                None => drop(self.0.insert(tenant.clone(), identity)),
                Some(before) if *before == identity => {}
                Some(before) => {
                    *before = identity;
                    changed.insert(tenant.clone());
                }
            }
        }
        changed
    }

    /// Whether all are there and as they were, as in nearly every sample: both are in order, so a look
    /// at each is enough.
    fn is_as_known(&self, seen: &BTreeMap<Tenant, TenantReading>) -> bool {
        self.0.len() == seen.len()
            && self.0.iter().zip(seen).all(|((known, identity), (tenant, reading))| {
                reading.identity.as_ref().ok() == Some(identity) && known == tenant
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::Gap;

    #[test]
    fn who_was_away_is_compared_with_who_it_was_before() {
        let mut identities = Identities::default();
        let mut changed = |identity: Option<u64>| {
            let gap = Gap::Gone("away".into());
            let mut reading = TenantReading::missing(&gap);
            reading.identity = identity.ok_or(gap);
            let seen = BTreeMap::from([(Tenant::from("jobs"), reading)]);
            !identities.changed(&seen).is_empty()
        };
        for (identity, wanted) in
            [(Some(1), false), (Some(1), false), (None, false), (Some(1), false), (None, false)]
        {
            assert_eq!(changed(identity), wanted, "{identity:?}");
        }
        assert!(changed(Some(2)), "another one");
        assert!(!changed(Some(2)), "told once");
    }
}
