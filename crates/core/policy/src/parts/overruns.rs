//! Whom its CPU bandwidth does not hold, by what it uses.
//!
//! CPU bandwidth holds threads of the usual classes. Real-time threads go on as before where groups may have any, and
//! so does a group whose limit somebody else has raised. What a group uses is in every sample, so it is seen: who uses
//! far more than it may in some looks running is not held. Since whatever holds it then hides that, it counts as such
//! until it is free.

use super::runs_on;
use quell_types::Tenant;
use std::collections::BTreeMap;

/// All who are limited by a law, each with how many looks running it used too much.
#[derive(Clone, Debug)]
pub(crate) struct Overruns {
    wanted: u32,
    looks: BTreeMap<Tenant, u32>,
}

impl Overruns {
    /// Who uses too much in so many looks running is not held.
    pub(crate) fn after(looks: u32) -> Self {
        Self { wanted: looks, looks: BTreeMap::new() }
    }

    /// Looks at one who may use so many CPUs, and used so many; a look in which one of both is not known shows nothing,
    /// so that it begins anew. Answers whether it is not held.
    pub(crate) fn look(&mut self, tenant: &Tenant, may: Option<f64>, used: Option<f64>) -> bool {
        let looks = self.looks.entry(tenant.clone()).or_default();
        let over = may.zip(used).is_some_and(|(may, used)| runs_on(may, used));
        let on = over || *looks >= self.wanted;
        *looks = if on { looks.saturating_add(1) } else { 0 };
        *looks >= self.wanted
    }

    /// Whether one is not held.
    pub(crate) fn has(&self, tenant: &Tenant) -> bool {
        self.looks.get(tenant).is_some_and(|looks| *looks >= self.wanted)
    }

    /// Whether that is so since the last look only.
    pub(crate) fn has_newly(&self, tenant: &Tenant) -> bool {
        self.looks.get(tenant) == Some(&self.wanted)
    }

    /// All others are free.
    pub(crate) fn keep(&mut self, limited: impl Fn(&Tenant) -> bool) {
        self.looks.retain(|tenant, _| limited(tenant));
    }

    /// It is free.
    pub(crate) fn forget(&mut self, tenant: &Tenant) {
        self.looks.remove(tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_uses_far_more_than_it_may_in_some_looks_running_is_not_held_until_it_is_free() {
        let (mut unheld, jobs) = (Overruns::after(3), Tenant::from("jobs"));
        let look = |unheld: &mut Overruns, used| unheld.look(&"jobs".into(), Some(0.1), used);
        let uses =
            [Some(0.9), Some(0.9), Some(0.2), Some(0.9), Some(0.9), None, Some(0.9), Some(0.9)];
        assert!(uses.iter().all(|used| !look(&mut unheld, *used)));
        assert!(look(&mut unheld, Some(0.9)) && unheld.has_newly(&jobs));
        assert!(look(&mut unheld, Some(0.0)) && !unheld.has_newly(&jobs), "frozen, say");
        assert!(unheld.has(&jobs) && !unheld.has(&"others".into()));
        unheld.forget(&jobs);
        assert!(!unheld.has(&jobs) && !unheld.look(&jobs, None, Some(2.0)), "nothing limits it");
    }
}
