//! NETLINK_ROUTE: links, queueing disciplines and classes, in the kernel's own words.

mod class;
mod link;
mod qdisc;
mod record;

pub use class::{ClassInfo, HtbClass};
pub use link::{LinkInfo, SegmentLimits};
pub use qdisc::{QdiscInfo, QdiscKind};
pub use record::{QueueStats, Record, decode};

use crate::error::{EgressError, Result};
use crate::netns::Netns;
use crate::sys;
use crate::wire::{Message, frames};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
/// The kernel builds dump datagrams of at most 32 KiB.
const BUFFER: usize = 64 * 1024;
/// A dump during which the list changed is begun anew this often.
const DUMP_ATTEMPTS: usize = 5;

/// Where in the tree of a link something hangs: the kernel's `major:minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(pub u32);

impl Handle {
    /// The parent of a root qdisc.
    pub const ROOT: Handle = Handle(u32::MAX);
    /// The handle of what the kernel made by itself.
    pub const NONE: Handle = Handle(0);

    /// `major:minor`.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self((major as u32) << 16 | minor as u32)
    }

    /// The part before the colon: the qdisc.
    #[must_use]
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The part after the colon: the class.
    #[must_use]
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.minor()) {
            (Handle::ROOT, _) => f.write_str("root"),
            (_, 0) => write!(f, "{:x}:", self.major()),
            (_, minor) => write!(f, "{:x}:{minor:x}", self.major()),
        }
    }
}

/// How [`Route`] treats what is or is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Make it; an error if it exists.
    Create,
    /// Change it; an error (`ENOENT`) if it does not exist.
    Change,
    /// Make it, in place of what is there.
    Replace,
}

impl Mode {
    fn flags(self) -> u16 {
        match self {
            Mode::Create => NLM_F_CREATE | NLM_F_EXCL,
            Mode::Change => 0,
            Mode::Replace => NLM_F_CREATE | NLM_F_REPLACE,
        }
    }
}

/// A conversation with the kernel about the links of one network namespace. A request takes 10 to
/// 50 µs and is either carried out when the call returns, or refused with the kernel's reason.
#[derive(Debug)]
pub struct Route {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Route {
    /// Opens it in a namespace; where the caller goes later does not matter.
    ///
    /// # Errors
    /// If the namespace cannot be entered or the kernel gives no socket.
    pub fn open(namespace: &Netns) -> Result<Self> {
        let socket = namespace
            .run(sys::netlink_socket)?
            .map_err(EgressError::system("open a NETLINK_ROUTE socket"))?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; BUFFER] })
    }

    /// The nominal speed of a link in Mbit/s as its driver tells it; none if it does not.
    #[must_use]
    pub fn speed_mbit(&self, link: &str) -> Option<u32> {
        sys::link_speed_mbit(&self.socket, link)
    }

    /// Sends a request and waits until it is carried out.
    fn request(&mut self, message: Message, doing: impl Fn() -> String) -> Result<()> {
        self.send(message, &doing)?;
        loop {
            let length = self.receive(&doing)?;
            for frame in frames(&self.buffer[..length]).filter(|f| f.sequence == self.sequence) {
                match record::of_frame(&frame) {
                    Record::Acknowledged => return Ok(()),
                    Record::Refused { errno, text } => return Err(refusal(doing(), errno, text)),
                    _ => {}
                }
            }
        }
    }

    /// Asks for a list, anew if it changed while it was read.
    fn dump(&mut self, message: &Message, doing: impl Fn() -> String) -> Result<Vec<Record>> {
        for _ in 0..DUMP_ATTEMPTS {
            if let Some(records) = self.dump_once(message.clone(), &doing)? {
                return Ok(records);
            }
        }
        let why = format!("the list changed during each of {DUMP_ATTEMPTS} readings");
        Err(EgressError::Protocol { doing: doing(), why })
    }

    fn dump_once(
        &mut self,
        message: Message,
        doing: &dyn Fn() -> String,
    ) -> Result<Option<Vec<Record>>> {
        self.send(message, doing)?;
        let (mut records, mut consistent) = (Vec::new(), true);
        loop {
            let length = self.receive(doing)?;
            for frame in frames(&self.buffer[..length]).filter(|f| f.sequence == self.sequence) {
                consistent &= frame.flags & NLM_F_DUMP_INTR == 0;
                match record::of_frame(&frame) {
                    Record::Done | Record::Acknowledged => {
                        return Ok(consistent.then_some(records));
                    }
                    Record::Refused { errno, text } => return Err(refusal(doing(), errno, text)),
                    record => records.push(record),
                }
            }
        }
    }

    fn send(&mut self, message: Message, doing: &dyn Fn() -> String) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = message.finish(self.sequence);
        sys::send(&self.socket, &bytes)
            .map_err(|source| EgressError::System { doing: doing(), source })
    }

    fn receive(&mut self, doing: &dyn Fn() -> String) -> Result<usize> {
        sys::receive(&self.socket, &mut self.buffer)
            .map_err(|source| EgressError::System { doing: doing(), source })
    }
}

fn refusal(doing: String, errno: i32, text: String) -> EgressError {
    EgressError::Kernel { doing, source: io::Error::from_raw_os_error(errno), text }
}

/// `struct tcmsg`, the head of all traffic control messages.
fn tc_head(ifindex: u32, handle: Handle, parent: Handle) -> [u8; 20] {
    let mut head = [0; 20];
    for (at, value) in [(4, ifindex), (8, handle.0), (12, parent.0)] {
        head[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    head
}

/// `struct tc_ratespec`. With the link layer given, the kernel needs no rate tables.
fn rate_spec(bytes_per_second: u64) -> [u8; 12] {
    const LINKLAYER_ETHERNET: u8 = 1;
    let mut spec = [0; 12];
    spec[1] = LINKLAYER_ETHERNET;
    spec[4..6].copy_from_slice(&(-1i16).to_ne_bytes());
    let low = u32::try_from(bytes_per_second).unwrap_or(u32::MAX);
    spec[8..12].copy_from_slice(&low.to_ne_bytes());
    spec
}

/// The time that `bytes` take at a rate, in the scheduler's ticks of 64 ns, as buffers are told.
fn ticks(bytes: u32, bytes_per_second: u64) -> u32 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second.max(1));
    u32::try_from(ns >> 6).unwrap_or(u32::MAX)
}
