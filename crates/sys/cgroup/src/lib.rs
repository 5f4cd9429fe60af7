//! Control groups of Linux: finding them, reading them, setting them, and putting them back.
//!
//! * [`Layout`] says which hierarchies are mounted (cgroup v1, v2 or both), from the mount table.
//! * [`Group`] is one group, found in every hierarchy that has it.
//! * [`GroupReader`] reads its counters, cheaply enough for hundreds of groups each second.
//! * [`GroupKnob`] is one thing to set: [`CpusKnob`], [`BandwidthKnob`], [`WeightKnob`],
//!   [`IdleKnob`], [`FreezerKnob`]. Each says its range, rounds as the kernel does, reads back what
//!   it wrote, and names the raw files that a write touches, so that a journal can save them;
//!   [`restore_raw`] brings them back byte for byte.
//! * [`order_cpuset_writes`] orders writes so that exclusive sets never overlap (T-16).
//! * [`SystemdUnit`] sets what systemd owns through systemd.
//!
//! Everything takes a root directory, `/` on a real machine.
//!
//! Invariant: only groups whose name begins with `quell` are created, emptied or removed.

mod controllers;
mod error;
mod file;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod knob;
mod layout;
mod manage;
mod mounts;
mod order;
mod parse;
mod raw;
mod readers;
mod search;
mod systemd;
mod vm;

pub use error::CgroupError;
pub use file::raise_open_files;
pub use group::{Group, Place};
pub use knob::bandwidth::BandwidthKnob;
pub use knob::cpuset::{CpusKnob, Exclusivity};
pub use knob::freezer::FreezerKnob;
pub use knob::idle::IdleKnob;
pub use knob::weight::{WeightKnob, shares_from_weight, weight_from_shares};
pub use knob::{GroupKnob, knobs_of};
pub use layout::{Hierarchy, Layout, LayoutKind, Version};
pub use manage::{create, home_of, move_process, remove, subtree_files};
pub use order::{NoOrder, order_cpuset_writes};
pub use raw::{RawFile, RestoreReport, restore_raw};
pub use readers::{CpuUsage, GroupReader, GroupReading};
pub use systemd::{Owner, Systemctl, SystemdProperty, SystemdUnit, owner_of};
