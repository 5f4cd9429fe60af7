//! `quell guard` on this machine: real groups, a real redis, real deaths.
#![allow(clippy::unwrap_used)]

mod common;
mod deaths;
mod libvirt;
mod life;
mod probes;
mod queue;
mod refusals;
mod reporters;
mod restores;
mod unheld;
mod vm;
mod who;
