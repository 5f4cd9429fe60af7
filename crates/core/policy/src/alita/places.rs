//! Who runs where, and who may be limited.
//!
//! A law that slows cores must know whose they are. A core is *owned* by a tenant if no other one
//! may run on any of its threads: then what the core does, or suffers, is that tenant's alone. The
//! host and whoever Quell was not told of own nothing, so their cores are left alone.
//!
//! Who is said to be gone keeps its cores for a while: a service that is started anew is gone for a
//! moment, a sensor may err, and a core that is slowed for the tenant beside it would be slow for
//! whoever comes back to it.

use super::llc_law::{cpus_of, tenants};
use crate::parts::slack_of;
use quell_types::{Cpu, CpuSet, Observation, Reading, Setup, Tenant, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// So long a tenant must have been gone before its cores are another's.
const GONE_AFTER: Duration = Duration::from_secs(2);

/// Names that the configuration allows or spares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lists<'a> {
    /// Only these may be limited; empty = every batch group. Services are never limited unless
    /// they are named here.
    pub(super) allow: &'a [String],
    /// These are never limited.
    pub(super) deny: &'a [String],
}

impl Lists<'_> {
    /// Whether a tenant may be limited now. A service may be while it misses its objective: one
    /// that keeps it is not touched, one whose slack is not known neither.
    pub(super) fn may(&self, seen: &Observation, tenant: &Tenant) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == tenant.as_str());
        if named(self.deny) {
            return false;
        }
        match seen.services.get(tenant) {
            Some(service) => named(self.allow) && slack_of(service).is_some_and(|s| s < 0.0),
            None => self.allow.is_empty() || named(self.allow),
        }
    }
}

/// The cores that tenants own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Places {
    /// CPUs by the tenant that owns their cores.
    owned: BTreeMap<Tenant, CpuSet>,
    /// All CPUs on which a tenant may run.
    used: BTreeMap<Tenant, CpuSet>,
}

/// Where tenants run, as last seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Homes(BTreeMap<Tenant, Home>);

#[derive(Clone, Debug)]
struct Home {
    cpus: CpuSet,
    gone_since: Option<Time>,
}

impl Homes {
    /// Looks who is where.
    pub(super) fn look(&mut self, setup: &Setup, seen: &Observation) -> Places {
        for tenant in tenants(setup) {
            if is_there(seen, tenant) {
                let home = Home { cpus: cpus_of(setup, seen, tenant), gone_since: None };
                self.0.insert(tenant.clone(), home);
            } else if let Some(home) = self.0.get_mut(tenant) {
                let since = *home.gone_since.get_or_insert(seen.time);
                if seen.time.since(since) >= GONE_AFTER {
                    self.0.remove(tenant);
                }
            }
        }
        let used = self.0.iter().map(|(tenant, home)| (tenant.clone(), home.cpus.clone()));
        Places::of(setup, used.collect())
    }
}

impl Places {
    /// Who owns what, by the CPUs on which tenants may run.
    fn of(setup: &Setup, used: BTreeMap<Tenant, CpuSet>) -> Self {
        let mut owned: BTreeMap<Tenant, CpuSet> = BTreeMap::new();
        for core in cores(setup).values() {
            let mut here = used.iter().filter(|(_, cpus)| !cpus.is_disjoint(core));
            if let (Some((tenant, _)), None) = (here.next(), here.next()) {
                let mine = owned.entry(tenant.clone()).or_default();
                *mine = mine.union(core);
            }
        }
        Self { owned, used }
    }

    /// The CPUs of the cores that a tenant owns.
    pub(super) fn owned_by(&self, tenant: &Tenant) -> CpuSet {
        self.owned.get(tenant).cloned().unwrap_or_default()
    }

    /// Whether it runs nowhere but on cores that it owns.
    pub(super) fn is_apart(&self, tenant: &Tenant) -> bool {
        let owned = self.owned.get(tenant);
        self.used.get(tenant).is_some_and(|used| owned.is_some_and(|owned| used.is_subset(owned)))
    }

    /// How many CPUs it may use.
    pub(super) fn width(&self, tenant: &Tenant) -> usize {
        self.used.get(tenant).map_or(0, CpuSet::len)
    }

    /// The owner of a CPU's core.
    pub(super) fn owner(&self, cpu: u32) -> Option<&Tenant> {
        self.owned.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(tenant, _)| tenant)
    }
}

/// Managed CPUs by core, under the lowest of its CPUs (A-6: the voting CPU). A core that lies
/// partly outside the managed CPUs is none of ours.
pub(super) fn cores(setup: &Setup) -> BTreeMap<u32, CpuSet> {
    let mut by_place: BTreeMap<(u32, u32), CpuSet> = BTreeMap::new();
    for Cpu { id, socket, core, .. } in &setup.topology.cpus {
        by_place.entry((*socket, *core)).or_default().insert(*id);
    }
    let ours = by_place.into_values().filter(|cpus| cpus.is_subset(&setup.managed_cpus));
    let named = |cpus: CpuSet| {
        let first = cpus.iter().next()?;
        Some((first, cpus))
    };
    ours.filter_map(named).collect()
}

fn is_there(seen: &Observation, tenant: &Tenant) -> bool {
    let gone = |present: &Reading<()>| matches!(present, Err(quell_types::Gap::Gone(_)));
    match (seen.services.get(tenant), seen.batch.get(tenant)) {
        (Some(service), _) => !gone(&service.present),
        (_, Some(batch)) => !gone(&batch.present),
        // Never seen yet: it may run anywhere.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{observe, setup};

    fn four_cores() -> Setup {
        setup(8).smt().service("web", 10.0, 100.0).batch("a").batch("b").build()
    }

    #[test]
    fn a_core_is_owned_by_whoever_has_all_its_threads_for_itself() {
        let setup = four_cores();
        let seen = observe(&setup, 0.0).on("web", "0-2").on("a", "3-5").on("b", "6-7");
        let places = Homes::default().look(&setup, &seen.done());
        let owned = |name: &str| places.owned_by(&name.into()).to_string();
        assert_eq!(
            (owned("web"), owned("a"), owned("b")),
            ("0-1".into(), "4-5".into(), "6-7".into())
        );
        assert!(places.is_apart(&"b".into()) && !places.is_apart(&"a".into()));
        assert_eq!((places.owner(7).map(Tenant::as_str), places.owner(2)), (Some("b"), None));
    }

    #[test]
    fn who_may_run_anywhere_leaves_nobody_a_core_and_who_is_gone_takes_none() {
        let setup = four_cores();
        let floating = observe(&setup, 0.0).on("a", "4-5");
        let places = Homes::default().look(&setup, &floating.done());
        assert_eq!(places.owned_by(&"a".into()), CpuSet::new());
        let gone = observe(&setup, 0.0).on("a", "4-5").gone("web").gone("b");
        let places = Homes::default().look(&setup, &gone.done());
        assert_eq!(places.owned_by(&"a".into()).to_string(), "4-5");
    }

    #[test]
    fn who_is_gone_for_a_moment_keeps_its_cores_and_loses_them_later() {
        let setup = four_cores();
        let mut homes = Homes::default();
        let mut owned_at = |second: f64, gone: bool| {
            let seen = observe(&setup, second).on("a", "4-5").on("b", "6-7");
            // What the knobs of a group that is gone still show means nothing.
            let seen = if gone { seen.on("web", "0").gone("web") } else { seen.on("web", "0-4") };
            homes.look(&setup, &seen.done()).owned_by(&"a".into()).to_string()
        };
        assert_eq!(owned_at(0.0, false), "");
        assert_eq!(owned_at(1.0, true), "", "one look may err");
        assert_eq!(owned_at(2.0, false), "");
        assert_eq!((owned_at(3.0, true), owned_at(4.0, true)), (String::new(), String::new()));
        assert_eq!(owned_at(5.0, true), "4-5");
        assert_eq!(owned_at(6.0, false), "", "it is back");
    }

    #[test]
    fn services_are_limited_by_name_only_and_not_while_they_keep_their_objective() {
        let setup = four_cores();
        let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let may = |allow: &[&str], deny: &[&str], slack: Option<f64>, who: &str| {
            let mut seen = observe(&setup, 0.0);
            if let Some(slack) = slack {
                seen = seen.slack("web", slack);
            }
            let (allow, deny) = (names(allow), names(deny));
            Lists { allow: &allow, deny: &deny }.may(&seen.done(), &who.into())
        };
        assert!(may(&[], &[], Some(-0.5), "a"));
        assert!(!may(&[], &["a"], Some(-0.5), "a"));
        assert!(!may(&["b"], &[], None, "a") && may(&["b"], &[], None, "b"));
        assert!(!may(&[], &[], Some(-0.5), "web"), "not named");
        assert!(!may(&["web"], &[], Some(0.2), "web"), "it keeps its objective");
        assert!(!may(&["web"], &[], None, "web"), "not known");
        assert!(may(&["web"], &[], Some(-0.5), "web"));
    }
}
