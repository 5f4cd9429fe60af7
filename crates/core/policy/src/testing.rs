//! Builders of setups and observations for the tests of control laws.
//!
//! ```ignore
//! let setup = setup(8).service("search", 15.0, 1000.0).batch("hadoop").link("eth0", 1000.0).build();
//! let seen = observe(&setup, 10.0).slack("search", 0.5).load("search", 0.3).done();
//! let mut standing = Standing::default();
//! standing.take(&law.step(&setup, &seen));
//! assert_eq!(standing.cpus("hadoop").to_string(), "0");
//! ```
//!
//! Everything that a test does not name is a gap in the observation. Times count from
//! [`EPOCH_S`], so that a law which takes 0 for a special moment is found out.

mod seen;
mod setup;
mod standing;
mod suspects;

use quell_types::Time;
use std::time::Duration;

pub(crate) use seen::{Seen, observe};
pub(crate) use setup::{SetupBuilder, setup};
pub(crate) use standing::{Standing, journal_lines};
pub(crate) use suspects::{GROUPS, World, machine, machine_of};

/// Seconds that the platform's clock shows at a test's second 0.
pub(crate) const EPOCH_S: f64 = 1000.0;

/// A moment, in seconds of the test.
pub(crate) fn at(second: f64) -> Time {
    Time(0) + Duration::from_secs_f64(EPOCH_S + second)
}
