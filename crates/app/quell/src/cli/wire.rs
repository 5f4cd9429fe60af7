//! A link of a known rate, of its own: the service and the bulk sender before it, clients and the receiver behind it,
//! in namespaces of their own.

use anyhow::Context as _;
use quell_egress::Netns;
use quell_egress::lab::{FAR, Lab, NEAR, Sink, WireSpec};
use quell_pressure::Options;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The link; all of it goes when it is dropped.
pub(super) struct Wire {
    sink: Sink,
    lab: Lab,
}

impl Wire {
    /// Of so many Mbit/s. Needs root.
    pub(super) fn build(megabits: u32) -> anyhow::Result<Wire> {
        let lab = Lab::build(&WireSpec::of_megabits(megabits));
        let lab = lab.with_context(|| format!("no link of {megabits} Mbit/s"))?;
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

    /// Lets network pressure go over it.
    pub(super) fn press_over(&self, pressure: &mut Options) -> anyhow::Result<()> {
        pressure.network.peer = Some(self.sink.address());
        pressure.network.netns = Some(self.near()?);
        Ok(())
    }
}

fn path_of(netns: &Netns) -> anyhow::Result<PathBuf> {
    netns.path().map(PathBuf::from).context("a namespace of the link has no path")
}
