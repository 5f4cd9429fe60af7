//! resctrl: ways of the last-level cache (CAT, CDP), memory bandwidth (MBA) and their monitoring.
//!
//! [`Resctrl::open`] takes a root directory, so that fixture trees work. It hands out [`Group`]s
//! (classes of service), one [`SchemataKnob`] for each group, domain and kind, and
//! [`Monitor`]s. Masks are checked here by the kernel's own rules ([`mask`]), and what the kernel
//! refuses comes back with its own reason.
//!
//! Invariant: only the default group and groups whose names begin with `quell` are ever changed.

mod capability;
mod error;
mod file;
mod group;
mod info;
mod knob;
pub mod mask;
mod mba;
mod monitor;
mod mount;
mod schemata;
mod tree;

pub use capability::capabilities;
pub use error::ResctrlError;
pub use file::RawFile;
pub use group::{Group, PREFIX, is_ours};
pub use info::{AssignMode, BandwidthInfo, CacheInfo, Info, MonitoringInfo, parse_assign_mode};
pub use knob::SchemataKnob;
pub use mba::{AMD_UNLIMITED, MbaRules, MbaUnit};
pub use monitor::{DomainCounters, Monitor, MonitorReading, parse_counter, parse_domain};
pub use mount::{CpuSupport, Mount, mount, mountable, parse_mounts, unmount};
pub use schemata::{Line, ParseSchemataError, Resource, Schemata};
pub use tree::{ClassBudget, Resctrl};
