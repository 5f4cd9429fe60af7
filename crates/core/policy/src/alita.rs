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
//! Invariant: who is not a culprit keeps everything.

mod llc_bias;
mod llc_law;
mod power;
mod sparsify;
mod static_ways;

pub use llc_bias::{Bias, LlcBias, LlcBiasParams, SocketReading, TenantShare};
pub(crate) use llc_law::LlcBiasLaw;
pub use power::{PowerThrottle, PowerThrottleParams, SocketPower};
pub use sparsify::{Sparsifier, SparsifyParams};
pub(crate) use static_ways::StaticWays;
