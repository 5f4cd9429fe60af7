//! From samples to actions: observe, step the due policies, arbitrate, compare with how the knobs
//! really stand, order the writes.
//!
//! The plan is total for the knobs that Quell owns: what stands wanted is compared with each
//! sample's read-back, so a lost action is repaired by the next step, and a change made by others
//! is seen ([`ForeignChange`]).
//!
//! Invariant: one writer per knob; a lower policy may tighten what a higher one set, never relax
//! it. Invariant: the engine never reads a clock; the time is the sample's.

mod arbiter;
mod due;
mod engine;
mod explain;
mod identities;
mod journal;
mod order;
mod repair;
mod round;
mod side_by_side;
mod tasks;

pub use arbiter::{Arbiter, Standing};
pub use engine::{Decision, Engine, EngineParams};
pub use explain::{Explanation, explain};
pub use journal::{Entry, Judged, Note};
pub use order::order_actions;
pub use repair::ForeignChange;
pub use round::{round_to_range, same_setting};
