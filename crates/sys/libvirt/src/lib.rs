//! A client of libvirt: virtual machines that run, their CPUs and their limits.
//!
//! * [`Connection`] speaks libvirt's own protocol over its Unix socket: no C library, so an agent
//!   that is linked statically has it too, and starts where no libvirt is. Every call has a limit
//!   in time, every answer one in size.
//! * [`Connection::running`], [`Connection::by_name`]: machines, as [`Domain`]s.
//! * [`Connection::scheduler`], [`Connection::vcpu_pins`]: what libvirt keeps of a machine's CPU
//!   time and of where its CPUs may run; both can be set while it runs.
//! * [`process_of`] and [`threads`] find a machine's process and tell its threads apart.
//!
//! libvirt calls a virtual machine a *domain*. Sources:
//! [the protocol](https://libvirt.org/kbase/internals/rpc.html), and in libvirt's own tree
//! `src/rpc/virnetprotocol.x` (frames, errors) and `src/remote/remote_protocol.x` (procedures,
//! their numbers and their arguments). libvirt calls that protocol internal, but has only ever
//! added to it: clients of 0.10 talk to daemons of today.
//!
//! Invariant: what is set here holds for the running machine alone (`VIR_DOMAIN_AFFECT_LIVE`); its
//! definition, from which it is started again, is never touched.

mod calls;
mod connection;
mod domain;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod process;
mod wire;
mod xdr;

pub use calls::{EVERY_CPU_BYTES, Version};
pub use connection::{Access, Connection, SYSTEM, sockets};
pub use domain::{Domain, Info, Parameter, State, Uuid, Value, Vcpu};
pub use error::LibvirtError;
pub use process::{Role, Thread, process_of, threads};
pub use xdr::Malformed;
