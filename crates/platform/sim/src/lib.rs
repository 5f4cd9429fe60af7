//! A simulated server behind the platform seam.
//!
//! * [`Scene`]: machine, services, batch, links, sensors, seed.
//! * [`SimServer`]: the server itself, a [`quell_platform::Platform`]. Time passes only by sampling.
//! * [`UndoFault`] and the mishaps of [`SimServer`]: CPUs go, workloads die, fork, move, come back.
//! * [`Machine`], [`preset`]: machines of the published experiments.
//! * [`Program`], [`program`]: what runs, in phases.
//!
//! It knows no policy, draws all randomness from one seed, and computes the same bits everywhere:
//! no clock, no hash map, no thread; transcendental functions come from `libm`.
//!
//! What is modelled how, and which numbers are calibrated: `docs/experiments/simulator.md`.

pub mod calibrated;
mod load;
mod machine;
mod mask;
mod model;
mod random;
mod scene;
mod server;
mod workload;
mod world;

pub use load::Load;
pub use machine::{
    Allocation, Clock, Distances, IdleState, LastLevelCache, Late, Machine, MachineError, Memory,
    PRESETS, Power, Steal, Throttle, preset,
};
pub use mask::MAX_CPUS;
pub use scene::{Actuation, Flow, Scene, SceneError, Sensing, SimBatch, SimService};
pub use server::{SimServer, Truth, UndoFault};
pub use workload::{MissCurve, PROGRAMS, Phase, Program, ProgramError, program};
