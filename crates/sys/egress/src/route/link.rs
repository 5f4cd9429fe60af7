//! Links: what there is, and the few things that Quell sets.

use super::{Mode, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, Record, Route};
use crate::error::{EgressError, Result};
use crate::netns::Netns;
use crate::wire::{Message, attrs, text, u32_at};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use std::os::fd::RawFd;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_QDISC: u16 = 6;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_TSO_MAX_SIZE: u16 = 59;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFF_UP: u32 = 1;
/// What the kernel gives a new link, unless its driver allows less.
const DEFAULT_GSO: u32 = 65_536;

/// The largest packets that TCP may hand to a link in one piece, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentLimits {
    /// For all protocols (`gso_max_size`).
    pub gso_bytes: u32,
    /// For IPv4 (`gso_ipv4_max_size`, Linux 6.3 and later); none if the kernel has no such limit.
    pub gso_ipv4_bytes: Option<u32>,
}

/// A network link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkInfo {
    /// The kernel's number, never used twice in a namespace while it lives.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is set up.
    pub up: bool,
    /// The largest network packet in bytes.
    pub mtu: u32,
    /// `veth`, `bridge`, `vlan`, …; none for most hardware.
    pub kind: Option<String>,
    /// The root qdisc's kind.
    pub qdisc: Option<String>,
    /// The largest packet that TCP may hand over, in bytes.
    pub gso_bytes: Option<u32>,
    /// The same for IPv4.
    pub gso_ipv4_bytes: Option<u32>,
    /// What the driver can segment itself, in bytes; the upper bound of the two above.
    pub tso_bytes: Option<u32>,
}

impl LinkInfo {
    /// Reads the body of an `RTM_NEWLINK`.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let index = u32_at(body, 4)?;
        let up = u32_at(body, 8)? & IFF_UP != 0;
        let mut link = Self { index, up, ..Self::default() };
        for (kind, data) in attrs(body.get(16..)?) {
            match kind {
                IFLA_IFNAME => link.name = text(data),
                IFLA_MTU => link.mtu = u32_at(data, 0)?,
                IFLA_QDISC => link.qdisc = Some(text(data)),
                IFLA_LINKINFO => link.kind = info_kind(data),
                IFLA_GSO_MAX_SIZE => link.gso_bytes = u32_at(data, 0),
                IFLA_GSO_IPV4_MAX_SIZE => link.gso_ipv4_bytes = u32_at(data, 0),
                IFLA_TSO_MAX_SIZE => link.tso_bytes = u32_at(data, 0),
                _ => {}
            }
        }
        (!link.name.is_empty()).then_some(link)
    }

    /// The present limits of packet size; none if the kernel does not tell.
    #[must_use]
    pub fn segment_limits(&self) -> Option<SegmentLimits> {
        let gso_bytes = self.gso_bytes?;
        Some(SegmentLimits { gso_bytes, gso_ipv4_bytes: self.gso_ipv4_bytes })
    }

    /// The limits that the kernel gave the link when it was made.
    #[must_use]
    pub fn default_segment_limits(&self) -> Option<SegmentLimits> {
        let gso_bytes = self.tso_bytes.unwrap_or(DEFAULT_GSO).min(DEFAULT_GSO);
        self.segment_limits().map(|now| SegmentLimits {
            gso_bytes,
            gso_ipv4_bytes: now.gso_ipv4_bytes.map(|_| gso_bytes),
        })
    }
}

fn info_kind(info: &[u8]) -> Option<String> {
    attrs(info).find(|(kind, _)| *kind == IFLA_INFO_KIND).map(|(_, data)| text(data))
}

/// `struct ifinfomsg`.
fn link_head(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut head = [0; 16];
    for (at, value) in [(4, index), (8, flags), (12, change)] {
        head[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    head
}

fn new_link(flags: u16, head: [u8; 16]) -> Message {
    Message::new(RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK | flags).raw(&head)
}

impl Route {
    /// All links.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn links(&mut self) -> Result<Vec<LinkInfo>> {
        let message =
            Message::new(RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP).raw(&link_head(0, 0, 0));
        let records = self.dump(&message, || "list links".to_owned())?;
        let link = |record| if let Record::Link(link) = record { Some(link) } else { None };
        Ok(records.into_iter().filter_map(link).collect())
    }

    /// The link of this name; none if there is none.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn link(&mut self, name: &str) -> Result<Option<LinkInfo>> {
        Ok(self.links()?.into_iter().find(|link| link.name == name))
    }

    /// Sets how large a packet TCP may hand to a link. Open connections keep their old limit until
    /// their route is looked up anew (see [`crate::flush_routes`]).
    ///
    /// # Errors
    /// `EINVAL` above the driver's limit or below one packet's headers.
    pub fn set_segment_limits(&mut self, index: u32, limits: SegmentLimits) -> Result<()> {
        let mut message =
            new_link(0, link_head(index, 0, 0)).attr_u32(IFLA_GSO_MAX_SIZE, limits.gso_bytes);
        if let Some(bytes) = limits.gso_ipv4_bytes {
            message = message.attr_u32(IFLA_GSO_IPV4_MAX_SIZE, bytes);
        }
        self.request(message, || format!("set gso_max_size of link {index} to {limits:?}"))
    }

    /// Sets a link up.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_up(&mut self, index: u32) -> Result<()> {
        let message = new_link(0, link_head(index, IFF_UP, IFF_UP));
        self.request(message, || format!("set link {index} up"))
    }

    /// Puts a link under a bridge.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_master(&mut self, index: u32, bridge: u32) -> Result<()> {
        let message = new_link(0, link_head(index, 0, 0)).attr_u32(IFLA_MASTER, bridge);
        self.request(message, || format!("put link {index} under bridge {bridge}"))
    }

    /// Removes a link, and with it the other end of a veth pair.
    ///
    /// # Errors
    /// If there is none, or the kernel refuses.
    pub fn delete_link(&mut self, index: u32) -> Result<()> {
        let head = link_head(index, 0, 0);
        let message = Message::new(RTM_DELLINK, NLM_F_REQUEST | NLM_F_ACK).raw(&head);
        self.request(message, || format!("remove link {index}"))
    }

    /// Makes a bridge.
    ///
    /// # Errors
    /// `EEXIST` if the name is taken.
    pub fn add_bridge(&mut self, name: &str) -> Result<()> {
        let message = new_link(Mode::Create.flags(), link_head(0, 0, 0))
            .attr_text(IFLA_IFNAME, name)
            .nest(IFLA_LINKINFO, |m| m.attr_text(IFLA_INFO_KIND, "bridge"));
        self.request(message, || format!("make bridge {name}"))
    }

    /// Makes a veth pair: `name` here, `peer` in another namespace.
    ///
    /// # Errors
    /// `EEXIST` if a name is taken; an error if `namespace` is the caller's own without a handle.
    pub fn add_veth(&mut self, name: &str, peer: &str, namespace: &Netns, mtu: u32) -> Result<()> {
        let doing = || format!("make link {name} with its peer {peer} in {namespace}");
        let fd: RawFd = namespace.raw_fd().ok_or_else(|| EgressError::Protocol {
            doing: doing(),
            why: "the peer's namespace must be given by a path".to_owned(),
        })?;
        let message = new_link(Mode::Create.flags(), link_head(0, 0, 0))
            .attr_text(IFLA_IFNAME, name)
            .attr_u32(IFLA_MTU, mtu)
            .nest(IFLA_LINKINFO, |m| {
                m.attr_text(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, |m| {
                    m.nest(VETH_INFO_PEER, |m| {
                        m.raw(&link_head(0, 0, 0))
                            .attr_text(IFLA_IFNAME, peer)
                            .attr_u32(IFLA_MTU, mtu)
                            .attr(IFLA_NET_NS_FD, &fd.to_ne_bytes())
                    })
                })
            });
        self.request(message, doing)
    }

    /// Gives a link an IPv4 address.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn add_address(&mut self, index: u32, address: Ipv4Addr, prefix: u8) -> Result<()> {
        const AF_INET: u8 = 2;
        let mut head = [AF_INET, prefix, 0, 0, 0, 0, 0, 0];
        head[4..8].copy_from_slice(&index.to_ne_bytes());
        let message =
            Message::new(RTM_NEWADDR, NLM_F_REQUEST | NLM_F_ACK | Mode::Create.flags()).raw(&head);
        let message =
            message.attr(IFA_LOCAL, &address.octets()).attr(IFA_ADDRESS, &address.octets());
        self.request(message, || format!("give link {index} the address {address}/{prefix}"))
    }
}
