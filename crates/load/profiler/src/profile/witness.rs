//! Witnesses: little programs of known nature that stand beside a workload and beside each kernel. What
//! they lose tells what the workload is like (`predict/mixture.rs`).
//!
//! Beside a kernel they sit on the workload's CPU, beside the workload on the pressure's, by turns with
//! its rest. They count by their own CPU time, so what the measurement takes of that CPU is not the
//! workload's doing.

use super::class::SHARED_BY_CPUS;
use super::yardstick::{EFFORT, LEVELS, until_apart};
use super::{CurvePoint, Profile, ProfileOptions, kernel, points};
use crate::canary::Watch;
use crate::curve::Level;
use crate::desk::{pause, ready};
use crate::stats::{Estimate, estimate};
use crate::trial::{Effort, Trial};
use crate::{Habit, ProfileError, Subject, Victim};
use quell_pressure::{ReporterSizes, Resource, Running, Stop};
use quell_types::{CpuSet, Topology};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A program that is hurt in a way of its own.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Witness {
    /// Waits for one access after the other, in more than the core's own caches hold and little enough to
    /// stay in the shared one: hurt by who throws out its lines.
    NearChase,
    /// The same in memory: hurt where memory is nearly full.
    FarChase,
    /// Reads memory as fast as it comes: hurt by traffic.
    Stream,
}

/// Before a witness is first listened to, so many times as long as after each turn: its cache is cold.
const WARM_UP: u32 = 8;
/// Where caches are not told.
const USUAL_NEAR: u64 = 3 << 20;
/// Far is so much at least, and at most: a virtual machine may be told of its host's whole cache.
const FAR: (u64, u64) = (64 << 20, 128 << 20);

impl Witness {
    /// All of them.
    pub const ALL: [Witness; 3] = [Witness::NearChase, Witness::FarChase, Witness::Stream];

    fn habit(self, topology: &Topology) -> Habit {
        let shared = topology.llc.first().map_or(0, |llc| llc.size_bytes);
        let far = (2 * shared).clamp(FAR.0, FAR.1) as usize;
        match self {
            Witness::NearChase => {
                let near = ReporterSizes::of(topology).map_or(USUAL_NEAR, |sizes| sizes.shared);
                Habit::Chase(near as usize)
            }
            Witness::FarChase => Habit::Chase(far),
            Witness::Stream => Habit::Stream(far),
        }
    }
}

type Called = Vec<(Witness, Victim)>;

/// All witnesses on one CPU, at rest.
fn called(cpus: &CpuSet, topology: &Topology, stop: &Stop) -> Result<Called, ProfileError> {
    let one = |witness: Witness| {
        let mut victim = Victim::start("witness", witness.habit(topology), &cpus.first(1), stop)?;
        victim.rest()?;
        Ok((witness, victim))
    };
    Witness::ALL.into_iter().map(one).collect()
}

impl Profile {
    /// Listens to the witnesses beside the workload and, for yardsticks, beside each kernel. Nothing is
    /// heard of what shares a core by time, or must not be stopped, or was pressed on by none of them. The
    /// workload is at rest in the end.
    pub(super) fn hear(
        &mut self,
        subject: &mut dyn Subject,
        options: &ProfileOptions,
        topology: &Topology,
        watch: &mut Watch,
        stop: &Stop,
    ) -> Result<(), ProfileError> {
        let topology = &options.pressure.machine(topology);
        let pressed: Vec<Resource> =
            SHARED_BY_CPUS.into_iter().filter(|r| self.curves.contains_key(r)).collect();
        if pressed.is_empty() || options.seats.same_core || !subject.can_rest() {
            return Ok(());
        }
        subject.rest()?;
        if options.yardsticks {
            let mut witnesses = called(&options.seats.workload, topology, stop)?;
            for resource in pressed {
                let bubble = ready(&kernel(options, resource), topology, stop)?;
                let heard = beside_kernel(&bubble, &mut witnesses, watch, stop)?;
                self.bubbles.insert(resource, heard);
            }
        }
        let mut witnesses = called(&options.seats.pressure, topology, stop)?;
        let effort = options.effort.unwrap_or(Effort::FULL);
        for (witness, victim) in &mut witnesses {
            let mut measure = || beside_workload(subject, victim, effort, stop);
            let ratios = until_apart(watch, effort.pairs, &mut measure)?;
            self.witnesses.extend(estimate(&ratios).map(|kept: Estimate| (*witness, kept)));
        }
        Ok(())
    }
}

fn beside_kernel(
    pressure: &Running,
    witnesses: &mut Called,
    watch: &mut Watch,
    stop: &Stop,
) -> Result<BTreeMap<Witness, Vec<CurvePoint>>, ProfileError> {
    let mut heard = BTreeMap::new();
    for (witness, victim) in witnesses {
        let mut measure = || {
            let subject: &mut dyn Subject = victim;
            // Levels are not searched, so there is nothing to keep.
            let (effort, threshold) = (EFFORT, 1.0);
            let mut trial = Trial::new(subject, pressure, effort, threshold, stop);
            let levels = trial.levels(LEVELS);
            victim.rest()?;
            levels
        };
        let windows = LEVELS.len() * EFFORT.pairs;
        let levels: Vec<Level> = until_apart(watch, windows, &mut measure)?;
        heard.insert(*witness, points(&levels));
    }
    Ok(heard)
}

/// The witness's rate beside the workload over its rate beside nothing, by turns; both at rest in the
/// end.
fn beside_workload(
    subject: &mut dyn Subject,
    victim: &mut Victim,
    effort: Effort,
    stop: &Stop,
) -> Result<Vec<f64>, ProfileError> {
    let alone = |victim: &mut Victim| -> Result<f64, ProfileError> {
        pause(effort.settle, stop)?;
        Ok(victim.speed(effort.window)?.of_cpu())
    };
    subject.rest()?;
    victim.wake()?;
    pause(effort.settle * WARM_UP, stop)?;
    let (mut before, mut ratios) = (alone(victim)?, Vec::new());
    for _ in 0..effort.pairs {
        subject.wake()?;
        pause(effort.settle, stop)?;
        let since = victim.count();
        subject.speed(effort.window)?;
        let beside = victim.count().rate_since(since);
        subject.rest()?;
        let after = alone(victim)?;
        ratios.extend(beside.map(|beside| beside / f64::midpoint(before, after)));
        before = after;
    }
    victim.rest()?;
    Ok(ratios)
}
