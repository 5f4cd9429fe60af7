//! Alita's three mechanisms: limit only the culprit (spec section A).
//!
//! * [`Sparsifier`]: bus locks, by the clock of the cores that make them (A.4).
//! * [`LlcBias`]: last-level cache and memory bandwidth, by ways and throttles of the tenants that
//!   take more than their share (A.5).
//! * [`PowerThrottle`]: socket power, by the clock of those who heat it (A.6).
//!
//! Each is a pure step function on typed readings; levels of clocks are counted in parts of time
//! in which the clock runs, so all of them mean that nothing is held back.
//!
//! Each is a law of its own (`bus-lock`, `llc-bias`, `power`), law `alita` is all three, and any of
//! them may run beside another law where no two of them set the same thing against each other: who
//! wants it tighter wins.
//!
//! Invariant: who is not a culprit keeps everything.

mod bus_law;
mod bus_params;
mod llc_bias;
mod llc_law;
mod places;
mod power;
mod power_law;
mod rest;
mod sparsify;
mod static_ways;

pub(crate) use bus_law::BusLockLaw;
pub use bus_params::{BusActuator, BusLockParams};
pub use llc_bias::{Bias, LlcBias, LlcBiasParams, SocketReading, TenantShare};
pub(crate) use llc_law::LlcBiasLaw;
pub use power::{PowerThrottle, PowerThrottleParams, SocketPower};
pub(crate) use power_law::PowerLaw;
pub use power_law::{PowerActuator, PowerParams};
pub use sparsify::{Sparsifier, SparsifyParams};
pub(crate) use static_ways::StaticWays;
