//! A partition of cores and cache ways between services and batch.

use super::{Cores, WayLayout, can_halt};
use crate::ledger::{Ledger, Reason};
use quell_types::{CpuBandwidth, CpuSet, Cpus, Knob, KnobRange, Setting, Setup, Tenant};

/// What batch has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Steps of cores, each of [`Partition::step_cores`].
    pub(crate) steps: u32,
    /// Ways of every last-level cache.
    pub(crate) ways: u32,
}

/// How cores and ways are divided: services and batch groups are two sides, each side shares what
/// it has.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    /// Cores left to the system.
    pub(crate) system_cores: u32,
    /// Ways left to the system.
    pub(crate) system_ways: u32,
    /// The most cores for batch; none = all but one.
    pub(crate) batch_max_cores: Option<u32>,
    /// Batch grows and shrinks by this much: 1 core, or a part of one, which is then a limit on
    /// CPU time within the last core.
    pub(crate) step_cores: f64,
    /// Period of such a limit, in microseconds.
    pub(crate) period_us: u64,
}

impl Partition {
    /// The cores that are divided.
    pub(crate) fn cores(&self, setup: &Setup) -> Cores {
        Cores::of(setup, self.system_cores)
    }

    /// The most steps that batch may have; 0 if nothing can be divided.
    pub(crate) fn steps_max(&self, setup: &Setup) -> u32 {
        let most = self.cores(setup).batch_max();
        let cores = self.batch_max_cores.map_or(most, |own| own.min(most));
        (f64::from(cores) / self.step_cores + 1e-9) as u32
    }

    /// The most ways that batch may have; 0 where no cache can be divided.
    pub(crate) fn ways_max(&self, setup: &Setup) -> u32 {
        self.layouts(setup).iter().map(|(_, layout)| layout.batch_max()).min().unwrap_or(0)
    }

    /// Ways that services have beside a batch with so many, in the smallest cache; 0 where no cache
    /// can be divided.
    pub(crate) fn service_ways(&self, setup: &Setup, batch: u32) -> u32 {
        let left = |layout: &WayLayout| layout.ways().saturating_sub(layout.fit(batch));
        self.layouts(setup).iter().map(|(_, layout)| left(layout)).min().unwrap_or(0)
    }

    /// So many ways as this share of the smallest cache, at least one; 0 where no cache can be
    /// divided.
    pub(crate) fn ways_of(&self, setup: &Setup, share_frac: f64) -> u32 {
        let ways = self.layouts(setup).iter().map(|(_, layout)| layout.ways()).min().unwrap_or(0);
        let wanted = (f64::from(ways) * share_frac).round() as u32;
        wanted.max(1).min(self.ways_max(setup))
    }

    /// Cores in steps of batch.
    pub(crate) fn batch_cores(&self, steps: u32) -> f64 {
        f64::from(steps) * self.step_cores
    }

    /// Cores that are taken from services for so many steps.
    fn whole_cores(&self, steps: u32) -> u32 {
        (self.batch_cores(steps) - 1e-9).ceil().max(0.0) as u32
    }

    /// Gives batch its share and services the rest.
    pub(crate) fn give(&self, ledger: &mut Ledger, setup: &Setup, share: Share, why: &Reason) {
        let cores = self.cores(setup);
        let whole = self.whole_cores(share.steps).min(cores.batch_max());
        if whole > 0 {
            self.set_cpus(ledger, setup, &cores.service(whole), &cores.batch(whole), why);
        }
        self.limit_time(ledger, setup, share.steps, &cores.batch(whole), why);
        for (domain, layout) in self.layouts(setup) {
            let masks = (layout.service(share.ways), layout.batch(share.ways));
            set_ways(ledger, setup, domain, masks, why);
        }
    }

    /// Gives services everything. A batch that is held back keeps a core in name only, unless
    /// sets must not overlap or nothing can hold it back: then it really keeps it.
    pub(crate) fn all_to_services(&self, ledger: &mut Ledger, setup: &Setup, why: &Reason) {
        let cores = self.cores(setup);
        if cores.batch_max() > 0 {
            let kept = u32::from(must_keep_a_core(setup));
            self.set_cpus(ledger, setup, &cores.service(kept), &cores.batch(1), why);
        }
        for (domain, layout) in self.layouts(setup) {
            set_ways(ledger, setup, domain, (layout.service_alone(), layout.batch_off()), why);
        }
    }

    fn set_cpus(
        &self,
        ledger: &mut Ledger,
        setup: &Setup,
        service: &CpuSet,
        batch: &CpuSet,
        why: &Reason,
    ) {
        let mut set = |tenant: &Tenant, cpus: &CpuSet| {
            let knob = Knob::Cpus { tenant: tenant.clone() };
            ledger.set(setup, knob, Setting::Cpus(cpus.clone()), why);
        };
        setup.services.iter().for_each(|s| set(&s.name, service));
        setup.batch.iter().for_each(|b| set(&b.name, batch));
    }

    /// Limits CPU time where a step is less than a core, and of groups without CPU sets; groups
    /// share it in equal parts.
    fn limit_time(
        &self,
        ledger: &mut Ledger,
        setup: &Setup,
        steps: u32,
        cpus: &CpuSet,
        why: &Reason,
    ) {
        let budget = self.batch_cores(steps);
        let whole = f64::from(self.whole_cores(steps).max(1));
        let limit_cpus = cpus.len() as f64 * budget / whole / setup.batch.len().max(1) as f64;
        for batch in &setup.batch {
            let knob = Knob::CpuBandwidth { tenant: batch.name.clone() };
            let has_set = setup.controls(&Knob::Cpus { tenant: batch.name.clone() });
            if has_set && (self.step_cores >= 1.0 || (budget - whole).abs() < 1e-6) {
                self.lift_limit(ledger, setup, knob, why);
            } else if limit_cpus > 0.0 {
                let limit = self.fit_limit(setup, &knob, limit_cpus);
                ledger.set(setup, knob, Setting::Bandwidth(limit), why);
            }
        }
    }

    fn lift_limit(&self, ledger: &mut Ledger, setup: &Setup, knob: Knob, why: &Reason) {
        if ledger.standing(&knob).is_some() {
            ledger.set(setup, knob, Setting::Bandwidth(CpuBandwidth::unlimited()), why);
        }
    }

    fn fit_limit(&self, setup: &Setup, knob: &Knob, limit_cpus: f64) -> CpuBandwidth {
        let mut limit = CpuBandwidth { limit_cpus: None, period_us: self.period_us };
        if let Some(&KnobRange::Bandwidth { min_quota_us, min_period_us, max_period_us }) =
            setup.knobs.get(knob)
        {
            // A small budget needs a period long enough for the smallest quota.
            let needed = (min_quota_us as f64 / limit_cpus).ceil() as u64;
            let longest = max_period_us.max(min_period_us);
            limit.period_us = self.period_us.max(needed).clamp(min_period_us, longest);
        }
        limit.limit_cpus = Some(Cpus(limit_cpus));
        limit
    }

    fn layouts(&self, setup: &Setup) -> Vec<(u32, WayLayout)> {
        let domain_of = |knob: &Knob| match knob {
            Knob::LlcWays { domain, .. } => Some(*domain),
            _ => None,
        };
        let mut layouts: Vec<(u32, WayLayout)> = Vec::new();
        for (knob, range) in &setup.knobs {
            let Some(domain) = domain_of(knob) else { continue };
            let Some(layout) = WayLayout::of(range, self.system_ways) else { continue };
            if layouts.iter().all(|(known, _)| *known != domain) {
                layouts.push((domain, layout));
            }
        }
        layouts
    }

    /// What this partition does without on a setup.
    pub(crate) fn degradations(&self, setup: &Setup) -> Vec<String> {
        let mut notes = Vec::new();
        let cores = self.cores(setup);
        if cores.batch_max() == 0 {
            notes.push("one CPU cannot be divided: batch stays off".into());
        }
        if cores.splits_siblings() {
            notes.push(
                "there is one physical core: its hardware threads are divided, and their \
                 interference stays"
                    .into(),
            );
        }
        if self.layouts(setup).is_empty() {
            notes.push("no cache can be divided: only cores grow and shrink".into());
        }
        for tenant in setup.services.iter().map(|s| &s.name) {
            if !setup.controls(&Knob::Cpus { tenant: tenant.clone() }) {
                notes.push(format!("{tenant} has no CPU set: it may run on batch's cores too"));
            }
        }
        for batch in &setup.batch {
            let tenant = || batch.name.clone();
            if !setup.controls(&Knob::Cpus { tenant: tenant() }) {
                notes.push(format!(
                    "{} has no CPU set: its cores become a limit on CPU time",
                    batch.name
                ));
            }
            if !setup.controls(&Knob::Frozen { tenant: tenant() }) {
                notes.push(format!(
                    "{} cannot be frozen: its tasks are stopped or its CPU time is cut instead",
                    batch.name
                ));
            }
        }
        notes
    }
}

/// Whether batch can never be without a core: nothing holds it, or sets must not overlap.
pub(crate) fn must_keep_a_core(setup: &Setup) -> bool {
    let exclusive = setup.knobs.iter().any(|(knob, range)| match (knob, range) {
        (Knob::Cpus { .. }, KnobRange::Cpus { exclusive, .. }) => *exclusive,
        _ => false,
    });
    exclusive || setup.batch.iter().any(|b| !can_halt(setup, b))
}

fn set_ways(
    ledger: &mut Ledger,
    setup: &Setup,
    domain: u32,
    (service, batch): (u64, u64),
    why: &Reason,
) {
    let mut set = |tenant: &Tenant, mask: u64| {
        let knob = Knob::LlcWays { tenant: tenant.clone(), domain };
        ledger.set(setup, knob, Setting::Ways(mask), why);
    };
    setup.services.iter().for_each(|s| set(&s.name, service));
    setup.batch.iter().for_each(|b| set(&b.name, batch));
}
