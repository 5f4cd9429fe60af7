//! How fast pressure comes and goes: armed, at work, and still again.

use super::report::KernelTiming;
use super::{ValidateOptions, Validation};
use crate::ProfileError;
use crate::desk::pause;
use crate::stats::median;
use quell_pressure::{Intensity, Plan, PressureError, Resource, Stop, Timing, arm};
use quell_types::Topology;
use std::time::Duration;

/// Long enough that every thread has worked before it is stopped.
const AT_WORK: Duration = Duration::from_millis(25);

pub(super) fn measure(
    options: &ValidateOptions,
    topology: &Topology,
    stop: &Stop,
    found: &mut Validation,
    tell: &mut dyn FnMut(&str),
) -> Result<(), ProfileError> {
    for resource in options.resources(topology) {
        let mut seen = Vec::new();
        for _ in 0..options.rounds {
            match once(resource, options, topology, stop)? {
                Ok(timing) => seen.push(timing),
                Err(why) => {
                    found.absent.entry(resource).or_insert(why.to_string());
                    break;
                }
            }
        }
        if let Some(timing) = KernelTiming::of(resource, &seen) {
            tell(&timing.words());
            found.timing.push(timing);
        }
    }
    Ok(())
}

fn once(
    resource: Resource,
    options: &ValidateOptions,
    topology: &Topology,
    stop: &Stop,
) -> Result<Result<Timing, PressureError>, ProfileError> {
    let mut pressure = options.options(resource, &options.seats.pressure);
    pressure.plan = Plan::Hold(Intensity::FULL);
    let running = match arm(&pressure, topology, stop) {
        Ok(armed) => armed.start(),
        Err(why) => return Ok(Err(why)),
    };
    pause(AT_WORK, stop)?;
    Ok(running.finish().map(|report| report.timing))
}

impl KernelTiming {
    /// The medians of several; none without any.
    fn of(resource: Resource, seen: &[Timing]) -> Option<KernelTiming> {
        let all = |part: fn(&Timing) -> Option<f64>| -> Vec<f64> {
            seen.iter().filter_map(part).collect()
        };
        let (starts, stops) = (all(|t| t.start_ms), all(|t| t.stop_ms));
        let worst = |values: &[f64]| values.iter().copied().reduce(f64::max);
        Some(KernelTiming {
            resource,
            arm_ms: median(&all(|t| Some(t.arm_ms)))?,
            start_ms: median(&starts),
            start_worst_ms: worst(&starts),
            stop_ms: median(&stops),
            stop_worst_ms: worst(&stops),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_worst_of_several() {
        let one = |start: Option<f64>, stop: f64| Timing {
            arm_ms: 2.0,
            start_ms: start,
            stop_ms: Some(stop),
        };
        let seen = [one(Some(1.0), 0.1), one(Some(3.0), 0.2), one(None, 0.9)];
        let found = KernelTiming::of(Resource::Integer, &seen).unwrap();
        assert_eq!(
            (found.arm_ms, found.start_ms, found.start_worst_ms),
            (2.0, Some(2.0), Some(3.0))
        );
        assert_eq!((found.stop_ms, found.stop_worst_ms), (Some(0.2), Some(0.9)));
        assert_eq!(KernelTiming::of(Resource::Integer, &[]), None);
    }
}
