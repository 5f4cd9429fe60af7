//! `os-only`: what the kernel offers by itself.
//!
//! **Problem.** Before anything is partitioned, one asks how far the scheduler alone gets: batch
//! as the lowest class, the service as the heaviest group. The literature's answer is "not far"
//! (H-6: every service misses its objective at every load), because a class orders who runs, not
//! who fills caches and wires, nor how soon a running batch thread is put off its CPU.
//!
//! **Idea.** Set once: each batch group joins the idle class (`cpu.idle`); where that cannot be
//! set it gets the smallest weight. Each service gets the largest weight. Tasks run always.
//!
//! **Units.** Weights as the kernel counts them: 1..10000, 100 is the usual one.
//!
//! **Pseudo-code.**
//! ```text
//! once: for each service:     weight = min(service_weight, range's max)
//!       for each batch group: idle class, else weight = max(batch_weight, range's min)
//!                             let max_tasks of its tasks run
//! ```
//!
//! **Degradation.** No idle class: weight. No weight either: that group is left alone, and the
//! law differs from `none` only where it can. Needs no reading.
//!
//! **Invariants**, checked after every step of every fault run (`quell-faults`). Only weights and
//! idle classes are written.
//!
//! | rule | when | what |
//! |---|---|---|
//! | `service-first` | first step | largest weight for a service |
//! | `batch-idle` | first step, idle class settable | idle class for a batch group |
//! | `batch-lightest` | first step, only weight settable | smallest weight for a batch group |
//! | `always-run` | first step | tasks may run |
//!
//! Source: H-5 ("OS-only = brain with low CFS shares"), H-6; X-10.

use crate::Policy;
use crate::ledger::{Ledger, Reason};
use quell_types::{Knob, KnobRange, Observation, Proposal, Setting, Setup, Tenant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Parameters of `os-only`: the table `[law.os-only]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OsOnlyParams {
    /// CPU weight of services (1..10000), cut to what the machine takes.
    pub service_weight: u32,
    /// CPU weight of batch groups (1..10000) where there is no idle class, raised to what the
    /// machine takes.
    pub batch_weight: u32,
}

impl Default for OsOnlyParams {
    fn default() -> Self {
        Self { service_weight: 10_000, batch_weight: 1 }
    }
}

impl OsOnlyParams {
    /// Checks them.
    ///
    /// # Errors
    /// If a weight is 0 or batch outweighs services.
    pub fn validate(&self) -> Result<(), String> {
        if self.batch_weight == 0 || self.service_weight < self.batch_weight {
            return Err(format!(
                "needs 1 <= batch_weight <= service_weight, not {} and {}",
                self.batch_weight, self.service_weight
            ));
        }
        Ok(())
    }
}

/// See the module.
pub(crate) struct OsOnly {
    params: OsOnlyParams,
    ledger: Ledger,
}

impl OsOnly {
    pub(crate) fn new(params: OsOnlyParams) -> Self {
        Self { params, ledger: Ledger::new("os-only") }
    }

    fn weigh(&mut self, setup: &Setup, tenant: &Tenant, weight: u32, rule: &'static str) {
        let knob = Knob::CpuWeight { tenant: tenant.clone() };
        if let Some(&KnobRange::Weight { min, max }) = setup.knobs.get(&knob) {
            let weight = weight.clamp(min, max.max(min));
            self.ledger.set(setup, knob, Setting::Weight(weight), &Reason::partition(rule, vec![]));
        }
    }

    fn lower(&mut self, setup: &Setup, tenant: &Tenant) {
        let idle = Knob::CpuIdle { tenant: tenant.clone() };
        if setup.controls(&idle) {
            let why = Reason::partition("batch-idle", Vec::new());
            self.ledger.set(setup, idle, Setting::Flag(true), &why);
        } else {
            self.weigh(setup, tenant, self.params.batch_weight, "batch-lightest");
        }
    }
}

impl Policy for OsOnly {
    fn name(&self) -> &'static str {
        "os-only"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn step(&mut self, setup: &Setup, _: &Observation) -> Vec<Proposal> {
        for service in &setup.services {
            self.weigh(setup, &service.name, self.params.service_weight, "service-first");
        }
        for batch in &setup.batch {
            self.lower(setup, &batch.name);
        }
        self.ledger.run_all_tasks(setup, &Reason::partition("always-run", Vec::new()));
        self.ledger.drain()
    }

    fn degradations(&self, setup: &Setup) -> Vec<String> {
        let weight = |t: &Tenant| setup.controls(&Knob::CpuWeight { tenant: t.clone() });
        let idle = |t: &Tenant| setup.controls(&Knob::CpuIdle { tenant: t.clone() });
        let services = setup.services.iter().map(|s| &s.name).filter(|t| !weight(t));
        let mut notes: Vec<String> =
            services.map(|t| format!("{t} has no CPU weight: it keeps the one it has")).collect();
        notes.extend(setup.batch.iter().map(|b| &b.name).filter(|t| !idle(t)).map(|t| {
            if weight(t) {
                format!("{t} has no idle class: it gets the smallest weight instead")
            } else {
                format!("{t} has neither idle class nor CPU weight: it is left alone")
            }
        }));
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Standing, observe, setup};

    fn settled(setup: &Setup) -> (Standing, Vec<String>) {
        let (mut law, mut standing) = (OsOnly::new(OsOnlyParams::default()), Standing::default());
        standing.step(&mut law, setup, observe(setup, 0.0));
        let again = standing.step(&mut law, setup, observe(setup, 1.0).slack("search", -1.0));
        assert!(again.is_empty(), "{again:?}");
        (standing, law.degradations(setup))
    }

    #[test]
    fn batch_joins_the_idle_class_and_the_service_is_heaviest() {
        let setup = setup(2).service("search", 15.0, 1000.0).batch("hadoop").build();
        let (standing, notes) = settled(&setup);
        let weight = Knob::CpuWeight { tenant: "search".into() };
        assert_eq!(standing.settings[&weight], Setting::Weight(10_000));
        let idle = Knob::CpuIdle { tenant: "hadoop".into() };
        assert_eq!(standing.settings[&idle], Setting::Flag(true));
        assert_eq!((standing.settings.len(), standing.tasks[&"hadoop".into()]), (2, 4));
        assert!(notes.is_empty());
    }

    #[test]
    fn without_idle_class_batch_is_lightest() {
        let no_idle = |k: &Knob| matches!(k, Knob::CpuIdle { .. });
        let setup = setup(2).service("search", 15.0, 1.0).batch("hadoop").without(no_idle).build();
        let (standing, notes) = settled(&setup);
        let weight = Knob::CpuWeight { tenant: "hadoop".into() };
        assert_eq!(standing.settings[&weight], Setting::Weight(1));
        assert_eq!(notes, ["hadoop has no idle class: it gets the smallest weight instead"]);
    }

    #[test]
    fn without_any_knob_only_tasks_are_run() {
        let setup = setup(2).service("search", 15.0, 1.0).batch("hadoop").without(|_| true).build();
        let (standing, notes) = settled(&setup);
        assert_eq!((standing.settings.len(), standing.tasks[&"hadoop".into()]), (0, 4));
        assert_eq!(notes.len(), 2);
    }

    #[test]
    fn weights_that_favour_batch_are_refused() {
        assert!(OsOnlyParams::default().validate().is_ok());
        assert!(OsOnlyParams { service_weight: 1, batch_weight: 2 }.validate().is_err());
        assert!(OsOnlyParams { service_weight: 1, batch_weight: 0 }.validate().is_err());
    }
}
