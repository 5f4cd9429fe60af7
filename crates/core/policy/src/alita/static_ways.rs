//! Law `static-ways`: cache ways in proportion to CPUs, set once.
//!
//! **Problem.** The fair partition that operators set by hand, and what `llc-bias` is measured
//! against (A-E2's *Static*).
//!
//! **Idea.** In each cache domain every tenant gets ways of its own by its CPUs there, the rest of
//! the division to those who lost most by rounding. The tenant with the lowest CPU has the highest
//! ways, as in the source: three of four cores on eleven ways have 0x780, 0x078 and 0x007.
//!
//! **Degradation.** Domains without ways that can be set, or with more tenants than ways, are left
//! alone. Needs no reading but the CPU sets.
//!
//! **Invariants**, checked after every step of every fault run (`quell-faults`). No two tenants
//! share a way. Only ways are written.
//!
//! | rule | when | what |
//! |---|---|---|
//! | `always-run` | first step | tasks may run |
//! | `own-ways` | first step, and when CPU sets change | ways of each tenant |
//! | `not-here` | no CPU in the domain any more, or too many there | its ways are given back |
//!
//! Source: A-E2.

use super::llc_law::{cpus_of, tenants, ways_in};
use crate::Policy;
use crate::ledger::{Ledger, Reason};
use quell_types::{Input, Knob, LlcDomain, Observation, Proposal, Setting, Setup, Tenant};
use std::time::Duration;

/// See the module.
pub(crate) struct StaticWays {
    ledger: Ledger,
}

impl StaticWays {
    pub(crate) fn new() -> Self {
        Self { ledger: Ledger::new("static-ways") }
    }

    fn divide(&mut self, setup: &Setup, seen: &Observation, domain: &LlcDomain) {
        let Some(ways) = ways_in(setup, domain.id) else { return };
        let mut here: Vec<(u32, &Tenant, usize)> = tenants(setup)
            .filter_map(|tenant| {
                let cpus = cpus_of(setup, seen, tenant).intersection(&domain.cpus);
                Some((cpus.iter().next()?, tenant, cpus.len()))
            })
            .collect();
        here.sort_unstable();
        let counts: Vec<usize> = here.iter().map(|(_, _, cpus)| *cpus).collect();
        let shares = shares(ways, &counts).unwrap_or_default();
        for tenant in tenants(setup) {
            if shares.is_empty() || here.iter().all(|(_, own, _)| *own != tenant) {
                let knob = Knob::LlcWays { tenant: tenant.clone(), domain: domain.id };
                self.ledger.release(knob, &Reason::partition("not-here", Vec::new()));
            }
        }
        let mut top = ways;
        for ((_, tenant, _), own) in here.iter().zip(shares) {
            top -= own;
            let mask = (u64::MAX >> (64 - own)) << top;
            let knob = Knob::LlcWays { tenant: (*tenant).clone(), domain: domain.id };
            let inputs = vec![Input::new("ways_count", f64::from(own))];
            let why = Reason::partition("own-ways", inputs);
            self.ledger.set(setup, knob, Setting::Ways(mask), &why);
        }
    }
}

/// So many ways for tenants of so many CPUs, at least one each; none if there are too few.
fn shares(ways: u32, cpus: &[usize]) -> Option<Vec<u32>> {
    let all: usize = cpus.iter().sum();
    if all == 0 || cpus.len() > ways as usize {
        return None;
    }
    let exact = |own: &usize| f64::from(ways) * *own as f64 / all as f64;
    let mut shares: Vec<u32> = cpus.iter().map(|own| (exact(own) as u32).max(1)).collect();
    loop {
        let given: u32 = shares.iter().sum();
        let lost = |i: &usize| exact(&cpus[*i]) - f64::from(shares[*i]);
        let order = 0..cpus.len();
        let place = match given.cmp(&ways) {
            std::cmp::Ordering::Equal => return Some(shares),
            // The first of those who lost most, the last of those who gained most.
            std::cmp::Ordering::Less => order.rev().max_by(|a, b| lost(a).total_cmp(&lost(b)))?,
            std::cmp::Ordering::Greater => {
                order.filter(|i| shares[*i] > 1).min_by(|a, b| lost(a).total_cmp(&lost(b)))?
            }
        };
        if given < ways {
            shares[place] += 1;
        } else {
            shares[place] -= 1;
        }
    }
}

impl Policy for StaticWays {
    fn name(&self) -> &'static str {
        "static-ways"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn step(&mut self, setup: &Setup, seen: &Observation) -> Vec<Proposal> {
        self.ledger.run_all_tasks(setup, &Reason::partition("always-run", Vec::new()));
        for domain in &setup.topology.llc {
            self.divide(setup, seen, domain);
        }
        self.ledger.drain()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Standing, observe, setup};
    use quell_types::CpuSet;

    #[test]
    fn ways_are_shared_out_whole() {
        type Case<'a> = (u32, &'a [usize], Option<&'a [u32]>);
        let table: [Case<'_>; 5] = [
            (11, &[4, 4, 4], Some(&[4, 4, 3])),
            (20, &[8, 2], Some(&[16, 4])),
            (4, &[60, 1, 1], Some(&[2, 1, 1])),
            (2, &[1, 1, 1], None),
            (11, &[], None),
        ];
        for (ways, cpus, wanted) in table {
            assert_eq!(shares(ways, cpus).as_deref(), wanted, "{ways} {cpus:?}");
        }
    }

    #[test]
    fn who_leaves_a_domain_gives_its_ways_back() {
        let setup = setup(12).ways(11).service("victim", 10.0, 100.0).batch("a").build();
        let domain = &setup.topology.llc[0];
        let outside: CpuSet = [domain.cpus.iter().last().unwrap_or(0) + 1].into_iter().collect();
        let mut law = StaticWays::new();
        let mut standing = Standing::default();
        let seen = |second, cpus: &CpuSet| {
            let knob = Knob::Cpus { tenant: "a".into() };
            observe(&setup, second).knob(knob, Setting::Cpus(cpus.clone()))
        };
        standing.step(&mut law, &setup, seen(0.0, &domain.cpus));
        assert!(standing.ways("a") > 0 && standing.ways("a") & standing.ways("victim") == 0);
        standing.step(&mut law, &setup, seen(1.0, &outside));
        assert_eq!((standing.ways("a"), standing.ways("victim")), (0, 0x7ff));
    }

    #[test]
    fn the_masks_of_the_source() {
        let setup = setup(12).ways(11).service("victim", 10.0, 100.0).batch("a").batch("b").build();
        let cpus = |name: &str, from: u32| {
            let set: CpuSet = (from..from + 4).collect();
            (Knob::Cpus { tenant: name.into() }, Setting::Cpus(set))
        };
        let mut seen = observe(&setup, 0.0);
        for (knob, set) in [cpus("a", 0), cpus("b", 4), cpus("victim", 8)] {
            seen = seen.knob(knob, set);
        }
        let mut standing = Standing::default();
        standing.step(&mut StaticWays::new(), &setup, seen);
        let masks = ["a", "b", "victim"].map(|name| standing.ways(name));
        assert_eq!(masks, [0x780, 0x078, 0x007]);
    }
}
