//! Control laws as pure step functions.
//!
//! A policy sees an [`Observation`](quell_types::Observation) and answers with
//! [`Proposal`](quell_types::Proposal)s, each with the rule that fired and its inputs. It never
//! sees the platform, a clock or randomness. A proposal stands until the same policy replaces or
//! releases it, so a policy that has nothing to change answers nothing.
//!
//! Each law is a module with an essay on top: problem, idea, units, pseudo-code, what it does
//! without a knob or reading, and a table of its rules.

mod alita;
mod culprit;
mod fixed;
#[cfg(test)]
mod golden;
mod heracles;
mod law;
mod ledger;
mod none;
mod os_only;
mod parties;
mod parts;
#[cfg(test)]
mod properties;
mod quell;
mod refresh;
#[cfg(test)]
mod testing;
mod thesis;
mod who;

pub use alita::{
    Bias, BusActuator, BusLockParams, LlcBias, LlcBiasParams, PowerActuator, PowerParams,
    PowerThrottle, PowerThrottleParams, SocketPower, SocketReading, Sparsifier, SparsifyParams,
    TenantShare,
};
pub use culprit::CulpritParams;
pub use fixed::StaticParams;
pub use heracles::{HeraclesParams, ServiceBandwidth};
pub use law::{BuildError, Law, LawParams, Needs, ParseLawError, Policy, build, build_all};
pub use os_only::OsOnlyParams;
pub use parties::PartiesParams;
pub use parts::OnDisable;
pub use quell::{Quell, QuellParams};
pub use refresh::{Refresh, RefreshParams, Tolerance};
pub use thesis::{DramLimiter, Profile, ThesisParams};
pub use who::{Who, WhoParams};
