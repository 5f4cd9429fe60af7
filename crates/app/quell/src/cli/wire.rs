//! A link of 100 Mbit/s for the network row: the service and the bulk sender before it, clients and
//! the receiver behind it, in namespaces of their own.

use anyhow::Context as _;
use quell_egress::Netns;
use quell_egress::lab::{FAR, Lab, NEAR, Sink, WireSpec};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The link; all of it goes when it is dropped.
pub(super) struct Wire {
    sink: Sink,
    lab: Lab,
}

impl Wire {
    /// Needs root.
    pub(super) fn build() -> anyhow::Result<Wire> {
        let lab = Lab::build(&WireSpec::fast_ethernet()).context("no link of 100 Mbit/s")?;
        let sink = Sink::start(lab.far(), (FAR, 0))?;
        Ok(Wire { sink, lab })
    }

    /// The service's address.
    pub(super) fn address(&self) -> Ipv4Addr {
        NEAR
    }

    /// Where the service and the bulk sender are.
    pub(super) fn near(&self) -> anyhow::Result<PathBuf> {
        path_of(self.lab.near())
    }

    /// Where the clients are.
    pub(super) fn far(&self) -> anyhow::Result<PathBuf> {
        path_of(self.lab.far())
    }

    /// Where the bulk sender sends.
    pub(super) fn sink(&self) -> SocketAddr {
        self.sink.address()
    }
}

fn path_of(netns: &Netns) -> anyhow::Result<PathBuf> {
    netns.path().map(PathBuf::from).context("a namespace of the link has no path")
}
