//! Faults, by seed, against the whole agent on the simulated server (issue: X-8, section X).
//!
//! * [`run`] plays episode after episode, aiming at kinds of fault and write sites that did not
//!   meet yet, and reports ([`FaultReport`]).
//! * [`replay`] plays one episode again, exactly, by its seed; [`shrink`] finds the few of its
//!   faults that break the same invariant.
//! * [`FaultKind`] × [`Site`] make the cells of [`Coverage`].
//!
//! An episode is a random small server with services, batch, load and a law, guarded by the very
//! [`quell_agent::Session`] that `quell guard` runs: engine, knob journal, decision journal, task
//! queue and restore. After every step the invariants of [`mod@audit`] are checked.
//!
//! It lives in `app` since it puts the agent and the simulator together, which nothing below may.

mod arena;
pub mod audit;
mod coverage;
mod dice;
mod director;
mod drawing;
mod episode;
mod foreign;
mod kind;
mod laws;
mod mishaps;
mod plan;
mod played;
mod report;
mod run;
mod scenes;
mod sink;
mod site;
mod stores;

pub use coverage::{Cell, Coverage};
pub use kind::FaultKind;
pub use played::{Broken, Played};
pub use report::{BrokenSeed, CellCount, FaultReport};
pub use run::{Limits, Progress, Run, replay, run, shrink};
pub use site::{KnobKind, Site};
