//! On this machine's own kernel, in groups made for the test and removed after it.

#![allow(clippy::unwrap_used)] // Helpers of tests may panic as tests do.

mod bandwidth;
mod common;
mod cpuset;
mod freezer;
mod groups;
mod restore;
mod weight;
