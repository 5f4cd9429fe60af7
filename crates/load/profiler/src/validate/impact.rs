//! Impact: how applications fare as pressure grows (B-E2). What was measured while the host ran both CPUs on one core,
//! or on cores that share no cache, is measured again, as far as there is patience.

use super::{Impact, ImpactPoint, ValidateOptions, Validation};
use crate::canary::Watch;
use crate::desk::ready;
use crate::stats::estimate;
use crate::trial::{Effort, Trial};
use crate::victim::{Habit, Victim};
use crate::{ProfileError, Subject};
use quell_pressure::{Resource, Stop};
use quell_types::Topology;
use std::time::Duration;

/// Pressed on what.
const RESOURCES: [Resource; 4] = [
    Resource::LlcCapacity,
    Resource::LlcBandwidth,
    Resource::MemoryBandwidth,
    Resource::NetworkBandwidth,
];
/// The applications of this crate: chases through a small and a large cache's worth, a stream.
const OWN: [(&str, Habit); 4] = [
    ("chase 4 MiB", Habit::Chase(4 << 20)),
    ("chase 16 MiB", Habit::Chase(16 << 20)),
    ("chase 64 MiB", Habit::Chase(64 << 20)),
    ("stream 256 MiB", Habit::Stream(256 << 20)),
];
/// Windows for tails are long: no more pairs of them than this.
const MOST_OF_TAILS: usize = 3;
/// At these intensities.
const LEVELS: &[f64] = &[20.0, 40.0, 60.0, 80.0, 100.0];

pub(super) fn measure(
    options: &ValidateOptions,
    applications: &mut [Box<dyn Subject>],
    topology: &Topology,
    stop: &Stop,
    found: &mut Validation,
    tell: &mut dyn FnMut(&str),
) -> Result<(), ProfileError> {
    for (name, habit) in OWN {
        let mut victim = Victim::start(name, habit, &options.seats.workload.first(1), stop)?;
        one(options, &mut victim, topology, stop, found, tell)?;
    }
    for application in applications {
        one(options, application.as_mut(), topology, stop, found, tell)?;
    }
    Ok(())
}

fn one(
    options: &ValidateOptions,
    subject: &mut dyn Subject,
    topology: &Topology,
    stop: &Stop,
    found: &mut Validation,
    tell: &mut dyn FnMut(&str),
) -> Result<(), ProfileError> {
    for resource in RESOURCES {
        if !options.resources(topology).contains(&resource) {
            continue;
        }
        let pressure = ready(&options.options(resource, &options.seats.pressure), topology, stop)?;
        let effort = Effort {
            window: options.window.max(subject.least_window()),
            settle: Duration::from_millis(10),
            grid: LEVELS,
            pairs: if subject.least_window().is_zero() {
                options.rounds
            } else {
                options.rounds.min(MOST_OF_TAILS)
            },
            listens: 0,
            resolution: 100.0,
            budget: Duration::from_secs(60),
        };
        let mut watch = match subject.can_rest() {
            true => Watch::over(&options.seats, topology),
            false => Watch::off(),
        };
        let mut trial = Trial::new(subject, &pressure, effort, 0.95, stop);
        let levels = trial.levels_watched(LEVELS, options.patience, &mut watch)?;
        let point = |level: &crate::Level| {
            let speed_frac = estimate(&level.ratios)?;
            Some(ImpactPoint { intensity_percent: level.percent, speed_frac })
        };
        let points: Vec<ImpactPoint> = levels.iter().filter_map(point).collect();
        let last = points.last().map_or(f64::NAN, |p| p.speed_frac.value);
        let application = subject.name().to_owned();
        tell(&format!("{application} beside {resource} at 100: {last:.3} of its speed"));
        let host = watch.is_on().then(|| watch.seen());
        found.impact.push(Impact { application, resource, points, host });
    }
    subject.rest()
}
