//! A slow link to try things on: three network namespaces in a row, nothing of the machine's own
//! network in any of them.
//!
//! ```text
//!   near (the server)            middle (the wire)             far (its clients)
//!   quell0 10.213.0.1 ===veth=== quellnear -[bridge]- quellfar ===veth=== quell0 10.213.0.2
//!                                TBF on quellfar: near -> far; on quellnear: far -> near
//! ```
//!
//! The namespaces have no names: the kernel removes them, and every link in them, as soon as the
//! [`Lab`] is dropped and the processes inside have ended, even if the holder is killed.

mod traffic;

pub use traffic::{Bulk, Echo, EchoLoad, Sink};

use crate::error::{EgressError, Result};
use crate::netns::Netns;
use crate::route::{Handle, Mode, QdiscKind, QueueStats, Route};
use quell_types::BytesPerSecond;
use std::net::Ipv4Addr;

/// The shaped end's link name, in the near and in the far namespace.
pub const LINK: &str = "quell0";
/// The near end's address.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 1);
/// The far end's address.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 2);

const BRIDGE: &str = "quellbr";
const NEAR_PORT: &str = "quellnear";
const FAR_PORT: &str = "quellfar";
const PREFIX: u8 = 30;

/// What the wire is like, in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WireSpec {
    /// What it carries.
    pub rate: BytesPerSecond,
    /// Bytes that pass at once: a real wire has one packet's worth.
    ///
    /// The wire is a token bucket that a timer empties. Whatever a late timer leaves beyond this
    /// is capacity lost, which no real wire loses.
    pub burst_bytes: u32,
    /// Bytes that wait in front of it before packets are dropped.
    pub queue_bytes: u32,
    /// Largest network packet in bytes.
    pub mtu: u32,
}

impl WireSpec {
    /// The 100 Mbit/s link of T-E3: a queue of 15 ms, short for such a link, and a burst of twenty
    /// packets (2.4 ms). With two packets virtual CPUs that the host wakes late lose a tenth of
    /// the capacity.
    #[must_use]
    pub fn fast_ethernet() -> Self {
        Self::of_megabits(100)
    }

    /// A link like that of any other rate: its queue and its burst last as long.
    #[must_use]
    pub fn of_megabits(rate: u32) -> Self {
        Self {
            rate: BytesPerSecond::from_bits(1e6 * f64::from(rate)),
            burst_bytes: (20 * 1514_u32).saturating_mul(rate.div_ceil(100)),
            queue_bytes: 1875_u32.saturating_mul(rate).max(20 * 1514),
            mtu: 1500,
        }
    }
}

/// The three namespaces. All goes away when it is dropped.
#[derive(Debug)]
pub struct Lab {
    near: Netns,
    middle: Netns,
    far: Netns,
}

impl Lab {
    /// Builds it.
    ///
    /// # Errors
    /// If the kernel refuses (no root; no veth, bridge or TBF in the kernel).
    pub fn build(wire: &WireSpec) -> Result<Self> {
        let lab = Self { near: Netns::create()?, middle: Netns::create()?, far: Netns::create()? };
        let mut middle = Route::open(&lab.middle)?;
        middle.add_bridge(BRIDGE)?;
        let bridge = index_of(&mut middle, BRIDGE)?;
        middle.set_up(bridge)?;
        for (port, end, address) in [(NEAR_PORT, &lab.near, NEAR), (FAR_PORT, &lab.far, FAR)] {
            middle.add_veth(port, LINK, end, wire.mtu)?;
            let index = index_of(&mut middle, port)?;
            middle.set_master(index, bridge)?;
            set_wire(&mut middle, index, wire)?;
            middle.set_up(index)?;
            set_end(end, address)?;
        }
        Ok(lab)
    }

    /// Where the server is, whose link [`LINK`] is to be shaped.
    #[must_use]
    pub fn near(&self) -> &Netns {
        &self.near
    }

    /// The wire between them.
    #[must_use]
    pub fn middle(&self) -> &Netns {
        &self.middle
    }

    /// Where the clients are.
    #[must_use]
    pub fn far(&self) -> &Netns {
        &self.far
    }

    /// Packets that the wire dropped on their way to the far end.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn wire_drops(&self) -> Result<u64> {
        Ok(u64::from(self.wire_stats()?.drops))
    }

    /// Bytes that left the wire at the far end, with their Ethernet headers.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn wire_bytes(&self) -> Result<u64> {
        Ok(self.wire_stats()?.bytes)
    }

    fn wire_stats(&self) -> Result<QueueStats> {
        let mut middle = Route::open(&self.middle)?;
        let index = index_of(&mut middle, FAR_PORT)?;
        let stats = middle.root_qdisc(index)?.and_then(|root| root.stats);
        stats.ok_or_else(|| EgressError::Protocol {
            doing: "read the wire's counters".to_owned(),
            why: "the kernel sent none".to_owned(),
        })
    }
}

fn index_of(route: &mut Route, name: &str) -> Result<u32> {
    let missing = || EgressError::NoLink { link: name.to_owned(), namespace: "the lab".to_owned() };
    Ok(route.link(name)?.ok_or_else(missing)?.index)
}

fn set_wire(route: &mut Route, index: u32, wire: &WireSpec) -> Result<()> {
    let kind = QdiscKind::Tbf {
        rate: crate::tuning::whole_rate("the wire's rate", wire.rate)?,
        burst: wire.burst_bytes,
        limit: wire.queue_bytes,
    };
    route.set_qdisc(index, Handle::new(1, 0), Handle::ROOT, &kind, Mode::Create)
}

fn set_end(end: &Netns, address: Ipv4Addr) -> Result<()> {
    let mut route = Route::open(end)?;
    for name in ["lo", LINK] {
        let index = index_of(&mut route, name)?;
        if name == LINK {
            route.add_address(index, address, PREFIX)?;
        }
        route.set_up(index)?;
    }
    Ok(())
}
