//! Rest: who had to be slowed to less than half of its clock stands still for part of the time besides.
//!
//! # Problem
//! A socket gives its highest clocks only while few of its cores work, however slowly they do: a processor with
//! 3.1 GHz for two cores has 2.7 for 24. Who is slowed on 22 cores, and goes on, keeps that clock from the others: they
//! are as fast as beside calm neighbours, and still a sixth slower than alone. No clock is low enough for that.
//!
//! # Idea
//! So it rests: all its CPUs stand still at once, for part of each second. CPU bandwidth does just that, since the
//! threads of a group spend its budget together, and then wait for the period to end. Periods are the longest that the
//! kernel takes: the clock of few cores comes some time after the others have halted.
//!
//! Only who had to give up more than half of its clock rests. Whom a step or two brings below the quota is no virus, and
//! its neighbours lose little by it.
//!
//! Rest would spoil what the controller goes by: the socket draws less, and who rests is neither busy nor warm. So
//! everybody is up for the last two seconds of a loop, in which power is read, and what the group uses.
//!
//! # Units
//! Shares of time; CPUs.
//!
//! # Pseudo-code
//! ```text
//! each second, for each tenant all of whose CPUs are held below half of their parts:
//!     the loop ends within 2 s:  its CPU bandwidth is released
//!     else, once:                used = what it used since the last look, while it was free
//!                                CPU bandwidth = (1 - rest_frac) * used, in periods of 1 s
//! for the others: released
//! ```
//!
//! # Degradation
//! Who uses little now, whose use is not known, or who runs on cores that are not its own, does not rest; nor does
//! anybody whose CPU bandwidth cannot be set. Loops of two seconds or less leave no time for it. Real-time threads are
//! not held by CPU bandwidth.
//!
//! Source: ours, for A-36 ("the victim returns to 1.10 times of solo"); A-27 to A-30.

use crate::ledger::{Ledger, Reason};
use crate::parts::short_period;
use quell_types::{CpuSet, Input, Knob, Observation, Setting, Setup, Tenant};
use std::collections::BTreeMap;
use std::time::Duration;

/// Everybody is up for so long before a loop ends.
pub(super) const AWAKE: Duration = Duration::from_secs(2);
/// In milliseconds.
const PERIOD_MS: u64 = 1_000;
/// Who uses less than this share of its CPUs does too little to rest: half of them, half of the time.
const LEAST_USE_FRAC: f64 = 0.25;

/// Gives those that are `slowed` to less than half, with their CPUs, their rest, or lets them up.
pub(super) fn give(
    ledger: &mut Ledger,
    (setup, seen): (&Setup, &Observation),
    slowed: &BTreeMap<Tenant, CpuSet>,
    rest_frac: f64,
    awake: bool,
) {
    let tenants = super::llc_law::tenants(setup).cloned();
    for tenant in tenants {
        let knob = Knob::CpuBandwidth { tenant: tenant.clone() };
        let rests = ledger.standing(&knob).is_some();
        match slowed.get(&tenant) {
            None => _ = ledger.release(knob, &Reason::polluter("relaxed", Vec::new())),
            Some(_) if awake => _ = ledger.release(knob, &Reason::polluter("roused", Vec::new())),
            Some(cpus) if !rests => {
                if let Some(used_cpus) = used(seen, &tenant, cpus) {
                    lay_down(ledger, setup, knob, used_cpus, rest_frac);
                }
            }
            Some(_) => {}
        }
    }
}

/// What a tenant used of late; none if that is not known, or little.
fn used(seen: &Observation, tenant: &Tenant, cpus: &CpuSet) -> Option<f64> {
    let of_service = seen.services.get(tenant).and_then(|s| s.cpu.as_ref().ok());
    let of_batch = seen.batch.get(tenant).and_then(|b| b.cpu.as_ref().ok());
    let used_cpus = of_service.or(of_batch)?.0;
    (used_cpus >= LEAST_USE_FRAC * cpus.len() as f64).then_some(used_cpus)
}

fn lay_down(ledger: &mut Ledger, setup: &Setup, knob: Knob, used_cpus: f64, rest_frac: f64) {
    let Some(range) = setup.knobs.get(&knob).filter(|_| rest_frac > 0.0) else { return };
    let to = short_period(range, used_cpus * (1.0 - rest_frac), PERIOD_MS);
    let inputs = vec![Input::new("used_cpus", used_cpus), Input::new("rest_frac", rest_frac)];
    ledger.set(setup, knob, Setting::Bandwidth(to), &Reason::polluter("resting", inputs));
}
