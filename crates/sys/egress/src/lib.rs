//! Egress of a link: who may send how much (T-19, T-20, T-21, H-2).
//!
//! [`Shaper`] puts an HTB tree on one link: services borrow first, each batch tenant has a ceiling
//! that can be changed at any time. [`LinkSnapshot`] holds what was there before, and [`restore`]
//! brings it back, also from a later process. [`route`] is the conversation with the kernel
//! (NETLINK_ROUTE), [`Netns`] works inside other network namespaces, [`lab`] builds a slow link to
//! try things on.
//!
//! # Classifier
//!
//! Packets find their class by `skb->priority`, which holds the class id ([`class_of`]):
//!
//! * an eBPF program on a batch group's cgroup2 directory sets it (`quell-ebpf`); unmarked packets
//!   belong to the services' class, so nobody is throttled by accident when the program is gone;
//! * a process of root sets it on its own socket with `SO_PRIORITY`, as the tests here do;
//! * without eBPF, `nft add rule … socket cgroupv2 level N "path" meta priority set 5155:100`, or
//!   `iptables -m cgroup --path … -j CLASSIFY --set-class 5155:100` do the same. Quell does not
//!   write such rules.
//!
//! The priority is lost when a packet leaves its namespace through a veth: a pod's own link must be
//! shaped inside its namespace (see [`ShaperSpec::netns`]).
//!
//! Only egress is shaped; what comes in cannot be held back here (T-21).

mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod lab;
mod netns;
mod probe;
pub mod route;
mod shaper;
mod sys;
mod tuning;
mod wire;

pub use error::{EgressError, Result};
pub use netns::Netns;
pub use probe::probe;
pub use shaper::{
    LinkSnapshot, Restored, RootSnapshot, Shaper, ShaperReading, ShaperSpec, Takeover, class_of,
    flush_routes, restore, service_class,
};
pub use tuning::Tuning;
