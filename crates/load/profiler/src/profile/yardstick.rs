//! The kernel beside itself: how much of its own work a reporter loses at each intensity of another
//! kernel like it. A workload that costs the reporter as much counts as a bubble of that intensity.

use super::{CurvePoint, LONGEST, ProfileOptions, points};
use crate::canary::Watch;
use crate::desk::{pause, percent, ready};
use crate::trial::{Effort, Mark, Trial};
use crate::{Metric, ProfileError, Speed, Subject};
use quell_pressure::{Resource, Running, Stop};
use quell_types::Topology;
use std::time::Duration;

/// Two levels are enough for a line that is nearly straight; witnesses stand beside kernels at these, too.
pub(super) const LEVELS: &[f64] = &[50.0, 100.0];
/// As long and as often as one of ours is looked at beside a kernel.
pub(super) const EFFORT: Effort = Effort {
    window: Duration::from_millis(30),
    settle: Duration::from_millis(8),
    grid: LEVELS,
    pairs: 5,
    listens: 0,
    resolution: 100.0,
    budget: Duration::from_secs(3),
};

/// A kernel as a workload.
struct Reporter {
    running: Running,
    stop: Stop,
}

/// The reporter's own curve; empty where the kernel cannot sit beside itself, or where it does not
/// measure the CPUs' common resource but a queue of the system's.
///
/// # Errors
/// Somebody asked to stop.
pub fn yardstick(
    resource: Resource,
    options: &ProfileOptions,
    topology: &Topology,
    stop: &Stop,
) -> Result<Vec<CurvePoint>, ProfileError> {
    watched(resource, options, topology, &mut Watch::off(), stop)
}

/// What was disturbed by the host is measured so often.
const TRIES: u32 = 3;

/// The same, with an eye on the host.
pub(super) fn watched(
    resource: Resource,
    options: &ProfileOptions,
    topology: &Topology,
    watch: &mut Watch,
    stop: &Stop,
) -> Result<Vec<CurvePoint>, ProfileError> {
    let queues = [
        Resource::NetworkBandwidth,
        Resource::StorageBandwidth,
        Resource::StorageCapacity,
        Resource::MemoryCapacity,
        Resource::Interconnect,
    ];
    if queues.contains(&resource) || options.seats.same_core {
        return Ok(Vec::new());
    }
    let mut pressure = options.pressure.clone();
    (pressure.resource, pressure.seconds) = (resource, LONGEST.as_secs_f64());
    pressure.cpus = options.seats.pressure.clone();
    let bubble = ready(&pressure, topology, stop)?;
    pressure.cpus = options.seats.workload.first(options.seats.pressure.len());
    let running = ready(&pressure, topology, stop)?;
    let mut subject = Reporter { running, stop: stop.clone() };
    let mut measure = || {
        subject.running.turn_to(percent(100.0));
        let mut trial = Trial::new(&mut subject, &bubble, EFFORT, 0.95, stop);
        let levels = trial.levels(LEVELS);
        subject.running.mute();
        levels
    };
    Ok(points(&until_apart(watch, LEVELS.len() * EFFORT.pairs, &mut measure)?))
}

/// Measures so many windows, and anew, [`TRIES`] times at most, where a look afterwards says that the host
/// disturbed them. What measures leaves all at rest.
pub(super) fn until_apart<T>(
    watch: &mut Watch,
    windows: usize,
    measure: &mut dyn FnMut() -> Result<T, ProfileError>,
) -> Result<T, ProfileError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let found = measure()?;
        let disturbed = watch.is_on() && watch.since().disturbs();
        let windows = if disturbed { windows } else { 0 };
        let last = !disturbed || tries == TRIES;
        watch.note(windows, if last { windows } else { 0 });
        if last {
            return Ok(found);
        }
    }
}

impl Subject for Reporter {
    fn name(&self) -> &str {
        "reporter"
    }

    fn metric(&self) -> Metric {
        Metric::OwnCount
    }

    fn speed(&mut self, length: Duration) -> Result<Speed, ProfileError> {
        let mark = Mark::of(&self.running);
        pause(length, &self.stop)?;
        Ok(Speed { by_wall: mark.rate(&self.running), by_cpu: None })
    }

    fn can_rest(&self) -> bool {
        false
    }

    fn rest(&mut self) -> Result<(), ProfileError> {
        Ok(())
    }

    fn wake(&mut self) -> Result<(), ProfileError> {
        Ok(())
    }
}
