//! What presses on the second CPU, on the machine and in the preset.

use super::Ground;
use crate::machine::Sleeper;
use quell_calibrate::Twin;
use quell_pressure::Resource;
use quell_sim::Program;
use std::fmt;

/// Everything ends after so long, whatever becomes of this process.
const BOUND_S: f64 = 1_800.0;

/// Pressure on one resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Neighbour {
    resource: Resource,
    pub(super) percent: f64,
}

impl Neighbour {
    const fn of(resource: Resource, percent: f64) -> Self {
        Self { resource, percent }
    }

    pub(super) const ALL: [Neighbour; 4] = [
        Neighbour::of(Resource::MemoryBandwidth, 50.0),
        Neighbour::of(Resource::MemoryBandwidth, 100.0),
        Neighbour::of(Resource::LlcCapacity, 50.0),
        Neighbour::of(Resource::LlcCapacity, 100.0),
    ];

    /// At full pressure.
    pub(super) const FULL: [Neighbour; 2] = [
        Neighbour::of(Resource::MemoryBandwidth, 100.0),
        Neighbour::of(Resource::LlcCapacity, 100.0),
    ];

    /// The same in the preset.
    pub(super) fn program(self, twin: &Twin) -> Program {
        match self.resource {
            Resource::LlcCapacity => twin.scatter(self.percent / 100.0),
            _ => twin.stream(self.percent / 100.0),
        }
    }
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} %", self.resource, self.percent)
    }
}

/// Both kernels, armed and asleep until they are needed.
pub(super) struct Pressure {
    stream: Sleeper,
    scatter: Sleeper,
}

impl Pressure {
    pub(super) fn wake(&self, neighbour: Neighbour) -> anyhow::Result<()> {
        match neighbour.resource {
            Resource::LlcCapacity => self.scatter.wake(neighbour.percent),
            _ => self.stream.wake(neighbour.percent),
        }
    }

    pub(super) fn sleep(&self) {
        self.stream.sleep();
        self.scatter.sleep();
    }
}

impl Ground<'_> {
    /// Arms both kernels on the second CPU.
    pub(super) fn pressure(&self) -> anyhow::Result<Pressure> {
        let arm = |resource| Sleeper::arm(resource, self.seats.second, &self.topology, BOUND_S);
        Ok(Pressure {
            stream: arm(Resource::MemoryBandwidth)?,
            scatter: arm(Resource::LlcCapacity)?,
        })
    }
}
