//! By what a service's sockets are known, and how that becomes the programs' maps.

use crate::EbpfError;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// One place where a service listens on TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listener {
    /// The local address; none, `0.0.0.0` and `::` mean any (`0.0.0.0`: any of IPv4).
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// The inode of the network namespace (`/proc/PID/ns/net`); none means any.
    pub netns: Option<u32>,
}

impl Listener {
    /// A port on any address in any network namespace.
    #[must_use]
    pub fn port(port: u16) -> Self {
        Self { address: None, port, netns: None }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port)?,
            Some(address) => write!(f, "{address}:{}", self.port)?,
            None => write!(f, "*:{}", self.port)?,
        }
        self.netns.map_or(Ok(()), |netns| write!(f, " in net:[{netns}]"))
    }
}

/// By what the sockets of a service are known. Listeners come first: a socket whose local port is
/// a listener's is known by that alone, whatever its cgroup. A socket accepted elsewhere is known
/// by the cgroup of its listener if it was opened since the meter was attached. Sockets with
/// which the service itself calls others are never counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceKey {
    /// Where it listens.
    pub listeners: Vec<Listener>,
    /// Ids of its cgroup2 groups (the inode numbers of their directories); groups below count.
    pub cgroup_ids: Vec<u64>,
}

impl ServiceKey {
    /// A service known by ports alone.
    #[must_use]
    pub fn ports(ports: &[u16]) -> Self {
        let listeners = ports.iter().map(|&port| Listener::port(port)).collect();
        Self { listeners, cgroup_ids: Vec::new() }
    }
}

/// `struct listener` of bpf/packets.h: netns, port, four words of the address.
pub(crate) type RawListener = [u32; 6];

/// What the maps shall hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    /// Listener to service index + 1.
    pub(crate) listeners: BTreeMap<RawListener, u32>,
    /// cgroup id to service index + 1.
    pub(crate) cgroups: BTreeMap<u64, u32>,
    /// Words of the port bitmap that are not zero.
    pub(crate) ports: BTreeMap<u32, u64>,
}

impl Tables {
    /// The tables of these services, or the first claim that two of them share.
    pub(crate) fn of(services: &BTreeMap<u32, ServiceKey>) -> Result<Self, EbpfError> {
        let mut tables = Self::default();
        for (&index, key) in services {
            tables.add(index, key)?;
        }
        Ok(tables)
    }

    fn add(&mut self, index: u32, key: &ServiceKey) -> Result<(), EbpfError> {
        let conflict = |holder: u32, claim: String| EbpfError::Conflict {
            first: holder - 1,
            second: index,
            claim,
        };
        for listener in key.listeners.iter().collect::<BTreeSet<_>>() {
            match self.listeners.insert(raw(listener), index + 1) {
                Some(holder) if holder != index + 1 => {
                    return Err(conflict(holder, listener.to_string()));
                }
                _ => {}
            }
            *self.ports.entry(u32::from(listener.port) / 64).or_default() |=
                1 << (listener.port % 64);
        }
        for &id in &key.cgroup_ids {
            match self.cgroups.insert(id, index + 1) {
                Some(holder) if holder != index + 1 => {
                    return Err(conflict(holder, format!("cgroup {id}")));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn raw(listener: &Listener) -> RawListener {
    let address = match listener.address {
        None => Ipv6Addr::UNSPECIFIED,
        Some(IpAddr::V4(v4)) => v4.to_ipv6_mapped(),
        Some(IpAddr::V6(v6)) => v6,
    };
    let octets = address.octets();
    let word = |i: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| octets[4 * i + byte]));
    let netns = listener.netns.unwrap_or(0);
    [netns, u32::from(listener.port), word(0), word(1), word(2), word(3)]
}

impl From<crate::ListeningSocket> for Listener {
    fn from(socket: crate::ListeningSocket) -> Self {
        let any_v6 = socket.address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let address = (!any_v6).then_some(socket.address.ip());
        Self { address, port: socket.address.port(), netns: Some(socket.netns) }
    }
}

/// Any address of IPv4, as a listener of IPv4 alone shows it.
#[cfg(test)]
const ANY_V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_has_the_layout_that_the_program_reads() {
        let listener = Listener {
            address: Some("10.1.2.3".parse().unwrap()),
            port: 6379,
            netns: Some(4_026_531_840),
        };
        assert_eq!(
            raw(&listener),
            [4_026_531_840, 6379, 0, 0, 0xffff_0000, u32::from_le_bytes([10, 1, 2, 3])]
        );
        assert_eq!(raw(&Listener { address: Some(ANY_V4), port: 1, netns: None })[4], 0xffff_0000);
        assert_eq!(raw(&Listener::port(80)), [0, 80, 0, 0, 0, 0]);
    }

    #[test]
    fn ports_of_several_services_share_the_bitmap() {
        let services =
            [(0, ServiceKey::ports(&[64, 65])), (3, ServiceKey::ports(&[66, 65_535]))].into();
        let tables = Tables::of(&services).unwrap();
        assert_eq!(tables.ports, [(1, 0b111), (1023, 1 << 63)].into());
        assert_eq!(tables.listeners.len(), 4);
    }

    #[test]
    fn two_services_cannot_share_a_port_or_a_cgroup() {
        let same_port = [(0, ServiceKey::ports(&[80])), (1, ServiceKey::ports(&[80]))].into();
        let error = Tables::of(&same_port).unwrap_err().to_string();
        assert!(error.contains("services 0 and 1 both claim *:80"), "{error}");
        let key = ServiceKey { listeners: vec![], cgroup_ids: vec![7] };
        let same_group = [(0, key.clone()), (2, key)].into();
        assert!(Tables::of(&same_group).unwrap_err().to_string().contains("cgroup 7"));
    }
}
