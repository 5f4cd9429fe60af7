//! The instrument: turns pressure up against a workload and says what it tolerates, what it causes,
//! and what would happen beside another (B-1 to B-7, R-1).
//!
//! | measurement | what it gives | begin reading at |
//! |---|---|---|
//! | [`profile()`] | tolerated and caused, one number a resource, with intervals | `trial.rs` |
//! | [`predict`] | slowdown of two workloads together, from their profiles | `predict/model.rs`, `predict/mixture.rs` |
//! | [`ProfileStore`] | profiles that are kept, by workload and machine | `store.rs` |
//! | [`bandwidth()`] | memory traffic of a service by load, cores and ways | `bandwidth.rs` |
//! | [`tune()`] | what to change first in a program | `tune.rs` |
//! | [`validate()`] | whether the kernels do what they say: linearity, impact, cross-talk | `validate/mod.rs` |
//!
//! Everything that judges numbers is pure and apart from what measures them: [`stats`], [`Curve`],
//! [`Search`].
//!
//! Invariant: a ratio is taken between windows beside each other, never against a figure of an hour
//! ago.
//! Invariant: what was started is ended, also when the caller fails: children are killed when their
//! owner is dropped, pressure ends by its own clock.
//! Invariant: a workload that was running before is never stopped.

mod bandwidth;
mod beside;
mod canary;
mod curve;
mod desk;
mod error;
mod machine;
pub mod predict;
mod profile;
mod search;
pub mod stats;
mod store;
mod subject;
mod trial;
mod tune;
mod validate;
mod victim;

pub use bandwidth::{
    BandwidthModel, BandwidthPoint, BandwidthStep, Rig, bandwidth, bandwidth_steps,
};
pub use canary::{Lines, Placement, Watched, Ways};
pub use curve::{Curve, Level, Posterior};
pub use desk::{Seats, at_desk};
pub use error::ProfileError;
pub use machine::Machine;
pub use profile::{
    Animal, Class, CurvePoint, PROFILE_SCHEMA, Profile, ProfileOptions, QUICK, SHARED_BY_CPUS,
    ToleratedAt, Witness, Workload, profile, scope, yardstick,
};
pub use search::{LEAST, MOST, Search, Verdict, verdict};
pub use stats::Estimate;
pub use store::{Kept, ProfileStore, StoreError};
pub use subject::{
    Counter, Counters, Group, LaunchOptions, Metric, Progress, Repeated, Speed, Steady, Subject,
    launch, looped, words,
};
pub use trial::{Effort, Found};
pub use tune::{Advice, TUNE_SCHEMA, Tuning, tune};
pub use validate::{
    Crosstalk, Impact, ImpactPoint, KernelLinearity, KernelTiming, LevelValue, SourcesProgram,
    Unseen, VALIDATE_SCHEMA, ValidateOptions, Validation, serve_sources, validate,
};
pub use victim::{Chase, Habit, Victim};
