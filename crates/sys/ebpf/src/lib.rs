//! eBPF sensors of one server: the latency of a service's requests, the run-queue waits of
//! cgroups, behind whom they stood, and the bytes they send, all without touching the services
//! (T-7, T-11, T-14).
//!
//! The programs are written in C (`bpf/`), built reproducibly and checked in as objects, so that
//! using them takes no compiler. [`Probes`] loads them, keeps them attached and reads them;
//! dropping it detaches everything. What a kernel refuses is a [`quell_types::Gap`] with its
//! reason, not an error of the whole.
//!
//! A socket belongs to the cgroup in which it was born, accepted ones to their listener's. So
//! attach the meter where the listener lives, the cgroup2 root if need be, and name a service by
//! where it listens ([`listening_sockets`] finds that out), else by its cgroup2 ids.
//!
//! # What cannot be told apart
//!
//! A connection's requests are told apart by the alternation of payload in and payload out.
//! Where that fails, the answers are kept out of the histogram and counted as *untold*; when they
//! are more than [`AMBIGUOUS_FRAC`] of all, the latency reads [`quell_types::Gap::Ambiguous`]:
//!
//! * several requests in one segment, found by looking into the first request of a connection
//!   and one in 32 after it: redis' protocol, memcached's (text and binary) and line-based text
//!   such as HTTP/1; a binary protocol not named here is taken for one request a segment;
//! * a request sent before the last answer had arrived at the client (its acknowledgement tells);
//! * a second request while the first waits, when it begins like a request of that connection;
//! * HTTP/2, by its preface, if the connection was opened while the meter was attached. Inside
//!   TLS nothing is seen: each flight of the handshake reads as a request.
//!
//! Long polls read as latency; UDP and QUIC are not seen. Until a connection's next look, up to
//! 31 batches can go in as single requests.

mod begun;
mod capability;
mod contention;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gauge;
mod listen;
mod meter;
mod objects;
mod packets;
mod probes;
mod runqueue;
mod services;

pub use capability::capabilities;
pub use contention::{Company, Elsewhere, MAX_VICTIMS, Stood};
pub use error::EbpfError;
pub use gauge::{GAUGE_SLOTS, Gauge, Samples};
pub use listen::{ListeningSocket, listening_sockets};
pub use meter::{AMBIGUOUS_FRAC, MeterCounters};
pub use packets::MAX_CLASSES;
pub use probes::{CgroupIds, Options, Probes, ProgramStats};
pub use services::{Listener, ServiceKey};
