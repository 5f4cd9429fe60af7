//! From raw samples to what policies see.
//!
//! The [`Observer`] turns growing counters into rates and latency windows. It is pure: the same
//! samples give the same observations, on a live server as in a replay.
//!
//! Windows (X-9, issue of the main job): a latency window is the shortest stretch of the recent
//! past that is long enough *and* holds enough requests, so a quiet service gets longer windows,
//! never noisier ones. A workload that was restarted (its identity changed) begins anew.
//!
//! Invariant: no rate is ever computed across a gap in its counter or a change of identity.

pub mod blame;
mod counter;
mod host;
mod inflation;
mod observer;
mod waits;
mod window;

pub use counter::{Counter, CounterByCpu};
pub use inflation::{Inflation, InflationParams, inflation_of};
pub use observer::{Observer, ObserverParams};
pub use window::{RequestDelta, RequestWindow, WindowParams};
