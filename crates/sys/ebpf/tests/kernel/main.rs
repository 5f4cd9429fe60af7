//! The probes on the running kernel: real servers, real packets, real cgroups. Needs root,
//! cgroup2, redis-server, redis-benchmark, ip and tc.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod ambiguous;
mod begun;
mod common;
mod company;
mod contention;
mod gauge;
mod groups;
mod lifetime;
mod meter;
mod namespaces;
mod objects;
