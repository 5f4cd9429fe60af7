//! The power loop: batch slows down before the services' CPUs lose their frequency (H-2).

use super::HeraclesParams;
use crate::ledger::{Ledger, Reason};
use crate::parts::{Every, Scene};
use quell_types::{CpuSet, Input, Kilohertz, Knob, KnobRange, Setting, Setup};
use std::collections::BTreeMap;

/// Top frequency of batch CPUs by socket; a socket that is not named is unlimited.
pub(super) struct Power {
    every: Every,
    ceilings_khz: BTreeMap<u32, u64>,
    limited: CpuSet,
}

impl Power {
    pub(super) fn new(params: &HeraclesParams) -> Self {
        Self {
            every: Every::new(params.power_period_s),
            ceilings_khz: BTreeMap::new(),
            limited: CpuSet::new(),
        }
    }

    /// Frees CPUs that no longer belong to batch, then makes a round where one is due.
    pub(super) fn step(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &HeraclesParams,
        (service, batch): (&CpuSet, &CpuSet),
    ) {
        self.free(ledger, batch);
        if !self.every.due(scene.now()) {
            return;
        }
        for socket in sockets(scene.setup) {
            let of = |cpus: &CpuSet| cpus.intersection(&cpus_of(scene.setup, socket));
            self.round(ledger, scene, params, socket, (&of(service), &of(batch)));
        }
    }

    fn free(&mut self, ledger: &mut Ledger, batch: &CpuSet) {
        let why = Reason::partition("free-frequency", Vec::new());
        for cpu in self.limited.difference(batch).iter() {
            ledger.release(Knob::FrequencyMax { cpu }, &why);
        }
        self.limited = self.limited.intersection(batch);
    }

    fn round(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &HeraclesParams,
        socket: u32,
        (service, batch): (&CpuSet, &CpuSet),
    ) {
        let (Some(tdp), Some(guaranteed)) = (params.tdp_w, params.guaranteed_khz) else { return };
        let Some((min, max)) = range(scene.setup, batch) else { return };
        let power = scene.seen.host.power.as_ref().ok().and_then(|p| p.get(&socket));
        // Where no service runs nobody is slowed.
        let alone = service.is_empty().then_some(guaranteed);
        let frequency = alone.or_else(|| slowest(scene, service));
        let (Some(power), Some(frequency)) = (power, frequency) else { return };
        let limit = tdp * params.power_limit_frac;
        let now = self.ceilings_khz.get(&socket).copied().unwrap_or(max);
        let (rule, next) = if power.0 > limit && frequency < guaranteed {
            ("power-lower-batch", now.saturating_sub(params.frequency_step_khz).max(min))
        } else if power.0 <= limit && frequency >= guaranteed {
            ("power-raise-batch", (now + params.frequency_step_khz).min(max))
        } else {
            ("power-hold-batch", now)
        };
        self.ceilings_khz.insert(socket, next);
        let inputs = vec![
            Input::new("socket_power_w", power.0),
            Input::new("power_limit_w", limit),
            Input::new("service_frequency_khz", frequency as f64),
        ];
        let why = Reason::partition(rule, inputs);
        self.apply(ledger, scene.setup, batch, next, max, &why);
    }

    fn apply(
        &mut self,
        ledger: &mut Ledger,
        setup: &Setup,
        batch: &CpuSet,
        khz: u64,
        max: u64,
        why: &Reason,
    ) {
        for cpu in batch.iter() {
            let knob = Knob::FrequencyMax { cpu };
            if khz < max || ledger.standing(&knob).is_some() {
                ledger.set(setup, knob, Setting::Frequency(Kilohertz(khz)), why);
                self.limited.insert(cpu);
            }
        }
    }
}

/// The frequency of the slowest of these CPUs; none if there is none or one does not tell.
fn slowest(scene: &Scene<'_>, cpus: &CpuSet) -> Option<u64> {
    let known = scene.seen.host.frequency_khz.as_ref().ok()?;
    let each: Option<Vec<u64>> = cpus.iter().map(|cpu| known.get(&cpu).copied()).collect();
    each?.into_iter().min()
}

/// What the top frequency of these CPUs can be set to; none if one cannot be set.
fn range(setup: &Setup, cpus: &CpuSet) -> Option<(u64, u64)> {
    let each: Option<Vec<(u64, u64)>> = cpus
        .iter()
        .map(|cpu| match setup.knobs.get(&Knob::FrequencyMax { cpu }) {
            Some(KnobRange::Frequency { min, max }) => Some((min.0, max.0)),
            _ => None,
        })
        .collect();
    each?.into_iter().reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))
}

fn sockets(setup: &Setup) -> Vec<u32> {
    let mut sockets: Vec<u32> = setup.topology.cpus.iter().map(|cpu| cpu.socket).collect();
    sockets.sort_unstable();
    sockets.dedup();
    sockets
}

fn cpus_of(setup: &Setup, socket: u32) -> CpuSet {
    setup.topology.cpus.iter().filter(|c| c.socket == socket).map(|c| c.id).collect()
}

/// Whether the loop has all it needs of parameters and knobs.
pub(super) fn missing(setup: &Setup, params: &HeraclesParams) -> Option<&'static str> {
    if params.tdp_w.is_none() || params.guaranteed_khz.is_none() {
        return Some("tdp_w or guaranteed_khz is not given: no power loop");
    }
    let settable = setup.knobs.keys().any(|knob| matches!(knob, Knob::FrequencyMax { .. }));
    (!settable).then_some("no CPU's top frequency can be set: no power loop")
}
