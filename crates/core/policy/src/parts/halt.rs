//! How batch is held back altogether, and let go.

use crate::ledger::{Ledger, Reason};
use quell_types::{BatchSpec, CpuBandwidth, Knob, KnobRange, Observation, Setting, Setup, Tenant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What disabling batch means (T-9, T-11).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum OnDisable {
    /// Freeze the group: its work stops at once and goes on later where it was.
    #[default]
    Freeze,
    /// Stop the tasks of the queue, which go back to ready, as the thesis kills its job. A group
    /// that takes no tasks is frozen all the same.
    StopTasks,
}

/// Whether anything here can hold this group back: freezer, CPU time limit, or its tasks.
pub(crate) fn can_halt(setup: &Setup, batch: &BatchSpec) -> bool {
    let tenant = || batch.name.clone();
    batch.takes_tasks
        || setup.controls(&Knob::Frozen { tenant: tenant() })
        || setup.controls(&Knob::CpuBandwidth { tenant: tenant() })
}

/// Holds all batch groups back: frozen or stopped as `mode` says; a group that can be neither
/// gets the smallest CPU time limit.
pub(crate) fn halt(
    ledger: &mut Ledger,
    setup: &Setup,
    seen: &Observation,
    mode: OnDisable,
    why: &Reason,
) {
    for batch in &setup.batch {
        let frozen = Knob::Frozen { tenant: batch.name.clone() };
        let stop = mode == OnDisable::StopTasks && batch.takes_tasks;
        if !stop && setup.controls(&frozen) {
            ledger.set(setup, frozen, Setting::Flag(true), why);
            keep_tasks(ledger, seen, batch, why);
            continue;
        }
        if batch.takes_tasks {
            ledger.run_tasks(&batch.name, 0, why);
        }
        starve(ledger, setup, &batch.name, why);
    }
}

/// Lets no new task start; those that run, run on.
pub(crate) fn keep_running_tasks(
    ledger: &mut Ledger,
    setup: &Setup,
    seen: &Observation,
    why: &Reason,
) {
    for batch in &setup.batch {
        keep_tasks(ledger, seen, batch, why);
    }
}

/// Lets all batch groups go and their tasks run. CPU time limits are the caller's to set anew.
pub(crate) fn resume(ledger: &mut Ledger, setup: &Setup, why: &Reason) {
    for batch in &setup.batch {
        let frozen = Knob::Frozen { tenant: batch.name.clone() };
        if ledger.standing(&frozen).is_some() {
            ledger.set(setup, frozen, Setting::Flag(false), why);
        }
    }
    ledger.run_all_tasks(setup, why);
}

fn keep_tasks(ledger: &mut Ledger, seen: &Observation, batch: &BatchSpec, why: &Reason) {
    if batch.takes_tasks {
        let running = seen.batch.get(&batch.name).map_or(0, |b| b.running_tasks);
        ledger.run_tasks(&batch.name, running.min(batch.max_tasks), why);
    }
}

fn starve(ledger: &mut Ledger, setup: &Setup, tenant: &Tenant, why: &Reason) {
    let knob = Knob::CpuBandwidth { tenant: tenant.clone() };
    if let Some(&KnobRange::Bandwidth { min_quota_us, max_period_us, .. }) = setup.knobs.get(&knob)
    {
        let least = min_quota_us as f64 / max_period_us.max(1) as f64;
        let limit = CpuBandwidth::limited(least, Duration::from_micros(max_period_us));
        ledger.set(setup, knob, Setting::Bandwidth(limit), why);
    }
}
