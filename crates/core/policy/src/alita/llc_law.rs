//! Law `llc-bias`: [`LlcBias`] on every cache domain of a server.
//!
//! Tenants are services and batch groups alike: who takes more than its CPUs entitle it to, so that
//! somebody else starves, is confined, whoever it is called. Everybody else keeps all ways, the
//! culprit's included.
//!
//! | rule | when | what |
//! |---|---|---|
//! | `always-run` | first step | tasks may run |
//! | `confined` | furthest above its quota of those who starve somebody | ways at one end |
//! | `confined` | confined and still sweeping while somebody free waits | a way less |
//! | `halved` | the channels are full, and it moves more than its share | memory rate |
//! | `relaxed` | quiet, wanted by nobody else, fair again, or gone | all ways, full rate |
//!
//! # Degradation
//! A domain without ways that can be set, or in which fewer than two tenants tell what they hold,
//! is left alone. A tenant whose CPUs lie in several domains counts in each by its CPUs there.
//! Without memory throttles nothing is halved.
//!
//! **Invariants**, checked after every step of every fault run (`quell-faults`). At most two are
//! confined in a domain, one at each end. Only ways and memory rates are written.
//!
//! Source, A-37 (4) to (7).

use super::llc_bias::{Bias, LlcBias, LlcBiasParams, SocketReading, TenantShare};
use crate::Policy;
use crate::ledger::{Ledger, Reason};
use quell_types::{
    BytesPerSecond, CpuSet, Input, Knob, KnobRange, LlcDomain, Observation, Proposal, Reading,
    Setting, Setup, Tenant,
};
use std::collections::BTreeMap;
use std::time::Duration;

const NAME: &str = "llc-bias";

/// See the module.
pub(crate) struct LlcBiasLaw {
    params: LlcBiasParams,
    domains: BTreeMap<u32, LlcBias>,
    ledger: Ledger,
}

impl LlcBiasLaw {
    pub(crate) fn new(params: LlcBiasParams) -> Self {
        Self { params, domains: BTreeMap::new(), ledger: Ledger::new(NAME) }
    }

    fn domain(&mut self, setup: &Setup, seen: &Observation, domain: &LlcDomain) {
        let Some(reading) = reading(setup, seen, domain) else { return };
        let params = self.params;
        let controller = self.domains.entry(domain.id).or_insert_with(|| LlcBias::new(params));
        let limits = controller.step(&reading);
        for tenant in tenants(setup) {
            self.apply(setup, tenant, domain.id, limits.get(tenant), reading.ways);
        }
    }

    fn apply(
        &mut self,
        setup: &Setup,
        tenant: &Tenant,
        domain: u32,
        bias: Option<&Bias>,
        ways: u32,
    ) {
        let all = u64::MAX >> (64 - ways.clamp(1, 64));
        let (mask, percent) = bias.map_or((all, 100), |bias| (bias.ways, bias.percent));
        let tenant = tenant.clone();
        let own_ways = Knob::LlcWays { tenant: tenant.clone(), domain };
        if mask == all {
            self.ledger.release(own_ways, &Reason::polluter("relaxed", Vec::new()));
        } else {
            let inputs = vec![Input::new("ways_count", f64::from(mask.count_ones()))];
            self.ledger.set(
                setup,
                own_ways,
                Setting::Ways(mask),
                &Reason::polluter("confined", inputs),
            );
        }
        let rate = Knob::MemoryBandwidth { tenant, domain };
        if percent == 100 {
            self.ledger.release(rate, &Reason::polluter("relaxed", Vec::new()));
        } else {
            let inputs = vec![Input::new("rate_percent", f64::from(percent))];
            self.ledger.set(
                setup,
                rate,
                Setting::Percent(percent),
                &Reason::polluter("halved", inputs),
            );
        }
    }
}

/// Services and batch groups.
pub(super) fn tenants(setup: &Setup) -> impl Iterator<Item = &Tenant> {
    setup.services.iter().map(|s| &s.name).chain(setup.batch.iter().map(|b| &b.name))
}

/// The CPUs on which a tenant may run.
pub(super) fn cpus_of(setup: &Setup, seen: &Observation, tenant: &Tenant) -> CpuSet {
    match seen.knobs.get(&Knob::Cpus { tenant: tenant.clone() }) {
        Some(Ok(Setting::Cpus(cpus))) if !cpus.is_empty() => cpus.clone(),
        _ => setup.managed_cpus.clone(),
    }
}

/// Ways that can be set in a domain; none if none can.
pub(super) fn ways_in(setup: &Setup, domain: u32) -> Option<u32> {
    Some(ways_and_least_in(setup, domain)?.0)
}

/// Ways that can be set in a domain, and the fewest for a tenant.
fn ways_and_least_in(setup: &Setup, domain: u32) -> Option<(u32, u32)> {
    tenants(setup).find_map(|tenant| {
        match setup.knobs.get(&Knob::LlcWays { tenant: tenant.clone(), domain })? {
            KnobRange::Ways { full, min_bits, .. } => Some((full.count_ones(), *min_bits)),
            _ => None,
        }
    })
}

fn reading(setup: &Setup, seen: &Observation, domain: &LlcDomain) -> Option<SocketReading> {
    let share = |tenant: &Tenant| Some((tenant.clone(), share_of(setup, seen, domain, tenant)?));
    let tenants: BTreeMap<Tenant, TenantShare> = tenants(setup).filter_map(share).collect();
    let (ways, least_ways) = ways_and_least_in(setup, domain.id)?;
    Some(SocketReading {
        time: seen.time,
        llc_bytes: domain.size_bytes as f64,
        ways,
        least_ways: least_ways.max(1),
        cpus: u32::try_from(domain.cpus.len()).unwrap_or(u32::MAX),
        gb_per_s: tenants.values().map(|share| share.gb_per_s).sum(),
        tenants,
    })
}

/// A tenant's part in a domain; none if it is not there, or does not tell what it holds.
fn share_of(
    setup: &Setup,
    seen: &Observation,
    domain: &LlcDomain,
    tenant: &Tenant,
) -> Option<TenantShare> {
    type Held<'a> = (&'a Reading<()>, &'a Reading<u64>, &'a Reading<BytesPerSecond>);
    let held: Held<'_> = match (seen.services.get(tenant), seen.batch.get(tenant)) {
        (Some(s), _) => (&s.present, &s.llc_bytes, &s.memory),
        (_, Some(b)) => (&b.present, &b.llc_bytes, &b.memory),
        _ => return None,
    };
    let (Ok(()), Ok(bytes), Ok(traffic)) = held else { return None };
    let cpus = cpus_of(setup, seen, tenant);
    let here = cpus.intersection(&domain.cpus).len();
    let part = here as f64 / cpus.len().max(1) as f64;
    (here > 0).then(|| TenantShare {
        cpus: u32::try_from(here).unwrap_or(u32::MAX),
        occupied_bytes: *bytes as f64 * part,
        gb_per_s: traffic.0 * part / 1e9,
    })
}

impl Policy for LlcBiasLaw {
    fn name(&self) -> &'static str {
        NAME
    }

    fn period(&self) -> Duration {
        Duration::try_from_secs_f64(self.params.period_s).unwrap_or_default()
    }

    fn step(&mut self, setup: &Setup, seen: &Observation) -> Vec<Proposal> {
        self.ledger.run_all_tasks(setup, &Reason::partition("always-run", Vec::new()));
        for domain in &setup.topology.llc {
            self.domain(setup, seen, domain);
        }
        self.ledger.drain()
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let without = setup.topology.llc.iter().filter(|d| ways_in(setup, d.id).is_none());
        let names: Vec<String> = without.map(|domain| domain.id.to_string()).collect();
        if names.is_empty() {
            return Vec::new();
        }
        vec![format!("cache ways of domain {} cannot be set: left alone", names.join(", "))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Standing, observe, setup};

    #[test]
    fn who_fills_the_cache_is_confined_and_freed_again() {
        let setup = setup(12).ways(11).mba().batch("a").batch("b");
        let setup = setup.service("web", 10.0, 100.0).build();
        let size = setup.topology.llc[0].size_bytes;
        let mut law = LlcBiasLaw::new(LlcBiasParams::default());
        let mut standing = Standing::default();
        let mut step = |second: f64, a: f64, standing: &mut Standing| {
            let rest = (size as f64 * (1.0 - a) / 2.0) as u64;
            let mut seen = observe(&setup, second);
            for (name, from) in [("a", 0), ("b", 4), ("web", 8)] {
                let cpus: CpuSet = (from..from + 4).collect();
                let knob = Knob::Cpus { tenant: name.into() };
                let traffic = if name == "a" { 12e9 } else { 2e9 };
                seen = seen.memory(name, traffic).knob(knob, Setting::Cpus(cpus));
            }
            let seen = seen
                .of_batch("a", |b| b.llc_bytes = Ok((size as f64 * a) as u64))
                .of_batch("b", |b| b.llc_bytes = Ok(rest))
                .of("web", |s| s.llc_bytes = Ok(rest));
            standing.step(&mut law, &setup, seen)
        };
        for interval in 0..4 {
            step(5.0 * f64::from(interval), 0.8, &mut standing);
        }
        assert!(standing.ways("a") > 0 && standing.ways("a") & 1 == 0, "the left end");
        assert_eq!((standing.ways("b"), standing.ways("web")), (0, 0), "not touched");
        for interval in 4..80 {
            step(5.0 * f64::from(interval), 1.0 / 3.0, &mut standing);
        }
        assert_eq!(standing.ways("a"), 0);
        assert!(standing.rules.iter().any(|rule| rule == "relaxed"));
    }

    #[test]
    fn without_ways_or_readings_nothing_is_done() {
        let setup = setup(4).service("web", 10.0, 100.0).batch("a").build();
        let mut law = LlcBiasLaw::new(LlcBiasParams::default());
        let mut standing = Standing::default();
        let rules = standing.step(&mut law, &setup, observe(&setup, 0.0));
        assert_eq!(rules, ["always-run"]);
        assert_eq!(law.degradations(&setup).len(), 1);
    }
}
