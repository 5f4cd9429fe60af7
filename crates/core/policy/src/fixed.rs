//! `static`: one split or quota, set once.
//!
//! **Problem.** A controller is only worth its trouble if it beats the best fixed setting. That
//! setting must be searched for, and the search shown, or the comparison is with a straw man.
//!
//! **Idea.** Batch gets a set of CPUs (given, or so many from the lowest upward), a limit on CPU
//! time with its period, and a share of each link; services get the other CPUs. Nothing is ever
//! changed. [`StaticParams::sweep`] lists candidates for a bench to try and print: whole-core
//! splits where there are two CPUs or more, and limits from 0.1 to 1.0 CPU with periods of 2, 10
//! and 100 ms.
//!
//! **Units.** CPUs (1.0 is one CPU fully used), microseconds, shares of a link's capacity. A
//! limit or share is that of all batch groups together, each gets an equal part.
//!
//! **Pseudo-code.**
//! ```text
//! once: batch    = batch_cpu_set, else the lowest batch_cpu_count CPUs, else all
//!       services = the others, if there are any
//!       if batch_limit_cpus:  each group's CPU time = batch_limit_cpus / groups each period
//!       if batch_egress_frac: each group's ceiling = batch_egress_frac · capacity / groups
//!       let max_tasks tasks run in each group
//! ```
//! Without CPUs and limit batch gets half of the CPUs, or on a single one half of its time.
//!
//! **Degradation.** A knob that cannot be set is left out. A batch CPU set that would leave
//! services nothing leaves them all CPUs. Needs no reading.
//!
//! **Invariants**, checked after every step of every fault run (`quell-faults`). Services and
//! batch share no CPU where CPU sets are given. Only CPU sets, CPU time limits and ceilings are
//! written.
//!
//! | rule | when | what |
//! |---|---|---|
//! | `static-cpus` | first step | CPU sets of both sides |
//! | `static-limit` | first step | CPU time limit of batch |
//! | `static-egress` | first step | egress ceiling of batch |
//! | `always-run` | first step | tasks may run |
//!
//! Source: X-10 (each system beside its baselines); A-E2's *Static*.

use crate::Policy;
use crate::ledger::{Ledger, Reason};
use crate::parts::{check, share_out};
use quell_types::{
    CpuBandwidth, CpuSet, Cpus, Input, Knob, KnobRange, Observation, Proposal, Setting, Setup,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Parameters of `static`: the table `[law.static]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StaticParams {
    /// The CPUs of batch; excludes `batch_cpu_count`.
    pub batch_cpu_set: Option<CpuSet>,
    /// How many CPUs batch gets, from the lowest managed one upward.
    pub batch_cpu_count: Option<u32>,
    /// CPU time of all batch groups together, in CPUs.
    pub batch_limit_cpus: Option<f64>,
    /// Period of that limit, in microseconds.
    pub batch_period_us: u64,
    /// Share of each link's capacity for all batch groups together (0..1).
    pub batch_egress_frac: Option<f64>,
}

impl Default for StaticParams {
    fn default() -> Self {
        Self {
            batch_cpu_set: None,
            batch_cpu_count: None,
            batch_limit_cpus: None,
            batch_period_us: 10_000,
            batch_egress_frac: None,
        }
    }
}

impl StaticParams {
    /// Checks them.
    ///
    /// # Errors
    /// If they contradict each other or lie out of range.
    pub fn validate(&self) -> Result<(), String> {
        if self.batch_cpu_set.is_some() && self.batch_cpu_count.is_some() {
            return Err("give batch_cpu_set or batch_cpu_count, not both".into());
        }
        if self.batch_cpu_set.as_ref().is_some_and(CpuSet::is_empty) {
            return Err("batch_cpu_set is empty".into());
        }
        check(0.001..=65_536.0, &[("batch_limit_cpus", self.batch_limit_cpus.unwrap_or(1.0))])?;
        check(1000.0..=1e6, &[("batch_period_us", self.batch_period_us as f64)])?;
        check(0.0..=1.0, &[("batch_egress_frac", self.batch_egress_frac.unwrap_or(1.0))])
    }

    /// Candidates to try on a machine, at least eight: whole-core splits (up to five, evenly
    /// spread), then limits. All with the same share of links as `self`.
    #[must_use]
    pub fn sweep(&self, setup: &Setup) -> Vec<StaticParams> {
        let base =
            StaticParams { batch_egress_frac: self.batch_egress_frac, ..StaticParams::default() };
        let cpus = setup.managed_cpus.len() as u32;
        let mut counts: Vec<u32> =
            [1, cpus / 4, cpus / 2, cpus * 3 / 4, cpus.saturating_sub(1)].to_vec();
        counts.retain(|&n| n > 0 && n < cpus);
        counts.sort_unstable();
        counts.dedup();
        let splits = counts.into_iter().map(|n| Self { batch_cpu_count: Some(n), ..base.clone() });
        let limits = [0.1, 0.25, 0.5, 0.75, 1.0].into_iter().flat_map(|limit| {
            [2_000, 10_000, 100_000].into_iter().map(move |period| (limit, period))
        });
        let limits = limits.map(|(limit, period)| Self {
            batch_limit_cpus: Some(limit),
            batch_period_us: period,
            ..base.clone()
        });
        splits.chain(limits).collect()
    }

    /// With the default filled in for this machine.
    fn resolved(&self, setup: &Setup) -> Self {
        let mut own = self.clone();
        let none = own.batch_cpu_set.is_none()
            && own.batch_cpu_count.is_none()
            && own.batch_limit_cpus.is_none();
        match setup.managed_cpus.len() as u32 {
            0 | 1 if none => own.batch_limit_cpus = Some(0.5),
            cpus if none => own.batch_cpu_count = Some(cpus / 2),
            _ => {}
        }
        own
    }
}

impl fmt::Display for StaticParams {
    /// As a line of a printed sweep: `batch: CPUs 0; 0.50 CPU per 10 ms; 50 % of links`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        match (&self.batch_cpu_set, self.batch_cpu_count) {
            (Some(set), _) => parts.push(format!("CPUs {set}")),
            (None, Some(count)) => parts.push(format!("{count} CPUs")),
            (None, None) => {}
        }
        if let Some(limit) = self.batch_limit_cpus {
            let period_ms = self.batch_period_us as f64 / 1e3;
            parts.push(format!("{limit:.2} CPU per {period_ms} ms"));
        }
        if let Some(share) = self.batch_egress_frac {
            parts.push(format!("{:.0} % of links", share * 100.0));
        }
        if parts.is_empty() {
            parts.push("half of the CPUs".into());
        }
        f.pad(&format!("batch: {}", parts.join("; ")))
    }
}

/// See the module.
pub(crate) struct Static {
    params: StaticParams,
    ledger: Ledger,
}

impl Static {
    pub(crate) fn new(params: StaticParams) -> Self {
        Self { params, ledger: Ledger::new("static") }
    }

    fn split(&mut self, setup: &Setup, own: &StaticParams) {
        let count = own.batch_cpu_count.map(|n| setup.managed_cpus.first(n as usize));
        let Some(batch) = own.batch_cpu_set.clone().or(count) else { return };
        let others = setup.managed_cpus.difference(&batch);
        let service = if others.is_empty() { setup.managed_cpus.clone() } else { others };
        let why = Reason::partition(
            "static-cpus",
            vec![Input::new("batch_cpus_count", batch.len() as f64)],
        );
        for spec in &setup.services {
            let knob = Knob::Cpus { tenant: spec.name.clone() };
            self.ledger.set(setup, knob, Setting::Cpus(service.clone()), &why);
        }
        for spec in &setup.batch {
            let knob = Knob::Cpus { tenant: spec.name.clone() };
            self.ledger.set(setup, knob, Setting::Cpus(batch.clone()), &why);
        }
    }

    fn limit(&mut self, setup: &Setup, own: &StaticParams) {
        let Some(limit) = own.batch_limit_cpus else { return };
        let part = limit / setup.batch.len().max(1) as f64;
        let why = Reason::partition("static-limit", vec![Input::new("batch_limit_cpus", limit)]);
        for spec in &setup.batch {
            let knob = Knob::CpuBandwidth { tenant: spec.name.clone() };
            let Some(&KnobRange::Bandwidth { min_quota_us, min_period_us, max_period_us }) =
                setup.knobs.get(&knob)
            else {
                continue;
            };
            // A small part needs a period long enough for the smallest quota.
            let needed = (min_quota_us as f64 / part).ceil() as u64;
            let longest = max_period_us.max(min_period_us);
            let period_us = own.batch_period_us.max(needed).clamp(min_period_us, longest);
            let to = CpuBandwidth { limit_cpus: Some(Cpus(part)), period_us };
            self.ledger.set(setup, knob, Setting::Bandwidth(to), &why);
        }
    }

    fn ceilings(&mut self, setup: &Setup, own: &StaticParams) {
        let Some(share) = own.batch_egress_frac else { return };
        let why = Reason::partition("static-egress", vec![Input::new("batch_egress_frac", share)]);
        for link in &setup.links {
            share_out(&mut self.ledger, setup, &link.name, link.capacity.0 * share, &why);
        }
    }
}

impl Policy for Static {
    fn name(&self) -> &'static str {
        "static"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn step(&mut self, setup: &Setup, _: &Observation) -> Vec<Proposal> {
        let own = self.params.resolved(setup);
        self.split(setup, &own);
        self.limit(setup, &own);
        self.ceilings(setup, &own);
        self.ledger.run_all_tasks(setup, &Reason::partition("always-run", Vec::new()));
        self.ledger.drain()
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let own = self.params.resolved(setup);
        let names =
            || setup.services.iter().map(|s| &s.name).chain(setup.batch.iter().map(|b| &b.name));
        let mut notes = Vec::new();
        if own.batch_cpu_set.is_some() || own.batch_cpu_count.is_some() {
            let lacking = names().filter(|t| !setup.controls(&Knob::Cpus { tenant: (*t).clone() }));
            notes.extend(lacking.map(|t| format!("{t} has no CPU set: it may run on all CPUs")));
        }
        if own.batch_limit_cpus.is_some() {
            let lacking = setup.batch.iter().map(|b| &b.name);
            let lacking =
                lacking.filter(|t| !setup.controls(&Knob::CpuBandwidth { tenant: (*t).clone() }));
            notes.extend(lacking.map(|t| format!("{t} has no limit on CPU time")));
        }
        notes
    }
}

#[cfg(test)]
mod tests;
