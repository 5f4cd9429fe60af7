//! Flows over a network.

use super::{Jobs, job};
use crate::kernel::{self, Link};
use crate::{Intensity, Options, Plan, PressureError, Sink};
use std::net::SocketAddr;
use std::sync::Arc;

/// Connected flows, to our own sink if no peer is given.
pub(super) fn bandwidth(options: &Options) -> Result<Jobs, PressureError> {
    let network = &options.network;
    let mut jobs = Jobs::default();
    let peer = match network.peer {
        Some(peer) => peer,
        None => {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let sink = Sink::start(any, network.netns.as_deref())?;
            jobs.notes
                .push(format!("no peer given: flows go to a sink of our own, {}", sink.address()));
            jobs.sink.insert(sink).address()
        }
    };
    let paced = options.plan != Plan::Hold(Intensity::FULL);
    let link = paced.then(|| Arc::new(Link::of(network.flows)));
    for _ in 0..network.flows {
        let flow = kernel::connect(peer, network, link.clone())?;
        jobs.jobs.push(job(|| flow));
    }
    Ok(jobs)
}
